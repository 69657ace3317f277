//! Whether a command was told to end with what it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// Whether a command was told to end with what it has (SIGINT, SIGTERM). Only while it [holds](Self::hold) that off: else it ends at once.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicI32>);

/// States of an [`Interrupt`]; a signal's number is the third.
const AT_ONCE: i32 = 0;
const HELD: i32 = -1;

impl Interrupt {
    /// From here on the first interrupt is only noted. The second ends the command at once.
    pub fn hold(&self) {
        self.0.store(HELD, Ordering::Relaxed);
    }

    /// From here on an interrupt ends the command at once.
    pub fn release(&self) {
        // What was noted stays.
        let _ = self.exchange(HELD, AT_ONCE);
    }

    /// Notes a signal. False if the command is to end at once.
    pub fn note(&self, signal: i32) -> bool {
        self.exchange(HELD, signal)
    }

    /// The signal that was noted, from the moment on at which it came.
    pub fn signal(&self) -> Option<i32> {
        let state = self.0.load(Ordering::Relaxed);
        (state > AT_ONCE).then_some(state)
    }

    fn exchange(&self, from: i32, to: i32) -> bool {
        let (done, other) = (Ordering::Relaxed, Ordering::Relaxed);
        self.0.compare_exchange(from, to, done, other).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_is_noted_and_only_while_it_is_held_off() {
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
