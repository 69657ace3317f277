//! The verdict about a second: kept, short or excused.

use super::{Pool, Rate, Second, Units};
use crate::Window;

/// Why a second was short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    /// Other clients were served at least as much as is missing.
    Others,
    /// Other clients were served less than that, and the client's requests spent most of their time in the elevator.
    Elevator,
    /// Other clients were served less than that, and the client's requests spent most of their time in the drive.
    Drive,
    /// What is missing is what the storage failed.
    Error,
    /// For most of the client's waiting time, the server worked on other clients' requests.
    Requests,
    /// The server had no processor for long enough to account for the missing part.
    Processor,
}

impl Short {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::Others,
        Self::Elevator,
        Self::Drive,
        Self::Error,
        Self::Requests,
        Self::Processor,
    ];

    /// Its name in records and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Others => "others",
            Self::Elevator => "elevator",
            Self::Drive => "drive",
            Self::Error => "error",
            Self::Requests => "requests",
            Self::Processor => "processor",
        }
    }
}

/// Why a promise did not apply in a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excuse {
    /// The client had no request.
    Idle,
    /// The client did not read its replies.
    Suspended,
    /// The client's requests were throttled by its max for most of their time.
    Limit,
    /// The client's queue depth was too low: it would have missed its min with the drive to itself, too.
    Depth,
    /// The server of a remote storage did less than is stated of it, or was away, and that is what is missing.
    Pool,
    /// The client got its min for the time in which it and the server had a processor.
    Host,
}

impl Excuse {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::Idle,
        Self::Suspended,
        Self::Limit,
        Self::Depth,
        Self::Pool,
        Self::Host,
    ];

    /// Those that a server can tell: of what a busy host does to its clients it knows nothing.
    pub const OF_SERVER: [Self; 5] = [
        Self::Idle,
        Self::Suspended,
        Self::Limit,
        Self::Depth,
        Self::Pool,
    ];

    /// Its name in records and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Suspended => "suspended",
            Self::Limit => "limit",
            Self::Depth => "depth",
            Self::Host => "host",
            Self::Pool => "pool",
        }
    }
}

/// The verdict about a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The client got what it was owed.
    Kept,
    /// The client got less.
    Short {
        /// What is missing, in the promise's units.
        by: u64,
        /// The reason.
        why: Short,
    },
    /// The promise did not apply.
    Excused(Excuse),
}

/// What seconds are judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The promise.
    pub rate: Rate,
    /// A request of this client with the drive to itself; `None` if that is not known.
    pub alone: Option<Alone>,
}

/// The mean request of a client with the drive to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alone {
    /// Its latency in nanoseconds.
    pub latency_ns: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The verdicts about all seconds that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seconds {
    /// Whole seconds in which the promise was in force.
    pub promised: u64,
    /// Of these, kept.
    pub kept: u64,
    /// Short ones, by reason.
    pub short: [u64; Short::ALL.len()],
    /// Excused ones, by reason.
    pub excused: [u64; Excuse::ALL.len()],
    /// Total shortfall of the short ones: bytes for a promise of bytes, requests for one of requests.
    pub lacking: Window,
}

impl Seconds {
    /// Number of short seconds.
    pub fn all_short(&self) -> u64 {
        self.short.iter().sum()
    }

    /// Number of excused seconds.
    pub fn all_excused(&self) -> u64 {
        self.excused.iter().sum()
    }

    /// Adds the verdicts about another promise.
    pub fn merge(&mut self, other: &Self) {
        self.promised += other.promised;
        self.kept += other.kept;
        for (mine, more) in self.short.iter_mut().zip(other.short) {
            *mine += more;
        }
        for (mine, more) in self.excused.iter_mut().zip(other.excused) {
            *mine += more;
        }
        self.lacking.bytes += other.lacking.bytes;
        self.lacking.requests += other.lacking.requests;
    }

    /// The most frequent reason for short seconds.
    pub fn main_short(&self) -> Option<Short> {
        let counts = Short::ALL.into_iter().zip(self.short);
        let most = counts.rev().max_by_key(|(_, count)| *count);
        most.filter(|(_, count)| *count > 0).map(|(why, _)| why)
    }

    /// Counts the verdict about one more second.
    fn count(&mut self, verdict: Verdict, units: Units) {
        self.promised += 1;
        match verdict {
            Verdict::Kept => self.kept += 1,
            Verdict::Short { by, why } => {
                self.short[why as usize] += 1;
                let lacking = match units {
                    Units::Bytes => &mut self.lacking.bytes,
                    Units::Requests => &mut self.lacking.requests,
                };
                *lacking += by;
            }
            Verdict::Excused(why) => self.excused[why as usize] += 1,
        }
    }
}

/// Judges the seconds of one promise one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judge {
    seconds: Seconds,
    /// Amount of this second that was credited to the previous one: the request that was in flight between them.
    advanced: u64,
}

/// The reciprocal of the part of the min that a second may lack.
pub(super) const LACKING: u64 = 100;

impl Judge {
    /// The verdicts so far.
    pub fn seconds(&self) -> &Seconds {
        &self.seconds
    }

    /// Judges the next second, in which the client was owed `owed`: the min for as long as it [waited](Second::waited_ns), unless
    /// the min changed meanwhile.
    pub fn second(&mut self, second: &Second, terms: &Terms, owed: u64) -> Verdict {
        let verdict = self.verdict(second, terms, owed);
        self.seconds.count(verdict, terms.rate.units);
        verdict
    }

    /// Forgets the previous second because the promise ended.
    pub(super) fn forget(&mut self) {
        self.advanced = 0;
    }

    fn verdict(&mut self, second: &Second, terms: &Terms, owed: u64) -> Verdict {
        let units = terms.rate.units;
        let before = std::mem::take(&mut self.advanced);
        let got = units.of(second.done);
        if second.waited_ns == 0 {
            // Pages that are there already are read without waiting: a client that got its whole min has it, whatever was owed.
            let enough = terms.rate.a_second - terms.rate.a_second / LACKING;
            if got > 0 && got >= enough.saturating_add(before) {
                return Verdict::Kept;
            }
            return Verdict::Excused(if second.suspended_ns > 0 {
                Excuse::Suspended
            } else {
                Excuse::Idle
            });
        }
        let required = owed.saturating_sub(terms.rate.a_second / LACKING);
        let under_way = match units {
            _ if second.live == 0 => 0,
            Units::Bytes => second.longest,
            Units::Requests => 1,
        };
        let missing = (required + before).saturating_sub(got);
        self.advanced = missing.min(under_way);
        if missing <= under_way {
            return Verdict::Kept;
        }
        // What was credited to the second before is missing, too, but no more than is owed.
        let by = (owed + before - got - self.advanced).min(owed);
        if is_limited(second) {
            return Verdict::Excused(Excuse::Limit);
        }
        if missing <= under_way.saturating_add(terms.rate.during(second.host_ns)) {
            return Verdict::Excused(Excuse::Host);
        }
        let by = match terms.alone.map(|alone| reach(second, units, alone)) {
            Some(reach) if reach < required => {
                if got >= reach / 2 {
                    return Verdict::Excused(Excuse::Depth);
                }
                by.min(reach - got)
            }
            _ => by,
        };
        let why = why(second, &terms.rate, by);
        if is_of_pool(second, why) {
            return Verdict::Excused(Excuse::Pool);
        }
        Verdict::Short { by, why }
    }
}

/// Whether requests were throttled for more than half of their time.
fn is_limited(second: &Second) -> bool {
    let known = second.parts.total_ns();
    let rest = second.occupancy_ns.saturating_sub(known);
    // Of outstanding requests only the number that is throttled at the end is known.
    let held = u128::from(rest) * u128::from(second.limited) / u128::from(second.live.max(1));
    2 * (u128::from(second.parts.limit_ns) + held) > u128::from(second.occupancy_ns)
}

/// What the client would have got with the drive to itself while it waited: its queue depth divided by the latency of a request
/// alone (Little's law).
fn reach(second: &Second, units: Units, alone: Alone) -> u64 {
    let each = match units {
        Units::Requests => 1,
        Units::Bytes => alone.bytes,
    };
    let latency = u128::from(alone.latency_ns.max(1));
    let reach = u128::from(second.occupancy_ns) * u128::from(each) / latency;
    u64::try_from(reach).unwrap_or(u64::MAX)
}

fn why(second: &Second, rate: &Rate, by: u64) -> Short {
    let units = rate.units;
    if units.of(second.failed) >= by {
        Short::Error
    } else if rate.during(second.server.stalled_ns) >= by {
        Short::Processor
    } else if 2 * second.server.others_ns > second.waited_ns {
        Short::Requests
    } else if units.of(second.others) >= by {
        Short::Others
    } else if second.parts.elevator_ns > second.parts.drive_ns {
        Short::Elevator
    } else {
        Short::Drive
    }
}

/// Whether a second would have been short for a reason that a remote server has. What others got in it the client might have got.
fn is_of_pool(second: &Second, why: Short) -> bool {
    match why {
        // A pool cannot make the server busy.
        Short::Others | Short::Requests | Short::Processor => false,
        Short::Elevator | Short::Drive => second.pool != Pool::Fit,
        Short::Error => second.pool == Pool::Away,
    }
}

/// The verdicts about a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judged {
    /// The verdicts.
    pub seconds: Seconds,
    /// The short seconds, in their order.
    pub short: Vec<ShortSecond>,
}

/// A second in which a promise was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortSecond {
    /// Which second of the measurement, from 0.
    pub second: u64,
    /// What the client was owed in it, in the promise's units.
    pub owed: u64,
    /// What is missing of that, in the promise's units.
    pub by: u64,
    /// The reason.
    pub why: Short,
}

impl Judged {
    /// The fraction (0 to 1) of the seconds in which the promise applied in which it was kept; `None` if there were none.
    pub fn fraction(&self) -> Option<f64> {
        let owed = self.seconds.kept + self.seconds.all_short();
        (owed > 0).then(|| self.seconds.kept as f64 / owed as f64)
    }

    /// Adds the verdict about the next second, in which the client was owed `owed`.
    pub(crate) fn add(&mut self, verdict: Verdict, owed: u64, units: Units) {
        if let Verdict::Short { by, why } = verdict {
            self.short.push(ShortSecond {
                second: self.seconds.promised,
                owed,
                by,
                why,
            });
        }
        self.seconds.count(verdict, units);
    }
}
