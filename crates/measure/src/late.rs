//! Requests that do not complete by their deadline.

use std::collections::VecDeque;

/// Counts requests that must complete within a fixed time after they were due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeadlineCounter {
    deadline_ns: u64,
    /// The due times of outstanding requests, in the order in which these were sent.
    open: VecDeque<u64>,
    /// The due times of requests that completed too late or failed.
    late: Vec<u64>,
    /// The number of requests that could not even be sent in time.
    missed: u64,
}

impl DeadlineCounter {
    pub(crate) fn new(deadline_ns: u64) -> Self {
        Self {
            deadline_ns,
            open: VecDeque::new(),
            late: Vec::new(),
            missed: 0,
        }
    }

    /// Records that a request which was due at `due_ns` was sent.
    pub(crate) fn sent(&mut self, due_ns: u64) {
        self.open.push_back(due_ns);
    }

    /// Records that a request which was due at `due_ns` completed at `now_ns`.
    pub(crate) fn answered(&mut self, due_ns: u64, now_ns: u64) {
        if let Some(at) = self.open.iter().position(|&due| due == due_ns) {
            self.open.remove(at);
        }
        if now_ns > due_ns.saturating_add(self.deadline_ns) {
            self.late.push(due_ns);
        }
    }

    /// Records that a request failed. The caller does not know which one, so the oldest outstanding
    /// request is treated as the failed one.
    pub(crate) fn failed(&mut self) {
        // A failed request missed its deadline, however early it failed.
        self.late.extend(self.open.pop_front());
    }

    /// Records that `requests` requests could not be sent in time.
    pub(crate) fn missed(&mut self, requests: u64) {
        self.missed += requests;
    }

    /// Returns the number of late requests that were due from `start_ns` on and whose deadline
    /// passed by `end_ns`, plus all requests that could not be sent in time.
    // A request whose deadline is after the end cannot be judged yet.
    pub(crate) fn count(&self, start_ns: u64, end_ns: u64) -> u64 {
        let measured =
            |due: &&u64| **due >= start_ns && due.saturating_add(self.deadline_ns) <= end_ns;
        let answered = self.late.iter().filter(measured).count();
        // Requests that are still open although their deadline has passed are late as well.
        let open = self.open.iter().filter(measured).count();
        (answered + open) as u64 + self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_request_is_counted_once_and_only_within_the_measurement() {
        // The deadlines are 100, 140, 180, 220, 260 and 300.
        let mut late = DeadlineCounter::new(40);
        for due in [60, 100, 140, 180, 220, 260] {
            late.sent(due);
        }
        late.answered(60, 101);
        late.answered(100, 140);
        late.answered(140, 181);
        assert_eq!(
            late.count(100, 1_000),
            1 + 3,
            "one was late, three are open"
        );
        assert_eq!(
            late.count(0, 1_000),
            2 + 3,
            "the first was before the start"
        );
        // The next deadline is 180 + 40 = 220.
        assert_eq!(late.count(100, 219), 1, "no other deadline has passed");
        assert_eq!(late.count(100, 220), 2);
        // The oldest open request, due at 180, fails. The request due at 260 completes in time.
        late.failed();
        late.answered(260, 261);
        late.missed(5);
        assert_eq!(late.count(100, 1_000), 1 + 1 + 1 + 5);
    }

    #[test]
    fn requests_due_at_the_same_time_are_counted_separately() {
        let mut late = DeadlineCounter::new(10);
        late.sent(5);
        late.sent(5);
        late.answered(5, 15);
        assert_eq!(late.count(0, 100), 1);
        late.answered(5, 16);
        assert_eq!(late.count(0, 100), 1);
    }
}
