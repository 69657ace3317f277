//! The peak rate of the drive, as measured (Linux: `bfq_update_peak_rate` and the functions it
//! calls).
//!
//! Rates are in sectors per microsecond, shifted left by 16 bits. An observation lasts for about a
//! second. At its end, its rate is mixed into the estimate, with a weight that depends on how long
//! and how sequential the observation was.

use super::idle::SHORT;
use crate::{Instant, Span};

// The values of the next four constants are Linux's `BFQ_RATE_SHIFT`, `BFQ_RATE_MIN_SAMPLES`,
// `BFQ_RATE_MIN_INTERVAL` and `BFQ_RATE_REF_INTERVAL`.
const RATE_SHIFT: u32 = 16;
const MIN_SAMPLES: u32 = 32;
const MIN_INTERVAL: Span = Span::from_millis(300);
const REFERENCE_INTERVAL: Span = Span::from_secs(1);
/// Rates of Linux's reference drives: a rotating one and a flash drive.
const REFERENCE_RATE: [u64; 2] = [14_000, 33_000];
/// The time that starting an application takes on the reference drives (Linux: `ref_wr_duration`).
const REFERENCE_RAISING: [Span; 2] = [Span::from_millis(7_000), Span::from_millis(2_500)];
/// The bounds of the time for which a queue is raised.
const RAISING: [Span; 2] = [Span::from_secs(3), Span::from_secs(25)];
/// The time without requests after which an observation ends, because its rate would be that of the
/// clients and not that of the drive.
const LONG_GAP: Span = Span::from_millis(100);

/// The estimate of the peak rate and the observation in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peak {
    rate: u64,
    /// The index of the reference drive in the tables of references.
    reference: usize,
    samples: u32,
    sequential: u32,
    sectors: u64,
    largest: u64,
    first: Instant,
    last_dispatch: Instant,
    last_completion: Instant,
    interval: Span,
}

impl Peak {
    pub(super) fn new(rotational: bool) -> Self {
        let reference = usize::from(!rotational);
        Self {
            rate: REFERENCE_RATE[reference] * 2 / 3,
            reference,
            samples: 0,
            sequential: 0,
            sectors: 0,
            largest: 0,
            first: Instant::ZERO,
            last_dispatch: Instant::ZERO,
            last_completion: Instant::ZERO,
            interval: Span::ZERO,
        }
    }

    /// Returns the number of sectors that the drive serves at its peak rate in `ms` milliseconds
    /// (Linux: `bfq_calc_max_budget`).
    pub(super) fn sectors_in(&self, ms: u64) -> u64 {
        (self.rate * 1_000 * ms) >> RATE_SHIFT
    }

    /// Returns the peak rate in bytes per second.
    pub(super) fn bytes_a_second(&self) -> u64 {
        ((self.rate * 1_000_000) >> RATE_SHIFT) * 512
    }

    /// Returns the time for which an interactive queue is raised, which is shorter on faster drives
    /// (Linux: `bfq_wr_duration`).
    pub(super) fn raising_time(&self) -> Span {
        let work = REFERENCE_RAISING[self.reference].saturating_mul(REFERENCE_RATE[self.reference]);
        Span::from_nanos(work.as_nanos() / self.rate).clamp(RAISING[0], RAISING[1])
    }

    /// Returns the instant of the last completion.
    pub(super) fn last_completion(&self) -> Instant {
        self.last_completion
    }

    /// Observes the dispatch of `sectors` sectors while `in_drive` pieces are in the drive. Returns
    /// true if the estimate changed.
    pub(super) fn on_dispatch(
        &mut self,
        now: Instant,
        sectors: u64,
        seeky: bool,
        in_drive: u32,
    ) -> bool {
        let mut changed = false;
        if self.samples == 0 {
            self.begin(now, sectors);
        } else if in_drive == 0 && now.since(self.last_dispatch) > LONG_GAP {
            changed = self.update();
            self.begin(now, sectors);
        } else {
            self.samples += 1;
            let gapless = in_drive > 0 || now.since(self.last_completion) < SHORT;
            self.sequential += u32::from(gapless && !seeky);
            self.sectors += sectors;
            // The largest request of the last 32, so that one exceptional request does not count
            // for long.
            self.largest = if self.samples.is_multiple_of(32) {
                sectors
            } else {
                self.largest.max(sectors)
            };
            self.interval = now.since(self.first);
            if self.interval >= REFERENCE_INTERVAL {
                changed = self.update();
                self.begin(now, sectors);
            }
        }
        self.last_dispatch = now;
        changed
    }

    /// Observes a completion and returns true if the estimate changed (Linux: in
    /// `bfq_completed_request`).
    ///
    /// If the piece took suspiciously long, the drive was not the limit, and the observation ends
    /// before this piece.
    pub(super) fn on_completion(&mut self, now: Instant) -> bool {
        let ns = now.since(self.last_completion).as_nanos();
        // Late means more than 2 ms in whole microseconds, and a rate below 1/1024 sector per
        // microsecond for the largest request.
        let late = ns >= SHORT.as_nanos() + 1_000
            && (self.largest << RATE_SHIFT) / (ns / 1_000) < 1 << (RATE_SHIFT - 10);
        let changed = late && self.update();
        if late {
            self.samples = 0;
        }
        self.last_completion = now;
        changed
    }

    fn begin(&mut self, now: Instant, sectors: u64) {
        self.samples = 1;
        self.sequential = 0;
        self.sectors = sectors;
        self.largest = sectors;
        self.first = now;
        self.interval = Span::ZERO;
    }

    /// Mixes the observation into the estimate. Returns false if the observation proves nothing
    /// (Linux: `bfq_update_rate_reset`).
    fn update(&mut self) -> bool {
        if self.samples < MIN_SAMPLES || self.interval < MIN_INTERVAL {
            return false;
        }
        let interval = self.interval.max(self.last_completion.since(self.first));
        // The division is safe because the interval is at least 300 ms.
        let rate = (self.sectors << RATE_SHIFT) / (interval.as_nanos() / 1_000);
        let mostly_random = self.sequential < (3 * self.samples) >> 2;
        // A random load can show that the drive is faster than estimated, but not that it is
        // slower. More than 20 sectors per microsecond (10 GB/s) is an error of measurement.
        if (mostly_random && rate <= self.rate) || rate > 20 << RATE_SHIFT {
            return false;
        }
        // The weight of the observation is 0 to 9 by its sequential part, scaled to its length and
        // at most 8. The divisor is therefore at least 2, so the old estimate keeps a part of at
        // least one half.
        let weight = u64::from(9 * self.sequential / self.samples);
        let weight = (weight * interval.as_nanos() / REFERENCE_INTERVAL.as_nanos()).min(8);
        let divisor = 10 - weight;
        // A rate of zero would divide by zero in `raising_time`.
        self.rate = (self.rate * (divisor - 1) / divisor + rate / divisor).max(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a drive that takes `us` microseconds for each request of 256 sectors, one at a time,
    /// for `seconds`. Returns the number of changes of the estimate.
    fn run(peak: &mut Peak, us: u64, seconds: u64, seeky: bool) -> u32 {
        let mut changes = 0;
        let mut now = peak.last_dispatch.as_nanos() / 1_000;
        let end = now + seconds * 1_000_000;
        while now < end {
            changes += u32::from(peak.on_dispatch(Instant::from_nanos(now * 1_000), 256, seeky, 0));
            now += us;
            changes += u32::from(peak.on_completion(Instant::from_nanos(now * 1_000)));
        }
        changes
    }

    #[test]
    fn the_estimate_converges_to_the_drives_sequential_rate() {
        let mut peak = Peak::new(false);
        // The first estimate is 2/3 of the reference rate of 33,000.
        assert_eq!(peak.rate, 22_000);
        assert_eq!(run(&mut peak, 500, 20, false), 19);
        let drive = (256 << RATE_SHIFT) / 500;
        assert!(peak.rate.abs_diff(drive) * 100 <= drive, "{}", peak.rate);
        // 256 sectors in 500 us are 0.512 sectors per microsecond, so 64,000 in 125 ms.
        assert!(peak.sectors_in(125).abs_diff(64_000) < 700);
    }

    #[test]
    fn an_observation_ends_with_a_gap_of_more_than_a_tenth_of_a_second() {
        let samples = |gap: Span| {
            let mut peak = Peak::new(false);
            peak.on_dispatch(Instant::ZERO, 8, false, 0);
            peak.on_dispatch(Instant::ZERO + gap, 8, false, 0);
            peak.samples
        };
        assert_eq!(samples(LONG_GAP), 2);
        assert_eq!(samples(LONG_GAP + Span::from_nanos(1)), 1);
    }

    #[test]
    fn random_traffic_never_lowers_the_estimate() {
        let mut peak = Peak::new(false);
        assert_eq!(run(&mut peak, 1_900, 5, true), 0);
        assert_eq!(peak.rate, 22_000);
    }

    #[test]
    fn raising_is_shorter_on_faster_drives() {
        let mut peak = Peak::new(true);
        // The first estimate is 2/3 of the reference rate, so the time is 3/2 of the 7 s of the
        // reference drive. On flash it is 3/2 of 2.5 s.
        assert_eq!(peak.raising_time().as_nanos() / 1_000_000, 10_500);
        peak.rate = 100;
        assert_eq!(peak.raising_time(), Span::from_secs(25));
        let peak = Peak::new(false);
        assert_eq!(peak.raising_time().as_nanos() / 1_000_000, 3_750);
    }

    /// Linux's condition is a time above 2 ms and a rate below 1/1024 sector per microsecond.
    #[test]
    fn a_piece_that_takes_suspiciously_long_ends_the_observation() {
        let ends = |sectors, us: u64| {
            let mut peak = Peak::new(true);
            let begin = Instant::ZERO + Span::from_secs(1);
            peak.on_completion(begin);
            peak.on_dispatch(begin, sectors, false, 0);
            peak.on_completion(begin + Span::from_micros(us));
            peak.samples == 0
        };
        assert_eq!([ends(1, 2_000), ends(1, 2_001)], [false, true]);
        assert_eq!([ends(8, 8_192), ends(8, 8_193)], [false, true]);
    }

    #[test]
    fn a_gap_ends_the_observation() {
        let mut peak = Peak::new(true);
        run(&mut peak, 500, 1, false);
        let before = peak.rate;
        let later = peak.last_dispatch + Span::from_millis(500);
        assert!(
            peak.on_dispatch(later, 8, false, 0),
            "the interval was long enough to count"
        );
        assert!(peak.rate > before);
        assert_eq!((peak.samples, peak.sectors), (1, 8));
    }
}
