//! Routes that change the server. Each change is made completely or refused completely.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{ChangeRequest, Changes, Edit, JsonTable, Outcome, UndoRequest, Upgraded};
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{ManagerState, RouteResult, TablePath, blocking, singular};
use crate::Manager;
use crate::access::Peer;
use crate::control::{ChangeContext, Expected, TableState};
use crate::error::RequestRefusal;

/// The maximum length of a body in bytes. It is enough for a change of a thousand volumes.
const BODY_MAX: usize = 1 << 20;
/// The maximum time for the arrival of a body.
const BODY_TIME: Duration = Duration::from_secs(10);

/// The possible responses to a change, for the `OpenAPI` document.
#[cfg(feature = "openapi")]
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "the document alone needs it")]
enum Came {
    /// The change was made, or was a dry run
    #[response(status = 200)]
    Made(Outcome),
    /// The change conflicts with the current state: for example, the name is in use, or the file was changed
    #[response(status = 409)]
    Contradicts(crate::api::Refusal),
    /// The version in If-Match is not the current one
    #[response(status = 412)]
    Changed(crate::api::Refusal),
    /// The resulting configuration would be invalid, or promise too much
    #[response(status = 422)]
    Wrong(crate::api::Refusal),
}

/// The last changes, newest first.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/changes", responses((status = 200, body = Changes))))]
pub(crate) async fn changes(State(manager): ManagerState) -> Json<Changes> {
    Json(Changes {
        changes: manager.control.published().changes.clone(),
    })
}

/// Makes several edits together: all of them or none.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/v1/changes",
    params(("dry_run" = Option<bool>, Query, description = "Return the result of the change without making it"), ("save" = Option<bool>, Query, description = "Write the change to the configuration file. The default is true if there is a file")),
    request_body = ChangeRequest,
    responses(Came),
))]
pub(crate) async fn change(
    State(manager): ManagerState,
    Extension(peer): Extension<Peer>,
    query: AskedQuery,
    body: Body,
) -> RouteResult<Json<Outcome>> {
    let how = change_context(&peer, asked(query)?, None);
    let request: ChangeRequest = read(body).await?;
    run_change(manager, how, move |manager, how| {
        manager.control.change(&request.edits, how)
    })
    .await
}

/// Undoes a change.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/v1/undo",
    params(("dry_run" = Option<bool>, Query, description = "Return the result of the change without making it"), ("save" = Option<bool>, Query, description = "Write the change to the configuration file. The default is true if there is a file")),
    request_body = UndoRequest,
    responses(Came),
))]
pub(crate) async fn undo(
    State(manager): ManagerState,
    Extension(peer): Extension<Peer>,
    query: AskedQuery,
    body: Body,
) -> RouteResult<Json<Outcome>> {
    let how = change_context(&peer, asked(query)?, None);
    let request: UndoRequest = read(body).await?;
    run_change(manager, how, move |manager, how| {
        manager.control.undo(request.change, how)
    })
    .await
}

/// Reloads the configuration file.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/v1/reload",
    params(("dry_run" = Option<bool>, Query, description = "Return the result of the change without making it")),
    responses(Came),
))]
pub(crate) async fn reload(
    State(manager): ManagerState,
    Extension(peer): Extension<Peer>,
    query: AskedQuery,
) -> RouteResult<Json<Outcome>> {
    let how = change_context(&peer, asked(query)?, None);
    run_change(manager, how, |manager, how| manager.control.reload(how)).await
}

/// Hands the server over to its program as it is installed now. Clients stay connected.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/v1/upgrade",
    responses(
        (status = 200, description = "Another process serves now", body = Upgraded),
        (status = 409, description = "The server could not be handed over, and serves on", body = crate::api::Refusal),
    ),
))]
pub(crate) async fn upgrade(
    State(manager): ManagerState,
    Extension(peer): Extension<Peer>,
) -> RouteResult<Json<Upgraded>> {
    manager.upgrades.request(peer.name()).await.map(Json)
}

/// Changes a volume, a tenant or a drive. Keys in the body are set, or removed if they are `null`; other keys do not change (RFC 7396).
#[cfg_attr(feature = "openapi", utoipa::path(
    patch,
    path = "/v1/{kind}/{name}",
    params(("kind" = String, Path, description = "The kind of object: volumes, tenants or drives"), ("name" = String, Path, description = "The name of the object"), ("dry_run" = Option<bool>, Query, description = "Return the result of the change without making it"), ("save" = Option<bool>, Query, description = "Write the change to the configuration file. The default is true if there is a file"), ("If-Match" = Option<String>, Header, description = "Make the change only if this is still the current ETag")),
    request_body(content = serde_json::Map<String, Value>, description = "Keys of the configuration and their values"),
    responses(Came),
))]
pub(crate) async fn set(
    State(manager): ManagerState,
    Path(target): TablePath,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    query: AskedQuery,
    body: Body,
) -> RouteResult<Json<Outcome>> {
    let table = existing(target, &headers)?;
    let key = table.key();
    let how = change_context(&peer, asked(query)?, Some(table));
    let words: JsonTable = read(body).await?;
    let mut edits = Vec::new();
    merge(&key, &words, &mut edits);
    run_change(manager, how, move |manager, how| {
        manager.control.change(&edits, how)
    })
    .await
}

/// Adds a volume or a tenant with the keys of its configuration.
#[cfg_attr(feature = "openapi", utoipa::path(
    put,
    path = "/v1/{kind}/{name}",
    params(("kind" = String, Path, description = "The kind of object: volumes, tenants or drives"), ("name" = String, Path, description = "The name of the object"), ("dry_run" = Option<bool>, Query, description = "Return the result of the change without making it"), ("save" = Option<bool>, Query, description = "Write the change to the configuration file. The default is true if there is a file")),
    request_body(content = serde_json::Map<String, Value>, description = "Keys of the configuration and their values"),
    responses(Came),
))]
pub(crate) async fn add(
    State(manager): ManagerState,
    Path((kind, name)): TablePath,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    query: AskedQuery,
    body: Body,
) -> RouteResult<Json<Outcome>> {
    let kind = singular(&kind)?;
    // `If-None-Match: *` is the precondition that this route has anyway.
    let new = headers.get(IF_NONE_MATCH).is_none_or(|value| value == "*");
    if !new || headers.contains_key(IF_MATCH) {
        let why = "PUT adds what is not there yet; PATCH changes what is there";
        return Err(RequestRefusal::new(StatusCode::BAD_REQUEST, why));
    }
    let words: JsonTable = read(body).await?;
    let state = TableState::Absent;
    let table = Expected { kind, name, state };
    let edit = Edit {
        key: table.key(),
        value: Value::Object(words),
    };
    let how = change_context(&peer, asked(query)?, Some(table));
    run_change(manager, how, move |manager, how| {
        manager.control.change(&[edit], how)
    })
    .await
}

/// Removes a volume or a tenant. The data of a file or a device are kept.
#[cfg_attr(feature = "openapi", utoipa::path(
    delete,
    path = "/v1/{kind}/{name}",
    params(("kind" = String, Path, description = "The kind of object: volumes, tenants or drives"), ("name" = String, Path, description = "The name of the object"), ("dry_run" = Option<bool>, Query, description = "Return the result of the change without making it"), ("save" = Option<bool>, Query, description = "Write the change to the configuration file. The default is true if there is a file"), ("If-Match" = Option<String>, Header, description = "Make the change only if this is still the current ETag")),
    responses(Came),
))]
pub(crate) async fn remove(
    State(manager): ManagerState,
    Path(target): TablePath,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    query: AskedQuery,
) -> RouteResult<Json<Outcome>> {
    let table = existing(target, &headers)?;
    let edit = Edit {
        key: table.key(),
        value: Value::Null,
    };
    let how = change_context(&peer, asked(query)?, Some(table));
    run_change(manager, how, move |manager, how| {
        manager.control.change(&[edit], how)
    })
    .await
}

/// The query of a change.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
// A misspelt `dry_run` must not make the change.
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeQuery {
    #[serde(default)]
    dry_run: bool,
    save: Option<bool>,
}

type AskedQuery = Result<Query<ChangeQuery>, QueryRejection>;

/// Returns the query of a change, or refuses an invalid one.
fn asked(query: Result<Query<ChangeQuery>, QueryRejection>) -> RouteResult<ChangeQuery> {
    let query = query.map_err(|e| RequestRefusal::new(StatusCode::BAD_REQUEST, e.body_text()))?;
    Ok(query.0)
}

/// Returns the precondition that a table exists, and that it has the version in `If-Match` if the
/// header is present.
fn existing((kinds, name): (String, String), headers: &HeaderMap) -> RouteResult<Expected> {
    let kind = singular(&kinds)?;
    // `If-Match: *` requires only that the table exists.
    let etag = headers.get(IF_MATCH).filter(|value| *value != "*");
    let state = match etag.map(|etag| etag.to_str()) {
        None => TableState::Present,
        Some(Ok(etag)) => TableState::Unchanged(etag.to_owned()),
        Some(Err(_)) => {
            let why = "If-Match is not an ETag of this server";
            return Err(RequestRefusal::new(StatusCode::BAD_REQUEST, why));
        }
    };
    Ok(Expected { kind, name, state })
}

fn change_context(peer: &Peer, asked: ChangeQuery, expected: Option<Expected>) -> ChangeContext {
    ChangeContext {
        by: peer.name(),
        dry_run: asked.dry_run,
        save: asked.save,
        // Only root and the server's own user may name any storage.
        confined: !peer.is_own(),
        expected,
    }
}

/// Appends the edits that merge keys into a table (RFC 7396). Tables inside are merged as well, and
/// `null` removes a key.
fn merge(key: &[String], words: &JsonTable, edits: &mut Vec<Edit>) {
    for (name, value) in words {
        let mut key = key.to_owned();
        key.push(name.clone());
        match value {
            // An empty table has no keys to merge, so that it is set as a value.
            Value::Object(words) if !words.is_empty() => merge(&key, words, edits),
            value => edits.push(Edit {
                key,
                value: value.clone(),
            }),
        }
    }
}

/// Reads a value from a body. It must be short, arrive soon, and contain nothing else.
async fn read<T: DeserializeOwned>(body: Body) -> RouteResult<T> {
    let bad = |error: String| RequestRefusal::new(StatusCode::BAD_REQUEST, error);
    // The listener limits the time of the head only.
    let read = tokio::time::timeout(BODY_TIME, axum::body::to_bytes(body, BODY_MAX)).await;
    let read = read.map_err(|_| {
        RequestRefusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body did not arrive in time",
        )
    })?;
    let body: Bytes = read.map_err(|_| {
        let why = format!("the body is incomplete, or longer than {BODY_MAX} bytes");
        RequestRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    })?;
    serde_json::from_slice(&body).map_err(|e| bad(format!("the body is invalid: {e}")))
}

/// Makes a change on a thread that can block, and sends an event about it.
async fn run_change(
    manager: Arc<Manager>,
    how: ChangeContext,
    change: impl FnOnce(&Manager, &ChangeContext) -> RouteResult<Outcome> + Send + 'static,
) -> RouteResult<Json<Outcome>> {
    blocking(move || {
        let outcome = change(&manager, &how)?;
        manager.publish_change(&outcome);
        Ok(Json(outcome))
    })
    .await
}
