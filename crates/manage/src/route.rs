//! What can be asked and told, by path.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::header::{CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event as Line, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use futures_util::stream::{self, Stream, StreamExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::broadcast::error::RecvError;
use weir_api::{ChangeRequest, Changes, Edit, Event, Outcome, UndoRequest, Words};

use crate::Manager;
use crate::access::Peer;
use crate::control::{How, KINDS};
use crate::dashboard;
use crate::error::Refused;
use crate::listener::Known;
use crate::view::View;

/// Longest body of a request, bytes: a change of a thousand volumes.
const BODY_MAX: usize = 1 << 20;
/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(10);

type Answer<T> = Result<T, Refused>;
type Shared = State<Arc<Manager>>;

/// Every path of the interface.
pub(crate) fn router(manager: &Arc<Manager>) -> Router {
    let named = "/v1/{kind}/{name}";
    Router::new()
        .route("/", get(dashboard::page))
        .route("/dashboard/{file}", get(dashboard::file))
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/v1/status", get(status))
        .route("/v1/changes", get(changes).post(change))
        .route("/v1/undo", post(undo))
        .route("/v1/reload", post(reload))
        .route("/v1/config", get(config))
        .route("/v1/events", get(events))
        .route("/v1/openapi.json", get(openapi))
        .route("/v1/{kind}", get(list))
        .route(named, get(show).put(add).patch(set).delete(remove))
        .fallback(nothing)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(Arc::clone(manager), check))
        .with_state(Arc::clone(manager))
}

/// The paths that need no secret: metrics, and whether the server is well.
fn is_metrics(path: &str) -> bool {
    ["/metrics", "/healthz", "/readyz", "/v1/config"].contains(&path)
}

/// Lets a request in, or not.
async fn check(
    State(manager): Shared,
    Extension(peer): Extension<Peer>,
    Extension(known): Extension<Known>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let writes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if peer == Peer::Metrics && (writes || !is_metrics(path)) {
        let why = "this address has /metrics, /healthz, /readyz and /v1/config; [manage] says where the rest is";
        return Refused::new(StatusCode::NOT_FOUND, why).into_response();
    }
    let open = dashboard::is_page(path) || path == "/healthz" || path == "/readyz";
    let checked = manager.access.check(&peer, request.headers(), open, writes);
    if let Err(refused) = checked {
        tracing::debug!(peer = peer.name(), "{}", refused.refusal.error);
        return refused.into_response();
    }
    if !open {
        known.trust();
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

async fn healthy() -> &'static str {
    "ok\n"
}

async fn ready(State(manager): Shared) -> (StatusCode, &'static str) {
    if manager.watcher.is_ready() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "a shard does not answer\n")
    }
}

async fn metrics(State(manager): Shared) -> Response {
    let asked = blocking(move || Ok(manager.watcher.metrics())).await;
    match asked {
        Ok(Some(text)) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            let kind = (CONTENT_TYPE, HeaderValue::from_static(kind));
            ([kind], text.to_string()).into_response()
        }
        _ => (StatusCode::SERVICE_UNAVAILABLE, "a shard does not answer\n").into_response(),
    }
}

async fn status(State(manager): Shared) -> Json<weir_api::Status> {
    let (published, sample) = (manager.control.published(), manager.watcher.last());
    let view = View {
        published: &published,
        sample: &sample,
    };
    let ready = manager.watcher.is_ready();
    Json(view.status(manager.watcher.uptime_seconds(), ready))
}

async fn changes(State(manager): Shared) -> Json<Changes> {
    Json(Changes {
        changes: manager.control.published().changes.clone(),
    })
}

async fn config(State(manager): Shared) -> Response {
    let kind = (CONTENT_TYPE, HeaderValue::from_static("application/toml"));
    ([kind], manager.control.published().text.clone()).into_response()
}

async fn openapi() -> Response {
    let kind = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
    ([kind], crate::openapi::document()).into_response()
}

async fn list(State(manager): Shared, Path(kind): Path<String>) -> Answer<Response> {
    let (published, sample) = (manager.control.published(), manager.watcher.last());
    let view = View {
        published: &published,
        sample: &sample,
    };
    Ok(match singular(&kind)? {
        "volume" => Json(view.volumes()).into_response(),
        "tenant" => Json(view.tenants()).into_response(),
        _ => Json(view.drives()).into_response(),
    })
}

async fn show(
    State(manager): Shared,
    Path((kind, name)): Path<(String, String)>,
) -> Answer<Response> {
    let (published, sample) = (manager.control.published(), manager.watcher.last());
    let view = View {
        published: &published,
        sample: &sample,
    };
    let kind = singular(&kind)?;
    let found = match kind {
        "volume" => view.volume(&name).map(|v| Json(v).into_response()),
        "tenant" => {
            let mut tenants = view.tenants().into_iter();
            tenants
                .find(|t| t.name == name)
                .map(|t| Json(t).into_response())
        }
        _ => {
            let mut drives = view.drives().into_iter();
            drives
                .find(|d| d.name == name)
                .map(|d| Json(d).into_response())
        }
    };
    let mut found = found.ok_or_else(|| Refused::not_found(&format!("{kind} {name:?}")))?;
    if let Ok(etag) = published.etag(kind, &name).parse() {
        found.headers_mut().insert(ETAG, etag);
    }
    Ok(found)
}

/// How a change is to be made, from the query.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default)]
    dry_run: bool,
    save: Option<bool>,
}

/// The query of a change; what it cannot have is refused.
fn asked(query: Result<Query<Asked>, axum::extract::rejection::QueryRejection>) -> Answer<Asked> {
    let query = query.map_err(|e| Refused::new(StatusCode::BAD_REQUEST, e.body_text()))?;
    Ok(query.0)
}

type AskedQuery = Result<Query<Asked>, axum::extract::rejection::QueryRejection>;

async fn change(
    State(manager): Shared,
    Extension(peer): Extension<Peer>,
    query: AskedQuery,
    body: Body,
) -> Answer<Json<Outcome>> {
    let how = how(&peer, asked(query)?);
    let request: ChangeRequest = read(body).await?;
    made(manager, how, move |manager, how| {
        manager.control.change(&request.edits, how)
    })
    .await
}

async fn undo(
    State(manager): Shared,
    Extension(peer): Extension<Peer>,
    query: AskedQuery,
    body: Body,
) -> Answer<Json<Outcome>> {
    let how = how(&peer, asked(query)?);
    let request: UndoRequest = read(body).await?;
    made(manager, how, move |manager, how| {
        manager.control.undo(request.change, how)
    })
    .await
}

async fn reload(
    State(manager): Shared,
    Extension(peer): Extension<Peer>,
    query: AskedQuery,
) -> Answer<Json<Outcome>> {
    let how = how(&peer, asked(query)?);
    made(manager, how, |manager, how| manager.control.reload(how)).await
}

/// What a request on one table needs.
type Target = Path<(String, String)>;

async fn set(
    State(manager): Shared,
    Path(target): Target,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    query: AskedQuery,
    body: Body,
) -> Answer<Json<Outcome>> {
    let key = existing(&manager, target)?;
    let how = only_if(how(&peer, asked(query)?), &headers, &key)?;
    let words: Words = read(body).await?;
    let mut edits = Vec::new();
    merge(&key, &words, &mut edits);
    made(manager, how, move |manager, how| {
        manager.control.change(&edits, how)
    })
    .await
}

async fn add(
    State(manager): Shared,
    Path((kind, name)): Target,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    query: AskedQuery,
    body: Body,
) -> Answer<Json<Outcome>> {
    let kind = singular(&kind)?;
    let how = how(&peer, asked(query)?);
    let new = headers.get(IF_NONE_MATCH).is_none_or(|value| value == "*");
    if !new || headers.contains_key(IF_MATCH) {
        let why = "PUT adds what is not there yet; PATCH changes what is there";
        return Err(Refused::new(StatusCode::BAD_REQUEST, why));
    }
    let words: Words = read(body).await?;
    let edit = Edit {
        key: vec![kind.to_owned(), name.clone()],
        value: Value::Object(words),
    };
    made(manager, how, move |manager, how| {
        if manager.control.published().words(kind, &name).is_some() {
            return Err(Refused::conflict(format!(
                "there is a {kind} {name:?} already"
            )));
        }
        manager.control.change(&[edit], how)
    })
    .await
}

async fn remove(
    State(manager): Shared,
    Path(target): Target,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    query: AskedQuery,
) -> Answer<Json<Outcome>> {
    let key = existing(&manager, target)?;
    let how = only_if(how(&peer, asked(query)?), &headers, &key)?;
    let edit = Edit {
        key,
        value: Value::Null,
    };
    made(manager, how, move |manager, how| {
        manager.control.change(&[edit], how)
    })
    .await
}

async fn events(
    State(manager): Shared,
    Extension(known): Extension<Known>,
) -> Sse<impl Stream<Item = Result<Line, axum::Error>>> {
    known.stream();
    let receiver = manager.watcher.listen();
    // So that nobody looks at nothing for a second.
    let last = Event::Second(manager.watcher.last().second.clone());
    let first = match &last {
        Event::Second(second) => Line::default().event(last.name()).json_data(second),
        _ => Ok(Line::default()),
    };
    let later = stream::unfold(receiver, |mut receiver| async {
        loop {
            match receiver.recv().await {
                Ok(sent) => {
                    let line = Line::default().event(sent.name).data(&sent.data);
                    return Some((Ok(line), receiver));
                }
                // A client that reads slowly misses some.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    });
    Sse::new(stream::iter([first]).chain(later)).keep_alive(KeepAlive::default())
}

async fn nothing() -> Refused {
    Refused::new(
        StatusCode::NOT_FOUND,
        "there is nothing here; /v1/openapi.json says what there is",
    )
}

async fn wrong_method() -> Refused {
    let why = "this cannot be done here; /v1/openapi.json says what can";
    Refused::new(StatusCode::METHOD_NOT_ALLOWED, why)
}

/// `volume` for `volumes`.
fn singular(kinds: &str) -> Answer<&'static str> {
    let kind = KINDS
        .into_iter()
        .find(|kind| kinds.strip_suffix('s') == Some(kind));
    kind.ok_or_else(|| {
        Refused::not_found(&format!("{kinds:?}: there are volumes, tenants and drives"))
    })
}

/// The key of a table that is there.
fn existing(manager: &Manager, (kinds, name): (String, String)) -> Answer<Vec<String>> {
    let kind = singular(&kinds)?;
    if manager.control.published().words(kind, &name).is_none() {
        return Err(Refused::not_found(&format!("{kind} {name:?}")));
    }
    Ok(vec![kind.to_owned(), name])
}

fn how(peer: &Peer, asked: Asked) -> How {
    How {
        by: peer.name(),
        dry_run: asked.dry_run,
        save: asked.save,
        only_if: None,
    }
}

/// With the state that `If-Match` names.
fn only_if(mut how: How, headers: &HeaderMap, key: &[String]) -> Answer<How> {
    if let Some(etag) = headers.get(IF_MATCH).filter(|value| *value != "*") {
        let etag = etag.to_str().map_err(|_| {
            Refused::new(StatusCode::BAD_REQUEST, "If-Match is no state of anything")
        })?;
        how.only_if = Some((etag.to_owned(), key.to_owned()));
    }
    Ok(how)
}

/// The edits that merge words into a table: tables inside are merged, too, and `null` removes a key.
fn merge(key: &[String], words: &Words, edits: &mut Vec<Edit>) {
    for (name, value) in words {
        let mut key = key.to_owned();
        key.push(name.clone());
        match value {
            Value::Object(words) if !words.is_empty() => merge(&key, words, edits),
            value => edits.push(Edit {
                key,
                value: value.clone(),
            }),
        }
    }
}

/// The value in a body: small, soon, and nothing else in it.
async fn read<T: DeserializeOwned>(body: Body) -> Answer<T> {
    let bad = |error: String| Refused::new(StatusCode::BAD_REQUEST, error);
    let read = tokio::time::timeout(BODY_TIME, axum::body::to_bytes(body, BODY_MAX)).await;
    let read =
        read.map_err(|_| Refused::new(StatusCode::REQUEST_TIMEOUT, "the body does not come"))?;
    let body: Bytes = read.map_err(|_| {
        let why = format!("the body is longer than {BODY_MAX} bytes, or has no end");
        Refused::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    })?;
    serde_json::from_slice(&body)
        .map_err(|e| bad(format!("the body is not what is asked for here: {e}")))
}

/// Makes a change on a thread that may wait, and tells those that listen.
async fn made(
    manager: Arc<Manager>,
    how: How,
    change: impl FnOnce(&Manager, &How) -> Answer<Outcome> + Send + 'static,
) -> Answer<Json<Outcome>> {
    blocking(move || {
        let outcome = change(&manager, &how)?;
        manager.told(&outcome);
        Ok(Json(outcome))
    })
    .await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|_| {
        let why = "a fault of the server's own; its log says more";
        Err(Refused::new(StatusCode::INTERNAL_SERVER_ERROR, why))
    })
}
