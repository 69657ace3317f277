//! `weir top` shows the drives, tenants and volumes of a running server on a full-screen display,
//! second by second.
//!
//! [`watch`] receives the news of the server, [`state`] decides what they and keys change, and
//! [`draw`] draws the state. [`once`] prints a single second.

mod draw;
mod drives;
mod figure;
mod look;
mod once;
mod row;
mod screen;
mod state;
mod table;
mod watch;

#[cfg(test)]
mod tests;

use crate::failure::Failure;
use crate::output;
use clap::Args;
use state::TopState;
use std::time::Duration;
use weir_manage::api::ManagementServer;
use weir_manage::api::{Error, Event, ManagementClient, Status};

/// The pause between two attempts to reach a server that is down.
const AGAIN: Duration = Duration::from_secs(1);

/// The arguments of `weir top`.
#[derive(Debug, Args)]
pub(crate) struct TopOptions {
    #[command(flatten)]
    server: ManagementServer,
    /// Print the last second as tables and exit
    #[arg(long)]
    once: bool,
    /// Print one line of JSON for each second, or a single one with --once: the reply of /v1/status
    /// with the figures of that second
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &TopOptions) -> Result<(), Failure> {
    let client = options.server.client().map_err(Failure::run)?;
    // If the server is down, the error must appear before the display replaces the terminal's
    // content.
    let status: Status = client.get("/v1/status").map_err(|e| failed(&e))?;
    match (options.json, options.once) {
        (true, true) => output::print(&once::json(&status, None)?),
        (false, true) => output::print(&once::tables(&TopState::new(status), output::width())),
        (true, false) => stream(&client, status),
        (false, false) => screen::run(&options.server, TopState::new(status)),
    }
}

/// Prints each second of a server as a line of JSON, until the reader closes the output.
fn stream(client: &ManagementClient, status: Status) -> Result<(), Failure> {
    let mut state = TopState::new(status);
    loop {
        let ended = watch::follow(client, |news| {
            let at_ms = match &news {
                watch::ServerNews::Event(Event::Second(second)) => Some(second.at_ms),
                _ => None,
            };
            state.on_news(news);
            match at_ms {
                Some(at_ms) => output::print(&once::json(state.status(), Some(at_ms))?),
                None => Ok(()),
            }
        });
        // `ended?` ends the loop with the error of `print`. Errors of the server lead to another
        // attempt.
        output::print_message(&format!("{}; trying again", ended?));
        std::thread::sleep(AGAIN);
    }
}

/// Returns the failure for an error of the server, with a remedy.
fn failed(error: &Error) -> Failure {
    let help = match error {
        Error::Connect { .. } => {
            "; start the server with a socket in [manage], or set --socket or --server"
        }
        Error::Tls { .. } => return crate::ctl::refused(error),
        _ => "",
    };
    Failure::run(format!("{error}{help}"))
}
