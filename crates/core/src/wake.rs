//! The wake-up: the time of the next call into the layer, and its reason.

use crate::time::Instant;

/// The reason why the layer must be called at a certain time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A limit lets the next request pass then.
    Limit,
    /// The drive idles for a stream whose next request is expected.
    Idling,
    /// The turn of the stream in service ends then.
    BudgetTimeout,
    /// `io.latency` lets a group continue, because its siblings meet their targets again or it has
    /// paid its debt.
    Latency,
    /// `io.cost` lets a group continue, or evaluates the usage of a period.
    Cost,
    /// The drive's queue was busy, and is tried again even if no piece of it has ended.
    Retry,
    /// Completions were reported that may lead to more requests before anything is sent to the
    /// drive ([`merge::Config::ahead`](crate::merge::Config::ahead)).
    Answers,
    /// A flush that was delayed for the sake of a promise may begin, or has waited long enough.
    Flush,
}

/// The time at which [`Layer::poll`](crate::Layer::poll) must be called even if nothing happens,
/// and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wake {
    /// The time of the next call.
    pub at: Instant,
    /// The reason for the call.
    pub reason: Reason,
}

impl Wake {
    /// Returns the earlier of two wake-ups. If both are due at the same time, it returns the first.
    pub(crate) fn earlier(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (first, second) {
            // Strictly earlier, so that the reason does not depend on the order of equal times.
            (Some(a), Some(b)) => Some(if b.at < a.at { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_simultaneous_wakes_wins() {
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
