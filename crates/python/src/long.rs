//! Long work in the background: other threads of Python continue in the meantime, and Ctrl-C stops
//! it.

use pyo3::prelude::*;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use weir::Interrupt;

/// The interval at which Python's signals are checked.
const LOOK: Duration = Duration::from_millis(50);

/// The signal of Ctrl-C, as the command receives it.
const SIGINT: i32 = 2;

/// Runs `work` and returns its result. `work` must end soon once its interrupt has a signal.
///
/// # Errors
/// Returns the exception that a signal handler raised in the meantime, usually `KeyboardInterrupt`.
pub(crate) fn run_interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Interrupt) -> T + Send,
) -> PyResult<T> {
    let (interrupt, done) = (Interrupt::default(), AtomicBool::new(false));
    interrupt.hold();
    let waits = thread::current();
    thread::scope(|scope| {
        let at_work = scope.spawn(|| {
            let came = work(&interrupt);
            // The waiting thread must see the result once it sees the flag.
            done.store(true, Ordering::Release);
            waits.unpark();
            came
        });
        while !done.load(Ordering::Acquire) && !at_work.is_finished() {
            // Without the interpreter's lock, other threads of Python continue.
            py.detach(|| thread::park_timeout(LOOK));
            if let Err(raised) = py.check_signals() {
                interrupt.note(SIGINT);
                // The result is not needed any more, and a panic must not replace the exception.
                let _ = py.detach(|| at_work.join());
                return Err(raised);
            }
        }
        let came = py.detach(|| at_work.join());
        // PyO3 converts a panic to an exception of Python.
        came.map_err(|panic| resume_unwind(panic))
    })
}
