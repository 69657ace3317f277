//! When the layer is to be called next, and why.

use crate::time::Instant;

/// Why the layer wants to be called at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A limit lets the next request pass.
    Limit,
    /// The drive idles for a stream whose next request is expected.
    Idling,
    /// The turn of the stream in service is over.
    BudgetTimeout,
    /// `io.latency` lets a group go on: its siblings meet their targets again, or it has paid what it owed.
    Latency,
    /// `io.cost` lets a group go on, or looks at what was used in a period.
    Cost,
    /// The drive's queue was busy and nothing is in flight that could end.
    Retry,
    /// What was answered may bring more requests, before anything is sent to the drive ([`merge::Config::ahead`](crate::merge::Config::ahead)).
    Answers,
    /// A flush that waits for the sake of a promise may begin, or has waited long enough.
    Flush,
}

/// When to call [`Layer::poll`](crate::Layer::poll) next even if nothing happens, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wake {
    /// When.
    pub at: Instant,
    /// Why.
    pub reason: Reason,
}

impl Wake {
    /// The earlier of two; at the same time the first counts.
    pub(crate) fn earlier(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (first, second) {
            (Some(a), Some(b)) => Some(if b.at < a.at { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_at_one_time_the_first_counts() {
        let wake = |at, reason| {
            let at = Instant::from_nanos(at);
            Some(Wake { at, reason })
        };
        let first = wake(5, Reason::Limit);
        assert_eq!(Wake::earlier(first, wake(5, Reason::Idling)), first);
        let second = wake(4, Reason::Idling);
        assert_eq!(Wake::earlier(first, second), second);
        assert_eq!(Wake::earlier(None, first), first);
    }
}
