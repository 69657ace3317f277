//! The verdict about a second: kept, short or excused.

use super::cause::ENOUGH;
use super::{Blame, Cause, Pool, Rate, Second, Standing, Units};
use crate::{SECOND_NS, Series, Window};
use std::collections::BTreeMap;

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
            Self::Pool => "remote-storage",
            other => other.cause().name(),
        }
    }

    /// What kept the client from its min.
    pub const fn cause(self) -> Cause {
        match self {
            Self::Idle => Cause::ClientIdle,
            Self::Suspended => Cause::NotReading,
            Self::Limit => Cause::OwnMax,
            Self::Depth => Cause::OwnDepth,
            Self::Host => Cause::HostBusy,
            Self::Pool => Cause::SlowDrive,
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
        why: Blame,
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
    /// Of these, seconds in which the client got less than its whole min, because it had nothing outstanding for more than half of them.
    pub unasked: u64,
    /// Short ones, by cause.
    pub short: [u64; Cause::ALL.len()],
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
        self.unasked += other.unasked;
        for (mine, more) in self.short.iter_mut().zip(other.short) {
            *mine += more;
        }
        for (mine, more) in self.excused.iter_mut().zip(other.excused) {
            *mine += more;
        }
        self.lacking.bytes += other.lacking.bytes;
        self.lacking.requests += other.lacking.requests;
    }

    /// Short seconds by the name of their cause; causes that did not occur are left out.
    pub fn short_by(&self) -> BTreeMap<String, u64> {
        named(Cause::ALL.map(Cause::name).into_iter().zip(self.short))
    }

    /// Excused seconds by the name of their reason; reasons that did not occur are left out.
    pub fn excused_by(&self) -> BTreeMap<String, u64> {
        named(Excuse::ALL.map(Excuse::name).into_iter().zip(self.excused))
    }

    /// The most frequent cause of short seconds.
    pub fn main_short(&self) -> Option<Cause> {
        let counts = Cause::ALL.into_iter().zip(self.short);
        let most = counts.rev().max_by_key(|(_, count)| *count);
        most.filter(|(_, count)| *count > 0).map(|(why, _)| why)
    }

    /// Counts the verdict about one more second.
    fn count(&mut self, verdict: Verdict, units: Units) {
        self.promised += 1;
        match verdict {
            Verdict::Kept => self.kept += 1,
            Verdict::Short { by, why } => {
                self.short[why.cause as usize] += 1;
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

fn named(counts: impl Iterator<Item = (&'static str, u64)>) -> BTreeMap<String, u64> {
    let counts = counts.filter(|(_, count)| *count > 0);
    counts
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
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
        self.seconds.unasked += u64::from(second.is_unasked(verdict, &terms.rate));
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
        let is_own_fault = !second.is_behind_itself() && !second.is_of_late_host(terms, owed);
        let alone = terms.alone.filter(|_| is_own_fault);
        let by = match alone.map(|alone| reach(second, units, alone)) {
            Some(reach) if reach < required => {
                if got >= reach / 2 {
                    return Verdict::Excused(Excuse::Depth);
                }
                by.min(reach - got)
            }
            _ => by,
        };
        let why = blame(second, &terms.rate, (owed, by));
        if is_of_pool(second, why.cause) {
            return Verdict::Excused(Excuse::Pool);
        }
        Verdict::Short { by, why }
    }
}

impl Second {
    /// Whether the client had nothing outstanding for more than half of the second.
    pub fn is_idle(&self) -> bool {
        self.suspended_ns == 0 && 2 * self.waited_ns < SECOND_NS
    }

    /// Whether the promise was kept although the client got less than its whole min, because it was [idle](Self::is_idle).
    pub(super) fn is_unasked(&self, verdict: Verdict, rate: &Rate) -> bool {
        let got = rate.units.of(self.done);
        verdict == Verdict::Kept && self.is_idle() && rate.exceeds(got as f64)
    }

    /// Whether the client's requests waited for its own earlier ones for most of their time: more of them at a time would get it no more.
    fn is_behind_itself(&self) -> bool {
        let is_behind = |s: &Standing| 2 * s.own_ns > self.parts.total().as_nanos();
        self.standing.as_ref().is_some_and(is_behind)
    }

    /// Whether the client would have got `owed` if the server's thread had always had a processor.
    fn is_of_late_host(&self, terms: &Terms, owed: u64) -> bool {
        let late = self.standing.map_or(0, |s| s.stalled_ns) as f64 / SECOND_NS as f64;
        late > 0.0 && would_be_kept(terms.rate.units.of(self.done), owed, late)
    }

    /// What kept the client from more in this second, whether it was promised more or not; `None` if it had no request at all.
    pub fn limited_by(&self) -> Option<Blame> {
        if self.waited_ns == 0 && self.live == 0 {
            return (self.suspended_ns > 0).then(|| Cause::NotReading.into());
        }
        if is_limited(self) {
            return Some(Cause::OwnMax.into());
        }
        if 2 * self.server.others_ns > self.waited_ns {
            return Some(Blame {
                cause: Cause::ServerBusy,
                neighbour: self.standing.and_then(|s| s.busiest),
            });
        }
        if self.is_idle() {
            return Some(Cause::ClientIdle.into());
        }
        let Some(standing) = self.standing else {
            return Some(by_stage(self).into());
        };
        let served = self
            .parts
            .total()
            .as_nanos()
            .saturating_sub(standing.waited_ns());
        let largest = standing.largest();
        let largest = largest.filter(|_| standing.waited_ns() >= served);
        Some(largest.unwrap_or_else(|| nothing_before(&standing)))
    }
}

/// Whether requests were throttled for more than half of their time.
fn is_limited(second: &Second) -> bool {
    let known = second.parts.total().as_nanos();
    let rest = second.occupancy_ns.saturating_sub(known);
    // Of outstanding requests only the number that is throttled at the end is known.
    let held = u128::from(rest) * u128::from(second.limited) / u128::from(second.live.max(1));
    2 * (u128::from(second.parts.limit.as_nanos()) + held) > u128::from(second.occupancy_ns)
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

/// Why a second is short that lacks `by` of what was `owed`: the first of errors, a server without a processor, a server busy with others,
/// a busy host and a slow drive that accounts for what is missing, else what the requests waited for longest.
fn blame(second: &Second, rate: &Rate, (owed, by): (u64, u64)) -> Blame {
    let units = rate.units;
    let standing = second.standing;
    if units.of(second.failed) >= by {
        return Cause::Errors.into();
    }
    if rate.during(second.server.stalled_ns) >= by {
        return Cause::HostBusy.into();
    }
    if let Some(told) = second.told {
        return told;
    }
    if 2 * second.server.others_ns > second.waited_ns {
        return Blame {
            cause: Cause::ServerBusy,
            neighbour: standing.and_then(|s| s.busiest),
        };
    }
    let Some(standing) = standing else {
        let others = units.of(second.others) >= by;
        return if others {
            Cause::Neighbour.into()
        } else {
            by_stage(second).into()
        };
    };
    let would_be_kept = |lost: f64| would_be_kept(units.of(second.done), owed, lost);
    let late = standing.stalled_ns as f64 / SECOND_NS as f64;
    let slow = standing.slowness_for_short();
    if late > 0.0 && late >= slow && would_be_kept(late) {
        return Cause::HostBusy.into();
    }
    if slow > 0.0 && would_be_kept(slow) {
        return Cause::SlowDrive.into();
    }
    let largest = standing.largest();
    largest.unwrap_or_else(|| nothing_before(&standing))
}

/// Whether a client that got `got` of what was `owed` would have got it, less a tenth, without the part of the second that was `lost`.
fn would_be_kept(got: u64, owed: u64, lost: f64) -> bool {
    got as f64 >= owed as f64 * f64::from(ENOUGH) / 1e3 * (1.0 - lost)
}

/// What limited requests before which nothing stood.
fn nothing_before(standing: &Standing) -> Blame {
    if standing.stood {
        Cause::SlowDrive.into()
    } else {
        Cause::OwnDepth.into()
    }
}

/// The cause as far as the stages of the client's own requests tell it.
fn by_stage(second: &Second) -> Cause {
    if second.parts.elevator > second.parts.drive {
        Cause::Idling
    } else {
        Cause::SlowDrive
    }
}

/// Whether a second would have been short for a reason that a remote server has. What others got in it the client might have got.
fn is_of_pool(second: &Second, why: Cause) -> bool {
    match why {
        // A pool cannot make the server busy, and what a neighbour got was there.
        Cause::Neighbour | Cause::ServerBusy | Cause::HostBusy => false,
        Cause::Errors => second.pool == Pool::Away,
        _ => second.pool != Pool::Fit,
    }
}

/// What is known of a run beside a client's own requests.
#[derive(Debug, Clone, Copy)]
pub struct Beside<'a> {
    /// What all clients of the drive were served, this one included.
    pub all: &'a Series,
    /// For how many nanoseconds a busy host kept the client or its server waiting in each second of the measurement.
    pub host_ns: &'a [u64],
    /// What the client's requests waited for, by the second of the caller's clock.
    pub standings: &'a BTreeMap<u64, Standing>,
    /// What the server has said kept the client from more in each second of the measurement.
    pub told: &'a [Option<Blame>],
    /// What [neighbours](Blame::neighbour) are called, by their numbers.
    pub names: &'a [String],
}

impl<'a> Beside<'a> {
    /// Only what all clients were served is known.
    pub fn new(all: &'a Series) -> Self {
        const NOTHING: &BTreeMap<u64, Standing> = &BTreeMap::new();
        Self {
            all,
            host_ns: &[],
            standings: NOTHING,
            told: &[],
            names: &[],
        }
    }

    /// What a neighbour is called.
    pub fn name(&self, blame: Blame) -> Option<&'a str> {
        let name = self.names.get(blame.neighbour? as usize)?;
        Some(name.as_str()).filter(|name| !name.is_empty())
    }
}

/// The verdicts about a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judged {
    /// The verdicts.
    pub seconds: Seconds,
    /// The short seconds, in their order.
    pub short: Vec<ShortSecond>,
    /// Nanoseconds of the promised seconds in which the client had a request outstanding.
    pub waited_ns: u64,
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
    pub why: Blame,
}

impl Judged {
    /// The fraction (0 to 1) of the seconds in which the promise applied in which it was kept; `None` if there were none.
    pub fn fraction(&self) -> Option<f64> {
        let owed = self.seconds.kept + self.seconds.all_short();
        (owed > 0).then(|| self.seconds.kept as f64 / owed as f64)
    }

    /// Adds the verdict about the next second, in which the client was owed `owed`.
    pub(crate) fn add(&mut self, verdict: Verdict, owed: u64, second: u64) {
        if let Verdict::Short { by, why } = verdict {
            self.short.push(ShortSecond {
                second,
                owed,
                by,
                why,
            });
        }
    }
}
