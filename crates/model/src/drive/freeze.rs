//! A drive that stops serving from time to time, as flash does during cleaning or a disk while it
//! retries a bad sector.

use crate::drive::{DriveModel, QueueFull, TimedCompletion};
use weir_core::random::SplitMix;
use weir_core::{Dispatch, DriveShape, Instant, Span};

/// Times in which a drive serves nothing, one in each period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Freeze {
    /// The start of the first period. Without `seed`, it is also the start of the first freeze.
    pub first: Span,
    /// The length of each freeze: at least 1 ns and less than `every`.
    pub length: Span,
    /// The length of a period.
    pub every: Span,
    /// The seed of the position of each freeze in its period, which is drawn from a uniform
    /// distribution. `None` if each freeze is at the start of its period.
    pub seed: Option<u64>,
}

impl Freeze {
    /// Returns true if a freeze is longer than zero and shorter than the time from one freeze to
    /// the next.
    pub fn is_valid(&self) -> bool {
        Span::ZERO < self.length && self.length < self.every
    }

    /// Returns true if any part of the time from `from` up to, but not including, `to` is frozen.
    pub fn overlaps(&self, from: Instant, to: Instant) -> bool {
        self.inner_time(to) - self.inner_time(from) < to.since(from).as_nanos()
    }

    /// Converts `now` to the inner drive's time, which does not advance during a freeze: the
    /// nanoseconds before `now` that were not frozen.
    fn inner_time(&self, now: Instant) -> u64 {
        let now = now.as_nanos();
        let Some(since) = now.checked_sub(self.first.as_nanos()) else {
            return now;
        };
        let (every, length) = (self.every.as_nanos(), self.length.as_nanos());
        let period = since / every;
        // In the middle of a freeze, only the part that has passed is subtracted.
        let passed = (since % every).saturating_sub(self.start(period));
        now - period * length - passed.min(length)
    }

    /// Converts the inner drive's time to outer time. An inner time at which the inner clock is
    /// frozen becomes the end of that freeze.
    fn outer_time(&self, inner: u64) -> Instant {
        let Some(since) = inner.checked_sub(self.first.as_nanos()) else {
            return Instant::from_nanos(inner);
        };
        let (every, length) = (self.every.as_nanos(), self.length.as_nanos());
        let served = every - length;
        let period = since / served;
        let freezes = period + u64::from(since % served >= self.start(period));
        // Saturates, because a time beyond 64 bits of nanoseconds never comes.
        Instant::from_nanos(inner.saturating_add(freezes.saturating_mul(length)))
    }

    /// The time from the start of a period to the start of its freeze, in nanoseconds. A function
    /// of the period's number needs no state, so that any time can be converted in any order.
    fn start(&self, period: u64) -> u64 {
        let Some(seed) = self.seed else { return 0 };
        let served = self.every.as_nanos() - self.length.as_nanos();
        SplitMix::new(seed ^ period).next_u64() % served
    }
}

/// A drive whose clock does not advance while it is frozen.
///
/// Commands in flight end later by the length of the freeze, commands that arrive during a freeze
/// start after it, and nothing completes during it.
#[derive(Debug)]
pub struct Freezing {
    drive: Box<dyn DriveModel>,
    freeze: Freeze,
}

impl Freezing {
    /// Wraps `drive` so that it freezes at the times of `freeze`.
    ///
    /// # Panics
    /// If the freeze is not [valid](Freeze::is_valid).
    pub fn new(drive: Box<dyn DriveModel>, freeze: Freeze) -> Self {
        assert!(
            freeze.is_valid(),
            "a freeze ends before the next one begins"
        );
        Self { drive, freeze }
    }

    fn inner_now(&self, now: Instant) -> Instant {
        Instant::from_nanos(self.freeze.inner_time(now))
    }

    fn outer_time(&self, inner: Instant) -> Instant {
        self.freeze.outer_time(inner.as_nanos())
    }
}

impl DriveModel for Freezing {
    fn submit(&mut self, now: Instant, command: &Dispatch) -> Result<(), QueueFull> {
        self.drive.submit(self.inner_now(now), command)
    }

    fn next_completion(&self) -> Option<Instant> {
        self.drive.next_completion().map(|at| self.outer_time(at))
    }

    fn pop(&mut self, now: Instant) -> Option<TimedCompletion> {
        // The inner clock has the same value during the whole freeze. Without this check, a command
        // that ends at the end of a freeze would be reported at its beginning.
        self.next_completion().filter(|at| *at <= now)?;
        let ended = self.drive.pop(self.inner_now(now))?;
        Some(TimedCompletion {
            at: self.outer_time(ended.at),
            began: self.outer_time(ended.began),
            ..ended
        })
    }

    fn in_flight(&self) -> u32 {
        self.drive.in_flight()
    }

    fn shape(&self) -> DriveShape {
        self.drive.shape()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::testing::{ClosedLoop, LoopClient, command};
    use crate::drive::{DriveConfig, null};
    use weir_core::Op;

    const FREEZE: Freeze = Freeze {
        first: Span::from_millis(30),
        length: Span::from_millis(40),
        every: Span::from_millis(100),
        seed: None,
    };

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Span::from_micros(micros)
    }

    /// A drive with 10 ms of service time, 32 tags and no link.
    fn drive() -> Freezing {
        let config = null::NullConfig {
            service: Span::from_millis(10),
            link: 0,
            ..null::NullConfig::demo()
        };
        Freezing::new(Box::new(config.build().unwrap()), FREEZE)
    }

    #[test]
    fn times_inside_and_outside_are_each_others_inverse() {
        for ms in (0..700).filter(|ms| !(30..70).contains(&(ms % 100))) {
            let now = at(ms * 1000);
            assert_eq!(FREEZE.outer_time(FREEZE.inner_time(now)), now, "{ms} ms");
        }
        // At 350 ms, three whole freezes have passed and the fourth has lasted for 20 ms: 30 ms + 3
        // × 60 ms.
        assert_eq!(FREEZE.inner_time(at(350_000)), 30_000_000 + 3 * 60_000_000);
    }

    #[test]
    fn each_period_has_one_freeze_at_a_time_that_depends_on_the_seed() {
        let starts = |seed| -> Vec<u64> {
            let freeze = Freeze {
                seed: Some(seed),
                ..FREEZE
            };
            // A millisecond is frozen if the inner clock has not advanced after it.
            let frozen = |ms: u64| {
                let inner = |ms: u64| freeze.inner_time(at(ms * 1000));
                inner(ms) == inner(ms + 1)
            };
            let periods = (0..50).map(|period| 30 + period * 100);
            periods
                .map(|from| {
                    let mut all = (from..from + 100).filter(|&ms| frozen(ms));
                    let start = all.next().unwrap();
                    // 40 ms are frozen. They begin within a millisecond, so that 39 of the others
                    // are frozen as a whole.
                    assert!((38..=39).contains(&all.count()), "{start}");
                    let thawed = at((start + 41) * 1000);
                    assert_eq!(freeze.outer_time(freeze.inner_time(thawed)), thawed);
                    start - from
                })
                .collect()
        };
        let (one, other) = (starts(1), starts(2));
        assert!(one == starts(1) && one != other);
        assert!(one.iter().any(|s| *s < 10) && one.iter().any(|s| *s > 50));
        assert_eq!(FREEZE.start(3), 0);
    }

    #[test]
    fn any_frozen_part_counts_as_an_overlap() {
        let overlaps = |from: u64, to: u64| FREEZE.overlaps(at(from * 1000), at(to * 1000));
        assert!(!overlaps(0, 30) && !overlaps(70, 130));
        assert!(overlaps(0, 31) && overlaps(69, 70) && overlaps(40, 50) && overlaps(0, 500));
    }

    #[test]
    fn commands_in_flight_end_later_and_none_begins_during_a_freeze() {
        let mut drive = drive();
        // The first command ends before the freeze, the second would end during it, and the third
        // arrives during it.
        for (tag, micros) in [(0, 15_000), (1, 25_000), (2, 50_000)] {
            let mut command = command();
            command.tag = weir_core::Tag(tag);
            drive.submit(at(micros), &command).unwrap();
        }
        let mut ends = Vec::new();
        assert!(drive.pop(at(24_999)).is_none());
        while let Some(next) = drive.next_completion() {
            let ended = drive.pop(next).unwrap();
            assert_eq!(ended.at, next);
            ends.push((ended.completion.tag.0, ended.began, ended.at));
        }
        assert_eq!(
            ends,
            [
                (0, at(15_000), at(25_000)),
                (1, at(25_000), at(75_000)),
                (2, at(70_000), at(80_000))
            ]
        );
    }

    #[test]
    fn a_freezing_drive_serves_in_the_remaining_time() {
        let boxed = |freeze| -> Box<dyn DriveModel> {
            let drive = DriveConfig::Ssd(crate::drive::ssd::SsdConfig::generic())
                .build()
                .unwrap();
            match freeze {
                Some(freeze) => Box::new(Freezing::new(drive, freeze)),
                None => drive,
            }
        };
        let rate = |freeze| {
            let mut clients = [LoopClient::random(Op::Read, 4096, 16)];
            let mut load = ClosedLoop::new(boxed(freeze), 1 << 30);
            let (results, elapsed) = load.run(&mut clients, Span::from_secs(1));
            (results[0].rate(elapsed), results[0].longest)
        };
        let ((free, _), (frozen, longest)) = (rate(None), rate(Some(FREEZE)));
        let part = frozen as u128 * 1000 / free as u128;
        // The drive is frozen for 40 of every 100 ms, so 600 of 1000 requests remain.
        assert!((595..=605).contains(&part), "{part} thousandths");
        assert!(longest > FREEZE.length);
    }
}
