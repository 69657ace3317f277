//! An event between two sides, and the sleep that it ends.

use loom::sync::{Arc, Condvar, Mutex};

/// Events to one side: one that comes before the sleep ends it at once, and two are one. Clones are the same.
#[derive(Clone)]
pub(crate) struct Event(Arc<(Mutex<bool>, Condvar)>);

impl Event {
    pub(crate) fn new() -> Self {
        Self(Arc::new((Mutex::new(false), Condvar::new())))
    }

    /// Sends one.
    pub(crate) fn send(&self) {
        let (raised, sleeper) = &*self.0;
        *raised.lock().expect("nobody panics") = true;
        sleeper.notify_one();
    }

    /// Sleeps until there is one. If everybody sleeps, the model checker says so: that is what must not be.
    pub(crate) fn sleep(&self) {
        let (raised, sleeper) = &*self.0;
        let mut raised = raised.lock().expect("nobody panics");
        while !*raised {
            raised = sleeper.wait(raised).expect("nobody panics");
        }
        *raised = false;
    }
}
