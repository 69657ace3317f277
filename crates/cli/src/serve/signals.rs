//! Receives signals in a thread, and ends a server at once that does not end in time or receives a
//! second signal.

use crate::failure::Failure;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::ffi::c_int;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_manage::api::log;
use weir_serve::UpgradeInterrupt;

/// The signal by which the first process passes on one that ends the server. If a terminal or
/// `pkill` signals every process, the server receives both, and must not take the second one as a
/// request to end at once.
pub(super) const FORWARDED: c_int = SIGUSR1;

/// The event that a client of the management interface has requested an upgrade, among the numbers
/// of signals. No signal has the number 0 (kill(2)).
pub(super) const UPGRADE_REQUESTED: c_int = 0;

/// The phase of the server, which decides the effect of a signal.
#[derive(Default)]
enum ServerPhase {
    #[default]
    Serving,
    /// Another process serves.
    HandedOver,
    /// The server is about to end. The directory is removed with the process.
    Ending(Option<PathBuf>),
}

/// The phase, and the signals that have arrived.
#[derive(Default)]
struct SignalState {
    phase: ServerPhase,
    /// The work that the server does instead of waiting for signals.
    work: Option<&'static str>,
    /// The number of signals to end the server that were sent to this process, and that were passed
    /// on to it ([`FORWARDED`]).
    received: [u32; 2],
    /// The number of signals of each kind that have only made the server begin to end, 0 or 1.
    begun: u32,
}

impl SignalState {
    /// Returns false if the signal was already counted when it was also passed on, or sent to this
    /// process.
    fn receive(&mut self, signal: c_int) -> bool {
        let before = self.count();
        self.received[usize::from(signal == FORWARDED)] += 1;
        self.count() > before
    }

    /// Returns the number of signals to end the server. One that was also passed on counts once.
    fn count(&self) -> u32 {
        self.received.into_iter().max().unwrap_or_default()
    }

    fn begin_to_end(&mut self, place: Option<PathBuf>) {
        self.begun = self.count().min(1);
        self.phase = ServerPhase::Ending(place);
    }

    /// Returns true if the server is about to end and has received a further signal.
    fn is_repeated(&self) -> bool {
        let is_ending = matches!(self.phase, ServerPhase::Ending(_));
        is_ending && self.count() > self.begun
    }

    /// Ends the process at once if a signal to end the server was repeated.
    fn end_if_repeated(&self) {
        if let ServerPhase::Ending(place) = &self.phase
            && self.is_repeated()
        {
            end_at_once("received a second signal", place.as_ref());
        }
    }
}

type SharedState = Arc<Mutex<SignalState>>;

fn lock(state: &SharedState) -> MutexGuard<'_, SignalState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Receives signals in a thread of its own, so that the receiver can wait for a signal with a
/// timeout.
pub(super) struct SignalWatch {
    signals: Receiver<c_int>,
    sender: Sender<c_int>,
    state: SharedState,
    interrupt: UpgradeInterrupt,
}

impl SignalWatch {
    /// Starts the thread. From now on, none of these signals ends the process by itself.
    pub(super) fn start() -> Result<Self, Failure> {
        let failed = |e| Failure::Run(format!("cannot watch for signals: {e}"));
        let interrupt = UpgradeInterrupt::new().map_err(failed)?;
        let interrupts = interrupt.clone();
        // SIGHUP reloads the configuration, SIGUSR2 upgrades the program, and SIGCHLD reports the
        // end of the command of `--run`. The others end the server.
        let all = [SIGHUP, SIGUSR2, SIGCHLD, SIGINT, SIGTERM, FORWARDED];
        let mut signals = Signals::new(all).map_err(failed)?;
        let (sender, receiver) = channel();
        let own = sender.clone();
        let state = SharedState::default();
        let shared = Arc::clone(&state);
        let watch = move || {
            for signal in signals.forever() {
                if is_end_signal(signal) {
                    interrupts.interrupt();
                    let mut state = lock(&shared);
                    if !state.receive(signal) {
                        continue;
                    }
                    state.end_if_repeated();
                    if matches!(state.phase, ServerPhase::Serving) {
                        end_in_time(&shared);
                    }
                }
                // If the receiver no longer exists, the process is about to end.
                let _ = sender.send(signal);
            }
        };
        let thread = std::thread::Builder::new().name("weir-signals".into());
        thread.spawn(watch).map_err(failed)?;
        Ok(Self {
            signals: receiver,
            sender: own,
            state,
            interrupt,
        })
    }

    /// Returns the next signal, or `None` if none arrives within this time.
    ///
    /// # Errors
    /// The thread that receives signals has failed. No signal could end the server any more.
    pub(super) fn next(&self, within: Duration) -> Result<Option<c_int>, Failure> {
        match self.signals.recv_timeout(within) {
            Ok(signal) => Ok(Some(signal)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(super::thread_failure()),
        }
    }

    /// Returns the switch that a signal to end the server operates. It ends the preparation of an
    /// upgrade.
    pub(super) fn upgrade_interrupt(&self) -> UpgradeInterrupt {
        self.interrupt.clone()
    }

    /// Names the work that begins, for the message if a signal has to wait for the work for too
    /// long.
    pub(super) fn begin_work(&self, work: &'static str) {
        lock(&self.state).work = Some(work);
    }

    /// Returns a function that requests an upgrade ([`UPGRADE_REQUESTED`]).
    pub(super) fn upgrade_request(&self) -> impl Fn() + Send + 'static {
        let sender = self.sender.clone();
        move || {
            // If the receiver no longer exists, the process is about to end.
            let _ = sender.send(UPGRADE_REQUESTED);
        }
    }

    /// Makes the next signal end the process at once, and remove the directory `place`. It is
    /// called when the server begins to complete the requests in flight.
    pub(super) fn end_at_once_on_next_signal(&self, place: Option<PathBuf>) {
        let mut state = lock(&self.state);
        state.begin_to_end(place);
        // The second signal can have arrived before this call.
        state.end_if_repeated();
    }

    /// Leaves the effect of all signals to the caller, because another process serves.
    pub(super) fn hand_over(&self) {
        lock(&self.state).phase = ServerPhase::HandedOver;
    }
}

/// Returns true if a signal ends the server.
pub(super) fn is_end_signal(signal: c_int) -> bool {
    matches!(signal, SIGINT | SIGTERM | FORWARDED)
}

/// The longest time until the server begins to end. A reload that waits for a drive ends within
/// this time, and so does an upgrade whose preparation was interrupted.
const PATIENCE: Duration = Duration::from_secs(15);

/// Ends the process if the server does not begin to end in time, for example because a reload reads
/// a file that does not respond.
fn end_in_time(state: &SharedState) {
    let state = Arc::clone(state);
    let wait = move || {
        std::thread::sleep(PATIENCE);
        // If the server has begun to end, only a second signal ends it at once.
        let state = lock(&state);
        if matches!(state.phase, ServerPhase::Serving) {
            let work = state.work.unwrap_or("the start");
            end_at_once(&format!("{work} does not end"), None);
        }
    };
    let thread = std::thread::Builder::new().name("weir-ending".into());
    if let Err(error) = thread.spawn(wait) {
        tracing::warn!(
            "the server cannot start the thread that limits the time until the server ends: {error}"
        );
    }
}

/// Ends the process without completing the requests in flight.
fn end_at_once(why: &str, place: Option<&PathBuf>) {
    tracing::error!("{why}; the server ends at once, and requests in flight are not completed");
    if let Some(place) = place {
        let _ = fs::remove_dir_all(place);
    }
    // `exit` does not run destructors, so the log is written here.
    log::flush();
    std::process::exit(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_also_passed_on_counts_once() {
        let is_repeated = |before: &[c_int], after: &[c_int]| {
            let mut state = SignalState::default();
            for signal in before {
                state.receive(*signal);
            }
            assert!(!state.is_repeated());
            state.begin_to_end(None);
            for signal in after {
                state.receive(*signal);
            }
            state.is_repeated()
        };
        assert!(!is_repeated(&[SIGTERM], &[FORWARDED]));
        assert!(!is_repeated(&[FORWARDED], &[SIGINT]));
        assert!(!is_repeated(&[FORWARDED, SIGINT], &[]));
        assert!(is_repeated(&[SIGTERM], &[SIGINT]));
        assert!(is_repeated(&[SIGTERM, SIGTERM], &[]));
        assert!(is_repeated(&[FORWARDED], &[SIGINT, FORWARDED]));
        // A server can also begin to end without a signal.
        assert!(!is_repeated(&[], &[]));
        assert!(is_repeated(&[], &[SIGTERM]));
    }
}
