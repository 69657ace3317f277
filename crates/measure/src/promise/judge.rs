//! The verdict on a second: kept, short or excused.

use super::cause::ENOUGH;
use super::{Blame, Cause, PromisedRate, RemoteStorage, Second, SecondWaits, Units};
use crate::{SECOND_NS, Series, WindowTotals};
use std::collections::BTreeMap;

/// The reason why a promise did not apply in a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excuse {
    /// The client had no request outstanding.
    Idle,
    /// The client did not read its replies.
    Suspended,
    /// The client's requests were throttled by its max for most of their time.
    Limit,
    /// The client's queue depth was too low: it would have missed its min even with the drive to
    /// itself.
    Depth,
    /// The server of a remote storage was slower than its stated capacity or was not reachable, and
    /// the cause is neither another client nor this host or server.
    Pool,
    /// The client got its min for the time in which it and the server had a CPU.
    Host,
}

impl Excuse {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Idle,
        Self::Suspended,
        Self::Limit,
        Self::Depth,
        Self::Pool,
        Self::Host,
    ];

    /// The reasons that a server can determine. It does not know whether its clients' hosts are
    /// busy.
    pub const OF_SERVER: [Self; 5] = [
        Self::Idle,
        Self::Suspended,
        Self::Limit,
        Self::Depth,
        Self::Pool,
    ];

    /// Returns the name in records and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pool => "remote-storage",
            other => other.cause().name(),
        }
    }

    /// Returns the cause that kept the client from its min.
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

/// The verdict on one promised second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromiseVerdict {
    /// The client got the amount that it was owed.
    Kept,
    /// The client got less than it was owed.
    Short {
        /// The missing amount, in the units of the promise.
        by: u64,
        /// The cause of the shortfall.
        why: Blame,
    },
    /// The promise did not apply.
    Excused(Excuse),
}

/// The parameters by which seconds are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The rate that is promised.
    pub rate: PromisedRate,
    /// The mean request of this client without contention, or `None` if it is not known.
    pub alone: Option<AloneRequest>,
}

/// The mean request of a client that has the drive to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AloneRequest {
    /// The latency of the request, in nanoseconds.
    pub latency_ns: u64,
    /// The length of the request, in bytes.
    pub bytes: u64,
}

/// The verdicts on all seconds that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seconds {
    /// The number of whole seconds in which the promise was in force.
    pub promised: u64,
    /// The number of promised seconds that were kept.
    pub kept: u64,
    /// The number of kept seconds in which the client got less than its min, because it had nothing
    /// outstanding for more than half of the second.
    pub unasked: u64,
    /// The number of short seconds for each cause.
    pub short: [u64; Cause::ALL.len()],
    /// The number of excused seconds for each reason.
    pub excused: [u64; Excuse::ALL.len()],
    /// The total shortfall of the short seconds: bytes for promises in bytes, requests for promises
    /// in requests.
    pub lacking: WindowTotals,
}

impl Seconds {
    /// Returns the number of short seconds.
    pub fn all_short(&self) -> u64 {
        self.short.iter().sum()
    }

    /// Returns the number of excused seconds.
    pub fn all_excused(&self) -> u64 {
        self.excused.iter().sum()
    }

    /// Adds the verdicts on another promise.
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

    /// Returns the short seconds by the name of their cause. Causes that did not occur are left
    /// out.
    pub fn short_by(&self) -> BTreeMap<String, u64> {
        named(Cause::ALL.map(Cause::name).into_iter().zip(self.short))
    }

    /// Returns the excused seconds by the name of their reason. Reasons that did not occur are left
    /// out.
    pub fn excused_by(&self) -> BTreeMap<String, u64> {
        named(Excuse::ALL.map(Excuse::name).into_iter().zip(self.excused))
    }

    /// Returns the most frequent cause of short seconds.
    pub fn main_short(&self) -> Option<Cause> {
        let counts = Cause::ALL.into_iter().zip(self.short);
        // Of equal counts, the first cause is returned, because `max_by_key` returns the last one.
        let most = counts.rev().max_by_key(|(_, count)| *count);
        most.filter(|(_, count)| *count > 0).map(|(why, _)| why)
    }

    /// Counts the verdict on one more second.
    fn count(&mut self, verdict: PromiseVerdict, units: Units) {
        self.promised += 1;
        match verdict {
            PromiseVerdict::Kept => self.kept += 1,
            PromiseVerdict::Short { by, why } => {
                self.short[why.cause as usize] += 1;
                let lacking = match units {
                    Units::Bytes => &mut self.lacking.bytes,
                    Units::Requests => &mut self.lacking.requests,
                };
                *lacking += by;
            }
            PromiseVerdict::Excused(why) => self.excused[why as usize] += 1,
        }
    }
}

fn named(counts: impl Iterator<Item = (&'static str, u64)>) -> BTreeMap<String, u64> {
    let counts = counts.filter(|(_, count)| *count > 0);
    counts
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

/// Judges the seconds of one promise, one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judge {
    seconds: Seconds,
    /// The amount of this second that was credited to the previous one, for the request that was in
    /// flight between them.
    advanced: u64,
}

/// The reciprocal of the fraction of the min that may be missing from a second (1 %).
pub(super) const LACKING: u64 = 100;

impl Judge {
    /// Returns the verdicts so far.
    pub fn seconds(&self) -> &Seconds {
        &self.seconds
    }

    /// Judges the next second, in which the client was owed `owed`. That is the min for as long as
    /// it [waited](Second::waited_ns), unless the min changed within the second.
    pub fn second(&mut self, second: &Second, terms: &Terms, owed: u64) -> PromiseVerdict {
        let verdict = self.verdict(second, terms, owed);
        self.seconds.count(verdict, terms.rate.units);
        self.seconds.unasked += u64::from(second.is_unasked(verdict, &terms.rate));
        verdict
    }

    /// Forgets the previous second, because the promise ended.
    pub(super) fn forget(&mut self) {
        self.advanced = 0;
    }

    fn verdict(&mut self, second: &Second, terms: &Terms, owed: u64) -> PromiseVerdict {
        let units = terms.rate.units;
        let before = std::mem::take(&mut self.advanced);
        let got = units.of(second.done);
        if second.waited_ns == 0 {
            // Data in the page cache is read without a wait. A client that got its whole min this
            // way has it, although nothing was owed.
            let enough = terms.rate.a_second - terms.rate.a_second / LACKING;
            // The amount that was credited to the previous second does not count twice.
            if got > 0 && got >= enough.saturating_add(before) {
                return PromiseVerdict::Kept;
            }
            return PromiseVerdict::Excused(if second.suspended_ns > 0 {
                Excuse::Suspended
            } else {
                Excuse::Idle
            });
        }
        // The tolerance is 1 % of the whole min, however short the time in which the client waited.
        let required = owed.saturating_sub(terms.rate.a_second / LACKING);
        // The request that is in flight when the second ends counts for this second, and then not
        // for the next one.
        let under_way = match units {
            _ if second.live == 0 => 0,
            Units::Bytes => second.longest,
            Units::Requests => 1,
        };
        let missing = (required + before).saturating_sub(got);
        self.advanced = missing.min(under_way);
        if missing <= under_way {
            return PromiseVerdict::Kept;
        }
        // The amount that was credited to the previous second is missing as well, but never more
        // than is owed.
        let by = (owed + before - got - self.advanced).min(owed);
        // Excuses are checked only now, because a second in which the client got its min is kept in
        // any case.
        if is_limited(second) {
            return PromiseVerdict::Excused(Excuse::Limit);
        }
        // An otherwise kept second in which the host took away the CPU is not the drive's fault.
        if missing <= under_way.saturating_add(terms.rate.during(second.host_ns)) {
            return PromiseVerdict::Excused(Excuse::Host);
        }
        // A low queue depth is no excuse if the requests waited for the client's own earlier ones
        // (more of them would not help), or if a late server is the reason.
        let is_own_fault = !second.is_behind_itself() && !second.is_due_to_late_host(terms, owed);
        let alone = terms.alone.filter(|_| is_own_fault);
        let by = match alone.map(|alone| reach(second, units, alone)) {
            // The client could not have got its min with this queue depth. The second is excused if
            // it got at least half of what was possible, and otherwise short of the possible
            // amount.
            Some(reach) if reach < required => {
                if got >= reach / 2 {
                    return PromiseVerdict::Excused(Excuse::Depth);
                }
                by.min(reach - got)
            }
            _ => by,
        };
        let why = blame(second, &terms.rate, (owed, by));
        if is_due_to_remote_storage(second, why.cause) {
            return PromiseVerdict::Excused(Excuse::Pool);
        }
        PromiseVerdict::Short { by, why }
    }
}

impl Second {
    /// Returns true if the client had nothing outstanding for more than half of the second, and
    /// never failed to read its replies.
    pub fn is_idle(&self) -> bool {
        self.suspended_ns == 0 && 2 * self.waited_ns < SECOND_NS
    }

    /// Returns true if the promise was kept although the client got less than its min, because it
    /// was [idle](Self::is_idle).
    pub(super) fn is_unasked(&self, verdict: PromiseVerdict, rate: &PromisedRate) -> bool {
        let got = rate.units.of(self.done);
        verdict == PromiseVerdict::Kept && self.is_idle() && rate.exceeds(got as f64)
    }

    /// Returns true if the client's requests waited for its own earlier ones for most of their
    /// time. With a higher queue depth, the client would not get more.
    fn is_behind_itself(&self) -> bool {
        let is_behind = |s: &SecondWaits| 2 * s.own_ns > self.parts.total().as_nanos();
        self.standing.as_ref().is_some_and(is_behind)
    }

    /// Returns true if the client would have got `owed` if the server's thread had always had a
    /// CPU.
    fn is_due_to_late_host(&self, terms: &Terms, owed: u64) -> bool {
        let late = self.standing.map_or(0, |s| s.stalled_ns) as f64 / SECOND_NS as f64;
        late > 0.0 && would_be_kept(terms.rate.units.of(self.done), owed, late)
    }

    /// Returns the cause that kept the client from getting more in this second, whether more was
    /// promised or not. `None` if it had no request at all.
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
            return Some(cause_by_stage(self).into());
        };
        let served = self
            .parts
            .total()
            .as_nanos()
            .saturating_sub(standing.waited_ns());
        let largest = standing.largest();
        // Waits explain the second only if they took at least as long as the service of the
        // requests themselves.
        let largest = largest.filter(|_| standing.waited_ns() >= served);
        Some(largest.unwrap_or_else(|| cause_without_wait(&standing)))
    }
}

/// Returns true if requests were throttled for more than half of their time.
fn is_limited(second: &Second) -> bool {
    let known = second.parts.total().as_nanos();
    let rest = second.occupancy_ns.saturating_sub(known);
    // For outstanding requests, only the number of those that are throttled at the end is known.
    // Their time is divided in that ratio.
    let held = u128::from(rest) * u128::from(second.limited) / u128::from(second.live.max(1));
    2 * (u128::from(second.parts.limit.as_nanos()) + held) > u128::from(second.occupancy_ns)
}

/// Returns the amount that the client would have got with the drive to itself while it waited: its
/// queue depth divided by the latency of a request without contention (Little's law).
fn reach(second: &Second, units: Units, alone: AloneRequest) -> u64 {
    let each = match units {
        Units::Requests => 1,
        Units::Bytes => alone.bytes,
    };
    // A measured latency of 0 must not cause a division by zero.
    let latency = u128::from(alone.latency_ns.max(1));
    let reach = u128::from(second.occupancy_ns) * u128::from(each) / latency;
    u64::try_from(reach).unwrap_or(u64::MAX)
}

/// Returns the cause of a second that lacks `by` of the `owed` amount.
///
/// It is the first of these that applies: failed requests that account for the missing amount, a
/// server without a CPU for as long as that amount takes, the cause that the server reported, a
/// server busy with others for more than half of the waiting time, and then a busy host or a slow
/// drive, whichever lost more. If none applies, it is the cause for which requests waited longest.
fn blame(second: &Second, rate: &PromisedRate, (owed, by): (u64, u64)) -> Blame {
    let units = rate.units;
    let standing = second.standing;
    // If at least the missing amount failed, the client would otherwise have got it.
    if units.of(second.failed) >= by {
        return Cause::Errors.into();
    }
    // The thread could have served the missing amount in the time for which it lacked a CPU.
    if rate.during(second.server.stalled_ns) >= by {
        return Cause::HostBusy.into();
    }
    // The server has judged the second with its own journal, which is more accurate than the rules
    // below.
    if let Some(told) = second.reported_cause {
        return told;
    }
    if 2 * second.server.others_ns > second.waited_ns {
        return Blame {
            cause: Cause::ServerBusy,
            neighbour: standing.and_then(|s| s.busiest),
        };
    }
    // Without a journal, others are blamed if they got at least the missing amount.
    let Some(standing) = standing else {
        let others = units.of(second.others) >= by;
        return if others {
            Cause::Neighbour.into()
        } else {
            cause_by_stage(second).into()
        };
    };
    let would_be_kept = |lost: f64| would_be_kept(units.of(second.done), owed, lost);
    let late = standing.stalled_ns as f64 / SECOND_NS as f64;
    let slow = standing.slowness_for_short();
    // If both the host and the drive would explain the second, the larger loss is the cause.
    if late > 0.0 && late >= slow && would_be_kept(late) {
        return Cause::HostBusy.into();
    }
    if slow > 0.0 && would_be_kept(slow) {
        return Cause::SlowDrive.into();
    }
    let largest = standing.largest();
    largest.unwrap_or_else(|| cause_without_wait(&standing))
}

/// Returns true if a client that got `got` would have got 90 % of `owed` without the lost fraction
/// of the second.
fn would_be_kept(got: u64, owed: u64, lost: f64) -> bool {
    got as f64 >= owed as f64 * f64::from(ENOUGH) / 1e3 * (1.0 - lost)
}

/// Returns the cause for requests that did not have to wait for others.
fn cause_without_wait(standing: &SecondWaits) -> Blame {
    if standing.has_stalled {
        Cause::SlowDrive.into()
    } else {
        Cause::OwnDepth.into()
    }
}

/// Returns the cause as far as the stages of the client's own requests determine it.
fn cause_by_stage(second: &Second) -> Cause {
    if second.parts.elevator > second.parts.drive {
        Cause::Idling
    } else {
        Cause::SlowDrive
    }
}

/// Returns true if the second is short for a reason that lies in the remote storage. Whatever other
/// clients got in the second, this client could have got.
fn is_due_to_remote_storage(second: &Second, why: Cause) -> bool {
    match why {
        // The remote storage cannot keep the server busy, and the amount that a neighbour got was
        // available.
        Cause::Neighbour | Cause::ServerBusy | Cause::HostBusy => false,
        Cause::Errors => second.pool == RemoteStorage::Away,
        _ => second.pool != RemoteStorage::Fit,
    }
}

/// The information about a run that is not part of a client's own requests.
#[derive(Debug, Clone, Copy)]
pub struct RunContext<'a> {
    /// The bytes and requests that all clients of the drive were served, including this client.
    pub all: &'a Series,
    /// For each second of the measurement, the nanoseconds during which a busy host kept the client
    /// or its server waiting.
    pub host_ns: &'a [u64],
    /// The waits of the client's requests, by the second of the caller's clock.
    pub standings: &'a BTreeMap<u64, SecondWaits>,
    /// For each second of the measurement, the cause that the server has reported.
    pub reported_causes: &'a [Option<Blame>],
    /// The names of [neighbours](Blame::neighbour), by their numbers.
    pub names: &'a [String],
}

impl<'a> RunContext<'a> {
    /// Creates the information for a run of which only the amounts that all clients were served are
    /// known.
    pub fn new(all: &'a Series) -> Self {
        const NOTHING: &BTreeMap<u64, SecondWaits> = &BTreeMap::new();
        Self {
            all,
            host_ns: &[],
            standings: NOTHING,
            reported_causes: &[],
            names: &[],
        }
    }

    /// Returns the name of the neighbour, if it is known.
    pub fn name(&self, blame: Blame) -> Option<&'a str> {
        let name = self.names.get(blame.neighbour? as usize)?;
        Some(name.as_str()).filter(|name| !name.is_empty())
    }
}

/// The verdicts on a whole run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunVerdicts {
    /// The number of seconds for each verdict.
    pub seconds: Seconds,
    /// The short seconds, in their order.
    pub short: Vec<ShortSecond>,
    /// The nanoseconds of the promised seconds in which the client had a request outstanding.
    pub waited_ns: u64,
}

/// A second in which a promise was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortSecond {
    /// The number of the second in the measurement, from 0.
    pub second: u64,
    /// The amount owed to the client in this second, in the units of the promise.
    pub owed: u64,
    /// The missing part of the owed amount, in the units of the promise.
    pub by: u64,
    /// The cause of the shortfall.
    pub why: Blame,
}

impl RunVerdicts {
    /// Returns the fraction (0 to 1) of seconds in which the promise was kept, among those in which
    /// it applied. `None` if it applied in none.
    pub fn fraction(&self) -> Option<f64> {
        let owed = self.seconds.kept + self.seconds.all_short();
        (owed > 0).then(|| self.seconds.kept as f64 / owed as f64)
    }

    /// Adds the verdict on the next second, in which the client was owed `owed`.
    pub(crate) fn add(&mut self, verdict: PromiseVerdict, owed: u64, second: u64) {
        if let PromiseVerdict::Short { by, why } = verdict {
            self.short.push(ShortSecond {
                second,
                owed,
                by,
                why,
            });
        }
    }
}
