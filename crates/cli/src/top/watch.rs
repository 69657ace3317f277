//! What a running server tells, as it comes.

use crate::failure::Failure;
use std::time::{Duration, Instant};
use weir_config::os_error;
use weir_manage::api::{Client, Event, Status};

/// How long a server may be silent: it tells something every second.
const PATIENCE: Duration = Duration::from_secs(10);
/// How old what no event tells may get: promises kept, sizes, the time since the start.
const REFRESH: Duration = Duration::from_secs(10);

/// What is new.
#[derive(Debug)]
pub(super) enum News {
    /// How things stand, all of it.
    Status(Box<Status>),
    /// What has happened.
    Event(Event),
    /// The server does not answer, and why.
    Lost(String),
}

/// Hands on what a server tells, until it has ended: why. An error is one of `take`.
pub(super) fn follow(
    client: &Client,
    mut take: impl FnMut(News) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let said = |error: weir_manage::api::Error| Ok(os_error::without_numbers(&error.to_string()));
    let asked = || client.get("/v1/status").map(News::Status);
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
        take(News::Event(event))?;
        if changed || last.elapsed() >= REFRESH {
            match asked() {
                Ok(status) => take(status)?,
                Err(error) => return said(error),
            }
            last = Instant::now();
        }
    }
}
