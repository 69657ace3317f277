//! An event that one side sends to the other to end its sleep.

use loom::sync::{Arc, Condvar, Mutex};

/// The events to one side. An event before the sleep ends it at once, and several events count as
/// one. Clones refer to the same events.
#[derive(Clone)]
pub(crate) struct WakeEvent(Arc<(Mutex<bool>, Condvar)>);

impl WakeEvent {
    pub(crate) fn new() -> Self {
        Self(Arc::new((Mutex::new(false), Condvar::new())))
    }

    /// Sends an event to the side.
    pub(crate) fn send(&self) {
        let (raised, sleeper) = &*self.0;
        *raised.lock().expect("nobody panics") = true;
        sleeper.notify_one();
    }

    /// Sleeps until there is an event. If all sides sleep, the model checker reports a deadlock,
    /// which is the error that the models look for.
    pub(crate) fn sleep(&self) {
        let (raised, sleeper) = &*self.0;
        let mut raised = raised.lock().expect("nobody panics");
        while !*raised {
            raised = sleeper.wait(raised).expect("nobody panics");
        }
        *raised = false;
    }
}
