//! A client program as data.

use weir_core::rule::{self, Broken, Rule};
use weir_core::{Instant, Span, rules};

/// A client: its requests, its queue depth, its rate, and its duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Program {
    /// Which offsets in its region it accesses.
    pub pattern: Pattern,
    /// Percentage of writes among its requests, flushes not counted: 0 to 100. The others are reads.
    pub writes: u8,
    /// Whether writes must be durable when they complete ([`Flags::FUA`](weir_core::Flags::FUA)).
    pub fua: bool,
    /// Whether and how it makes earlier writes durable.
    pub sync: SyncMode,
    /// Which parts of its region it skips. `None`: none.
    pub zones: Option<Zones>,
    /// Files of equal length that its region is divided into: 1 to 1024. Its requests go to the files in turn, and each file has a
    /// position of its own.
    pub files: u32,
    /// Length of a request in bytes.
    pub size: Size,
    /// Queue depth: the maximum number of outstanding requests, 1 to 65536.
    pub depth: u32,
    /// When a request is due.
    pub arrival: Arrival,
    /// In a closed loop, completions that are followed by think time once: 1 to 65536.
    pub think_every: u32,
    /// When it is active and when it pauses. `None`: it never pauses.
    pub activity: Option<Activity>,
    /// When it starts, after the origin of its time.
    pub start: Span,
    /// Upper bound of a delay of its start and its stop, drawn once for each run.
    pub start_spread: Span,
    /// When it stops issuing, after the same origin. `None`: never.
    pub stop: Option<Span>,
    /// Total number of requests, flushes included. `None`: unlimited.
    pub requests: Option<u64>,
}

/// The order of offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// One after the other from the start of the region, and again from there after its end.
    Sequential,
    /// Uniformly random.
    Random,
    /// As [`Pattern::Random`], but each offset once before any is drawn again, as `fio` does with its map. If sizes vary, the
    /// offsets are those that the largest request can have.
    Shuffled,
    /// Offsets of unequal popularity, scattered over the region.
    Skewed(Skew),
    /// At random as with [`Pattern::Random`], but for a part of the requests of each kind, which go on where the last of their kind
    /// ended.
    Partly {
        /// Reads in a hundred that are at random: 0 to 100.
        reads: u8,
        /// Writes in a hundred that are at random: 0 to 100.
        writes: u8,
    },
}

/// Which offsets are drawn more often than others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skew {
    /// How much more often.
    pub law: Law,
    /// Where the first rank lies, in millionths of the region: 0 to 1000000. `None`: at its start. The other ranks are scattered all
    /// the same.
    pub center: Option<u32>,
}

/// How popularity falls from rank to rank, as in `fio`. Parameters are in millionths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// The k-th rank has a probability in proportion to 1/k^exponent, with an exponent of 1 to 100000000 millionths.
    Zipf(u32),
    /// Of all requests the part `1 - h` goes to the part `h` of the ranks, and so on within that; 1 to 999999 millionths.
    Pareto(u32),
    /// Ranks around the middle: the mean of twelve random numbers, displaced by up to half of this number of millionths of a percent of all
    /// ranks; 0 to 99999999.
    Normal(u32),
}

impl Pattern {
    /// Zipf's law with the exponent 1.
    pub const ZIPF: Self = Self::Skewed(Skew {
        law: Law::Zipf(1_000_000),
        center: None,
    });
}

/// Parts of a region that are used alternate with parts that are skipped, so that several clients can interleave
/// (`zonemode=strided` of `fio`). With [`Pattern::Sequential`] only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zones {
    /// Bytes used: at least the largest request. A request that does not fit into the rest of a zone goes to the start of the next.
    pub size: u64,
    /// Bytes skipped after them.
    pub skip: u64,
}

/// Active periods that alternate with pauses, from the client's start on.
///
/// During a pause it issues nothing. The clock of an open loop stands still meanwhile, so that nothing becomes due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Activity {
    /// Length of an active period: 1 ns to an hour.
    pub on: Span,
    /// Length of the pause after it: 1 ns to an hour.
    pub off: Span,
}

/// How a client makes its writes durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncMode {
    /// It does not.
    Never,
    /// A flush after every `every` writes (at least 1), issued like any other request.
    Flush(u32),
    /// As a program that calls `fdatasync` after every `every` writes (at least 1): it waits until all its requests have completed,
    /// flushes, and continues when the flush has completed.
    Fdatasync(u32),
}

/// Length of a request in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Always the same, at least 1; offsets are multiples of it.
    Fixed(u32),
    /// From `min` (at least 1) to `max`, each multiple of `step` (at least 1) above `min` equally likely; offsets are multiples of
    /// `step`.
    Range {
        /// The minimum.
        min: u32,
        /// The maximum.
        max: u32,
        /// The granularity of sizes and of offsets.
        step: u32,
    },
    /// One of a few sizes with given frequencies; offsets are multiples of the smallest.
    Split(Split),
}

/// Sizes of requests and their frequencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Split {
    // Apart, for programs are passed by value.
    sizes: [u32; Self::MOST],
    percents: [u8; Self::MOST],
    count: u8,
}

impl Split {
    /// The maximum number of sizes.
    pub const MOST: usize = 12;

    /// Sizes (at least 1 byte) with their percentages, whose sum must be 100. `None` if they are anything else, or more than
    /// [`Self::MOST`].
    pub fn new(parts: &[(u32, u8)]) -> Option<Self> {
        let whole: u32 = parts.iter().map(|p| u32::from(p.1)).sum();
        if parts.len() > Self::MOST || whole != 100 || parts.iter().any(|p| p.0 == 0) {
            return None;
        }
        let mut split = Self {
            sizes: [0; Self::MOST],
            percents: [0; Self::MOST],
            count: parts.len() as u8,
        };
        for (at, part) in parts.iter().enumerate() {
            (split.sizes[at], split.percents[at]) = *part;
        }
        Some(split)
    }

    /// Its sizes with their percentages, in the given order.
    pub fn parts(&self) -> impl Iterator<Item = (u32, u8)> + '_ {
        let all = self.sizes.into_iter().zip(self.percents);
        all.take(self.count.into())
    }

    /// The size at `percent` (0 to 99) of all requests.
    pub(crate) fn at(&self, percent: u64) -> u32 {
        let mut left = percent;
        for (size, part) in self.parts() {
            if left < part.into() {
                return size;
            }
            left -= u64::from(part);
        }
        self.sizes[0]
    }
}

/// When requests are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Closed loop: each of `depth` requests is issued again `think` (at most an hour) after its previous completion.
    Closed {
        /// Think time: from a completion to the next request.
        think: Span,
    },
    /// Closed loop in batches: once `depth` requests are outstanding none is issued until no more than `low` (less than `depth`) are;
    /// then again up to `depth`.
    Batches {
        /// Requests outstanding at which it goes on.
        low: u32,
    },
    /// Open loop: one request every `interval` (1 ns to an hour), whatever the completions. A request that is due while `depth`
    /// requests are outstanding is issued later; its latency counts from when it was due.
    Even {
        /// Time from one request to the next.
        interval: Span,
    },
    /// Open loop as [`Arrival::Even`], but with exponentially distributed intervals.
    Poisson {
        /// Mean time from one request to the next.
        interval: Span,
    },
    /// Open loops of reads and of writes apart, as `fio` has them: each kind has the requests of its own interval (1 ns to an hour), and
    /// both share the queue depth. A kind without an interval is issued as soon as there is room. Of the kinds that can be issued, the
    /// percentage of writes decides. For a program that both reads and writes.
    Apart {
        /// Time from one read to the next.
        reads: Option<Span>,
        /// Time from one write to the next.
        writes: Option<Span>,
        /// Whether the intervals are exponentially distributed with these means, otherwise equal.
        poisson: bool,
    },
}

/// The part of the address space that a client uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Offset of its first byte.
    pub start: u64,
    /// Its length in bytes: at least the largest request.
    pub length: u64,
}

impl Region {
    /// The `length` bytes from `start` on.
    pub const fn new(start: u64, length: u64) -> Self {
        Self { start, length }
    }
}

const HOUR: Span = Span::from_secs(3_600);

/// The permitted lengths of active periods and pauses.
const BETWEEN: &str = "1 ns to an hour (3600000000000 ns)";

impl Program {
    /// Whether it reads, whether it writes, and whether it flushes.
    pub fn kinds(&self) -> [bool; 3] {
        let flushes = self.sync != SyncMode::Never && self.writes > 0;
        [self.writes < 100, self.writes > 0, flushes]
    }

    /// The first instant that no longer belongs to a client of this program, if that is not after `now`. The last request of the client
    /// completed at `answered`. A client that `is_complete` has issued its number of requests, and its time ends with that reply. Otherwise the
    /// time ends at the program's stop, or with that reply if the reply is later.
    pub fn end(&self, is_complete: bool, answered: Instant, now: Instant) -> Option<Instant> {
        let replied = answered + Span::from_nanos(1);
        if is_complete {
            return Some(replied);
        }
        let stop = self.stop.map(|stop| Instant::ZERO + stop);
        let stopped = stop.filter(|stop| *stop <= now);
        stopped.map(|stop| stop.max(replied))
    }

    /// Random reads of `size` bytes with a queue depth of `depth`, without end.
    pub const fn random_reads(size: u32, depth: u32) -> Self {
        Self {
            pattern: Pattern::Random,
            zones: None,
            files: 1,
            writes: 0,
            fua: false,
            sync: SyncMode::Never,
            size: Size::Fixed(size),
            depth,
            arrival: Arrival::Closed { think: Span::ZERO },
            think_every: 1,
            activity: None,
            start: Span::ZERO,
            start_spread: Span::ZERO,
            stop: None,
            requests: None,
        }
    }

    /// Sequential reads of `size` bytes with a queue depth of `depth`, without end.
    pub const fn sequential_reads(size: u32, depth: u32) -> Self {
        Self {
            pattern: Pattern::Sequential,
            ..Self::random_reads(size, depth)
        }
    }

    /// Checks every parameter, and that the largest request fits into `region`.
    ///
    /// # Errors
    /// The first parameter outside the range that its documentation states.
    pub fn validate(&self, region: Region) -> Result<(), Broken> {
        let (min, max, step) = self.size.bounds();
        let every = match self.sync {
            SyncMode::Never => 1,
            SyncMode::Flush(n) | SyncMode::Fdatasync(n) => n,
        };
        let (arrival, time, least) = match self.arrival {
            Arrival::Closed { think } => ("think", think, Span::ZERO),
            Arrival::Batches { .. } => ("think", Span::ZERO, Span::ZERO),
            Arrival::Even { interval } | Arrival::Poisson { interval } => {
                ("interval", interval, Span::from_nanos(1))
            }
            Arrival::Apart { reads, writes, .. } => {
                let mut both = [reads, writes].into_iter().flatten();
                let some = Span::from_nanos(1);
                let wrong = |span: &Span| !(some..=HOUR).contains(span);
                ("interval", both.find(wrong).unwrap_or(some), some)
            }
        };
        let file = region.length / u64::from(self.files.max(1));
        let place = region.start.checked_add(region.length);
        rule::check(self.rules_of_place_and_time(max))?;
        rule::check(self.rules_of_choice())?;
        rule::check(rules! {
            "writes", self.writes, 0..=100, "0 to 100";
            "sync", every, every >= 1, "at least 1 write";
            "size.min", min, min >= 1, "at least 1 byte";
            "size.step", step, step >= 1, "at least 1 byte";
            "size.max", max, max >= min, "at least size.min";
            "depth", self.depth, 1..=65_536, "1 to 65536";
            arrival, time, (least..=HOUR).contains(&time),
                "at most an hour (3600000000000 ns); an interval at least 1 ns";
            "region.length", region.length, file >= u64::from(max) && place.is_some(),
                "at least the largest request for each file, and end below 2^64";
        })
    }
}

impl Program {
    /// The rules for places at random, and for batches.
    fn rules_of_choice(&self) -> [Rule; 4] {
        let skew = match self.pattern {
            Pattern::Skewed(skew) => Some(skew),
            _ => None,
        };
        let (name, value, range) = match skew.map(|skew| skew.law) {
            None => ("skew", 0, 0..=0),
            Some(Law::Zipf(exponent)) => ("skew.zipf", exponent, 1..=100_000_000),
            Some(Law::Pareto(h)) => ("skew.pareto", h, 1..=999_999),
            Some(Law::Normal(deviation)) => ("skew.normal", deviation, 0..=99_999_999),
        };
        let center = skew.and_then(|skew| skew.center).unwrap_or(0);
        let random = match self.pattern {
            Pattern::Partly { reads, writes } => reads.max(writes),
            _ => 100,
        };
        let low = match self.arrival {
            Arrival::Batches { low } => low,
            _ => 0,
        };
        rules! {
            name, value, range,
                "an exponent of zipf up to 100, h of pareto between 0 and 1, or a deviation of normal of 0 to below 100, in millionths";
            "skew.center", center, 0..=1_000_000, "0 to 1, in millionths";
            "pattern.random", random, 0..=100, "0 to 100";
            "arrival.low", low, low == 0 || low < self.depth, "less than the depth";
        }
    }

    /// The rules for files, zones and activity, with requests of up to `most` bytes.
    fn rules_of_place_and_time(&self, most: u32) -> [Rule; 7] {
        let zone = self.zones.map_or(u64::MAX, |z| z.size);
        let works = self.activity.map_or(HOUR, |a| a.on);
        let rests = self.activity.map_or(HOUR, |a| a.off);
        let some = Span::from_nanos(1)..=HOUR;
        let unzoned = self.zones.is_none() || self.pattern == Pattern::Sequential;
        rules! {
            "files", self.files, 1..=1_024, "1 to 1024";
            "think_every", self.think_every, 1..=65_536, "1 to 65536";
            "zones.size", zone, zone >= u64::from(most), "at least the largest request";
            "zones.size", zone, unzoned, "left out unless the pattern is sequential";
            "start_spread", self.start_spread, 0..=HOUR.as_nanos(), "at most an hour (3600000000000 ns)";
            "activity.on", works, some.contains(&works), BETWEEN;
            "activity.off", rests, some.contains(&rests), BETWEEN;
        }
    }
}

impl Size {
    /// The smallest size.
    pub fn least(&self) -> u32 {
        match self {
            Self::Fixed(size) | Self::Range { min: size, .. } => *size,
            Self::Split(split) => split.parts().map(|p| p.0).min().unwrap_or(0),
        }
    }

    /// The largest size.
    pub fn most(&self) -> u32 {
        match self {
            Self::Fixed(size) | Self::Range { max: size, .. } => *size,
            Self::Split(split) => split.parts().map(|p| p.0).max().unwrap_or(0),
        }
    }

    /// Minimum, maximum and granularity.
    pub(crate) fn bounds(&self) -> (u32, u32, u32) {
        match *self {
            Self::Fixed(size) => (size, size, size),
            Self::Range { min, max, step } => (min, max, step),
            Self::Split(_) => {
                let (least, most) = (self.least(), self.most());
                (least, most, least)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: Region = Region::new(0, 1 << 20);

    type Spoil = fn(&mut Program);

    #[test]
    fn every_bound_is_checked() {
        const fn activity(on: u64, off: u64) -> Activity {
            Activity {
                on: Span::from_nanos(on),
                off: Span::from_nanos(off),
            }
        }
        const fn range(min: u32, max: u32, step: u32) -> Size {
            Size::Range { min, max, step }
        }
        let bad: [(&str, Spoil); 22] = [
            ("writes", |p| p.writes = 101),
            ("sync", |p| p.sync = SyncMode::Flush(0)),
            ("sync", |p| p.sync = SyncMode::Fdatasync(0)),
            ("size.min", |p| p.size = Size::Fixed(0)),
            ("size.min", |p| p.size = range(0, 4096, 512)),
            ("size.step", |p| p.size = range(512, 4096, 0)),
            ("size.max", |p| p.size = range(4096, 512, 512)),
            ("depth", |p| p.depth = 0),
            ("depth", |p| p.depth = 65_537),
            ("think", |p| {
                let think = Span::from_secs(3_601);
                p.arrival = Arrival::Closed { think };
            }),
            ("interval", |p| {
                let interval = Span::ZERO;
                p.arrival = Arrival::Even { interval };
            }),
            ("interval", |p| {
                p.arrival = Arrival::Apart {
                    reads: Some(Span::from_millis(1)),
                    writes: Some(Span::ZERO),
                    poisson: false,
                };
            }),
            ("region.length", |p| p.size = Size::Fixed(2 << 20)),
            ("think_every", |p| p.think_every = 0),
            ("think_every", |p| p.think_every = 65_537),
            ("files", |p| p.files = 0),
            ("files", |p| p.files = 1_025),
            ("region.length", |p| p.files = 512),
            ("zones.size", |p| {
                p.zones = Some(Zones {
                    size: 8192,
                    skip: 0,
                });
            }),
            ("zones.size", |p| {
                p.pattern = Pattern::Sequential;
                p.zones = Some(Zones {
                    size: 4095,
                    skip: 0,
                });
            }),
            ("activity.on", |p| p.activity = Some(activity(0, 1))),
            ("activity.off", |p| {
                p.activity = Some(activity(1, 3_601_000_000_000));
            }),
        ];
        let good = Program::random_reads(4096, 1);
        assert_eq!(good.validate(REGION), Ok(()));
        for (key, spoil) in bad {
            let mut program = good;
            spoil(&mut program);
            assert_eq!(program.validate(REGION).map_err(|e| e.field), Err(key));
        }
        let beyond = Region::new(u64::MAX, 4096);
        assert!(good.validate(beyond).is_err());
    }

    #[test]
    fn the_bounds_of_places_at_random_and_of_batches_are_checked() {
        const fn skewed(law: Law, center: u32) -> Pattern {
            let center = Some(center);
            Pattern::Skewed(Skew { law, center })
        }
        let bad: [(&str, Spoil); 8] = [
            ("skew.zipf", |p| p.pattern = skewed(Law::Zipf(0), 0)),
            ("skew.zipf", |p| {
                p.pattern = skewed(Law::Zipf(100_000_001), 0);
            }),
            ("skew.pareto", |p| p.pattern = skewed(Law::Pareto(0), 0)),
            ("skew.pareto", |p| {
                p.pattern = skewed(Law::Pareto(1_000_000), 0);
            }),
            ("skew.normal", |p| {
                p.pattern = skewed(Law::Normal(100_000_000), 0);
            }),
            ("skew.center", |p| {
                p.pattern = skewed(Law::Normal(0), 1_000_001);
            }),
            ("pattern.random", |p| {
                p.pattern = Pattern::Partly {
                    reads: 0,
                    writes: 101,
                };
            }),
            ("arrival.low", |p| p.arrival = Arrival::Batches { low: 1 }),
        ];
        for (key, spoil) in bad {
            let mut program = Program::random_reads(4096, 1);
            spoil(&mut program);
            assert_eq!(program.validate(REGION).map_err(|e| e.field), Err(key));
        }
    }

    #[test]
    fn a_split_is_of_a_hundred() {
        let split = Split::new(&[(4096, 60), (512, 30), (65_536, 10)]).unwrap();
        assert_eq!(
            [0, 59, 60, 89, 90, 99].map(|n| split.at(n)),
            [4096, 4096, 512, 512, 65_536, 65_536]
        );
        assert_eq!(Size::Split(split).bounds(), (512, 65_536, 512));
        assert_eq!(Split::new(&[]), None);
        assert_eq!(Split::new(&[(4096, 99)]), None);
        assert_eq!(Split::new(&[(0, 100)]), None);
        assert_eq!(Split::new(&[(1, 5); 17]), None);
    }

    #[test]
    fn an_error_says_what_where_and_what_is_allowed() {
        let program = Program {
            depth: 0,
            ..Program::random_reads(4096, 1)
        };
        let error = program.validate(REGION).unwrap_err();
        assert_eq!(ToString::to_string(&error), "depth = 0: must be 1 to 65536");
    }
}
