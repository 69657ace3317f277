//! What the service manager is told, if there is one that wants to know (`sd_notify(3)`): systemd's `Type=notify-reload` and `WatchdogSec=`.

use super::signals::Watch;
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
        Err(error) => tracing::warn!("cannot tell the service manager of a reload: {error}"),
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
            "cannot tell the service manager {}: {error}",
            said.join(", ")
        );
    }
}

/// Tells the service manager again and again that every shard runs. When one does not, it hears nothing more and starts the server again.
pub(super) struct Watchdog {
    every: Option<Duration>,
    ran: bool,
}

impl Watchdog {
    /// As the service manager wants it: twice in the time that it waits.
    pub(super) fn new() -> Self {
        Self {
            every: sd_notify::watchdog_enabled().map(|patience| patience / 2),
            ran: true,
        }
    }

    /// The next signal.
    pub(super) fn wait(&mut self, signals: &Watch, management: &Management) -> c_int {
        loop {
            if self.every.is_some() {
                self.look(management.is_running());
            }
            if let Some(signal) = signals.next(self.every) {
                return signal;
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
                tracing::warn!("cannot tell the service manager's watchdog meanwhile: {error}");
            }
            let result = work();
            drop(working);
            result
        })
    }

    fn look(&mut self, runs: bool) {
        if runs {
            tell(&[NotifyState::Watchdog]);
        } else if std::mem::replace(&mut self.ran, false) {
            let status = "a part of the server has failed: its last words are in the log";
            tracing::error!("{status}; the service manager's watchdog is not told any more");
            tell(&[NotifyState::Status(status)]);
        }
    }
}
