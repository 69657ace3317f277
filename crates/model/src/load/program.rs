//! The program of a client as data.

use weir_core::rule::{self, Rule, RuleViolation};
use weir_core::{Instant, Span, rules};

/// The description of a client: its requests, queue depth, rate and duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Program {
    /// The order of the offsets that the client accesses in its region.
    pub pattern: Pattern,
    /// The percentage of writes among the requests, without flushes: 0 to 100. The others are
    /// reads.
    pub writes: u8,
    /// True if writes must be durable when they complete ([`Flags::FUA`](weir_core::Flags::FUA)).
    pub fua: bool,
    /// The way in which the client makes earlier writes durable, if it does.
    pub sync: SyncMode,
    /// The parts of the region that the client skips, or `None` to use all of it.
    pub zones: Option<Zones>,
    /// The number of files of equal length into which the region is divided: 1 to 1024.
    ///
    /// The requests go to the files in turn, and each file has its own position.
    pub files: u32,
    /// The length of a request in bytes.
    pub size: Size,
    /// The queue depth, which is the maximum number of outstanding requests: 1 to 65536.
    pub depth: u32,
    /// The times at which requests are due.
    pub arrival: Arrival,
    /// In a closed loop, the number of completions that are followed by one think time: 1 to 65536.
    pub think_every: u32,
    /// The active periods and pauses of the client, or `None` if it never pauses.
    pub activity: Option<Activity>,
    /// The start of the program, after the origin of its time.
    pub start: Span,
    /// The maximum random delay of the start and the stop, which is chosen once for each run.
    pub start_spread: Span,
    /// The time after the same origin at which the client stops issuing. `None` for no stop.
    pub stop: Option<Span>,
    /// The total number of requests, including flushes. `None` for no limit.
    pub requests: Option<u64>,
}

/// The order of the offsets of a program's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// One after the other from the start of the region, and again from there after its end.
    Sequential,
    /// Uniformly random offsets, each independent of the others.
    Random,
    /// Random, but each offset once before any offset is used again, as `fio` does with its random
    /// map.
    ///
    /// If sizes vary, the offsets are those that the largest request can have.
    Shuffled,
    /// Offsets of unequal popularity, scattered over the region.
    Skewed(Skew),
    /// A mixture for each kind of request: random offsets as with [`Pattern::Random`], and offsets
    /// that continue where the last request of the kind ended.
    Partly {
        /// The percentage of reads with random offsets: 0 to 100.
        reads: u8,
        /// The percentage of writes with random offsets: 0 to 100.
        writes: u8,
    },
}

/// The popularity of offsets, some of which are used more often than others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skew {
    /// The law by which popularity decreases.
    pub law: Law,
    /// The position of the first rank in the region, in millionths: 0 to 1000000. `None` for the
    /// start of the region. The other ranks are scattered in either case.
    pub center: Option<u32>,
}

/// The decrease of popularity from rank to rank, as in `fio`. Parameters are in millionths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// Zipf's law: the k-th rank has a probability in proportion to 1/k^exponent. The exponent is 1
    /// to 100000000 millionths.
    Zipf(u32),
    /// Pareto's law: the part `1 - h` of all requests goes to the part `h` of the ranks, and the
    /// same applies within that part. `h` is 1 to 999999 millionths.
    Pareto(u32),
    /// Ranks around the middle: the mean of twelve random numbers. It is displaced by up to half of
    /// this number, which is in millionths of a percent of all ranks: 0 to 99999999.
    Normal(u32),
}

impl Pattern {
    /// Zipf's law with the exponent 1.
    pub const ZIPF: Self = Self::Skewed(Skew {
        law: Law::Zipf(1_000_000),
        center: None,
    });
}

/// A region in which used parts alternate with skipped ones, so that several clients can interleave
/// (`zonemode=strided` of `fio`).
///
/// Zones are only permitted with [`Pattern::Sequential`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zones {
    /// The number of bytes used: at least the largest request. A request that does not fit into the
    /// rest of a zone goes to the start of the next zone.
    pub size: u64,
    /// The number of bytes skipped after each used part.
    pub skip: u64,
}

/// Active periods that alternate with pauses, from the client's start on.
///
/// During a pause, the client issues nothing. The clock of an open loop does not advance during a
/// pause, so that nothing becomes due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Activity {
    /// The length of an active period: 1 ns to an hour.
    pub on: Span,
    /// The length of the pause after it: 1 ns to an hour.
    pub off: Span,
}

/// The way in which a client makes its writes durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncMode {
    /// The client never flushes its writes.
    Never,
    /// A flush after this number of writes (at least 1), issued like any other request.
    Flush(u32),
    /// An `fdatasync` after this number of writes (at least 1). The client waits until all its
    /// requests have completed, flushes, and continues when the flush has completed.
    Fdatasync(u32),
}

/// The length of a request in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Always the same length, at least 1. Random offsets are multiples of it within each file.
    Fixed(u32),
    /// A length from `min` (at least 1) to `max`: `min` plus a multiple of `step` (at least 1), all
    /// equally likely. Random offsets are multiples of `step` within each file.
    Range {
        /// The minimum length in bytes.
        min: u32,
        /// The maximum length in bytes.
        max: u32,
        /// The granularity of lengths and offsets, in bytes.
        step: u32,
    },
    /// One of a few lengths with given frequencies. Random offsets are multiples of the smallest
    /// length within each file.
    Split(Split),
}

/// Lengths of requests with their frequencies, like `bssplit` of `fio`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Split {
    // Separate arrays are smaller than one array of pairs, and programs are passed by value.
    sizes: [u32; Self::MOST],
    percents: [u8; Self::MOST],
    count: u8,
}

impl Split {
    /// The maximum number of lengths.
    pub const MOST: usize = 12;

    /// Creates a split from lengths (at least 1 byte) with their percentages.
    ///
    /// Returns `None` unless the sum of the percentages is 100, there are at most [`Self::MOST`]
    /// lengths, and no length is zero.
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

    /// The lengths with their percentages, in the given order.
    pub fn parts(&self) -> impl Iterator<Item = (u32, u8)> + '_ {
        let all = self.sizes.into_iter().zip(self.percents);
        all.take(self.count.into())
    }

    /// The length of the request at position `percent` (0 to 99) of all requests.
    pub(crate) fn at(&self, percent: u64) -> u32 {
        let mut left = percent;
        for (size, part) in self.parts() {
            if left < part.into() {
                return size;
            }
            left -= u64::from(part);
        }
        // Not reached: the percentages add up to 100, and `percent` is below that.
        self.sizes[0]
    }
}

/// The times at which requests are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Closed loop: each of `depth` requests is issued again `think` (at most an hour) after its
    /// previous completion.
    Closed {
        /// The think time: the time from a completion to the next request.
        think: Span,
    },
    /// Closed loop in batches: after `depth` requests are outstanding, none is issued until at most
    /// `low` (less than `depth`) are left. Then requests are issued again up to `depth`.
    Batches {
        /// The number of outstanding requests at which the next batch begins.
        low: u32,
    },
    /// Open loop: one request every `interval` (1 ns to an hour), independent of completions.
    ///
    /// A request that is due while `depth` requests are outstanding is issued later. Its latency
    /// counts from the time at which it was due.
    Even {
        /// The time from one request to the next.
        interval: Span,
    },
    /// Open loop as with [`Arrival::Even`], but with exponentially distributed intervals.
    Poisson {
        /// The mean time from one request to the next.
        interval: Span,
    },
    /// Separate open loops of reads and of writes, as in `fio`, for a program with both kinds.
    ///
    /// Each kind has an interval of its own (1 ns to an hour), and both share the queue depth. A
    /// kind without an interval is issued as soon as the depth permits. If both kinds are due, the
    /// percentage of writes decides.
    Apart {
        /// The time from one read to the next.
        reads: Option<Span>,
        /// The time from one write to the next.
        writes: Option<Span>,
        /// True for exponentially distributed intervals with these means, false for equal
        /// intervals.
        poisson: bool,
    },
}

/// The part of the address space that a client uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// The offset of the first byte of the region.
    pub start: u64,
    /// The length of the region in bytes: at least the largest request.
    pub length: u64,
}

impl Region {
    /// Creates the region of `length` bytes from `start` on.
    pub const fn new(start: u64, length: u64) -> Self {
        Self { start, length }
    }
}

const HOUR: Span = Span::from_secs(3_600);

/// The permitted lengths of active periods and pauses, as messages state them.
const BETWEEN: &str = "1 ns to an hour (3600000000000 ns)";

impl Program {
    /// Returns three flags: the program reads, it writes, it flushes.
    pub fn kinds(&self) -> [bool; 3] {
        let flushes = self.sync != SyncMode::Never && self.writes > 0;
        [self.writes < 100, self.writes > 0, flushes]
    }

    /// The first instant after the time of a client with this program, if that is not after `now`.
    ///
    /// The last request of the client completed at `answered`. If `is_complete` is true, the client
    /// has issued its number of requests, and its time ends with that answer. Otherwise the time
    /// ends at the program's stop, or with the last answer if that is later.
    pub fn end(&self, is_complete: bool, answered: Instant, now: Instant) -> Option<Instant> {
        // The instant of the last reply itself still belongs to the client.
        let replied = answered + Span::from_nanos(1);
        if is_complete {
            return Some(replied);
        }
        let stop = self.stop.map(|stop| Instant::ZERO + stop);
        let stopped = stop.filter(|stop| *stop <= now);
        stopped.map(|stop| stop.max(replied))
    }

    /// A program of random reads of `size` bytes with a queue depth of `depth`, without an end.
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

    /// A program of sequential reads of `size` bytes with a queue depth of `depth`, without an end.
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
    pub fn validate(&self, region: Region) -> Result<(), RuleViolation> {
        let (min, max, step) = self.size.bounds();
        let every = match self.sync {
            SyncMode::Never => 1,
            SyncMode::Flush(n) | SyncMode::Fdatasync(n) => n,
        };
        // One rule checks all kinds of arrival, under the name of the parameter that the kind has.
        let (arrival, time, least) = match self.arrival {
            Arrival::Closed { think } => ("think", think, Span::ZERO),
            Arrival::Batches { .. } => ("think", Span::ZERO, Span::ZERO),
            Arrival::Even { interval } | Arrival::Poisson { interval } => {
                ("interval", interval, Span::from_nanos(1))
            }
            Arrival::Apart { reads, writes, .. } => {
                let mut both = [reads, writes].into_iter().flatten();
                let some = Span::from_nanos(1);
                // Without a wrong interval, any permitted value passes the rule.
                let wrong = |span: &Span| !(some..=HOUR).contains(span);
                ("interval", both.find(wrong).unwrap_or(some), some)
            }
        };
        // Each file must have space for the largest request. A division by zero is avoided here,
        // and a rule below reports zero files.
        let file = region.length / u64::from(self.files.max(1));
        // The end of the region must not overflow.
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
    /// The rules for random offsets and for batches.
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
            // With a `low` of the depth or more, there would be no batches.
            "arrival.low", low, low == 0 || low < self.depth, "less than the depth";
        }
    }

    /// The rules for files, zones and activity, with requests of up to `most` bytes.
    fn rules_of_place_and_time(&self, most: u32) -> [Rule; 7] {
        // Absent parts pass their rules with these values.
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
    /// The smallest length of a request.
    pub fn least(&self) -> u32 {
        match self {
            Self::Fixed(size) | Self::Range { min: size, .. } => *size,
            Self::Split(split) => split.parts().map(|p| p.0).min().unwrap_or(0),
        }
    }

    /// The largest length of a request.
    pub fn most(&self) -> u32 {
        match self {
            Self::Fixed(size) | Self::Range { max: size, .. } => *size,
            Self::Split(split) => split.parts().map(|p| p.0).max().unwrap_or(0),
        }
    }

    /// The minimum, maximum and granularity of the lengths.
    pub(crate) fn bounds(&self) -> (u32, u32, u32) {
        match *self {
            Self::Fixed(size) => (size, size, size),
            Self::Range { min, max, step } => (min, max, step),
            // Offsets are multiples of the smallest length, so that all of them can be reached.
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
    fn a_split_must_add_up_to_100_percent() {
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
    fn an_error_states_the_field_the_value_and_the_allowed_range() {
        let program = Program {
            depth: 0,
            ..Program::random_reads(4096, 1)
        };
        let error = program.validate(REGION).unwrap_err();
        assert_eq!(ToString::to_string(&error), "depth = 0: must be 1 to 65536");
    }
}
