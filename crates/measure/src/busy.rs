//! When a client was waiting, and whether a promise was kept then.

use crate::{SECOND_NS, Series, mbps};

/// In which windows a client had a request waiting throughout.
///
/// A promise of so many bytes a second holds in every second in which the client had a request waiting throughout; in
/// all others the client did not ask for what it was promised. Give either [`Busy::enter`] and [`Busy::leave`] for each
/// request, or whole intervals with [`Busy::add`].
///
/// A client that sends its next request when it has the reply of the last is never waiting *throughout* in the strict
/// sense; gaps of at most `gap_ns` are therefore counted as waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    start_ns: u64,
    step_ns: u64,
    gap_ns: u64,
    /// Nanoseconds covered in each window.
    covered: Box<[u64]>,
    /// Where the last interval, gap included, ended.
    until_ns: u64,
    outstanding: u64,
    /// When `outstanding` last rose from 0.
    since_ns: u64,
}

impl Busy {
    /// For the windows of `series`; gaps of at most `gap_ns` nanoseconds between two intervals, and before the first,
    /// are bridged.
    pub fn new(series: &Series, gap_ns: u64) -> Self {
        Self {
            start_ns: series.start_ns(),
            step_ns: series.step_ns(),
            gap_ns,
            covered: vec![0; series.complete(u64::MAX).len()].into_boxed_slice(),
            until_ns: series.start_ns(),
            outstanding: 0,
            since_ns: 0,
        }
    }

    /// A request began to wait at `now_ns`.
    #[inline]
    pub fn enter(&mut self, now_ns: u64) {
        if self.outstanding == 0 {
            self.since_ns = now_ns;
        }
        self.outstanding += 1;
    }

    /// A request that had entered was answered at `now_ns`.
    #[inline]
    pub fn leave(&mut self, now_ns: u64) {
        let was_waiting = self.outstanding > 0;
        self.outstanding = self.outstanding.saturating_sub(1);
        if was_waiting && self.outstanding == 0 {
            self.add(self.since_ns, now_ns);
        }
    }

    /// The client was waiting from `from_ns` to `to_ns`. Intervals are given in the order in which they begin; they may
    /// overlap.
    pub fn add(&mut self, from_ns: u64, to_ns: u64) {
        let from = self.bridged(from_ns);
        if to_ns <= from {
            return;
        }
        self.until_ns = to_ns;
        let first = (from - self.start_ns) / self.step_ns;
        for k in first as usize..self.covered.len() {
            let covered = self.overlap(k, from, to_ns);
            if covered == 0 {
                break;
            }
            self.covered[k] += covered;
        }
    }

    /// Whether the client was waiting throughout window `k`, as known at `now_ns`.
    pub fn throughout(&self, k: usize, now_ns: u64) -> bool {
        let Some(covered) = self.covered.get(k) else {
            return false;
        };
        let open = if self.outstanding > 0 {
            self.overlap(k, self.bridged(self.since_ns), now_ns)
        } else {
            0
        };
        covered + open >= self.step_ns
    }

    /// Where an interval that begins at `from_ns` begins once overlaps are cut off and short gaps bridged.
    fn bridged(&self, from_ns: u64) -> u64 {
        if from_ns <= self.until_ns.saturating_add(self.gap_ns) {
            self.until_ns
        } else {
            from_ns
        }
    }

    /// How much of window `k` lies within `from_ns` to `to_ns`.
    fn overlap(&self, k: usize, from_ns: u64, to_ns: u64) -> u64 {
        let begin = self
            .start_ns
            .saturating_add(self.step_ns.saturating_mul(k as u64));
        let end = begin.saturating_add(self.step_ns);
        end.min(to_ns).saturating_sub(begin.max(from_ns))
    }
}

/// How a promise fared in the windows in which it was in force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Complete windows in which the client was waiting throughout.
    pub windows: u64,
    /// Of these, those with at least 99 % of the promise.
    pub met: u64,
    /// The fewest bytes in any of them; 0 where there is none.
    pub worst_bytes: u64,
    /// Length of a window in nanoseconds.
    pub step_ns: u64,
}

impl Judged {
    /// The part (0 to 1) of the windows in which the promise was kept; none where it was never in force.
    pub fn fraction(&self) -> Option<f64> {
        (self.windows > 0).then(|| self.met as f64 / self.windows as f64)
    }

    /// The bandwidth of the worst window, in MB/s; none where the promise was never in force.
    pub fn worst_mbps(&self) -> Option<f64> {
        (self.windows > 0).then(|| mbps(self.worst_bytes, self.step_ns))
    }
}

/// Judges a promise of `min` bytes a second over the windows of `series` complete at `end_ns` in which the client was
/// waiting throughout. A window keeps the promise with at least 99 % of it.
pub fn judge(series: &Series, busy: &Busy, end_ns: u64, min: u64) -> Judged {
    let mut judged = Judged {
        step_ns: series.step_ns(),
        ..Judged::default()
    };
    let wanted = 99 * u128::from(min) * u128::from(series.step_ns());
    for (k, window) in series.complete(end_ns).iter().enumerate() {
        if !busy.throughout(k, end_ns) {
            continue;
        }
        judged.worst_bytes = match judged.windows {
            0 => window.bytes,
            _ => judged.worst_bytes.min(window.bytes),
        };
        judged.windows += 1;
        let got = 100 * u128::from(window.bytes) * u128::from(SECOND_NS);
        judged.met += u64::from(got >= wanted);
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn throughout(busy: &Busy, windows: usize, now: u64) -> Vec<bool> {
        (0..windows).map(|k| busy.throughout(k, now)).collect()
    }

    #[test]
    fn only_windows_covered_from_end_to_end_count() {
        let mut busy = Busy::new(&Series::new(100, 10, 4), 0);
        busy.add(100, 115);
        busy.add(115, 121);
        busy.add(125, 140);
        assert_eq!(throughout(&busy, 5, 140), [true, true, false, true, false]);
    }

    #[test]
    fn short_gaps_are_bridged_and_longer_ones_not() {
        let mut busy = Busy::new(&Series::new(0, 10, 3), 2);
        for (from, to) in [(2, 6), (8, 12), (15, 30)] {
            busy.add(from, to);
        }
        assert_eq!(throughout(&busy, 3, 30), [true, false, true]);
    }

    #[test]
    fn a_request_still_waiting_counts_up_to_now() {
        let mut busy = Busy::new(&Series::new(0, 10, 3), 0);
        busy.enter(0);
        busy.enter(5);
        busy.leave(7);
        assert_eq!(throughout(&busy, 3, 20), [true, true, false]);
        assert_eq!(throughout(&busy, 3, 19), [true, false, false]);
        busy.leave(25);
        busy.leave(26);
        assert_eq!(throughout(&busy, 3, 30), [true, true, false]);
    }

    #[test]
    fn a_promise_is_judged_only_while_the_client_waits() {
        let mut series = Series::new(0, SECOND_NS, 4);
        let mut busy = Busy::new(&series, 0);
        for (second, bytes) in [(0, 990), (1, 989), (2, 0), (3, 2000)] {
            series.add(second * SECOND_NS, bytes);
        }
        busy.add(0, 2 * SECOND_NS);
        busy.add(3 * SECOND_NS, 4 * SECOND_NS);
        let judged = judge(&series, &busy, 4 * SECOND_NS, 1000);
        assert_eq!(
            (judged.windows, judged.met, judged.worst_bytes),
            (3, 2, 989)
        );
        assert_eq!(judged.fraction(), Some(2.0 / 3.0));
        assert_eq!(judged.worst_mbps(), Some(989e-6));
        let never = judge(&series, &Busy::new(&series, 0), 4 * SECOND_NS, 1000);
        assert_eq!((never.fraction(), never.worst_mbps()), (None, None));
    }

    proptest! {
        /// Against a slow model that marks every nanosecond.
        #[test]
        fn coverage_is_that_of_the_marked_nanoseconds(
            start in 0u64..20, step in 1u64..12, gap in 0u64..4,
            mut intervals in prop::collection::vec((0u64..100, 0u64..20), 0..12),
        ) {
            intervals.sort_unstable();
            let windows = 8;
            let mut busy = Busy::new(&Series::new(start, step, windows), gap);
            let mut marked = [false; 200];
            let mut until = start;
            for (from, length) in intervals {
                let to = from + length;
                busy.add(from, to);
                // An answer in no time still shows that the client was there: it bridges, too.
                let from = if from <= until + gap { until } else { from };
                if to <= from { continue; }
                marked[from as usize..to as usize].fill(true);
                until = to;
            }
            for k in 0..windows {
                let begin = start as usize + k * step as usize;
                let want = marked[begin..begin + step as usize].iter().all(|m| *m);
                prop_assert_eq!(busy.throughout(k, 1000), want, "window {}", k);
            }
        }
    }
}
