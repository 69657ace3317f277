//! Receives signals in a thread, and ends a server at once that does not end in time or receives a
//! second signal.

use crate::failure::Failure;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::iterator::Signals;
use std::ffi::c_int;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_manage::api::log;

/// The phase of the server, which decides the effect of a signal.
#[derive(Default)]
enum ServerPhase {
    #[default]
    Serving,
    /// The server is about to end. The directory is removed with the process.
    Ending(Option<PathBuf>),
}

/// The phase under a lock. Signals are passed on and the phase is changed only with the lock.
/// Otherwise a second signal that arrives while the server is still serving could be passed on
/// after [`SignalWatch::end_at_once_on_next_signal`] has checked for earlier signals, and would be
/// lost.
#[derive(Default)]
struct SharedPhase(Mutex<ServerPhase>);

impl SharedPhase {
    fn lock(&self) -> MutexGuard<'_, ServerPhase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives signals in a thread of its own, so that the receiver can wait for a signal with a
/// timeout.
pub(super) struct SignalWatch {
    signals: Receiver<c_int>,
    sender: Sender<c_int>,
    ending: Arc<SharedPhase>,
}

impl SignalWatch {
    /// Starts the thread. From now on, none of these signals ends the process by itself.
    pub(super) fn start() -> Result<Self, Failure> {
        let failed = |e| Failure::Run(format!("cannot watch for signals: {e}"));
        // SIGHUP reloads the configuration, SIGUSR2 upgrades the program, and SIGCHLD reports the
        // end of the command of `--run`.
        let all = [SIGHUP, SIGUSR2, SIGINT, SIGTERM, SIGCHLD];
        let mut signals = Signals::new(all).map_err(failed)?;
        let (sender, receiver) = channel();
        let own = sender.clone();
        let ending = Arc::<SharedPhase>::default();
        let ends = Arc::clone(&ending);
        let watch = move || {
            for signal in signals.forever() {
                let phase = ends.lock();
                if is_end_signal(signal) {
                    match &*phase {
                        ServerPhase::Ending(place) => end_at_once(AGAIN, place.as_ref()),
                        ServerPhase::Serving => end_in_time(&ends),
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
            ending,
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

    /// Returns a function that has the same effect as SIGUSR2.
    pub(super) fn upgrade_request(&self) -> impl Fn() + Send + 'static {
        let sender = self.sender.clone();
        move || {
            // If the receiver no longer exists, the process is about to end.
            let _ = sender.send(SIGUSR2);
        }
    }

    /// Makes the next signal end the process at once, and remove the directory `place`. It is
    /// called when the server begins to complete the requests in flight.
    pub(super) fn end_at_once_on_next_signal(&self, place: Option<PathBuf>) {
        // With the lock, no signal is passed on between the check and the change of the phase.
        let mut phase = self.ending.lock();
        // The second signal can have arrived before this call.
        if self.signals.try_iter().any(is_end_signal) {
            end_at_once(AGAIN, place.as_ref());
        }
        *phase = ServerPhase::Ending(place);
    }
}

/// Returns true if a signal ends the server.
pub(super) fn is_end_signal(signal: c_int) -> bool {
    !matches!(signal, SIGHUP | SIGUSR2 | SIGCHLD)
}

/// The longest time until the server begins to end. A reload that waits for a drive ends within
/// this time.
const PATIENCE: Duration = Duration::from_secs(15);
const AGAIN: &str = "received a second signal";

/// Ends the process if the server does not begin to end in time, because a reload reads a file that
/// does not respond.
fn end_in_time(ending: &Arc<SharedPhase>) {
    let ending = Arc::clone(ending);
    let wait = move || {
        std::thread::sleep(PATIENCE);
        // If the server has begun to end, only a second signal ends it at once.
        if matches!(*ending.lock(), ServerPhase::Serving) {
            end_at_once("a reload does not end", None);
        }
    };
    let thread = std::thread::Builder::new().name("weir-ending".into());
    if let Err(error) = thread.spawn(wait) {
        tracing::warn!(
            "the server cannot start the thread that limits the time of a reload at the end: {error}"
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
