//! `io.cost`: each request costs a part of the drive's time, and each group may spend as much of that as its weight gives it
//! (Linux: `blk-iocost.c`).
//!
//! The drive's clock, *vtime*, runs at *vrate*: 100 % is as fast as the model says that the drive is. A request moves its group's own
//! vtime on by its cost over the group's part of the drive, and goes on while that is behind the drive's. At the end of each period the
//! controller sees which groups do not use their parts, which then go to others, and how the drive does: vrate falls while requests miss
//! their targets or wait for tags, and rises while they do not and somebody is held back.
//!
//! In the order of reading: `model` (what a request costs), `vtime` (the clock), `weights` (parts of the drive), this file (what is
//! kept of a group and of a request), `budget` (what happens to a request), `debt` (what must not wait), `donation`, `period`, `active` and
//! `rest` (what happens at the end of a period, and to which groups nothing does), `profiles` and `config` (what is told). `docs/io-cost.md` has
//! each function of Linux with its place here.

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
use crate::knobs::Kind;
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
use debt::Forgiving;
use donation::Donation;
use model::Place;
use period::Latencies;
use profiles::{Auto, Params};
use rest::Rests;
use surplus::Surplus;
use vtime::{Clock, Now, PER_USEC, ahead};
use weights::{ONE, Weights};

/// Where a group's last request ended.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    space: SpaceId,
    sector: u64,
}

/// What a group has and owes.
#[derive(Clone, Debug)]
struct Account {
    /// It is active, and in which period something of it came last.
    is_active: bool,
    came: u64,
    /// In microseconds.
    activated_at: u64,
    /// What was charged, and what of it has left the drive.
    vtime: u64,
    done: u64,
    /// How far it was behind the drive when its weight in use changed last.
    saved_margin: i64,
    cursor: Option<Cursor>,
    /// Absolute costs: since the last period began, and owed.
    usage: u64,
    debt: u64,
    /// Microseconds, as of an instant in microseconds.
    delay: u64,
    delay_at: u64,
    /// Requests that wait for budget, and those that come after the delay.
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

    /// How far it is ahead of the drive.
    fn lead(&self, now: &Now) -> i64 {
        ahead(self.vtime, now.v)
    }

    /// Its vtime jumps, beside what it is charged.
    fn move_by(&mut self, vtime: i64) {
        let vtime = vtime.cast_unsigned();
        self.vtime = self.vtime.wrapping_add(vtime);
        self.done = self.done.wrapping_add(vtime);
    }

    /// It is charged for a request.
    fn charge(&mut self, slot: &mut Slot, relative: u64) {
        slot.charged = relative;
        self.vtime = self.vtime.wrapping_add(relative);
        self.usage = self.usage.saturating_add(slot.absolute);
    }

    /// Nothing of it came in this period, and nothing is in the drive.
    fn is_idle(&self, period: u64) -> bool {
        self.came != period && self.done == self.vtime
    }
}

/// Where a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It has not come, or is over.
    Out,
    /// Among the waiters of its group, or those that are delayed.
    Waiting,
    Delayed,
    /// It may go on.
    Passed,
    /// It has gone on.
    Inside,
}

/// A live request.
#[derive(Clone, Copy, Debug)]
struct Slot {
    stage: Stage,
    /// It is part of another's command.
    is_merged: bool,
    group: u32,
    /// What it costs, and what its group was charged for it.
    absolute: u64,
    charged: u64,
    /// For a scheduler tag.
    waited: Span,
}

impl Slot {
    const OUT: Self = Self {
        stage: Stage::Out,
        is_merged: false,
        group: NIL,
        absolute: 0,
        charged: 0,
        waited: Span::ZERO,
    };
}

/// The controller. Numbers are slots of groups and of live requests.
#[derive(Debug)]
pub(super) struct Cost {
    config: Config,
    auto: Auto,
    params: Params,
    clock: Clock,
    weights: Weights,
    accounts: Vec<Account>,
    active: Active,
    rests: Rests,
    slots: Vec<Slot>,
    /// A request is in one list at most: of its group's waiters, of its delayed, or of those that have passed.
    links: Links,
    passed: List,
    /// Of each group's waiters, then of each group's delay.
    timers: Heap,
    /// Periods pass.
    is_running: bool,
    /// The number of the period.
    number: u64,
    latencies: Latencies,
    busy_level: i32,
    lagging: u32,
    forgiving: Forgiving,
    donation: Donation,
    surplus: Surplus,
    /// Room to list groups in.
    scratch: Vec<u32>,
    /// A scheduler tag is one of the drive's.
    tags_are_drives: bool,
    /// When it wants to be called.
    due: Instant,
}

impl Cost {
    /// `tags_are_drives`: there is no elevator, so that a request waits for a tag of the drive and has none before.
    pub(super) fn new(config: &Config, table: &Table, tags_are_drives: bool) -> Self {
        let (live, groups) = (table.requests.capacity(), table.groups.capacity());
        let auto = Auto::new(config, &table.shape);
        let params = auto.params(config);
        Self {
            config: *config,
            auto,
            params,
            clock: Clock::new(params.period(), config.tick),
            weights: Weights::new(groups),
            accounts: vec![Account::NEW; groups as usize],
            active: Active::new(groups),
            rests: Rests::new(groups),
            slots: vec![Slot::OUT; live as usize],
            links: Links::new(live),
            passed: List::EMPTY,
            timers: Heap::new(2 * groups),
            is_running: false,
            number: 1,
            latencies: Latencies::default(),
            busy_level: 0,
            lagging: 0,
            forgiving: Forgiving::default(),
            donation: Donation::new(groups),
            surplus: Surplus::new(groups),
            scratch: Vec::with_capacity(groups as usize),
            tags_are_drives,
            due: Instant::MAX,
        }
    }

    /// Each group gives weight away by itself.
    fn is_flat(&self) -> bool {
        self.config.donation == DonationRule::Flat
    }

    fn account(&self, group: u32) -> &Account {
        &self.accounts[group as usize]
    }

    fn account_mut(&mut self, group: u32) -> &mut Account {
        &mut self.accounts[group as usize]
    }

    /// Takes what the profile and the configuration say.
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

    /// The timer of a group's delay.
    fn delay_timer(&self, group: u32) -> u32 {
        self.accounts.len() as u32 + group
    }
}

impl Controller for Cost {
    /// Takes the tree and its weights anew. A group in another place of it begins as if it had been away.
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
                *self.weights.node_mut(group) = weights::Node::NONE;
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
        if live.group == ROOT || self.slots[id as usize].stage != Stage::Out {
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
        self.slots[id as usize].stage = Stage::Inside;
        let request = &cx.table.requests[id].request;
        let (stream, cookie) = (request.stream, request.cookie);
        cx.publish(|| Event::Passed { stream, cookie });
        Some(id)
    }

    /// It goes without a base price. Where its group cannot pay, it owes (Linux: `ioc_rqos_merge`).
    fn merged(&mut self, cx: &mut Cx, id: u32, leader: u32) {
        let live = &cx.table.requests[id];
        let Request { op, length, .. } = live.request;
        let group = live.group.0;
        let cost = self.params.model.cost(op, length, Place::Merged);
        if live.group == ROOT || cost == 0 {
            return;
        }
        let now = self.clock.now(cx.now);
        let (start, end) = sectors(&live.request);
        let account = self.account_mut(group);
        if let Some(cursor) = &mut account.cursor
            && cursor.sector == start
        {
            cursor.sector = end;
        }
        self.slots[id as usize] = Slot {
            stage: Stage::Inside,
            is_merged: true,
            group,
            absolute: cost,
            ..Slot::OUT
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
        let slot = core::mem::replace(&mut self.slots[id as usize], Slot::OUT);
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
        // Nothing was served.
        self.rests.forget(slot.group);
        let account = self.account_mut(slot.group);
        account.vtime = account.vtime.wrapping_sub(slot.charged);
        account.usage = account.usage.saturating_sub(slot.absolute);
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
            Stage::Waiting => self.links.remove(&mut account.waiters, id),
            Stage::Delayed => self.links.remove(&mut account.delayed, id),
            Stage::Passed => {
                self.links.remove(&mut self.passed, id);
                self.ended(cx, id, None);
            }
            Stage::Out | Stage::Inside => debug_assert!(false, "it is not held"),
        }
        self.slots[id as usize] = Slot::OUT;
        if slot.stage == Stage::Waiting {
            // It may have been the one that was too dear.
            let now = self.clock.now(cx.now);
            self.kick(slot.group, false, &now);
        }
        self.set_due();
    }

    /// Timers of groups first, then the period's.
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
                // It sets its timer anew, or takes it away.
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
                    by: Kind::Cost,
                    group,
                    requests,
                });
            }
        }
    }
}

/// Which groups are active, with which weight.
impl Cost {
    /// Something of a group comes (Linux: `iocg_activate`).
    fn activate(&mut self, at: Instant, group: u32) -> Now {
        let now = self.clock.now(at);
        let number = self.number;
        let target = self.clock.margins.target;
        let account = &mut self.accounts[group as usize];
        account.came = number;
        if account.is_active {
            return now;
        }
        let begin = now.v.wrapping_sub(target.cast_unsigned());
        account.move_by(ahead(begin, account.vtime));
        account.is_active = true;
        account.activated_at = now.us;
        self.surplus.begin(group, account.vtime);
        self.active.push(group);
        self.weights.forget_part(group);
        let &weights::Node {
            weight, last_inuse, ..
        } = self.weights.node(group);
        let inuse = if last_inuse > 0 { last_inuse } else { weight };
        self.propagate(group, weight, inuse, true, &now);
        if !self.is_running {
            self.is_running = true;
            self.forgiving = Forgiving::from(now.us);
            self.clock.start_period(&now);
        }
        now
    }

    /// A group is not active any more. The weights do not count before they are committed.
    fn deactivate(&mut self, group: u32) {
        self.weights.propagate(group, 0, 0);
        self.account_mut(group).is_active = false;
        self.active.remove(group);
    }

    /// The groups above one and itself, as this controller knows them, but the root.
    fn path(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(Some(group), |&g| Some(self.weights.node(g).parent))
            .take_while(|&g| g != ROOT.0 && g != NIL)
    }

    /// A group's weights change. They count at once.
    fn propagate(&mut self, group: u32, active: u32, inuse: u32, saves: bool, now: &Now) {
        self.spread(group, active, inuse, saves, now);
        self.weights.commit();
    }

    /// A group's weights change, and count when they are committed. `saves`: how far the group is behind now is what it is held against
    /// later.
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

    /// Groups of equal weight, from 1 on.
    pub(super) fn with_groups(config: &Config, groups: u32) -> (Cost, Cx) {
        let edits: Vec<_> = (1..=groups)
            .map(|id| group(id, Contract::DEFAULT))
            .collect();
        let mut cx = Cx::bare(Sizes::default(), DriveShape::default(), &edits);
        let mut cost = Cost::new(config, &cx.table, true);
        cost.set(&mut cx);
        (cost, cx)
    }

    /// A group, and two reads of 4 KiB, the second behind the first.
    fn with_two_reads() -> (Cost, Cx, [u32; 2]) {
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
    fn who_waits_with_requests_in_the_drive_does_not_rest() {
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
    fn what_joins_a_command_is_charged_and_counts_as_used() {
        let (mut cost, mut cx, [leader, second]) = with_two_reads();
        assert!(cost.enter(&mut cx, leader) == Verdict::Pass);
        let before = cost.account(GROUP).clone();
        cost.merged(&mut cx, second, leader);
        let joins = (cost.params.model).cost(Op::Read, 4096, Place::Merged);
        let account = cost.account(GROUP).clone();
        assert!(joins > 0);
        assert_eq!(account.usage - before.usage, joins);
        // It is the only group, so a price is what it costs.
        assert_eq!(account.vtime - before.vtime, joins);
        // Nothing was served: both come back.
        cost.ended(&mut cx, second, None);
        assert_eq!(cost.account(GROUP).usage, before.usage);
        assert_eq!(cost.account(GROUP).vtime, before.vtime);
    }
}
