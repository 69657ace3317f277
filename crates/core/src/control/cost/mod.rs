//! `io.cost`: divides the drive's time among groups by weight (Linux: `blk-iocost.c`).
//!
//! Each request costs a part of the drive's time, by a model of the drive. The drive's clock,
//! *vtime*, runs at *vrate*. At 100 %, it runs as fast as the model says that the drive is. A
//! request advances the vtime of its group by its cost divided by the group's part of the drive.
//! The request may continue if it does not move the group's vtime ahead of the drive's.
//!
//! At the end of each period, the controller determines the groups that do not use their parts,
//! which then go to other groups. It also adjusts vrate: vrate falls while requests miss their
//! targets or wait for tags, and rises while they do not and a group is throttled.
//!
//! Read the modules in this order: `model` (the cost of a request), `vtime` (the clock), `weights`
//! (parts of the drive), this file (the state of groups and requests), `budget` (the decision about
//! a request), `debt` (requests that must not wait), `period` (the end of a period), `donation` and
//! `surplus` (unused parts), `active` and `rest` (groups that a period checks or skips), `profiles`
//! and `config` (assumed and configured values). docs/io-cost.md maps each function of Linux to its
//! place here.

mod active;
mod budget;
mod config;
mod debt;
mod donation;
mod model;
mod period;
mod profiles;
mod rest;
mod surplus;
mod vtime;
mod weights;

pub use config::{Config, Control, DonationRule, KEPT, MODEL, OWN};

use super::controller::{Controller, Verdict};
use crate::cx::Cx;
use crate::event::Event;
use crate::heap::Heap;
use crate::id::{GroupId, ROOT, SpaceId};
use crate::knobs::ControllerKind;
use crate::list::{Links, List, NIL};
use crate::request::Request;
use crate::sample::{Sample, Take};
use crate::table::Table;
use crate::time::{Instant, Span};
use crate::wake::Reason;
use active::Active;
use alloc::vec;
use alloc::vec::Vec;
use budget::{fits, sectors};
use debt::DebtForgiveness;
use donation::Donation;
use model::Proximity;
use period::PeriodLatencies;
use profiles::{Params, ProfileChoice};
use rest::Rests;
use surplus::Surplus;
use vtime::{Now, PER_USEC, VtimeClock, ahead};
use weights::{ONE, Weights};

/// The end of a group's last request.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    space: SpaceId,
    sector: u64,
}

/// The clock, debt and waiting requests of a group.
#[derive(Clone, Debug)]
struct Account {
    /// True while the group is active. `came` is the last period in which a request of it arrived.
    is_active: bool,
    came: u64,
    /// The time of activation, in microseconds.
    activated_at: u64,
    /// The charged vtime. `done` is the part of it whose requests have left the drive.
    vtime: u64,
    done: u64,
    /// The distance by which the group was behind the drive when its weight in use last changed.
    saved_margin: i64,
    cursor: Option<Cursor>,
    /// The absolute cost of requests since the present period began. `debt` is the absolute cost
    /// that is owed.
    usage: u64,
    debt: u64,
    /// The delay in microseconds. `delay_at` is its time, also in microseconds.
    delay: u64,
    delay_at: u64,
    /// Requests that wait for budget. `delayed` has those that wait for the end of the delay.
    waiters: List,
    delayed: List,
    delayed_until: Instant,
}

impl Account {
    const NEW: Self = Self {
        is_active: false,
        came: 0,
        activated_at: 0,
        vtime: 0,
        done: 0,
        saved_margin: 0,
        cursor: None,
        usage: 0,
        debt: 0,
        delay: 0,
        delay_at: 0,
        waiters: List::EMPTY,
        delayed: List::EMPTY,
        delayed_until: Instant::ZERO,
    };

    /// Returns the vtime by which the group is ahead of the drive.
    fn lead(&self, now: &Now) -> i64 {
        ahead(self.vtime, now.v)
    }

    /// Moves the group's clock without a charge.
    fn move_by(&mut self, vtime: i64) {
        let vtime = vtime.cast_unsigned();
        // Both clocks move, because no request in the drive is the reason.
        self.vtime = self.vtime.wrapping_add(vtime);
        self.done = self.done.wrapping_add(vtime);
    }

    /// Charges the group for a request.
    fn charge(&mut self, slot: &mut CostSlot, relative: u64) {
        slot.charged = relative;
        self.vtime = self.vtime.wrapping_add(relative);
        self.usage = self.usage.saturating_add(slot.absolute);
    }

    /// Returns true if no request arrived in this period and none is in the drive.
    fn is_idle(&self, period: u64) -> bool {
        self.came != period && self.done == self.vtime
    }
}

/// The position of a request with regard to this controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CostStage {
    /// The request has not entered, or has ended.
    Out,
    /// The request waits for budget.
    Waiting,
    Delayed,
    /// The request may continue, but the chain has not collected it yet.
    Passed,
    /// The request has continued.
    Inside,
}

/// The cost and state of a live request.
#[derive(Clone, Copy, Debug)]
struct CostSlot {
    stage: CostStage,
    /// True if the request is part of another's command.
    is_merged: bool,
    group: u32,
    /// The absolute cost. `charged` is the vtime that the group was charged for it.
    absolute: u64,
    charged: u64,
    /// The time for which the request waited for a scheduler tag.
    waited: Span,
}

impl CostSlot {
    const OUT: Self = Self {
        stage: CostStage::Out,
        is_merged: false,
        group: NIL,
        absolute: 0,
        charged: 0,
        waited: Span::ZERO,
    };
}

/// The controller `io.cost`. Numbers are slots of groups and of live requests.
#[derive(Debug)]
pub(super) struct CostController {
    config: Config,
    auto: ProfileChoice,
    params: Params,
    clock: VtimeClock,
    weights: Weights,
    accounts: Vec<Account>,
    active: Active,
    rests: Rests,
    slots: Vec<CostSlot>,
    /// Links of the list that a request is in: its group's waiters, its group's delayed requests,
    /// or the passed requests.
    links: Links,
    passed: List,
    /// Timers of the groups' waiters, followed by those of the groups' delays.
    timers: Heap,
    /// True while periods pass, because a group is active.
    is_running: bool,
    /// The number of the present period.
    number: u64,
    latencies: PeriodLatencies,
    busy_level: i32,
    lagging: u32,
    forgiving: DebtForgiveness,
    donation: Donation,
    surplus: Surplus,
    /// Space for a list of groups.
    scratch: Vec<u32>,
    /// True if scheduler tags are the drive's tags.
    tags_are_drives: bool,
    /// The time at which the controller must be called.
    due: Instant,
}

impl CostController {
    /// Creates the controller. `tags_are_drives` means that there is no elevator, so that a request
    /// waits for a tag of the drive and has no other tag before.
    pub(super) fn new(config: &Config, table: &Table, tags_are_drives: bool) -> Self {
        let (live, groups) = (table.requests.capacity(), table.groups.capacity());
        let auto = ProfileChoice::new(config, &table.shape);
        let params = auto.params(config);
        Self {
            config: *config,
            auto,
            params,
            clock: VtimeClock::new(params.period(), config.tick),
            weights: Weights::new(groups),
            accounts: vec![Account::NEW; groups as usize],
            active: Active::new(groups),
            rests: Rests::new(groups),
            slots: vec![CostSlot::OUT; live as usize],
            links: Links::new(live),
            passed: List::EMPTY,
            timers: Heap::new(2 * groups),
            is_running: false,
            number: 1,
            latencies: PeriodLatencies::default(),
            busy_level: 0,
            lagging: 0,
            forgiving: DebtForgiveness::default(),
            donation: Donation::new(groups),
            surplus: Surplus::new(groups),
            scratch: Vec::with_capacity(groups as usize),
            tags_are_drives,
            due: Instant::MAX,
        }
    }

    /// Returns true if each group donates weight alone.
    fn is_flat(&self) -> bool {
        self.config.donation == DonationRule::Flat
    }

    fn account(&self, group: u32) -> &Account {
        &self.accounts[group as usize]
    }

    fn account_mut(&mut self, group: u32) -> &mut Account {
        &mut self.accounts[group as usize]
    }

    /// Applies the values of the profile and the configuration.
    fn take_params(&mut self) {
        self.params = self.auto.params(&self.config);
        self.clock.set_period(self.params.period());
    }

    fn set_due(&mut self) {
        let period = if self.is_running {
            self.clock.period_end()
        } else {
            Instant::MAX
        };
        self.due = self.timers.next().min(period);
    }

    /// Returns the number of the timer for a group's delay.
    fn delay_timer(&self, group: u32) -> u32 {
        self.accounts.len() as u32 + group
    }
}

impl Controller for CostController {
    /// Applies a changed tree and weights. A group at a new place in the tree begins as if it had
    /// been idle.
    fn set(&mut self, cx: &mut Cx) {
        self.active.wake_all();
        let groups = &cx.table.groups;
        let now = self.clock.now(cx.now);
        for group in 0..groups.capacity() {
            let stays = || {
                let known = groups.get(GroupId(group))?;
                let new = groups.path(GroupId(group)).map(|g| g.0);
                (known.children == 0 && new.eq(self.path(group))).then_some(())
            };
            if self.account(group).is_active && stays().is_none() {
                self.deactivate(group);
            }
        }
        for (group, known) in (0..groups.capacity()).map(|id| (id, groups.get(GroupId(id)))) {
            let Some(known) = known else {
                debug_assert!(self.account(group).waiters.is_empty(), "its group is gone");
                *self.account_mut(group) = Account::NEW;
                *self.weights.node_mut(group) = weights::WeightNode::NONE;
                continue;
            };
            let node = self.weights.node_mut(group);
            node.parent = known.parent.0;
            let weight = u32::from(known.contract.share) * ONE;
            let before = core::mem::replace(&mut node.weight, weight);
            let (active, inuse) = (node.active, node.inuse);
            self.weights.forget_part(group);
            self.rests.forget(group);
            if before != weight && active > 0 {
                self.spread(group, weight, inuse, true, &now);
            }
        }
        self.weights.commit();
        self.set_due();
    }

    fn covers(&self, group: GroupId) -> bool {
        group != ROOT
    }

    fn counts(&self) -> bool {
        true
    }

    fn enter(&mut self, cx: &mut Cx, id: u32) -> Verdict {
        let live = &cx.table.requests[id];
        if live.group == ROOT || self.slots[id as usize].stage != CostStage::Out {
            return Verdict::Pass;
        }
        let (stream, cookie) = (live.request.stream, live.request.cookie);
        let verdict = self.admit(cx.now, id, live);
        self.set_due();
        if verdict == Verdict::Hold {
            cx.publish(|| Event::Throttled { stream, cookie });
        }
        verdict
    }

    fn next_passed(&mut self, cx: &mut Cx) -> Option<u32> {
        let id = self.links.pop_front(&mut self.passed)?;
        self.slots[id as usize].stage = CostStage::Inside;
        let request = &cx.table.requests[id].request;
        let (stream, cookie) = (request.stream, request.cookie);
        cx.publish(|| Event::Passed { stream, cookie });
        Some(id)
    }

    /// Charges a request that joined a command, without a base price (Linux: `ioc_rqos_merge`). If
    /// its group cannot pay, it owes the cost.
    fn merged(&mut self, cx: &mut Cx, id: u32, leader: u32) {
        let live = &cx.table.requests[id];
        let Request { op, length, .. } = live.request;
        let group = live.group.0;
        let cost = self.params.model.cost(op, length, Proximity::Merged);
        if live.group == ROOT || cost == 0 {
            return;
        }
        let now = self.clock.now(cx.now);
        let (start, end) = sectors(&live.request);
        let account = self.account_mut(group);
        // Only a request behind the last one extends the sequential position. A front merge does
        // not.
        if let Some(cursor) = &mut account.cursor
            && cursor.sector == start
        {
            cursor.sector = end;
        }
        self.slots[id as usize] = CostSlot {
            stage: CostStage::Inside,
            is_merged: true,
            group,
            absolute: cost,
            ..CostSlot::OUT
        };
        let relative = self.price(group, cost, &now);
        let account = self.account(group);
        let paid = self.slots[leader as usize].charged > 0 && fits(account, relative, &now);
        if paid || !account.is_active {
            self.charge(id, relative);
        } else {
            self.owe(group, cost, &now);
        }
        self.set_due();
    }

    fn tagged(&mut self, _cx: &mut Cx, id: u32, waited: Span) {
        self.slots[id as usize].waited += waited;
    }

    fn ended(&mut self, cx: &mut Cx, id: u32, took: Option<Span>) -> bool {
        let passes = !self.passed.is_empty();
        let slot = core::mem::replace(&mut self.slots[id as usize], CostSlot::OUT);
        let live = &cx.table.requests[id];
        if took.is_some() && !slot.is_merged {
            self.record(cx.now, live, slot.waited);
        }
        if slot.group == NIL {
            return passes;
        }
        self.active.wake(slot.group);
        let account = self.account_mut(slot.group);
        if took.is_some() {
            account.done = account.done.wrapping_add(slot.charged);
            return passes;
        }
        // No part was served, so the charge is returned.
        self.rests.forget(slot.group);
        let account = self.account_mut(slot.group);
        account.vtime = account.vtime.wrapping_sub(slot.charged);
        account.usage = account.usage.saturating_sub(slot.absolute);
        // The cost of a request without a charge was added to the debt.
        if slot.charged == 0 && account.debt > 0 {
            let now = self.clock.now(cx.now);
            self.pay(slot.group, slot.absolute, &now);
        }
        passes
    }

    fn remove(&mut self, cx: &mut Cx, id: u32) {
        let slot = self.slots[id as usize];
        let account = &mut self.accounts[slot.group as usize];
        match slot.stage {
            CostStage::Waiting => self.links.remove(&mut account.waiters, id),
            CostStage::Delayed => self.links.remove(&mut account.delayed, id),
            CostStage::Passed => {
                self.links.remove(&mut self.passed, id);
                self.ended(cx, id, None);
            }
            CostStage::Out | CostStage::Inside => debug_assert!(false, "it is not held"),
        }
        self.slots[id as usize] = CostSlot::OUT;
        if slot.stage == CostStage::Waiting {
            // This may have been the request that cost too much, so a cheaper one behind it may
            // pass now.
            let now = self.clock.now(cx.now);
            self.kick(slot.group, false, &now);
        }
        self.set_due();
    }

    /// Runs the timers of groups first, then the end of the period.
    fn run(&mut self, cx: &mut Cx) {
        if self.due > cx.now {
            return;
        }
        let now = self.clock.now(cx.now);
        while let Some((at, timer)) = self.timers.first() {
            if at > cx.now {
                break;
            }
            let groups = self.accounts.len() as u32;
            if timer < groups {
                // The kick sets the group's timer again or clears it.
                let in_debt = self.account(timer).debt > 0;
                self.kick(timer, in_debt, &now);
            } else {
                self.timers.clear(timer);
                self.delay_is_over(cx, timer - groups);
            }
        }
        if self.is_running && self.clock.period_end() <= cx.now {
            self.end_period(&now);
        }
        self.set_due();
    }

    fn due(&self) -> Instant {
        self.due
    }

    fn reason(&self) -> Reason {
        Reason::Cost
    }

    fn sample(&self, cx: &Cx, take: &mut Take<'_>) {
        take(Sample::Rate {
            vrate: (self.clock.base_rate * 10_000 / PER_USEC) as u32,
            busy_level: self.busy_level,
            lagging: self.lagging,
            period: Span::from_micros(self.clock.period),
        });
        let now = self.clock.now(cx.now);
        for (group, _) in cx.table.groups.iter().filter(|(id, _)| *id != ROOT) {
            let (node, account) = (self.weights.node(group.0), self.account(group.0));
            if node.active == 0 {
                continue;
            }
            let micros = |vtime: u64| Span::from_micros(vtime / PER_USEC);
            take(Sample::Spends {
                group,
                active: node.active,
                inuse: node.inuse,
                lead: account
                    .is_active
                    .then(|| account.lead(&now) / PER_USEC.cast_signed()),
                debt: micros(account.debt),
                delay: Span::from_micros(account.delay),
            });
            let requests = account.waiters.len() + account.delayed.len();
            if requests > 0 {
                take(Sample::Held {
                    by: ControllerKind::Cost,
                    group,
                    requests,
                });
            }
        }
    }
}

/// Activation of groups and changes of their weights.
impl CostController {
    /// Activates a group whose request arrives, if it is not active yet (Linux: `iocg_activate`).
    fn activate(&mut self, at: Instant, group: u32) -> Now {
        let now = self.clock.now(at);
        let number = self.number;
        let target = self.clock.margins.target;
        let account = &mut self.accounts[group as usize];
        account.came = number;
        if account.is_active {
            return now;
        }
        // The group begins with the target margin as its budget, neither more nor less, whatever
        // its clock was.
        let begin = now.v.wrapping_sub(target.cast_unsigned());
        account.move_by(ahead(begin, account.vtime));
        account.is_active = true;
        account.activated_at = now.us;
        self.surplus.begin(group, account.vtime);
        self.active.push(group);
        self.weights.forget_part(group);
        let &weights::WeightNode {
            weight, last_inuse, ..
        } = self.weights.node(group);
        let inuse = if last_inuse > 0 { last_inuse } else { weight };
        self.propagate(group, weight, inuse, true, &now);
        if !self.is_running {
            self.is_running = true;
            self.forgiving = DebtForgiveness::from(now.us);
            self.clock.start_period(&now);
        }
        now
    }

    /// Deactivates a group. The changed weights apply when they are committed.
    fn deactivate(&mut self, group: u32) {
        self.weights.propagate(group, 0, 0);
        self.account_mut(group).is_active = false;
        self.active.remove(group);
    }

    /// Returns the group and those above it without the root, as this controller knows them.
    fn path(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(Some(group), |&g| Some(self.weights.node(g).parent))
            .take_while(|&g| g != ROOT.0 && g != NIL)
    }

    /// Changes a group's weights at once.
    fn propagate(&mut self, group: u32, active: u32, inuse: u32, saves: bool, now: &Now) {
        self.spread(group, active, inuse, saves, now);
        self.weights.commit();
    }

    /// Changes a group's weights when they are committed. `saves` means that the present distance
    /// from the drive's clock is the reference for later comparisons.
    fn spread(&mut self, group: u32, active: u32, inuse: u32, saves: bool, now: &Now) {
        if saves {
            let account = self.account_mut(group);
            account.saved_margin = -account.lead(now);
        }
        self.weights.propagate(group, active, inuse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{DriveShape, Sizes};
    use crate::testing::{group, read};
    use crate::{Contract, Op, StreamId};

    const GROUP: u32 = 1;

    /// Creates groups of equal weight, numbered from 1.
    pub(super) fn with_groups(config: &Config, groups: u32) -> (CostController, Cx) {
        let edits: Vec<_> = (1..=groups)
            .map(|id| group(id, Contract::DEFAULT))
            .collect();
        let mut cx = Cx::bare(Sizes::default(), DriveShape::default(), &edits);
        let mut cost = CostController::new(config, &cx.table, true);
        cost.set(&mut cx);
        (cost, cx)
    }

    /// Creates a group and two reads of 4 KiB, the second directly behind the first.
    fn with_two_reads() -> (CostController, Cx, [u32; 2]) {
        let (cost, mut cx) = with_groups(&Config::default(), GROUP);
        let reads = [0, 4096].map(|offset| {
            let request = read(StreamId::from_bits(0), 0, 4096).offset(offset);
            let (id, _) = cx.table.requests.take().unwrap();
            cx.table.requests[id].accept(&request, 0, GroupId(GROUP), Instant::ZERO);
            id
        });
        (cost, cx, reads)
    }

    #[test]
    fn a_group_with_requests_in_flight_does_not_rest() {
        for (behind, rests) in [(0, true), (1_000, false)] {
            let (mut cost, mut cx, [first, second]) = with_two_reads();
            assert!(cost.enter(&mut cx, first) == Verdict::Pass);
            let now = cost.clock.now(cx.now);
            let account = cost.account_mut(GROUP);
            account.vtime = now.v + (1 << 40);
            account.done = account.vtime - behind;
            assert!(cost.enter(&mut cx, second) == Verdict::Hold);
            cost.wake_resting(&now);
            cost.kick(GROUP, true, &now);
            cost.rest(GROUP);
            assert_eq!(cost.active.rests(GROUP), rests, "{behind}");
        }
    }

    #[test]
    fn a_merged_request_is_charged_and_counts_as_usage() {
        let (mut cost, mut cx, [leader, second]) = with_two_reads();
        assert!(cost.enter(&mut cx, leader) == Verdict::Pass);
        let before = cost.account(GROUP).clone();
        cost.merged(&mut cx, second, leader);
        let joins = (cost.params.model).cost(Op::Read, 4096, Proximity::Merged);
        let account = cost.account(GROUP).clone();
        assert!(joins > 0);
        assert_eq!(account.usage - before.usage, joins);
        // The only group has the whole drive, so the relative price equals the absolute cost.
        assert_eq!(account.vtime - before.vtime, joins);
        // No part was served, so both charges are returned.
        cost.ended(&mut cx, second, None);
        assert_eq!(cost.account(GROUP).usage, before.usage);
        assert_eq!(cost.account(GROUP).vtime, before.vtime);
    }
}
