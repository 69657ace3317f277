//! The counting of a drive's requests, and the judging of its promises second by second.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::record::{Call, Recorder};
use weir_core::{Contract, Done, GroupId, Instant, Op, Outcome, PROMISABLE, Span};
use weir_measure::explain::{Journal, note};
use weir_measure::promise::{Promise, PromiseVerdict, PromisedRate, RemoteStorage, SecondWaits};
use weir_measure::{SECOND_NS, WindowTotals};

use super::drive::ShardDrive;
use super::front::ClientRequest;
use super::seen::{GroupNames, LayerObservers};
use super::volume::{DriveTenant, ShardVolume};
use crate::backend::RemoteState;
use crate::metrics::{Causes, VolumeTally};

/// The shard's knowledge of a completed request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestFacts {
    /// True if the client does not read its answers.
    pub(super) held: bool,
    /// True if the request had the drive to itself.
    pub(super) alone: bool,
    /// The time between the request's arrival and its being taken.
    pub(super) untaken: Span,
}

/// A second of a drive that has ended. More seconds may have ended since.
struct EndedSecond<'a> {
    now: Instant,
    /// The service of all clients in this second.
    second: WindowTotals,
    /// The number of the second by the shard's clock.
    number: u64,
    pool: RemoteStorage,
    names: &'a GroupNames,
}

/// The recipients of verdicts.
struct VerdictObservers<'a> {
    recorder: &'a mut Option<Recorder>,
    journal: &'a mut Journal,
}

impl EndedSecond<'_> {
    /// Judges a promise for this second. `busiest` is the other client that used the shard's
    /// processor most. `limited` is the number of requests that a limit throttles.
    fn judge(
        &self,
        told: &mut VerdictObservers<'_>,
        group: Option<GroupId>,
        busiest: Option<GroupId>,
        (promise, causes): (&mut Promise, &mut Causes),
        limited: u32,
    ) {
        let standing = group.and_then(|group| told.journal.standing(self.now, group, self.number));
        let busiest = busiest.map(|group| group.0);
        promise.standing(standing.map(|all| all.map(|of| SecondWaits { busiest, ..of })));
        promise.pool(self.pool);
        promise.pass_with_rulings(self.now.as_nanos(), self.second, limited, |ruling| {
            if let PromiseVerdict::Short { why, .. } = ruling.verdict {
                causes.count(why, self.names);
            }
            if let Some(group) = group {
                told.journal.ruled(group, &ruling);
                if let Some(recorder) = told.recorder {
                    let bytes = &note(group, &ruling);
                    recorder.append(self.now, &Call::Note { bytes });
                }
            }
        });
        causes.end_second(promise, self.names);
    }
}

impl ShardDrive {
    /// Ends seconds that are over by `now`. Must be called before an event at `now` is counted.
    #[inline]
    pub(super) fn pass_seconds(&mut self, now: Instant) {
        if now.as_nanos() >= self.counted.ends {
            self.end_second(now);
        }
    }

    /// Ends the current second. If later seconds are over as well, nothing happened in them.
    fn end_second(&mut self, now: Instant) {
        let limited = self.count_throttled();
        let ns = now.as_nanos();
        let ended = self.counted.ends;
        let next = (ns / SECOND_NS + 1) * SECOND_NS;
        let (second, was_busy) = self.counted.end_second(now, next);
        let pool = self.pool(ended - SECOND_NS, second, was_busy);
        let LayerObservers {
            recorder,
            journal,
            names,
        } = self.layer.observer_mut();
        let mut told = VerdictObservers { recorder, journal };
        let ended = EndedSecond {
            now,
            second,
            number: ended / SECOND_NS - 1,
            pool,
            names,
        };
        for (volume, limited) in self.volumes.iter_mut().zip(&limited) {
            if let Some(volume) = volume {
                let (group, busiest) = (volume.group, volume.busiest);
                let VolumeTally {
                    promise, causes, ..
                } = &mut volume.tally;
                ended.judge(&mut told, Some(group), busiest, (promise, causes), *limited);
                volume.tally.end_second(ns < (ended.number + 2) * SECOND_NS);
            }
        }
        for (at, tenant) in self.tenants.iter_mut().enumerate() {
            let members = self.volumes.iter().zip(&limited);
            let members = members.filter(|(v, _)| v.as_ref().is_some_and(|v| v.member == Some(at)));
            let limited = members.map(|(_, limited)| limited).sum();
            let group = self.plan.tenants.get(&tenant.name).copied();
            let DriveTenant {
                promise, causes, ..
            } = tenant;
            ended.judge(&mut told, group, None, (promise, causes), limited);
        }
    }

    /// Returns the state of the remote storage in a second that began at `began_ns` with the
    /// service `second`. `was_busy` is true if the storage always had requests. It is slow if it
    /// did less than the part of its capacity that can be promised.
    fn pool(&self, began_ns: u64, second: WindowTotals, was_busy: bool) -> RemoteStorage {
        let volumes = self.volumes.iter().flatten();
        let mut states = volumes.filter_map(|v| v.backend.remote()).peekable();
        // Local storage has no server that could be slow or away.
        if states.peek().is_none() {
            return RemoteStorage::Fit;
        }
        let was_away =
            |s: RemoteState| s.away || s.losses > 0 && s.last_away.as_nanos() >= began_ns;
        if states.any(was_away) {
            return RemoteStorage::Away;
        }
        let Some(capacity) = self.layer.layer().config().drive.capacity else {
            return RemoteStorage::Fit;
        };
        // In millionths, the unit of `PROMISABLE`.
        let part = |did: u64, of: u64| did.saturating_mul(1_000_000) / of.max(1);
        let bytes = part(second.bytes, capacity.bytes());
        let requests = match capacity.requests() {
            0 => 0,
            stated => part(second.requests, stated),
        };
        if was_busy && bytes.max(requests) < PROMISABLE {
            RemoteStorage::Slow
        } else {
            RemoteStorage::Fit
        }
    }

    /// Counts the requests of each volume that a limit throttles. All counts are 0 if no verdict
    /// depends on them.
    fn count_throttled(&self) -> Vec<u32> {
        let mut limited = vec![0; self.volumes.len()];
        let is_still = |tally: &Promise| tally.is_still();
        let matters = |volume: &ShardVolume| {
            let tenant = volume.member.map(|at| &self.tenants[at].promise);
            is_still(&volume.tally.promise) || tenant.is_some_and(is_still)
        };
        if !self.volumes.iter().flatten().any(matters) {
            return limited;
        }
        for (space, stream) in self.open_streams() {
            if let Some(gauges) = self.layer.layer().gauges(stream) {
                limited[space as usize] += gauges.limited;
            }
        }
        limited
    }

    /// Applies `tell` to the promises that an event now concerns: that of a volume and that of its
    /// tenant.
    #[inline]
    fn for_each_promise(&mut self, now: Instant, space: u32, tell: impl Fn(&mut Promise)) {
        let Some(volume) = &mut self.volumes[space as usize] else {
            return;
        };
        let tenant = volume.member.and_then(|at| self.tenants.get_mut(at));
        let tenant = tenant.map(|tenant| &mut tenant.promise);
        for promise in [Some(&mut volume.tally.promise), tenant]
            .into_iter()
            .flatten()
        {
            promise.pass(now.as_nanos(), WindowTotals::default(), 0);
            tell(promise);
        }
    }

    /// Counts a request that is submitted to the layer. `held` is true if the client does not read
    /// its answers. `arrived` is the earliest possible time of arrival, if that was before this
    /// turn.
    pub(super) fn count_in(
        &mut self,
        now: Instant,
        space: u32,
        ask: &ClientRequest,
        held: bool,
        arrived: Option<Instant>,
    ) {
        self.pass_seconds(now);
        if let Some(volume) = &mut self.volumes[space as usize] {
            volume.tally.live += 1;
        }
        // Promises are made for reads and writes. The time of a flush depends on earlier writes.
        if ask.op != Op::Flush {
            self.for_each_promise(now, space, |promise| {
                if let Some(since) = arrived.filter(|_| !held) {
                    promise.waits_since(since.as_nanos());
                }
                promise.sent(held);
                promise.note_request_bytes(ask.op.charge(ask.length.into()));
            });
        }
    }

    /// Counts the wait of a request that arrived at `since` and was not taken by `now`.
    pub(super) fn note_untaken(&mut self, now: Instant, space: u32, since: Instant) {
        self.for_each_promise(now, space, |promise| promise.waits_since(since.as_nanos()));
    }

    /// Counts a request that has completed.
    pub(super) fn count(&mut self, now: Instant, space: u32, done: &Done, counts: RequestFacts) {
        let RequestFacts {
            held,
            alone,
            untaken,
        } = counts;
        self.pass_seconds(now);
        if let Some(volume) = &mut self.volumes[space as usize] {
            volume.tally.done(done, untaken);
        }
        if done.op == Op::Flush {
            return;
        }
        if done.outcome == Outcome::Ok {
            self.counted.second.requests += 1;
        }
        self.for_each_promise(now, space, |promise| promise.ended(done, held, alone));
    }

    /// Counts a piece that the drive has completed.
    pub(super) fn count_piece(&mut self, now: Instant, space: u32, op: Op, length: u32) {
        let bytes = op.charge(length.into());
        if bytes == 0 {
            return;
        }
        self.counted.second.bytes += bytes;
        if let Some(volume) = &mut self.volumes[space as usize] {
            volume.tally.second_bytes += bytes;
        }
        self.for_each_promise(now, space, |promise| promise.served(bytes));
    }

    /// Reverts [`Self::count_in`] for a request that the layer has refused or not received.
    pub(super) fn uncount_request(&mut self, now: Instant, space: u32, op: Op, held: bool) {
        self.pass_seconds(now);
        if let Some(volume) = &mut self.volumes[space as usize] {
            volume.tally.live = volume.tally.live.saturating_sub(1);
        }
        if op != Op::Flush {
            self.for_each_promise(now, space, |promise| promise.end_request(held));
        }
    }

    /// Excludes a client's `requests` from promises while it does not read its answers (`held`), or
    /// includes them again.
    pub(super) fn suspend(&mut self, now: Instant, space: u32, requests: u32, held: bool) {
        self.pass_seconds(now);
        self.for_each_promise(now, space, |promise| promise.suspend(requests, held));
    }

    /// Judges promises by the present contracts of the volumes from now on.
    pub(super) fn apply_promises(&mut self, now: Instant) {
        self.has_new_terms = true;
        for volume in self.volumes.iter_mut().flatten() {
            let rate = PromisedRate::of(&volume.contract());
            let promise = &mut volume.tally.promise;
            promise.pass(now.as_nanos(), WindowTotals::default(), 0);
            promise.change(rate);
        }
    }

    /// Applies the present terms of volumes and tenants to their promises.
    pub(super) fn apply_terms(&mut self, now: Instant) {
        self.pass_seconds(now);
        let mut tenants: BTreeMap<&str, Contract> = BTreeMap::new();
        for volume in self.volumes.iter().flatten() {
            if let Some(tenant) = &volume.terms.tenant {
                tenants.insert(&tenant.name, tenant.contract);
            }
        }
        let mut before = std::mem::take(&mut self.tenants);
        for (name, contract) in tenants {
            let at = before.iter().position(|t| t.name == name);
            let mut tenant = at.map_or_else(
                || DriveTenant {
                    name: name.to_owned(),
                    promise: Promise::new(now.as_nanos(), None),
                    causes: Causes::default(),
                },
                |at| before.swap_remove(at),
            );
            tenant
                .promise
                .pass(now.as_nanos(), WindowTotals::default(), 0);
            tenant.promise.change(PromisedRate::of(&contract));
            self.tenants.push(tenant);
        }
        for volume in self.volumes.iter_mut().flatten() {
            let tenant = volume.terms.tenant.as_ref();
            volume.member =
                tenant.and_then(|t| self.tenants.iter().position(|other| other.name == t.name));
        }
        self.apply_promises(now);
        let volumes = self.volumes.iter().flatten();
        let names = volumes.map(|volume| (volume.group, volume.name.clone()));
        self.layer.observer_mut().names = Arc::new(names.collect());
    }
}
