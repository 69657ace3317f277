//! The decision about a request: it continues if its group has the budget, and otherwise waits or
//! becomes a debt.

use super::model::Proximity;
use super::vtime::{Now, ahead};
use super::weights::{WeightNode, absolute, relative};
use super::{Account, CostController, CostSlot, CostStage, Cursor};
use crate::control::controller::Verdict;
use crate::cx::Cx;
use crate::list::NIL;
use crate::request::{Flags, Op, Request};
use crate::table::Live;
use crate::time::{Instant, Span};

impl CostController {
    /// Decides about a request that enters (Linux: `ioc_rqos_throttle`).
    pub(super) fn admit(&mut self, at: Instant, id: u32, live: &Live) -> Verdict {
        let group = live.group.0;
        let account = &mut self.accounts[group as usize];
        if account.delayed_until > at {
            self.slots[id as usize].stage = CostStage::Delayed;
            self.slots[id as usize].group = group;
            self.links.push_back(&mut account.delayed, id);
            return Verdict::Hold;
        }
        let Request { op, length, .. } = live.request;
        let (start, end) = sectors(&live.request);
        let space = live.request.space;
        let place = match account.cursor {
            Some(cursor) if cursor.space != space => Proximity::Far,
            Some(cursor) => Proximity::of(start, cursor.sector),
            None => Proximity::Near,
        };
        let cost = self.params.model.cost(op, length, place);
        // A request without a price must not activate the group.
        if cost == 0 {
            self.slots[id as usize].stage = CostStage::Inside;
            return Verdict::Pass;
        }
        let now = self.activate(at, group);
        let sector = end;
        self.account_mut(group).cursor = Some(Cursor { space, sector });
        let slot = &mut self.slots[id as usize];
        (slot.stage, slot.group, slot.absolute) = (CostStage::Inside, group, cost);
        let relative = self.price(group, cost, &now);
        let account = self.account(group);
        if account.waiters.is_empty() && account.debt == 0 && fits(account, relative, &now) {
            self.charge(id, relative);
            return Verdict::Pass;
        }
        // Other requests may depend on metadata, so metadata must not wait.
        if live.request.flags.has(Flags::META) {
            self.owe(group, cost, &now);
            return Verdict::Pass;
        }
        self.wait(id, group, &now)
    }

    /// Lets a request wait, unless it fits now that its group has all of its weight again.
    fn wait(&mut self, id: u32, group: u32, now: &Now) -> Verdict {
        let &WeightNode { active, inuse, .. } = self.weights.node(group);
        let in_debt = self.account(group).debt > 0;
        if !in_debt && inuse != active && !self.is_flat() {
            self.propagate(group, active, active, true, now);
        }
        let slot = &mut self.slots[id as usize];
        slot.stage = CostStage::Waiting;
        let waiters = &mut self.accounts[group as usize].waiters;
        self.links.push_back(waiters, id);
        // With other waiters in front of it, the timer is set already.
        if waiters.len() == 1 {
            self.kick(group, in_debt, now);
            if self.slots[id as usize].stage == CostStage::Passed {
                self.links.remove(&mut self.passed, id);
                self.slots[id as usize].stage = CostStage::Inside;
                return Verdict::Pass;
            }
        }
        Verdict::Hold
    }

    /// Charges the group for a request that continues.
    pub(super) fn charge(&mut self, id: u32, relative: u64) {
        let slot = &mut self.slots[id as usize];
        debug_assert!(slot.group != NIL, "nobody is there to be charged");
        self.active.wake(slot.group);
        self.rests.forget(slot.group);
        self.accounts[slot.group as usize].charge(slot, relative);
    }

    /// Lets a request continue as a debt of its group. A group that owes too much is delayed.
    pub(super) fn owe(&mut self, group: u32, cost: u64, now: &Now) {
        self.incur(group, cost, now);
        if let Some(delay) = self.set_delay(group, now) {
            self.account_mut(group).delayed_until = now.at + delay;
            let ticket = self.timers.ticket();
            self.timers
                .set(self.delay_timer(group), now.at + delay, ticket);
        }
    }

    /// Ends a group's delay. Its requests continue until one of them delays the group again.
    pub(super) fn delay_is_over(&mut self, cx: &mut Cx, group: u32) {
        while self.account(group).delayed_until <= cx.now {
            let Some(id) = self
                .links
                .pop_front(&mut self.accounts[group as usize].delayed)
            else {
                return;
            };
            self.slots[id as usize] = CostSlot::OUT;
            if self.admit(cx.now, id, &cx.table.requests[id]) == Verdict::Pass {
                self.slots[id as usize].stage = CostStage::Passed;
                self.links.push_back(&mut self.passed, id);
            }
        }
    }

    /// Returns the relative cost of a request (Linux: `adjust_inuse_and_calc_cost`). A group that
    /// donated weight first takes back as much as it needs.
    pub(super) fn price(&mut self, group: u32, cost: u64, now: &Now) -> u64 {
        if self.is_flat() {
            self.take_back_all(group, now);
            let (_, hwi) = self.weights.parts(group);
            return relative(cost, hwi);
        }
        let (_, hwi) = self.weights.parts(group);
        let mut price = relative(cost, hwi);
        let &WeightNode { active, inuse, .. } = self.weights.node(group);
        // An idle group has no weight. It is charged all the same for a request that is merged into
        // one without a price.
        debug_assert!(
            inuse <= active && (inuse > 0) == (active > 0),
            "{inuse} of {active} is in use"
        );
        let account = self.account(group);
        let margin = -account.lead(now) - price.cast_signed();
        // No weight is taken back if the group is in debt or uses all of its weight, or if its
        // margin is large enough.
        if account.debt > 0
            || inuse == active
            || margin >= account.saved_margin
            || margin >= self.clock.margins.low
        {
            return price;
        }
        // Weight is taken back in steps of 25 % of the active weight.
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

    /// Pays debts, lets waiters continue that have the budget, and sets the timer for the next one
    /// (Linux: `iocg_kick_waitq`).
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
            // Waiters are served in order. A cheaper request behind the first does not overtake it.
            budget -= price.cast_signed();
            if budget < 0 {
                self.await_budget(group, budget.unsigned_abs(), now);
                return;
            }
            debug_assert!(slot.stage == CostStage::Waiting);
            slot.stage = CostStage::Passed;
            account.charge(slot, price);
            self.links.pop_front(&mut account.waiters);
            self.links.push_back(&mut self.passed, id);
        }
        self.timers.clear(group);
    }

    /// Pays a group's debt from its budget and determines its delay. Returns the rest of the
    /// budget.
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
        // While a debt remains, no waiter may continue.
        if debt > 0 {
            budget = (budget - relative(debt, hwa).cast_signed()).min(0);
        }
        budget
    }

    /// Sets the timer of a group whose first waiter lacks this budget, and notes the time for
    /// `rest`.
    #[inline]
    fn await_budget(&mut self, group: u32, lacks: u64, now: &Now) {
        let timer = self.set_timer(group, lacks, now);
        let (generation, until) = (self.weights.generation(), now.v.wrapping_add(lacks));
        self.rests.note(group, generation, until, timer);
    }

    /// Sets a group's timer unless it is close enough already, and returns its time. No expired
    /// timer is left, because a timer is set later than now by more than the slack.
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

    /// Returns the time at which to kick a group that lacks this budget. Like Linux's timer, it is
    /// late on purpose, so that several waiters continue together.
    fn timer_for(&self, lacks: u64, now: &Now) -> Instant {
        now.at + self.clock.takes(lacks) + self.clock.slack.saturating_mul(2)
    }

    /// Returns true if two times of a timer differ by no more than the slack.
    fn is_near(&self, before: Instant, at: Instant) -> bool {
        let slack = self.clock.slack;
        before <= at + slack && at <= before + slack
    }

    /// Lets a group rest at the end of a period if it has no request in the drive, no debt and no
    /// delay, and only waits.
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

    /// Sets the timer of a resting group at another rate. Returns false if the group does not rest
    /// any longer.
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

    /// Returns true if a check of the group at the end of a period would find a shortage and change
    /// nothing. This is assumed of a resting group.
    pub(super) fn would_rest(&mut self, group: u32, now: &Now) -> bool {
        let (hwa, hwi) = self.weights.parts(group);
        let account = self.account(group);
        let is_still = account.usage == 0 && account.vtime == account.done;
        is_still && hwi >= hwa && self.would_wait(group, now)
    }

    /// Returns true if a kick would change nothing for a group.
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

    /// Compares the latency of a request that left the drive with its target.
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

/// Returns true if a group has the budget for a price.
pub(super) fn fits(account: &Account, price: u64, now: &Now) -> bool {
    account.lead(now) <= -(price.cast_signed())
}

/// Returns the first sector of a request and the sector behind its last.
pub(super) fn sectors(request: &Request) -> (u64, u64) {
    let first = request.offset >> 9;
    (first, first + u64::from(request.length >> 9))
}
