//! What the service manager is told, if there is one that wants to know (`sd_notify(3)`): systemd's `Type=notify-reload` and `WatchdogSec=`.

use super::signals::Watch;
use crate::failure::Failure;
use sd_notify::NotifyState;
use std::ffi::c_int;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use weir_manage::Management;

/// It serves, as `status` says.
pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// It reads its configuration again; [`ready`] is to follow.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => {
            tracing::warn!("the server cannot notify the service manager of the reload: {error}");
        }
    }
}

/// It ends.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// How the server fares, in words.
pub(super) fn status(management: &Management) -> String {
    match management.volumes() {
        0 => "serving no volume: the configuration has none".to_owned(),
        1 => "serving 1 volume".to_owned(),
        n => format!("serving {n} volumes"),
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        let said: Vec<String> = state.iter().map(NotifyState::to_string).collect();
        tracing::warn!(
            "the server cannot notify the service manager ({}): {error}",
            said.join(", ")
        );
    }
}

/// Longest time between two looks at the server's threads.
const LOOK: Duration = Duration::from_secs(1);

/// Looks again and again whether every thread of the server runs, and tells a service manager that
/// wants to know. A server with a thread that has ended is ended, with a status that makes the
/// service manager start it again.
pub(super) struct Watchdog {
    /// The service manager wants to be told at least so often.
    every: Option<Duration>,
}

impl Watchdog {
    /// As the service manager wants it: twice in the time that it waits.
    pub(super) fn new() -> Self {
        Self {
            every: sd_notify::watchdog_enabled().map(|patience| patience / 2),
        }
    }

    /// The next signal.
    ///
    /// # Errors
    /// A thread of the server has ended.
    pub(super) fn wait(&self, signals: &Watch, management: &Management) -> Result<c_int, Failure> {
        loop {
            if !management.is_running() {
                return Err(super::fault());
            }
            if self.every.is_some() {
                tell(&[NotifyState::Watchdog]);
            }
            let within = self.every.map_or(LOOK, |every| every.min(LOOK));
            if let Some(signal) = signals.next(within)? {
                return Ok(signal);
            }
        }
    }

    /// Does something that may take long, such as a reload that waits for a drive, and tells the service manager meanwhile that all is well.
    pub(super) fn meanwhile<R>(&self, work: impl FnOnce() -> R) -> R {
        let Some(every) = self.every else {
            return work();
        };
        let (working, over) = channel::<()>();
        let tells = move || {
            while over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                tell(&[NotifyState::Watchdog]);
            }
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("weir-watchdog".into());
            if let Err(error) = thread.spawn_scoped(scope, tells) {
                tracing::warn!(
                    "the server cannot notify the watchdog of the service manager during the reload: {error}"
                );
            }
            let result = work();
            drop(working);
            result
        })
    }
}
