//! The route that streams events.

use crate::api::Event;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event as Line, KeepAlive, Sse};
use futures_util::stream::{self, Stream, StreamExt};
use tokio::sync::broadcast::error::RecvError;

use super::{ManagerState, RouteResult};
use crate::error::RequestRefusal;
use crate::places::{ListenerConnection, STREAMS};

/// Events as they occur (`text/event-stream`): `second`, `short` and `change`, each with the JSON of its type.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/events", responses((status = 200, content_type = "text/event-stream", body = String))))]
pub(crate) async fn events(
    State(manager): ManagerState,
    Extension(connection): Extension<ListenerConnection>,
) -> RouteResult<Sse<impl Stream<Item = Result<Line, axum::Error>>>> {
    if !connection.stream() {
        let why = format!(
            "all {STREAMS} event streams of this address are in use, and no user or host has more of them than this one; close one first"
        );
        return Err(RequestRefusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    let receiver = manager.watcher.listen();
    // The last figures come at once, so that a client has something to show in the first second.
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
                // A client that reads too slowly misses events.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    });
    Ok(Sse::new(stream::iter([first]).chain(later)).keep_alive(KeepAlive::default()))
}
