//! Work that takes its time: other threads of Python go on meanwhile, and Ctrl-C stops it.

use pyo3::prelude::*;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use weir::Interrupt;

/// From one look at Python's signals to the next.
const LOOK: Duration = Duration::from_millis(50);

/// Ctrl-C, as the command gets it.
const SIGINT: i32 = 2;

/// What comes of `work`, which ends soon once its interrupt has a signal.
///
/// # Errors
/// What a handler of a signal raised meanwhile: `KeyboardInterrupt`, usually.
pub(crate) fn long<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Interrupt) -> T + Send,
) -> PyResult<T> {
    let (interrupt, done) = (Interrupt::default(), AtomicBool::new(false));
    interrupt.hold();
    let waits = thread::current();
    thread::scope(|scope| {
        let at_work = scope.spawn(|| {
            let came = work(&interrupt);
            done.store(true, Ordering::Release);
            waits.unpark();
            came
        });
        while !done.load(Ordering::Acquire) && !at_work.is_finished() {
            py.detach(|| thread::park_timeout(LOOK));
            if let Err(raised) = py.check_signals() {
                interrupt.note(SIGINT);
                // What came of it is of no use any more.
                let _ = py.detach(|| at_work.join());
                return Err(raised);
            }
        }
        let came = py.detach(|| at_work.join());
        came.map_err(|panic| resume_unwind(panic))
    })
}
