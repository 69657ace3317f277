//! Receives the events of a running server in the order in which they occur.

use crate::failure::Failure;
use std::time::{Duration, Instant};
use weir_config::os_error;
use weir_manage::api::{Event, ManagementClient, Status};

/// The longest time without an event. A server sends an event every second.
const PATIENCE: Duration = Duration::from_secs(10);
/// The age at which the complete status is requested again. Events do not contain kept seconds,
/// sizes and the time since the start.
const REFRESH: Duration = Duration::from_secs(10);

/// News of the server, for [`super::state::TopState::on_news`].
#[derive(Debug)]
pub(super) enum ServerNews {
    /// The complete status of the server.
    Status(Box<Status>),
    /// An event of the server.
    Event(Event),
    /// The server does not reply, for this reason.
    Lost(String),
}

/// Passes the news of a server to `take` until the connection ends. Returns the reason for the end.
///
/// # Errors
/// Returns the error of `take`.
pub(super) fn follow(
    client: &ManagementClient,
    mut take: impl FnMut(ServerNews) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let said = |error: weir_manage::api::Error| Ok(os_error::without_numbers(&error.to_string()));
    let asked = || client.get("/v1/status").map(ServerNews::Status);
    // The events are requested first, so that no event between the status and the first event is
    // missed.
    let (mut events, status) = match client.events().and_then(|e| Ok((e, asked()?))) {
        Ok(both) => both,
        Err(error) => return said(error),
    };
    take(status)?;
    let mut last = Instant::now();
    loop {
        let event = match events.next(PATIENCE) {
            Ok(Some(event)) => event,
            Ok(None) => return Ok("the server has sent nothing for ten seconds".to_owned()),
            Err(error) => return said(error),
        };
        let changed = matches!(event, Event::Change(_));
        take(ServerNews::Event(event))?;
        if changed || last.elapsed() >= REFRESH {
            match asked() {
                Ok(status) => take(status)?,
                Err(error) => return said(error),
            }
            last = Instant::now();
        }
    }
}
