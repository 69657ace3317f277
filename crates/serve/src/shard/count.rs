//! What a drive counts for the metrics: its volumes' requests, its seconds, and how promises fare.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::record::{Call, Recorder};
use weir_core::{Contract, Done, GroupId, Instant, Op, Outcome, PROMISABLE, Span};
use weir_measure::explain::{Journal, note};
use weir_measure::promise::{Pool, Promise, Rate, Standing, Verdict};
use weir_measure::{SECOND_NS, Window};

use super::drive::Drive;
use super::front::Ask;
use super::seen::{Names, Seen};
use super::volume::{Tenant, Volume};
use crate::backend::RemoteState;
use crate::metrics::{Causes, Tally};

/// What the shard knows of a request that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    /// Its client does not read its answers.
    pub(super) held: bool,
    /// It had the drive to itself.
    pub(super) alone: bool,
    /// For how long it was there before it was taken.
    pub(super) untaken: Span,
}

/// A second of a drive that has ended, perhaps with some after it.
struct Ended<'a> {
    now: Instant,
    /// What all clients were served in it.
    second: Window,
    /// Its number by the shard's clock.
    number: u64,
    pool: Pool,
    names: &'a Names,
}

/// What is told of verdicts.
struct Told<'a> {
    recorder: &'a mut Option<Recorder>,
    journal: &'a mut Journal,
}

impl Ended<'_> {
    /// Judges a promise in this second. `busiest`: the other client for which the shard worked most; `limited`: requests that a limit holds.
    fn judge(
        &self,
        told: &mut Told<'_>,
        group: Option<GroupId>,
        busiest: Option<GroupId>,
        (promise, causes): (&mut Promise, &mut Causes),
        limited: u32,
    ) {
        let standing = group.and_then(|group| told.journal.standing(self.now, group, self.number));
        let busiest = busiest.map(|group| group.0);
        promise.standing(standing.map(|all| all.map(|of| Standing { busiest, ..of })));
        promise.pool(self.pool);
        promise.pass_told(self.now.as_nanos(), self.second, limited, |ruling| {
            if let Verdict::Short { why, .. } = ruling.verdict {
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

impl Drive {
    /// Time passes up to `now`, before anything that happens now.
    #[inline]
    pub(super) fn pass(&mut self, now: Instant) {
        if now.as_nanos() >= self.counted.ends {
            self.end_second(now);
        }
    }

    /// Ends the second that was under way, and those after it that are over, too: nothing happened in these.
    fn end_second(&mut self, now: Instant) {
        let limited = self.limited();
        let ns = now.as_nanos();
        let ended = self.counted.ends;
        let next = (ns / SECOND_NS + 1) * SECOND_NS;
        let (second, was_busy) = self.counted.end_second(now, next);
        let pool = self.pool(ended - SECOND_NS, second, was_busy);
        let Seen {
            recorder,
            journal,
            names,
        } = self.layer.observer_mut();
        let mut told = Told { recorder, journal };
        let ended = Ended {
            now,
            second,
            number: ended / SECOND_NS - 1,
            pool,
            names,
        };
        for (volume, limited) in self.volumes.iter_mut().zip(&limited) {
            if let Some(volume) = volume {
                let (group, busiest) = (volume.group, volume.busiest);
                let Tally {
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
            let Tenant {
                promise, causes, ..
            } = tenant;
            ended.judge(&mut told, group, None, (promise, causes), limited);
        }
    }

    /// What the server of a remote storage did in a second that began at `began_ns`, in which it served `second`. `was_busy`: it always had
    /// something to do. Slow is what does less than may be promised of it.
    fn pool(&self, began_ns: u64, second: Window, was_busy: bool) -> Pool {
        let volumes = self.volumes.iter().flatten();
        let mut states = volumes.filter_map(|v| v.backend.remote()).peekable();
        if states.peek().is_none() {
            return Pool::Fit;
        }
        let was_away =
            |s: RemoteState| s.away || s.losses > 0 && s.last_away.as_nanos() >= began_ns;
        if states.any(was_away) {
            return Pool::Away;
        }
        let Some(capacity) = self.layer.layer().config().drive.capacity else {
            return Pool::Fit;
        };
        let part = |did: u64, of: u64| did.saturating_mul(1_000_000) / of.max(1);
        let bytes = part(second.bytes, capacity.bytes());
        let requests = match capacity.requests() {
            0 => 0,
            stated => part(second.requests, stated),
        };
        if was_busy && bytes.max(requests) < PROMISABLE {
            Pool::Slow
        } else {
            Pool::Fit
        }
    }

    /// Requests of each volume that are held back by a limit, where it matters.
    fn limited(&self) -> Vec<u32> {
        let mut limited = vec![0; self.volumes.len()];
        let is_still = |tally: &Promise| tally.is_still();
        let matters = |volume: &Volume| {
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

    /// Tells the promises of a volume, its own and its tenant's, of something that happens now.
    #[inline]
    fn promises(&mut self, now: Instant, space: u32, tell: impl Fn(&mut Promise)) {
        let Some(volume) = &mut self.volumes[space as usize] else {
            return;
        };
        let tenant = volume.member.and_then(|at| self.tenants.get_mut(at));
        let tenant = tenant.map(|tenant| &mut tenant.promise);
        for promise in [Some(&mut volume.tally.promise), tenant]
            .into_iter()
            .flatten()
        {
            promise.pass(now.as_nanos(), Window::default(), 0);
            tell(promise);
        }
    }

    /// Counts a request that goes to the layer. `held`: its client does not read its answers. `arrived`: when it came, at the earliest,
    /// if that was before this turn.
    pub(super) fn count_in(
        &mut self,
        now: Instant,
        space: u32,
        ask: &Ask,
        held: bool,
        arrived: Option<Instant>,
    ) {
        self.pass(now);
        if let Some(volume) = &mut self.volumes[space as usize] {
            volume.tally.live += 1;
        }
        if ask.op != Op::Flush {
            self.promises(now, space, |promise| {
                if let Some(since) = arrived.filter(|_| !held) {
                    promise.waits_since(since.as_nanos());
                }
                promise.sent(held);
                promise.asks(ask.op.charge(ask.length.into()));
            });
        }
    }

    /// A request that arrived at `since` was not taken by `now`.
    pub(super) fn note_untaken(&mut self, now: Instant, space: u32, since: Instant) {
        self.promises(now, space, |promise| promise.waits_since(since.as_nanos()));
    }

    /// Counts a request that is over.
    pub(super) fn count(&mut self, now: Instant, space: u32, done: &Done, counts: Counts) {
        let Counts {
            held,
            alone,
            untaken,
        } = counts;
        self.pass(now);
        if let Some(volume) = &mut self.volumes[space as usize] {
            volume.tally.done(done, untaken);
        }
        if done.op == Op::Flush {
            return;
        }
        if done.outcome == Outcome::Ok {
            self.counted.second.requests += 1;
        }
        self.promises(now, space, |promise| promise.ended(done, held, alone));
    }

    /// Counts a piece that the drive has served.
    pub(super) fn count_piece(&mut self, now: Instant, space: u32, op: Op, length: u32) {
        let bytes = op.charge(length.into());
        if bytes == 0 {
            return;
        }
        self.counted.second.bytes += bytes;
        if let Some(volume) = &mut self.volumes[space as usize] {
            volume.tally.second_bytes += bytes;
        }
        self.promises(now, space, |promise| promise.served(bytes));
    }

    /// Counts a request back that the layer did not take.
    pub(super) fn withdraw(&mut self, now: Instant, space: u32, op: Op, held: bool) {
        self.pass(now);
        if let Some(volume) = &mut self.volumes[space as usize] {
            volume.tally.live = volume.tally.live.saturating_sub(1);
        }
        if op != Op::Flush {
            self.promises(now, space, |promise| promise.over(held));
        }
    }

    /// A client does not read its answers, or does so again; `requests` of its requests count for promises.
    pub(super) fn suspend(&mut self, now: Instant, space: u32, requests: u32, held: bool) {
        self.pass(now);
        self.promises(now, space, |promise| promise.suspend(requests, held));
    }

    /// What volumes are promised is judged from now on as it is now.
    pub(super) fn put_promises_in_force(&mut self, now: Instant) {
        self.has_new_terms = true;
        for volume in self.volumes.iter_mut().flatten() {
            let rate = Rate::of(&volume.contract());
            let promise = &mut volume.tally.promise;
            promise.pass(now.as_nanos(), Window::default(), 0);
            promise.change(rate);
        }
    }

    /// The terms of volumes and tenants are in force from now on.
    pub(super) fn put_terms_in_force(&mut self, now: Instant) {
        self.pass(now);
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
                || Tenant {
                    name: name.to_owned(),
                    promise: Promise::new(now.as_nanos(), None),
                    causes: Causes::default(),
                },
                |at| before.swap_remove(at),
            );
            tenant.promise.pass(now.as_nanos(), Window::default(), 0);
            tenant.promise.change(Rate::of(&contract));
            self.tenants.push(tenant);
        }
        for volume in self.volumes.iter_mut().flatten() {
            let tenant = volume.terms.tenant.as_ref();
            volume.member =
                tenant.and_then(|t| self.tenants.iter().position(|other| other.name == t.name));
        }
        self.put_promises_in_force(now);
        let volumes = self.volumes.iter().flatten();
        let names = volumes.map(|volume| (volume.group, volume.name.clone()));
        self.layer.observer_mut().names = Arc::new(names.collect());
    }
}
