//! Routes that read: they use the last sample and the configuration in force.

use std::time::Duration;

use crate::api::{Curve, Found, List, ShortSeconds};
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::header::{CONTENT_TYPE, ETAG};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use weir_measure::explain::Explanation;
use weir_serve::{Detail, ExplainError};

use super::{ManagerState, RouteResult, TablePath, blocking, singular};
use crate::control::KINDS;
use crate::error::RequestRefusal;

/// The state of the server, its drives, tenants and volumes.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/status", responses((status = 200, body = crate::api::Status))))]
pub(crate) async fn status(State(manager): ManagerState) -> Json<crate::api::Status> {
    let view = manager.view();
    let ready = manager.watcher.is_ready();
    Json(view.status(manager.watcher.uptime_seconds(), ready))
}

/// All volumes, tenants or drives.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/v1/{kind}",
    params(("kind" = String, Path, description = "The kind of object: volumes, tenants or drives")),
    responses((status = 200, body = List), (status = 404, body = crate::api::Refusal))
))]
pub(crate) async fn list(
    State(manager): ManagerState,
    Path(kind): Path<String>,
) -> RouteResult<Json<List>> {
    let view = manager.view();
    Ok(Json(match singular(&kind)? {
        "volume" => List::Volumes(view.volumes()),
        "tenant" => List::Tenants(view.tenants()),
        _ => List::Drives(view.drives()),
    }))
}

/// One volume, tenant or drive. Its `ETag` is the version of its configuration.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/v1/{kind}/{name}",
    params(("kind" = String, Path, description = "The kind of object: volumes, tenants or drives"), ("name" = String, Path, description = "The name of the object")),
    responses((status = 200, body = Found), (status = 404, body = crate::api::Refusal))
))]
pub(crate) async fn show(
    State(manager): ManagerState,
    Path((kind, name)): TablePath,
) -> RouteResult<([(HeaderName, String); 1], Json<Found>)> {
    let view = manager.view();
    let kind = singular(&kind)?;
    let found = match kind {
        "volume" => view.volume(&name).map(|of| Found::Volume(Box::new(of))),
        "tenant" => {
            let mut tenants = view.tenants().into_iter();
            tenants.find(|t| t.name == name).map(Found::Tenant)
        }
        _ => {
            let mut drives = view.drives().into_iter();
            drives.find(|d| d.name == name).map(Found::Drive)
        }
    };
    let found = found.ok_or_else(|| RequestRefusal::not_found(&format!("{kind} {name:?}")))?;
    Ok(([(ETAG, view.published.etag(kind, &name))], Json(found)))
}

/// The query of a curve.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct HistoryQuery {
    of: String,
}

/// The figures of a drive, a tenant or a volume over the last hour, with one point for each ten seconds.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/v1/history",
    params(("of" = String, Query, description = "The object, for example volume.alpha")),
    responses((status = 200, body = Curve), (status = 404, body = crate::api::Refusal))
))]
pub(crate) async fn history(
    State(manager): ManagerState,
    Query(HistoryQuery { of }): Query<HistoryQuery>,
) -> RouteResult<Json<Curve>> {
    // A name can contain dots, so that only the first one is a separator.
    let (kind, name) = of.split_once('.').unwrap_or((of.as_str(), ""));
    let unknown = || {
        RequestRefusal::not_found(&format!(
            "object {of:?}; use a drive, tenant or volume, for example volume.alpha"
        ))
    };
    let kind = KINDS
        .into_iter()
        .find(|known| *known == kind)
        .ok_or_else(unknown)?;
    if let Some(curve) = manager.watcher.history().curve(kind, name) {
        return Ok(Json(curve));
    }
    // An object that was added in this second has no curve yet.
    let is_known = manager.control.published().words(kind, name).is_some();
    is_known
        .then(|| Json(crate::history::empty(kind, name)))
        .ok_or_else(unknown)
}

/// The short seconds of the last hour, newest first.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/short", responses((status = 200, body = ShortSeconds))))]
pub(crate) async fn short(State(manager): ManagerState) -> Json<ShortSeconds> {
    Json(manager.watcher.history().short())
}

/// The query of an explanation.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct ExplainQuery {
    since_seconds: Option<u64>,
}

/// An explanation of the latency of a volume's requests (`docs/explain.md`): the parts of the mean latency, the volumes whose requests were
/// served before, the short seconds and their causes, and all of this in sentences (`said`).
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/v1/volumes/{name}/explain",
    params(
        ("name" = String, Path, description = "The name of the volume"),
        ("since_seconds" = Option<u64>, Query, description = "Explain only the requests that completed in this many most recent seconds. If it is left out, all that are remembered"),
    ),
    responses((status = 200, body = Object), (status = 404, body = crate::api::Refusal), (status = 503, body = crate::api::Refusal))
))]
pub(crate) async fn explain(
    State(manager): ManagerState,
    Path(name): Path<String>,
    Query(since): Query<ExplainQuery>,
) -> RouteResult<Json<Explanation>> {
    blocking(move || {
        let since = since.since_seconds.map(Duration::from_secs);
        let explained = manager.explainer.explain(&name, since);
        explained.map(Json).map_err(|error| match error {
            ExplainError::NoSuchVolume => RequestRefusal::not_found(&format!("volume {name:?}")),
            ExplainError::NoAnswer => {
                RequestRefusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            }
        })
    })
    .await
}

/// The text of the running configuration.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/config", responses((status = 200, content_type = "application/toml", body = String))))]
pub(crate) async fn config(State(manager): ManagerState) -> Response {
    let kind = (CONTENT_TYPE, HeaderValue::from_static("application/toml"));
    ([kind], manager.control.published().text.clone()).into_response()
}

/// Metrics, in Prometheus' text format.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/metrics",
    params(("detail" = Option<String>, Query, description = "full: also the metrics that are not printed by default, such as histograms of each stage")),
    responses((status = 200, content_type = "text/plain", body = String), (status = 503, description = "A shard does not respond"))
))]
pub(crate) async fn metrics(
    State(manager): ManagerState,
    Query(asked): Query<MetricsQuery>,
) -> Response {
    let detail = match asked.detail.as_deref() {
        Some("full") => Detail::Full,
        _ => Detail::Usual,
    };
    let asked = blocking(move || {
        let published = manager.control.published();
        Ok(manager.watcher.metrics(&published.rooms, detail))
    });
    match asked.await {
        Ok(Some(text)) => {
            let kind = weir_serve::CONTENT_TYPE;
            let kind = (CONTENT_TYPE, HeaderValue::from_static(kind));
            ([kind], text.to_string()).into_response()
        }
        _ => (
            StatusCode::SERVICE_UNAVAILABLE,
            "a shard does not respond\n",
        )
            .into_response(),
    }
}

/// Whether the server responds at all.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/healthz", responses((status = 200, body = String))))]
pub(crate) async fn healthy() -> &'static str {
    "ok\n"
}

/// Whether every shard responds, and clients can connect.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/readyz", responses((status = 200, body = String), (status = 503, description = "A shard does not respond, or a thread has failed and the server exits"))))]
pub(crate) async fn ready(State(manager): ManagerState) -> (StatusCode, &'static str) {
    if !manager.watcher.is_running() {
        let why = "a thread of the server has failed, and the server ends\n";
        (StatusCode::SERVICE_UNAVAILABLE, why)
    } else if manager.watcher.is_ready() {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "a shard does not respond\n",
        )
    }
}

/// The query of metrics.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct MetricsQuery {
    /// `full` selects all metrics, including histograms of each stage and series without values.
    detail: Option<String>,
}
