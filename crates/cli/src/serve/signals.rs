//! Signals as they come, and what a second one does to a server that ends.

use crate::failure::Failure;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::c_int;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_manage::api::log;

/// Whether the server has begun to end.
#[derive(Default)]
enum Phase {
    #[default]
    Serving,
    /// The directory is removed with the process.
    Ending(Option<PathBuf>),
}

/// The phase. A signal is handed on, and the phase changes, only under the lock. Otherwise a second signal that found the server still serving
/// could be handed on after the last look at earlier signals, and be lost.
#[derive(Default)]
struct Ending(Mutex<Phase>);

impl Ending {
    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches for signals in a thread of its own, so that what waits for them can do something else in time.
pub(super) struct Watch {
    signals: Receiver<c_int>,
    ending: Arc<Ending>,
}

impl Watch {
    pub(super) fn start() -> Result<Self, Failure> {
        let failed = |e| Failure::Run(format!("cannot watch for signals: {e}"));
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGCHLD]).map_err(failed)?;
        let (sender, receiver) = channel();
        let ending = Arc::<Ending>::default();
        let ends = Arc::clone(&ending);
        let watch = move || {
            for signal in signals.forever() {
                let phase = ends.lock();
                if ends_it(signal) {
                    match &*phase {
                        Phase::Ending(place) => end_at_once(AGAIN, place.as_ref()),
                        Phase::Serving => end_in_time(&ends),
                    }
                }
                // When nobody waits any more, the process ends.
                let _ = sender.send(signal);
            }
        };
        let thread = std::thread::Builder::new().name("weir-signals".into());
        thread.spawn(watch).map_err(failed)?;
        Ok(Self {
            signals: receiver,
            ending,
        })
    }

    /// The next signal, if there is one in time.
    ///
    /// # Errors
    /// The thread that watches has failed: no signal could end the server any more.
    pub(super) fn next(&self, within: Duration) -> Result<Option<c_int>, Failure> {
        match self.signals.recv_timeout(within) {
            Ok(signal) => Ok(Some(signal)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(super::fault()),
        }
    }

    /// From now on a signal ends the process at once, while what is in flight is finished; `place` is removed then.
    pub(super) fn end_at_once_when_told_again(&self, place: Option<PathBuf>) {
        let mut phase = self.ending.lock();
        // It may have come already.
        if self.signals.try_iter().any(ends_it) {
            end_at_once(AGAIN, place.as_ref());
        }
        *phase = Phase::Ending(place);
    }
}

fn ends_it(signal: c_int) -> bool {
    !matches!(signal, SIGHUP | SIGCHLD)
}

/// How long the server may take to begin to end: a reload that waits for a drive ends first.
const PATIENCE: Duration = Duration::from_secs(15);
const AGAIN: &str = "received a second signal";

/// Ends the process if the server has not begun to end in time, because a reload reads a file that does not answer.
fn end_in_time(ending: &Arc<Ending>) {
    let ending = Arc::clone(ending);
    let wait = move || {
        std::thread::sleep(PATIENCE);
        if matches!(*ending.lock(), Phase::Serving) {
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

fn end_at_once(why: &str, place: Option<&PathBuf>) {
    tracing::error!("{why}; the server ends at once, and requests in flight are not completed");
    if let Some(place) = place {
        let _ = fs::remove_dir_all(place);
    }
    log::flush();
    std::process::exit(1);
}
