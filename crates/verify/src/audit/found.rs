//! What auditors find.

use std::fmt;
use weir_core::Instant;

/// Something that must not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Name of the auditor that found it.
    pub auditor: &'static str,
    /// During which call, from 0.
    pub call: u64,
    /// When.
    pub now: Instant,
    /// What.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            auditor,
            call,
            now,
            what,
        } = self;
        write!(f, "{auditor}: call {call} at {now:?}: {what}")
    }
}

/// The maximum number of violations kept; one is enough to fail, a few help to understand.
const KEPT: usize = 16;

/// The violations found by all auditors of an [`Audit`](crate::audit::Audit), in order.
#[derive(Debug, Default)]
pub struct Found {
    kept: Vec<Violation>,
    total: u64,
    /// The auditor that is asked.
    pub(crate) auditor: &'static str,
    /// The current call.
    pub(crate) call: u64,
    pub(crate) now: Instant,
}

impl Found {
    /// Records a violation that the current auditor found.
    #[cold]
    pub fn add(&mut self, what: fmt::Arguments<'_>) {
        self.total += 1;
        if self.kept.len() < KEPT {
            self.kept.push(Violation {
                auditor: self.auditor,
                call: self.call,
                now: self.now,
                what: what.to_string(),
            });
        }
    }

    /// The first of them, up to 16.
    pub fn kept(&self) -> &[Violation] {
        &self.kept
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// True if there were none.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}
