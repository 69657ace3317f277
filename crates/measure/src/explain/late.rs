//! The times at which this process did not run although it had work to do.

use std::collections::VecDeque;

/// The maximum number of intervals that are kept.
const KEPT: usize = 4096;

/// Intervals of lateness in nanoseconds, in their order. They do not overlap.
#[derive(Clone, Debug)]
pub(crate) struct LateIntervals {
    kept: VecDeque<LateInterval>,
    /// The time without a CPU that the kernel has reported so far.
    waited: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct LateInterval {
    from: u64,
    to: u64,
    /// The length of all previous intervals.
    before: u64,
}

impl LateIntervals {
    pub(crate) fn new() -> Self {
        Self {
            kept: VecDeque::with_capacity(KEPT),
            waited: None,
        }
    }

    /// Adds an interval in which the process was late, without the part that is known already.
    pub(crate) fn add(&mut self, from: u64, to: u64) {
        let last = self.kept.back();
        let (end, before) = last.map_or((0, 0), |l| (l.to, l.before + (l.to - l.from)));
        let from = from.max(end);
        if from >= to {
            return;
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(LateInterval { from, to, before });
    }

    /// Records that the kernel has counted `total` nanoseconds so far in which the thread was ready
    /// to run but had no CPU.
    pub(crate) fn waited(&mut self, now: u64, total: u64) {
        // The first report has no predecessor, so the time before it is unknown. Of later ones,
        // only the length of the wait is known, and it is placed directly before the report.
        let before = self.waited.replace(total).unwrap_or(total);
        self.add(now.saturating_sub(total.saturating_sub(before)), now);
    }

    /// Returns the part of the time between two instants that was late.
    #[inline]
    pub(crate) fn within(&self, from: u64, to: u64) -> u64 {
        if self.kept.back().is_none_or(|last| last.to <= from) {
            return 0;
        }
        self.until(to).saturating_sub(self.until(from))
    }

    /// Returns the time that was late before `at`.
    fn until(&self, at: u64) -> u64 {
        let next = self.kept.partition_point(|i| i.from < at);
        let Some(last) = next.checked_sub(1).and_then(|n| self.kept.get(n)) else {
            // Intervals before the first one were dropped, but their length is still known.
            return self.kept.front().map_or(0, |first| first.before);
        };
        last.before + (at.min(last.to) - last.from)
    }

    /// The intervals, from and to.
    pub(crate) fn intervals(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.kept.iter().map(|i| (i.from, i.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_reported_wait_is_placed_before_its_report() {
        let mut late = LateIntervals::new();
        late.waited(100, 7_000);
        assert_eq!(late.within(0, 100), 0, "from before it was looked at");
        // The kernel counted 30 ns since the report at 100, so the time from 170 to 200 is late.
        late.waited(200, 7_030);
        assert_eq!((late.within(0, 170), late.within(0, 200)), (0, 30));
        // The time from 200 to 210 is new, which makes 40 ns.
        late.add(180, 210);
        assert_eq!(
            late.within(0, 300),
            40,
            "what was known is not counted twice"
        );
    }

    proptest! {
        #[test]
        fn late_intervals_agree_with_a_list_of_instants(
            added in prop::collection::vec((0_u64..50, 1_u64..20), 0..40),
            from in 0_u64..1000,
            length in 0_u64..1000,
        ) {
            let (mut late, mut at, mut slow) = (LateIntervals::new(), 0, vec![false; 4000]);
            for (gap, length) in added {
                // Some intervals begin before the previous one ended.
                let begin = (at + gap).saturating_sub(10);
                let end = at + gap + length;
                late.add(begin, end);
                slow[begin as usize..end as usize].fill(true);
                at = end;
            }
            let counted = slow[from as usize..(from + length) as usize].iter().filter(|l| **l).count();
            prop_assert_eq!(late.within(from, from + length), counted as u64);
        }
    }
}
