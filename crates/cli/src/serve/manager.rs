//! Notifies the service manager of the server's state (`sd_notify(3)`). It supports systemd's
//! `Type=notify-reload` and `WatchdogSec=`.

use super::signals::SignalWatch;
use crate::failure::Failure;
use sd_notify::NotifyState;
use std::ffi::c_int;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use weir_manage::Management;

/// Notifies the manager that the server serves. `status` describes it.
pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Notifies the manager that the server reloads its configuration. [`ready`] must follow.
pub(super) fn reloading() {
    // `Type=notify-reload` needs the time of the monotonic clock, by which the manager recognises
    // the notification of this reload (sd_notify(3)).
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => {
            tracing::warn!("the server cannot notify the service manager of the reload: {error}");
        }
    }
}

/// Notifies the manager that another process is the server from now on.
pub(super) fn hand_over(process: u32) {
    tell(&[NotifyState::MainPid(process)]);
}

/// Notifies the manager that the server is about to end.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Returns the state of the server, in words.
pub(super) fn status(management: &Management) -> String {
    match management.volumes() {
        0 => "serving no volume: the configuration has none".to_owned(),
        1 => "serving 1 volume".to_owned(),
        n => format!("serving {n} volumes"),
    }
}

fn tell(state: &[NotifyState<'_>]) {
    // The server works without the manager, so an error is only logged.
    if let Err(error) = sd_notify::notify(state) {
        let said: Vec<String> = state.iter().map(NotifyState::to_string).collect();
        tracing::warn!(
            "the server cannot notify the service manager ({}): {error}",
            said.join(", ")
        );
    }
}

/// The longest time between two checks of the server's threads.
const LOOK: Duration = Duration::from_secs(1);

/// Checks regularly that every thread of the server runs, and notifies the service manager.
///
/// If a thread has ended, the server ends with a status with which the manager starts it again.
pub(super) struct Watchdog {
    /// The interval in which the manager must be notified, or `None` if it does not monitor the
    /// server.
    every: Option<Duration>,
}

impl Watchdog {
    /// Reads the interval from the environment. It is half of the manager's timeout, so that a late
    /// notification is still in time.
    pub(super) fn new() -> Self {
        Self {
            every: sd_notify::watchdog_enabled().map(|patience| patience / 2),
        }
    }

    /// Waits for the next signal.
    ///
    /// # Errors
    /// A thread of the server has ended.
    pub(super) fn wait(
        &self,
        signals: &SignalWatch,
        management: &Management,
    ) -> Result<c_int, Failure> {
        loop {
            if !management.is_running() {
                return Err(super::thread_failure());
            }
            if self.every.is_some() {
                tell(&[NotifyState::Watchdog]);
            }
            // The threads are checked at least once per second, however long the manager's timeout
            // is.
            let within = self.every.map_or(LOOK, |every| every.min(LOOK));
            if let Some(signal) = signals.next(within)? {
                return Ok(signal);
            }
        }
    }

    /// Runs `work`, which can take long, and notifies the manager in the meantime. A reload that
    /// waits for a drive is such work.
    pub(super) fn run_with_notifications<R>(&self, work: impl FnOnce() -> R) -> R {
        let Some(every) = self.every else {
            return work();
        };
        // The channel carries no message. The thread ends when its other end is dropped.
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
