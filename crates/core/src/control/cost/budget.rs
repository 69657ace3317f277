//! What happens to a request: it goes on if its group has the budget, and waits or is owed otherwise.

use super::model::Place;
use super::vtime::{Now, ahead};
use super::weights::{Node, absolute, relative};
use super::{Account, Cost, Cursor, Slot, Stage};
use crate::control::controller::Verdict;
use crate::cx::Cx;
use crate::list::NIL;
use crate::request::{Flags, Op, Request};
use crate::table::Live;
use crate::time::{Instant, Span};

impl Cost {
    /// A request comes (Linux: `ioc_rqos_throttle`).
    pub(super) fn admit(&mut self, at: Instant, id: u32, live: &Live) -> Verdict {
        let group = live.group.0;
        let account = &mut self.accounts[group as usize];
        if account.delayed_until > at {
            self.slots[id as usize].stage = Stage::Delayed;
            self.slots[id as usize].group = group;
            self.links.push_back(&mut account.delayed, id);
            return Verdict::Hold;
        }
        let Request { op, length, .. } = live.request;
        let (start, end) = sectors(&live.request);
        let space = live.request.space;
        let place = match account.cursor {
            Some(cursor) if cursor.space != space => Place::Far,
            Some(cursor) => Place::of(start, cursor.sector),
            None => Place::Near,
        };
        let cost = self.params.model.cost(op, length, place);
        if cost == 0 {
            self.slots[id as usize].stage = Stage::Inside;
            return Verdict::Pass;
        }
        let now = self.activate(at, group);
        let sector = end;
        self.account_mut(group).cursor = Some(Cursor { space, sector });
        let slot = &mut self.slots[id as usize];
        (slot.stage, slot.group, slot.absolute) = (Stage::Inside, group, cost);
        let relative = self.price(group, cost, &now);
        let account = self.account(group);
        if account.waiters.is_empty() && account.debt == 0 && fits(account, relative, &now) {
            self.charge(id, relative);
            return Verdict::Pass;
        }
        if live.request.flags.has(Flags::META) {
            self.owe(group, cost, &now);
            return Verdict::Pass;
        }
        self.wait(id, group, &now)
    }

    /// A request waits, unless it fits now that its group has all of its weight again.
    fn wait(&mut self, id: u32, group: u32, now: &Now) -> Verdict {
        let &Node { active, inuse, .. } = self.weights.node(group);
        let in_debt = self.account(group).debt > 0;
        if !in_debt && inuse != active && !self.is_flat() {
            self.propagate(group, active, active, true, now);
        }
        let slot = &mut self.slots[id as usize];
        slot.stage = Stage::Waiting;
        let waiters = &mut self.accounts[group as usize].waiters;
        self.links.push_back(waiters, id);
        // Those before it have a timer.
        if waiters.len() == 1 {
            self.kick(group, in_debt, now);
            if self.slots[id as usize].stage == Stage::Passed {
                self.links.remove(&mut self.passed, id);
                self.slots[id as usize].stage = Stage::Inside;
                return Verdict::Pass;
            }
        }
        Verdict::Hold
    }

    /// A request goes on, and its group is charged.
    pub(super) fn charge(&mut self, id: u32, relative: u64) {
        let slot = &mut self.slots[id as usize];
        debug_assert!(slot.group != NIL, "nobody is there to be charged");
        self.active.wake(slot.group);
        self.rests.forget(slot.group);
        self.accounts[slot.group as usize].charge(slot, relative);
    }

    /// A request goes on, and its group owes it. One that owes too much is delayed.
    pub(super) fn owe(&mut self, group: u32, cost: u64, now: &Now) {
        self.incur(group, cost, now);
        if let Some(delay) = self.set_delay(group, now) {
            self.account_mut(group).delayed_until = now.at + delay;
            let ticket = self.timers.ticket();
            self.timers
                .set(self.delay_timer(group), now.at + delay, ticket);
        }
    }

    /// A group's delay is over: its next request goes on, and the others with it unless that delays it anew.
    pub(super) fn delay_is_over(&mut self, cx: &mut Cx, group: u32) {
        while self.account(group).delayed_until <= cx.now {
            let Some(id) = self
                .links
                .pop_front(&mut self.accounts[group as usize].delayed)
            else {
                return;
            };
            self.slots[id as usize] = Slot::OUT;
            if self.admit(cx.now, id, &cx.table.requests[id]) == Verdict::Pass {
                self.slots[id as usize].stage = Stage::Passed;
                self.links.push_back(&mut self.passed, id);
            }
        }
    }

    /// What a request costs its group. A group that gave of its weight away takes back what it needs (Linux:
    /// `adjust_inuse_and_calc_cost`).
    pub(super) fn price(&mut self, group: u32, cost: u64, now: &Now) -> u64 {
        if self.is_flat() {
            self.take_back_all(group, now);
            let (_, hwi) = self.weights.parts(group);
            return relative(cost, hwi);
        }
        let (_, hwi) = self.weights.parts(group);
        let mut price = relative(cost, hwi);
        let &Node { active, inuse, .. } = self.weights.node(group);
        // An idle group has no weight; it is charged all the same for what is merged into a request of its own that costs nothing.
        debug_assert!(
            inuse <= active && (inuse > 0) == (active > 0),
            "{inuse} of {active} is in use"
        );
        let account = self.account(group);
        let margin = -account.lead(now) - price.cast_signed();
        if account.debt > 0
            || inuse == active
            || margin >= account.saved_margin
            || margin >= self.clock.margins.low
        {
            return price;
        }
        // A quarter at a time.
        let step = active.div_ceil(4);
        let mut inuse = inuse;
        loop {
            inuse = inuse.saturating_add(step).min(active);
            self.propagate(group, active, inuse, true, now);
            let (_, hwi) = self.weights.parts(group);
            price = relative(cost, hwi);
            if inuse == active || fits(self.account(group), price, now) {
                return price;
            }
        }
    }

    /// Pays debts, lets waiters go on that have the budget for it, and sets the timer for the next (Linux: `iocg_kick_waitq`).
    pub(super) fn kick(&mut self, group: u32, pays: bool, now: &Now) {
        self.active.wake(group);
        let account = self.account(group);
        let mut budget = -account.lead(now);
        if (account.debt, account.delay) != (0, 0) {
            budget = self.pay_debts(group, budget, pays, now);
        }
        let (_, hwi) = self.weights.parts(group);
        let account = &mut self.accounts[group as usize];
        while let Some(id) = account.waiters.first() {
            let slot = &mut self.slots[id as usize];
            let price = relative(slot.absolute, hwi);
            budget -= price.cast_signed();
            if budget < 0 {
                self.await_budget(group, budget.unsigned_abs(), now);
                return;
            }
            debug_assert!(slot.stage == Stage::Waiting);
            slot.stage = Stage::Passed;
            account.charge(slot, price);
            self.links.pop_front(&mut account.waiters);
            self.links.push_back(&mut self.passed, id);
        }
        self.timers.clear(group);
    }

    /// A group that owes something, or is delayed, pays of its budget, and has its delay taken anew. Returns the budget that is left.
    #[inline(never)]
    fn pay_debts(&mut self, group: u32, mut budget: i64, pays: bool, now: &Now) -> i64 {
        let (hwa, _) = self.weights.parts(group);
        let debt = self.account(group).debt;
        if pays && debt > 0 && budget > 0 {
            let payment = absolute(budget.cast_unsigned(), hwa).min(debt);
            let vtime = relative(payment, hwa).cast_signed();
            self.account_mut(group).move_by(vtime);
            self.pay(group, payment, now);
            budget -= vtime;
        }
        let &Account { debt, delay, .. } = self.account(group);
        if debt > 0 || delay > 0 {
            self.set_delay(group, now);
        }
        if debt > 0 {
            budget = (budget - relative(debt, hwa).cast_signed()).min(0);
        }
        budget
    }

    /// The first waiter of a group lacks this much budget: sets its timer, and notes what is known of it then.
    #[inline]
    fn await_budget(&mut self, group: u32, lacks: u64, now: &Now) {
        let timer = self.set_timer(group, lacks, now);
        let (generation, until) = (self.weights.generation(), now.v.wrapping_add(lacks));
        self.rests.note(group, generation, until, timer);
    }

    /// A timer that is near enough stays: none is that has run out, since one is set later than now by more than the slack. Returns when the
    /// timer is then.
    #[inline]
    fn set_timer(&mut self, group: u32, lacks: u64, now: &Now) -> Instant {
        let at = self.timer_for(lacks, now);
        if let Some((before, _)) = self.timers.get(group)
            && self.is_near(before, at)
        {
            return before;
        }
        let ticket = self.timers.ticket();
        self.timers.set(group, at, ticket);
        at
    }

    /// When a group that lacks this budget is to be kicked. Linux's timer is late on purpose.
    fn timer_for(&self, lacks: u64, now: &Now) -> Instant {
        now.at + self.clock.takes(lacks) + self.clock.slack.saturating_mul(2)
    }

    /// A timer may be as late again.
    fn is_near(&self, before: Instant, at: Instant) -> bool {
        let slack = self.clock.slack;
        before <= at + slack && at <= before + slack
    }

    /// At the end of a period: if a group of which nothing came or left does nothing but wait, it rests.
    pub(super) fn rest(&mut self, group: u32) {
        let account = self.account(group);
        let is_still = account.vtime == account.done && account.debt == 0 && account.delay == 0;
        if is_still
            && !account.waiters.is_empty()
            && self.rests.begin(group, self.weights.generation())
        {
            self.active.rest(group);
        }
    }

    /// Timers run at another rate: sets that of a group that rests anew. False if it does not rest any longer.
    pub(super) fn retime(&mut self, group: u32, now: &Now) -> bool {
        let until = self.rests.until(group);
        let lacks = ahead(until, now.v);
        if lacks > 0 {
            self.await_budget(group, lacks.unsigned_abs(), now);
            if self.rests.begin(group, self.weights.generation()) {
                return true;
            }
        }
        self.active.wake(group);
        false
    }

    /// True if looking at a group at the end of a period would show that it has too little, and do nothing: what is told of one that rests.
    pub(super) fn would_rest(&mut self, group: u32, now: &Now) -> bool {
        let (hwa, hwi) = self.weights.parts(group);
        let account = self.account(group);
        let is_still = account.usage == 0 && account.vtime == account.done;
        is_still && hwi >= hwa && self.would_wait(group, now)
    }

    /// True if a kick would do nothing to a group.
    pub(super) fn would_wait(&mut self, group: u32, now: &Now) -> bool {
        let (_, hwi) = self.weights.parts(group);
        let account = self.account(group);
        let Some(first) = account.waiters.first() else {
            return false;
        };
        let price = relative(self.slots[first as usize].absolute, hwi).cast_signed();
        let lacks = account.lead(now) + price;
        lacks > 0
            && (account.debt, account.delay) == (0, 0)
            && self.timers.get(group).is_some_and(|(before, _)| {
                self.is_near(before, self.timer_for(lacks.unsigned_abs(), now))
            })
    }

    /// A request that left the drive counts against the targets.
    pub(super) fn record(&mut self, now: Instant, live: &Live, waited: Span) {
        let Request { op, length, .. } = live.request;
        if !op.moves_data() {
            return;
        }
        let tag_wait = if self.tags_are_drives {
            live.dispatched.since(live.cleared)
        } else {
            waited
        };
        let size_cost = self.params.model.size_cost(op, length);
        let target = self.params.latency[usize::from(op == Op::Write)];
        let took = now.since(live.cleared);
        self.latencies.record(op, took, tag_wait, size_cost, target);
    }
}

/// A group has the budget for something.
pub(super) fn fits(account: &Account, price: u64, now: &Now) -> bool {
    account.lead(now) <= -(price.cast_signed())
}

/// Where a request begins and ends.
pub(super) fn sectors(request: &Request) -> (u64, u64) {
    let first = request.offset >> 9;
    (first, first + u64::from(request.length >> 9))
}
