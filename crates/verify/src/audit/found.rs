//! The violations that auditors find.

use std::fmt;
use weir_core::Instant;

/// A rule that was broken, and the time and call at which an auditor noticed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The name of the auditor that found the violation.
    pub auditor: &'static str,
    /// The number of the call during which it was found, from 0.
    pub call: u64,
    /// The time of that call.
    pub now: Instant,
    /// A description of the violation.
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

/// The maximum number of violations kept. One is enough to fail, and a few help to find the cause.
const VIOLATIONS_MAX: usize = 16;

/// The violations found by all auditors of an [`Audit`](crate::audit::Audit), in order.
#[derive(Debug, Default)]
pub struct Violations {
    kept: Vec<Violation>,
    total: u64,
    /// The name of the auditor that is running now.
    pub(crate) auditor: &'static str,
    /// The number of the current call.
    pub(crate) call: u64,
    pub(crate) now: Instant,
}

impl Violations {
    /// Records a violation that the current auditor found.
    #[cold]
    pub fn add(&mut self, what: fmt::Arguments<'_>) {
        // Violations beyond `VIOLATIONS_MAX` are counted only, because a broken rule can be
        // reported at every call.
        self.total += 1;
        if self.kept.len() < VIOLATIONS_MAX {
            self.kept.push(Violation {
                auditor: self.auditor,
                call: self.call,
                now: self.now,
                what: what.to_string(),
            });
        }
    }

    /// Returns the first violations, at most 16.
    pub fn violations(&self) -> &[Violation] {
        &self.kept
    }

    /// Returns the number of all violations.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns true if there was no violation.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}
