//! Counts of one volume.

use weir_core::{Done, Instant, Op, Outcome};

/// What a volume has served.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) requests: [u64; 5],
    pub(crate) bytes: [u64; 5],
    pub(crate) errors: [u64; 5],
    logged: u64,
}

impl Tally {
    /// A request is over.
    pub(crate) fn done(&mut self, _now: Instant, done: &Done) {
        let op = done.op as usize;
        if done.outcome == Outcome::Ok {
            self.requests[op] += 1;
            self.bytes[op] += u64::from(done.length);
        }
    }

    /// The storage failed a piece.
    pub(crate) fn failed(&mut self, op: Op) {
        self.errors[op as usize] += 1;
    }

    /// Whether an error is to be logged: the first ten, then one in a thousand.
    pub(crate) fn errors_logged(&mut self) -> bool {
        self.logged += 1;
        self.logged <= 10 || self.logged.is_multiple_of(1000)
    }
}
