//! What was promised: a clock for each reservation, who is behind, and what others may have in flight for its sake.
//!
//! A reservation's clock stands at the instant up to which the promise has been kept: service of `s` bytes moves it `s / min`
//! on. Who has something to send and whose clock is not ahead of now is *behind* and is served first. Of several the earliest
//! deadline comes first, which is the clock and the time that what the client keeps outstanding may take (mClock's reservation
//! tags: Gulati, Merchant, Varman, "mClock", 2010; in the order of EEVDF: Stoica, Abdel-Wahab, "Earliest eligible virtual
//! deadline first", 1995).
//!
//! A client is made whole for what it fell behind while it waited here, up to a limit. When all are behind by more, the drive is
//! too slow for what was promised: then it is the promises' time that goes slower, so that each is kept in the same proportion.
//!
//! A client that asks for one thing at a time is kept from its min by what stands before it in the drive, however early it is
//! served. From the bytes it keeps outstanding follows the time its next request may take, less the time its client thinks. What
//! *others* have in flight is bounded to what the drive does in that time beside the request itself: whoever finds so much in
//! the drive is done when so much has been done (Little's law), at the speed that the drive has shown (`window`). But never
//! to less than the drive works on at a time: that would leave it idle and let nobody's request return sooner.

use super::GRAIN;
use super::cost::Model;
use super::window::Window;
use crate::contract::{Class, Contract};
use crate::group::{GroupId, Groups};
use crate::heap::Heap;
use crate::list::NIL;
use crate::mutant;
use crate::time::mul_div_floor;
use crate::tree::{Forest, Tree};
use crate::{Instant, ROOT, Span};
use alloc::vec;
use alloc::vec::Vec;

/// Reserved are this many 64ths more than was promised, so that a window that ends between two requests keeps its promise.
const HEADROOM: u64 = 2;
/// Of the time a request may take, others get at most this many eighths in front of it.
const MARGIN: u64 = 7;
/// A reservation that asks for nothing bounds others for at least and at most this long, a realtime one for a second.
const LINGER_MIN: Span = Span::from_millis(5);
const LINGER_MAX: Span = Span::from_millis(100);
const LINGER_REALTIME: Span = Span::from_secs(1);
/// Others are bounded to no less than the drive works on at a time and this part of it more.
const LEAST: u64 = 4;
/// So many of the tightest bounds are looked at for each piece.
const LOOKED_AT: usize = 4;

/// For the sake of at most so many that have nothing waiting a flush is held back.
const SYNC_LOOKED_AT: usize = 32;
/// Who has had an answer asks again within twice the time that it usually takes and this.
const SOON: Span = Span::from_micros(100);

/// One group's promise.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    /// Bytes and requests a second with the headroom, zero for none; both zero: nothing reserved.
    bytes: u64,
    iops: u64,
    realtime: bool,
    /// Nearest group with a reservation above this one, or [`NIL`].
    above: u32,
    /// Up to here the promise has been kept.
    kept: Instant,
    /// Bytes and requests submitted and not done.
    outstanding: u64,
    requests: u64,
    /// Averages of the two just before a request ends.
    usual: u64,
    usual_requests: u64,
    /// The time at the promised rate that these take.
    period: u64,
    /// When it had nothing outstanding last, and the average time until it had again.
    idle_since: Instant,
    think: u64,
    /// Its last sign of life.
    seen: Instant,
    /// Modelled cost of its own in the drive.
    flight: u64,
    /// The bound for others that is in force.
    bound: u64,
    /// False if not even an idle drive would keep the promise: its client is the limit, or the drive's delay.
    reachable: bool,
}

const NOTHING: Reservation = Reservation {
    bytes: 0,
    iops: 0,
    realtime: false,
    above: NIL,
    kept: Instant::ZERO,
    outstanding: 0,
    requests: 0,
    usual: 0,
    usual_requests: 0,
    period: 0,
    idle_since: Instant::ZERO,
    think: 0,
    seen: Instant::ZERO,
    flight: 0,
    bound: u64::MAX,
    reachable: true,
};

impl Reservation {
    fn exists(&self) -> bool {
        self.bytes > 0 || self.iops > 0
    }

    /// The time at the promised rate that so much service takes.
    fn time_for(&self, bytes: u64, requests: u64) -> u64 {
        let at = |amount: u64, rate: u64| {
            if rate == 0 {
                0
            } else {
                mul_div_floor(amount, 1_000_000_000, rate)
            }
        };
        at(bytes, self.bytes).max(at(requests, self.iops))
    }

    fn linger(&self) -> Span {
        if self.realtime {
            return LINGER_REALTIME;
        }
        let period = Span::from_nanos(self.period) + Span::from_nanos(self.think);
        period.times(4).clamp(LINGER_MIN, LINGER_MAX)
    }
}

/// All reservations.
#[derive(Debug)]
pub(super) struct Reservations {
    table: Vec<Reservation>,
    /// The group itself if it has a reservation, else the nearest above it that has, else [`NIL`].
    nearest: Vec<u32>,
    /// Those with something to send, by their deadline, from when their promise has been kept on; realtime ones apart, by when they
    /// began to wait.
    behind: Tree,
    waiting: Forest,
    urgent: Heap,
    /// Those that are alive, by their bound.
    bounds: Tree,
    forest: Forest,
    /// By this the promises' time is behind: a drive too slow for all of them keeps each in proportion.
    late: Span,
    catch_up: Span,
    forget: Span,
}

impl Reservations {
    pub(super) fn new(groups: u32, catch_up: Span, forget: Span) -> Self {
        Self {
            table: vec![NOTHING; groups as usize],
            nearest: vec![NIL; groups as usize],
            behind: Tree::EMPTY,
            waiting: Forest::new(groups),
            urgent: Heap::new(groups),
            bounds: Tree::EMPTY,
            forest: Forest::new(groups),
            late: Span::ZERO,
            catch_up,
            forget,
        }
    }

    /// The tree or its contracts changed.
    pub(super) fn set(&mut self, now: Instant, groups: &Groups) {
        for slot in 0..groups.capacity() {
            let contract = groups
                .get(GroupId(slot))
                .filter(|_| GroupId(slot) != ROOT)
                .filter(|g| g.children == 0 || !mutant::is(mutant::TENANT_PROMISE_IGNORED))
                .map(|g| g.contract);
            self.set_one(now, slot, contract.as_ref());
        }
        for slot in 0..groups.capacity() {
            let mut reserved = groups
                .get(GroupId(slot))
                .into_iter()
                .flat_map(|_| groups.path(GroupId(slot)))
                .map(|g| g.0)
                .filter(|&g| self.table[g as usize].exists());
            let nearest = reserved.next().unwrap_or(NIL);
            self.nearest[slot as usize] = nearest;
            if nearest == slot {
                self.table[slot as usize].above = reserved.next().unwrap_or(NIL);
            }
        }
    }

    fn set_one(&mut self, now: Instant, slot: u32, contract: Option<&Contract>) {
        let reserved = contract.map(Contract::reserved).unwrap_or_default();
        let r = &mut self.table[slot as usize];
        let existed = r.exists();
        let more = |rate: u64| rate + rate.div_ceil(64) * HEADROOM;
        (r.bytes, r.iops) = match (reserved.bytes, reserved.iops) {
            (0, 0) => (0, 0),
            (b, i) => (
                if b > 0 { more(b) } else { 0 },
                if i > 0 { more(i) } else { 0 },
            ),
        };
        if mutant::is(mutant::MIN_IOPS_IGNORED) {
            r.iops = 0;
        }
        if existed && mutant::is(mutant::PROMISE_FORGOTTEN_ON_CHANGE) {
            (r.bytes, r.iops) = (0, 0);
        }
        r.realtime = contract.is_some_and(|c| c.class == Class::Realtime);
        if existed && !r.exists() {
            self.unbind(slot);
            self.wait_no_more(slot);
            self.table[slot as usize] = NOTHING;
        } else if !existed && r.exists() {
            (r.kept, r.idle_since) = (now, now);
        }
    }

    /// The reservations on the path of a group, itself first.
    fn path(&self, group: GroupId) -> impl Iterator<Item = u32> + '_ {
        let first = Some(self.nearest[group.0 as usize]).filter(|&g| g != NIL);
        core::iter::successors(first, |&g| {
            Some(self.table[g as usize].above).filter(|&g| g != NIL)
        })
    }

    /// True if the group is `reserved` or below it.
    pub(super) fn is_within(&self, group: GroupId, reserved: u32) -> bool {
        self.path(group).any(|g| g == reserved)
    }
}

/// Requests come, go to the drive, and end.
impl Reservations {
    /// A request of `bytes` was submitted.
    pub(super) fn arrived(&mut self, now: Instant, group: GroupId, bytes: u64) {
        let mut at = self.nearest[group.0 as usize];
        while at != NIL {
            let (due, catch_up, forget) = (now.back(self.late), self.catch_up, self.forget);
            let r = &mut self.table[at as usize];
            if r.requests == 0 {
                let pause = now.since(r.idle_since);
                if pause > forget {
                    r.kept = r.kept.max(due);
                } else {
                    r.think = average(r.think, pause.as_nanos());
                }
            }
            if r.realtime || !self.waiting.contains(at) {
                // It had nothing to send: what it lost meanwhile was lost through itself.
                r.kept = r.kept.max(due.back(catch_up));
            }
            r.outstanding += bytes;
            r.requests += 1;
            r.seen = now;
            if !self.forest.contains(at) {
                let bound = r.bound;
                self.forest.insert(&mut self.bounds, at, bound, 0);
            }
            self.wait(now, at);
            at = self.table[at as usize].above;
        }
    }

    /// A piece of `bytes` went to the drive at `cost`; `last` if it was the last of its request.
    pub(super) fn sent(&mut self, now: Instant, group: GroupId, bytes: u64, cost: u64, last: bool) {
        let due = now.back(self.late);
        let mut at = self.nearest[group.0 as usize];
        while at != NIL {
            let r = &mut self.table[at as usize];
            if r.usual == 0 {
                (r.usual, r.usual_requests) = (r.outstanding, r.requests);
            }
            // What it gets beyond its promise is not held against it later (mClock: so does its weight-based phase).
            r.kept = r.kept.min(due) + Span::from_nanos(r.time_for(bytes, u64::from(last)));
            r.flight += cost;
            let above = r.above;
            self.wait_no_more(at);
            at = above;
        }
    }

    /// The reservations above `group` that still have something to send wait on.
    pub(super) fn wait_on(&mut self, now: Instant, group: GroupId, active: impl Fn(u32) -> bool) {
        let mut at = self.nearest[group.0 as usize];
        while at != NIL {
            if active(at) {
                self.wait(now, at);
            } else {
                self.wait_no_more(at);
            }
            at = self.table[at as usize].above;
        }
    }

    /// A piece came back; `last` if that was all of its request.
    pub(super) fn completed(
        &mut self,
        now: Instant,
        group: GroupId,
        bytes: u64,
        cost: u64,
        last: bool,
        drive: Drive<'_>,
    ) {
        let mut at = self.nearest[group.0 as usize];
        while at != NIL {
            let r = &mut self.table[at as usize];
            r.flight = r.flight.saturating_sub(cost);
            if last {
                r.usual = average(r.usual, r.outstanding);
                r.usual_requests = average(r.usual_requests << 3, r.requests << 3) >> 3;
                r.usual_requests = r.usual_requests.max(1);
            }
            let above = r.above;
            self.left(now, at, bytes, last);
            self.bind(now, at, drive);
            at = above;
        }
    }

    /// A request left the elevator with `bytes` of it unsent. It counts no longer, whatever of it is in the drive: it is given
    /// up, or it will arrive again.
    pub(super) fn removed(&mut self, now: Instant, group: GroupId, bytes: u64) {
        let mut at = self.nearest[group.0 as usize];
        while at != NIL {
            self.left(now, at, bytes, true);
            at = self.table[at as usize].above;
        }
    }

    /// Modelled cost in flight is counted anew: the model or the tree changed.
    pub(super) fn recount(&mut self, flights: impl Iterator<Item = (GroupId, u64)>) {
        for r in &mut self.table {
            r.flight = 0;
        }
        for (group, cost) in flights {
            let mut at = self.nearest[group.0 as usize];
            while at != NIL {
                self.table[at as usize].flight += cost;
                at = self.table[at as usize].above;
            }
        }
    }

    /// The realtime reservation that has waited longest.
    pub(super) fn urgent(&self) -> Option<u32> {
        self.urgent.first().map(|(_, g)| g)
    }

    /// Of the reservations that are behind, the one with the earliest deadline.
    pub(super) fn behind(&mut self, now: Instant) -> Option<u32> {
        let at = |late| now.back(late).as_nanos();
        let found = self.waiting.first_eligible(&self.behind, at(self.late));
        let Some(group) = found else {
            if self.late == Span::ZERO {
                return None;
            }
            // All promises are kept again, or no one asks.
            self.late = Span::ZERO;
            return self.waiting.first_eligible(&self.behind, at(self.late));
        };
        let kept = self.table[group as usize].kept;
        self.late = self.late.max(now.since(kept + self.catch_up));
        Some(group)
    }

    fn wait(&mut self, now: Instant, at: u32) {
        let r = &self.table[at as usize];
        if r.realtime {
            if self.urgent.get(at).is_none() {
                let ticket = self.urgent.ticket();
                self.urgent.set(at, now, ticket);
            }
        } else {
            let kept = r.kept.as_nanos();
            let deadline = kept + r.period.min(self.catch_up.as_nanos() / 2);
            if self.waiting.contains(at) {
                if self.waiting.key(at) == deadline {
                    return;
                }
                self.waiting.remove(&mut self.behind, at);
            }
            self.waiting.insert(&mut self.behind, at, deadline, kept);
        }
    }

    fn wait_no_more(&mut self, at: u32) {
        if self.waiting.contains(at) {
            self.waiting.remove(&mut self.behind, at);
        }
        self.urgent.clear(at);
    }

    fn left(&mut self, now: Instant, at: u32, bytes: u64, last: bool) {
        let r = &mut self.table[at as usize];
        r.outstanding = r.outstanding.saturating_sub(bytes);
        r.seen = now;
        if last {
            r.requests = r.requests.saturating_sub(1);
            if r.requests == 0 {
                r.idle_since = now;
            }
        }
    }
}

/// Whom a flush would make late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Late {
    /// An idle drive would keep the promise.
    pub(super) reachable: bool,
    /// Whether it asks will be known then.
    pub(super) until: Instant,
}

/// Flushes in front of promised requests.
impl Reservations {
    /// A reservation that is behind, or would be beyond its deadline, while a flush that takes `time` runs after `running` others.
    /// Of those who have nothing to be done, only who is about to ask counts, and not who waits for a flush itself (`syncs`).
    pub(super) fn late_by_flush(
        &self,
        now: Instant,
        time: u64,
        running: u64,
        syncs: impl Fn(u32) -> bool,
    ) -> Option<Late> {
        let due = now.back(self.late);
        let wait = time.saturating_mul(running + 1);
        let waits = self.waiting.first_eligible(&self.behind, due.as_nanos());
        let others = self.forest.iter(&self.bounds).take(SYNC_LOOKED_AT);
        let mut found = None;
        for group in waits.into_iter().chain(others) {
            let r = &self.table[group as usize];
            let lag = due.since(r.kept).as_nanos();
            let in_time = lag.saturating_add(wait) <= r.period / 2;
            if in_time || (lag == 0 && running == 0) {
                continue;
            }
            let mut until = Instant::MAX;
            if r.requests == 0 {
                until = r.idle_since + Span::from_nanos(r.think).times(2) + SOON;
                if now >= until || syncs(group) {
                    continue;
                }
            }
            let reachable = r.reachable;
            found = Some(Late { reachable, until });
            if reachable {
                break;
            }
        }
        found
    }
}

/// What a bound is computed from beside the reservation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drive<'a> {
    pub(super) model: &'a Model,
    pub(super) window: &'a Window,
}

/// Bounds on what others have in flight.
impl Reservations {
    /// The largest piece that a member of `group` may send, in nanoseconds of modelled cost: the tightest bound on it is divided so
    /// that while one piece is on its way back, the others are as much as the drive works on at a time.
    pub(super) fn portion(&mut self, now: Instant, group: GroupId, product: u64) -> Option<u64> {
        let bound = self.tightest(now, group)?;
        let spare = bound.saturating_sub(product).max(1);
        Some(bound / bound.div_ceil(spare).clamp(2, LEAST + 1))
    }

    /// The tightest bound that a member of `group` has to respect, in nanoseconds of modelled cost.
    fn tightest(&mut self, now: Instant, group: GroupId) -> Option<u64> {
        self.alive(now);
        let found = self
            .forest
            .iter(&self.bounds)
            .take(LOOKED_AT)
            .find(|&g| !self.is_within(group, g));
        found.map(|g| self.table[g as usize].bound)
    }

    /// The reservation for whose sake a piece of `group` that costs `cost` must wait while `flight` is in the drive.
    pub(super) fn in_the_way(&self, group: GroupId, cost: u64, flight: u64) -> Option<u32> {
        self.forest
            .iter(&self.bounds)
            .take(LOOKED_AT)
            .take_while(|&g| self.table[g as usize].bound < flight + cost)
            .find(|&g| {
                let r = &self.table[g as usize];
                let others = flight.saturating_sub(r.flight);
                others > 0 && others + cost > r.bound && !self.is_within(group, g)
            })
    }

    /// A reservation's bound in nanoseconds.
    pub(super) fn bound(&self, group: u32) -> u64 {
        self.table[group as usize].bound
    }

    /// Lets go of the tightest bounds whose reservation has shown no sign of life for a while.
    fn alive(&mut self, now: Instant) {
        while let Some(g) = self.forest.first(&self.bounds) {
            let r = &self.table[g as usize];
            if r.requests > 0 || now.since(r.seen) <= r.linger() {
                return;
            }
            self.unbind(g);
        }
    }

    /// Computes a reservation's bound anew.
    fn bind(&mut self, now: Instant, at: u32, drive: Drive<'_>) {
        let r = &mut self.table[at as usize];
        r.period = r.time_for(r.usual, r.usual_requests);
        let period = r.period;
        let own = drive.model.cost(crate::Op::Read, r.usual);
        let (speed, product) = (drive.window.speed(), drive.window.product());
        let mut done = speed.cost(period.saturating_sub(r.think));
        r.reachable = done >= product + own;
        if !r.reachable {
            // Not even an idle drive would do: its client is the limit. Others need not suffer for the time that it takes.
            done = speed.cost(period);
        }
        let room = (done / 8 * MARGIN).saturating_sub(own);
        let lag = now.back(self.late).since(r.kept).as_nanos();
        let steps = u32::from(lag > 4 * period) + u32::from(lag > 16 * period);
        let piece = (product / LEAST).max(2 * drive.model.cost(crate::Op::Read, GRAIN));
        r.bound = (room >> steps).max(product + piece);
        let bound = r.bound;
        if self.forest.contains(at) && self.forest.key(at) != bound {
            self.forest.remove(&mut self.bounds, at);
            self.forest.insert(&mut self.bounds, at, bound, 0);
        }
    }

    fn unbind(&mut self, at: u32) {
        if self.forest.contains(at) {
            self.forest.remove(&mut self.bounds, at);
        }
    }
}

/// An average that gives the newest sample an eighth.
pub(super) fn average(old: u64, sample: u64) -> u64 {
    if old == 0 {
        sample
    } else {
        old - old / 8 + sample / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capacity, Edit};

    const GROUP: GroupId = GroupId(1);
    const OTHER: GroupId = GroupId(2);

    fn promised() -> Reservations {
        let mut groups = Groups::new(3);
        let contract = Contract {
            min: 10_000_000,
            ..Contract::DEFAULT
        };
        for (id, contract) in [(GROUP, contract), (OTHER, Contract::DEFAULT)] {
            groups
                .apply(
                    &Edit::AddGroup {
                        id,
                        parent: ROOT,
                        contract,
                    },
                    10_000,
                )
                .unwrap();
        }
        let mut reservations = Reservations::new(3, Span::from_millis(100), Span::from_millis(20));
        reservations.set(Instant::ZERO, &groups);
        reservations
    }

    #[test]
    fn a_request_given_up_half_way_bounds_nobody_for_ever() {
        let model = Model::new(Some(Capacity {
            read: 250_000_000,
            write: 250_000_000,
            iops: 0,
        }));
        let drive = Drive {
            model: &model,
            window: &Window::new(),
        };
        let mut r = promised();
        let now = Instant::ZERO;
        r.arrived(now, GROUP, 8192);
        r.sent(now, GROUP, 4096, 16_384, false);
        r.removed(now, GROUP, 4096);
        r.completed(now, GROUP, 4096, 16_384, false, drive);
        assert!(r.tightest(now, OTHER).is_some(), "it is alive for a while");
        let later = now + LINGER_MAX + Span::from_nanos(1);
        assert_eq!(r.tightest(later, OTHER), None);
    }
}
