//! Kept, short or excused.

use super::{Rate, Second, Units};
use crate::{SECOND_NS, Window};

/// Why a second was short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    /// Others were served at least as much as it lacks.
    Others,
    /// Others were not, and most of its requests' time passed in the elevator.
    Elevator,
    /// Others were not, and most of its requests' time passed in the drive.
    Drive,
    /// What it lacks is what the storage failed.
    Error,
}

impl Short {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Others, Self::Elevator, Self::Drive, Self::Error];

    /// Its word in records and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Others => "others",
            Self::Elevator => "elevator",
            Self::Drive => "drive",
            Self::Error => "error",
        }
    }
}

/// Why nothing was owed in a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excuse {
    /// The client asked for nothing.
    Idle,
    /// It did not read its answers.
    Suspended,
    /// Its requests were held by a max for most of their time.
    Limit,
    /// It asked for too little at a time: with the drive to itself it would not have got its min either.
    Depth,
}

impl Excuse {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Suspended, Self::Limit, Self::Depth];

    /// Its word in records and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Suspended => "suspended",
            Self::Limit => "limit",
            Self::Depth => "depth",
        }
    }
}

/// What became of a promise in a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The client got what it was owed.
    Kept,
    /// It did not.
    Short {
        /// What it lacks, in the promise's units.
        by: u64,
        /// Why.
        why: Short,
    },
    /// Nothing was owed.
    Excused(Excuse),
}

/// What a second is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// What was promised.
    pub rate: Rate,
    /// A request of this client with the drive to itself; `None` where nobody knows.
    pub alone: Option<Alone>,
}

/// A mean request of a client with the drive to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alone {
    /// How long it takes, in nanoseconds.
    pub latency_ns: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// How a promise fared in all seconds that are over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seconds {
    /// Whole seconds in which it was in force.
    pub promised: u64,
    /// Of these, kept.
    pub kept: u64,
    /// Short, by reason.
    pub short: [u64; 4],
    /// Excused, by reason.
    pub excused: [u64; 4],
    /// What the short ones lack together: bytes of a promise of bytes, requests of one of requests.
    pub lacking: Window,
}

impl Seconds {
    /// All short seconds.
    pub fn all_short(&self) -> u64 {
        self.short.iter().sum()
    }

    /// All excused seconds.
    pub fn all_excused(&self) -> u64 {
        self.excused.iter().sum()
    }

    /// Adds those of another promise.
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

    /// What most short seconds were short for.
    pub fn main_short(&self) -> Option<Short> {
        let counts = Short::ALL.into_iter().zip(self.short);
        let most = counts.rev().max_by_key(|(_, count)| *count);
        most.filter(|(_, count)| *count > 0).map(|(why, _)| why)
    }

    fn add(&mut self, verdict: Verdict, units: Units) {
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

/// Judges the seconds of one promise, one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judge {
    seconds: Seconds,
    /// What the second before was given of this one: the request that was under way between them.
    advanced: u64,
}

/// A second may lack this part of the min.
const LACKING: u64 = 100;

impl Judge {
    /// The verdicts so far.
    pub fn seconds(&self) -> &Seconds {
        &self.seconds
    }

    /// Judges the next second, in which the client was owed so much: the min for as long as it [waited](Second::waited_ns), unless the
    /// min changed meanwhile.
    pub fn second(&mut self, second: &Second, terms: &Terms, owed: u64) -> Verdict {
        let verdict = self.verdict(second, terms, owed);
        self.seconds.promised += 1;
        self.seconds.add(verdict, terms.rate.units);
        verdict
    }

    /// What was promised is promised no more.
    pub(super) fn forget(&mut self) {
        self.advanced = 0;
    }

    fn verdict(&mut self, second: &Second, terms: &Terms, owed: u64) -> Verdict {
        let units = terms.rate.units;
        let before = std::mem::take(&mut self.advanced);
        if second.waited_ns == 0 {
            return Verdict::Excused(if second.suspended_ns > 0 {
                Excuse::Suspended
            } else {
                Excuse::Idle
            });
        }
        let got = units.of(second.done);
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
        let by = owed + before - got - self.advanced;
        if is_limited(second) {
            return Verdict::Excused(Excuse::Limit);
        }
        match terms.alone.map(|alone| reach(second, units, alone)) {
            Some(reach) if reach < required => {
                if got >= reach / 2 {
                    return Verdict::Excused(Excuse::Depth);
                }
                let by = by.min(reach - got);
                let why = why(second, units, by);
                Verdict::Short { by, why }
            }
            _ => {
                let why = why(second, units, by);
                Verdict::Short { by, why }
            }
        }
    }
}

/// The requests were held by a limit for more than half of their time.
fn is_limited(second: &Second) -> bool {
    let known = second.parts.total_ns();
    let rest = second.place_ns.saturating_sub(known);
    // Of those that were not answered it is known how many are held at the end.
    let held = u128::from(rest) * u128::from(second.limited) / u128::from(second.live.max(1));
    2 * (u128::from(second.parts.limit_ns) + held) > u128::from(second.place_ns)
}

/// What the client would have got with the drive to itself while it waited: as many requests at a time as it had, each of them in the
/// time that one takes alone (Little's law).
fn reach(second: &Second, units: Units, alone: Alone) -> u64 {
    let each = match units {
        Units::Requests => 1,
        Units::Bytes => alone.bytes,
    };
    let latency = u128::from(alone.latency_ns.max(1));
    let reach = u128::from(second.place_ns) * u128::from(each) / latency;
    u64::try_from(reach).unwrap_or(u64::MAX)
}

fn why(second: &Second, units: Units, by: u64) -> Short {
    if units.of(second.failed) >= by {
        Short::Error
    } else if units.of(second.others) >= by {
        Short::Others
    } else if second.parts.elevator_ns > second.parts.drive_ns {
        Short::Elevator
    } else {
        Short::Drive
    }
}

/// How a promise fared over the seconds of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// What became of each.
    pub seconds: Seconds,
    /// The lowest bandwidth of a second in which a request waited for a tenth of the time at least: bytes a second of that time.
    pub worst: Option<u64>,
}

impl Judged {
    /// The part (0 to 1) of the seconds in which something was owed in which it was kept; none where nothing was owed.
    pub fn fraction(&self) -> Option<f64> {
        let owed = self.seconds.kept + self.seconds.all_short();
        (owed > 0).then(|| self.seconds.kept as f64 / owed as f64)
    }

    /// The worst second, in MB/s.
    pub fn worst_mbps(&self) -> Option<f64> {
        self.worst.map(|bytes| bytes as f64 / 1e6)
    }

    /// Looks at a second for the worst.
    pub(crate) fn add(&mut self, second: &Second) {
        if second.waited_ns < SECOND_NS / 10 {
            return;
        }
        let bytes = u128::from(second.done.bytes) * u128::from(SECOND_NS);
        let rate = (bytes / u128::from(second.waited_ns)) as u64;
        self.worst = Some(self.worst.map_or(rate, |worst| worst.min(rate)));
    }
}
