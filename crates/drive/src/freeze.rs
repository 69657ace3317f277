//! A drive that now and then serves nothing for a while, as flash does that cleans up or a disk that reads a bad sector again and again.

use crate::{Busy, Drive, Ended};
use alloc::boxed::Box;
use weir_core::{Dispatch, DriveShape, Instant, Span};

/// When a drive serves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Freeze {
    /// When it freezes for the first time.
    pub first: Span,
    /// For how long, each time: at least 1 ns and less than `every`.
    pub length: Span,
    /// From the beginning of one freeze to the beginning of the next.
    pub every: Span,
}

impl Freeze {
    /// Whether a freeze is shorter than the time from one to the next, as it has to be, and not nothing.
    pub fn is_valid(&self) -> bool {
        Span::ZERO < self.length && self.length < self.every
    }

    /// Whether some part of the time from `from` to before `to` is frozen.
    pub fn overlaps(&self, from: Instant, to: Instant) -> bool {
        self.thawed(to) - self.thawed(from) < to.since(from).as_nanos()
    }

    /// The time of the drive beneath, which stands still while it is frozen: how long, in nanoseconds, it has not been by `now`.
    fn thawed(&self, now: Instant) -> u64 {
        let now = now.as_nanos();
        let Some(since) = now.checked_sub(self.first.as_nanos()) else {
            return now;
        };
        let (every, length) = (self.every.as_nanos(), self.length.as_nanos());
        let within = (since % every).min(length);
        now - since / every * length - within
    }

    /// When the drive beneath is where it is after so many nanoseconds: at the end of a freeze, if that is where it stands still.
    fn outside(&self, thawed: u64) -> Instant {
        let Some(since) = thawed.checked_sub(self.first.as_nanos()) else {
            return Instant::from_nanos(thawed);
        };
        let (every, length) = (self.every.as_nanos(), self.length.as_nanos());
        let freezes = since / (every - length) + 1;
        Instant::from_nanos(thawed.saturating_add(freezes.saturating_mul(length)))
    }
}

/// A drive whose clock stands still while it is frozen: what is under way ends so much later, what arrives begins when the freeze is
/// over, and nothing ends meanwhile.
#[derive(Debug)]
pub struct Freezing {
    drive: Box<dyn Drive>,
    freeze: Freeze,
}

impl Freezing {
    /// `drive`, which freezes so.
    ///
    /// # Panics
    /// If the freeze is not [valid](Freeze::is_valid).
    pub fn new(drive: Box<dyn Drive>, freeze: Freeze) -> Self {
        assert!(
            freeze.is_valid(),
            "a freeze ends before the next one begins"
        );
        Self { drive, freeze }
    }

    fn inside(&self, now: Instant) -> Instant {
        Instant::from_nanos(self.freeze.thawed(now))
    }

    fn outside(&self, thawed: Instant) -> Instant {
        self.freeze.outside(thawed.as_nanos())
    }
}

impl Drive for Freezing {
    fn submit(&mut self, now: Instant, command: &Dispatch) -> Result<(), Busy> {
        self.drive.submit(self.inside(now), command)
    }

    fn next_completion(&self) -> Option<Instant> {
        self.drive.next_completion().map(|at| self.outside(at))
    }

    fn pop(&mut self, now: Instant) -> Option<Ended> {
        self.next_completion().filter(|at| *at <= now)?;
        let ended = self.drive.pop(self.inside(now))?;
        Some(Ended {
            at: self.outside(ended.at),
            began: self.outside(ended.began),
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
    use crate::testing::{Client, Load, command};
    use crate::{Config, null};
    use weir_core::Op;

    const FREEZE: Freeze = Freeze {
        first: Span::from_millis(30),
        length: Span::from_millis(40),
        every: Span::from_millis(100),
    };

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Span::from_micros(micros)
    }

    /// A service of 10 ms, 32 at a time, and no link.
    fn drive() -> Freezing {
        let config = null::Config {
            service: Span::from_millis(10),
            link: 0,
            ..null::Config::demo()
        };
        Freezing::new(Box::new(config.build().unwrap()), FREEZE)
    }

    #[test]
    fn times_inside_and_outside_are_each_others_inverse() {
        for ms in (0..700).filter(|ms| !(30..70).contains(&(ms % 100))) {
            let now = at(ms * 1000);
            assert_eq!(FREEZE.outside(FREEZE.thawed(now)), now, "{ms} ms");
        }
        assert_eq!(FREEZE.thawed(at(350_000)), 30_000_000 + 3 * 60_000_000);
    }

    #[test]
    fn what_overlaps_a_freeze() {
        let overlaps = |from: u64, to: u64| FREEZE.overlaps(at(from * 1000), at(to * 1000));
        assert!(!overlaps(0, 30) && !overlaps(70, 130));
        assert!(overlaps(0, 31) && overlaps(69, 70) && overlaps(40, 50) && overlaps(0, 500));
    }

    #[test]
    fn what_is_under_way_ends_later_and_nothing_begins_meanwhile() {
        let mut drive = drive();
        // Ends before, would end within, arrives within.
        for (tag, micros) in [(0, 15_000), (1, 25_000), (2, 50_000)] {
            let mut command = command();
            command.tag = weir_core::Tag(tag);
            drive.submit(at(micros), &command).unwrap();
        }
        let mut ends = std::vec::Vec::new();
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
    fn it_serves_in_the_time_that_is_left() {
        let boxed = |freeze| -> Box<dyn Drive> {
            let drive = Config::Ssd(crate::ssd::Config::generic()).build().unwrap();
            match freeze {
                Some(freeze) => Box::new(Freezing::new(drive, freeze)),
                None => drive,
            }
        };
        let rate = |freeze| {
            let mut clients = [Client::random(Op::Read, 4096, 16)];
            let mut load = Load::new(boxed(freeze), 1 << 30);
            let (results, elapsed) = load.run(&mut clients, Span::from_secs(1));
            (results[0].rate(elapsed), results[0].longest)
        };
        let ((free, _), (frozen, longest)) = (rate(None), rate(Some(FREEZE)));
        let part = frozen as u128 * 1000 / free as u128;
        assert!((595..=605).contains(&part), "{part} thousandths");
        assert!(longest > FREEZE.length);
    }
}
