//! `weir top`: how the drives, tenants and volumes of a running server stand, second by second.

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
use state::State;
use std::time::Duration;
use weir_manage::api::Socket;
use weir_manage::api::{Client, Error, Event, Status};

/// Between two tries to reach a server that has gone.
const AGAIN: Duration = Duration::from_secs(1);

/// Which server to look at, and how to show it.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    socket: Socket,
    /// Print the last second as tables and exit
    #[arg(long)]
    once: bool,
    /// Print one line of JSON for each second, or a single one with --once: the reply of /v1/status with the figures of that second
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let client = options.socket.client().map_err(Failure::run)?;
    // A server that is not there is said before the screen is taken.
    let status: Status = client.get("/v1/status").map_err(|e| failed(&e))?;
    match (options.json, options.once) {
        (true, true) => output::print(&once::json(&status, None)?),
        (false, true) => output::print(&once::tables(&State::new(status), output::width())),
        (true, false) => stream(&client, status),
        (false, false) => screen::run(&options.socket, State::new(status)),
    }
}

/// Prints the seconds of a server as they come, until nobody reads them.
fn stream(client: &Client, status: Status) -> Result<(), Failure> {
    let mut state = State::new(status);
    loop {
        let ended = watch::follow(client, |news| {
            let at_ms = match &news {
                watch::News::Event(Event::Second(second)) => Some(second.at_ms),
                _ => None,
            };
            state.take(news);
            match at_ms {
                Some(at_ms) => output::print(&once::json(state.status(), Some(at_ms))?),
                None => Ok(()),
            }
        });
        output::tell(&format!("{}; trying again", ended?));
        std::thread::sleep(AGAIN);
    }
}

/// Why a server that was asked has not answered well, and what to do.
fn failed(error: &Error) -> Failure {
    let help = match error {
        Error::Connect { .. } => "; start the server with that socket in [manage], or set --socket",
        _ => "",
    };
    Failure::run(format!("{error}{help}"))
}
