//! The routes of the interface, and the checks that precede each request.

pub(crate) mod ask;
pub(crate) mod change;
pub(crate) mod events;

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};

use crate::Manager;
use crate::access::Peer;
use crate::control::KINDS;
use crate::dashboard;
use crate::error::RequestRefusal;
use ask::{config, explain, healthy, history, list, metrics, ready, short, show, status};
use change::{add, change, changes, reload, remove, set, undo, upgrade};
use events::events;
use weir_serve::RefusalReason;

type RouteResult<T> = Result<T, RequestRefusal>;
/// The kind and the name of a table in a path.
type TablePath = axum::extract::Path<(String, String)>;
type ManagerState = State<Arc<Manager>>;

/// Returns the routes of the whole interface.
pub(crate) fn router(manager: &Arc<Manager>) -> Router {
    let named = "/v1/{kind}/{name}";
    let manage = &manager.control.published().config.manage;
    Router::new()
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/v1/status", get(status))
        .route("/v1/changes", get(changes).post(change))
        .route("/v1/undo", post(undo))
        .route("/v1/reload", post(reload))
        .route("/v1/upgrade", post(upgrade))
        .route("/v1/config", get(config))
        .route("/v1/events", get(events))
        .route("/v1/history", get(history))
        .route("/v1/short", get(short))
        .route("/v1/openapi.json", get(openapi))
        .route("/v1/{kind}", get(list))
        .route("/v1/volumes/{name}/explain", get(explain))
        .merge(dashboard::router(manage))
        .route(named, get(show).put(add).patch(set).delete(remove))
        .fallback(nothing)
        .method_not_allowed_fallback(wrong_method)
        // The routes limit their bodies themselves (`change::read`).
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(Arc::clone(manager), check))
        .with_state(Arc::clone(manager))
}

/// Returns true if a path needs no secret: metrics, health checks, and the configuration.
fn is_metrics(path: &str) -> bool {
    ["/metrics", "/healthz", "/readyz", "/v1/config"].contains(&path)
}

/// Checks a client's rights before its request is handled.
async fn check(
    State(manager): ManagerState,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let writes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if peer == Peer::Metrics && (writes || !is_metrics(path)) {
        let why = "this address serves /metrics, /healthz, /readyz and /v1/config only; use the address of [manage] for the rest";
        return RequestRefusal::new(StatusCode::NOT_FOUND, why).into_response();
    }
    // Health checks tell only whether the server works.
    let open = dashboard::is_page(path) || path == "/healthz" || path == "/readyz";
    let checked = manager.access.check(&peer, request.headers(), open, writes);
    if let Err(refused) = checked {
        manager.refusals.count(RefusalReason::Management);
        if weir_serve::warning_allowed() {
            let (peer, method) = (peer.name(), request.method());
            let reason = &refused.refusal.error;
            tracing::warn!(peer, %method, path, reason, "the management interface refused a request");
        }
        return refused.into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    headers.insert(
        "x-content-type-options",
        HeaderValue::from_static("nosniff"),
    );
    response
}

async fn openapi() -> Response {
    let kind = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
    ([kind], crate::openapi::DOCUMENT).into_response()
}

async fn nothing() -> RequestRefusal {
    RequestRefusal::new(
        StatusCode::NOT_FOUND,
        "unknown path; /v1/openapi.json lists the paths",
    )
}

async fn wrong_method() -> RequestRefusal {
    let why = "the method is not supported for this path; /v1/openapi.json lists the methods";
    RequestRefusal::new(StatusCode::METHOD_NOT_ALLOWED, why)
}

/// Returns `volume` for `volumes`, and so on. Refuses unknown kinds.
fn singular(kinds: &str) -> RouteResult<&'static str> {
    let kind = KINDS
        .into_iter()
        .find(|kind| kinds.strip_suffix('s') == Some(kind));
    kind.ok_or_else(|| {
        RequestRefusal::not_found(&format!(
            "collection {kinds:?}; use volumes, tenants or drives"
        ))
    })
}

/// Runs work that can block on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> RouteResult<T> + Send + 'static,
) -> RouteResult<T> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|_| {
        let why = "internal error; see the server's log";
        Err(RequestRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, why))
    })
}
