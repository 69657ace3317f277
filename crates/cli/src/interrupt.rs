//! The interruption of a command that can show partial results.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// An interrupt (SIGINT or SIGTERM) that tells a command to end with the results so far. It is
/// noted only while the command [holds](Self::hold) it off. Otherwise it ends the command at once.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicI32>);

/// A state of an [`Interrupt`]: an interrupt ends the command at once. The third state is the
/// number of the signal.
const AT_ONCE: i32 = 0;
const HELD: i32 = -1;

impl Interrupt {
    /// Makes the first interrupt be noted only. The second interrupt ends the command at once.
    pub fn hold(&self) {
        self.0.store(HELD, Ordering::Relaxed);
    }

    /// Makes an interrupt end the command at once again.
    pub fn release(&self) {
        // The exchange fails if a signal has been noted, which stays noted.
        let _ = self.exchange(HELD, AT_ONCE);
    }

    /// Notes a signal. Returns false if the command must end at once.
    pub fn note(&self, signal: i32) -> bool {
        self.exchange(HELD, signal)
    }

    /// Returns the signal that was noted, if any.
    pub fn signal(&self) -> Option<i32> {
        let state = self.0.load(Ordering::Relaxed);
        // Numbers of signals are positive, unlike the two other states.
        (state > AT_ONCE).then_some(state)
    }

    /// Changes the state if it is `from`, and returns true if it was.
    fn exchange(&self, from: i32, to: i32) -> bool {
        // The state is one number, and no other memory depends on it, so relaxed accesses suffice.
        let (done, other) = (Ordering::Relaxed, Ordering::Relaxed);
        self.0.compare_exchange(from, to, done, other).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_interrupt_is_noted_while_it_is_held_off() {
        let interrupt = Interrupt::default();
        assert!(!interrupt.note(2));
        interrupt.hold();
        assert_eq!(interrupt.signal(), None);
        assert!(interrupt.note(15));
        assert!(!interrupt.note(2), "the second ends it at once");
        interrupt.release();
        assert_eq!(interrupt.signal(), Some(15), "what was noted stays");
        assert!(!interrupt.note(2));
        let interrupt = Interrupt::default();
        interrupt.hold();
        interrupt.release();
        assert!(!interrupt.note(2));
    }
}
