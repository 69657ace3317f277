//! `io.low`: every group is held to its low limit until each that has one reaches it or is idle; then nobody is, until one that is not
//! idle falls below its own (Linux 4.12 to 6.10: `blk-throttle.c`).
//!
//! A group's low limit is what is set of it for io.low, or else the min of its contract. While everyone is held to theirs (`LIMIT_LOW`), groups without one get 320 KiB
//! and 10 requests a second; `pace` says when that ends and begins again, `slice` how much may go, `idle` for whose sake nobody is held.
//! A request passes its group's limit first, then that of each group above.

mod config;
mod idle;
mod pace;
mod slice;
#[cfg(test)]
mod tests;

pub use config::{Config, Directions};

use super::controller::{Controller, Verdict};
use crate::cx::Cx;
use crate::event::Event;
use crate::heap::Heap;
use crate::id::{GroupId, ROOT};
use crate::knobs::Kind;
use crate::list::{Links, List, NIL};
use crate::mutant;
use crate::request::Op;
use crate::sample::{Sample, Take};
use crate::table::Table;
use crate::time::{Instant, Span};
use crate::wake::{Reason, Wake};
use alloc::vec;
use alloc::vec::Vec;
use idle::{Baseline, Habit};
use pace::Pace;
use slice::{Clock, Rate, Slice};

/// What a group without a low limit gets while everyone is held to theirs.
const LEAST: Rate = Rate {
    bytes: 320 * 1024,
    requests: 10,
};
/// Requests of a group that go in one turn.
const QUANTUM: [u32; 2] = [6, 2];
/// While anybody waits, it is looked after at least so many slices whether the limits are to end.
const LOOK_SLICES: u64 = 8;

/// A limit of one group, reads and writes apart.
#[derive(Clone, Debug)]
struct Node {
    /// Above it, or [`NIL`]: the root, which has no limit.
    parent: u32,
    /// It is there, and is not the root.
    exists: bool,
    is_leaf: bool,
    /// Its low limit for reads and for writes; zero: none.
    low: [Rate; 2],
    /// Who thinks longer is idle, and by how much its requests may take longer.
    idle: Span,
    latency: Span,
    slices: [Slice; 2],
    /// Who waits here, by whence: lists of requests that take turns.
    queued: [List; 2],
    waiting: [u32; 2],
    /// When it last had more to do than its low limit lets through; zero: it never came in that direction.
    overflowed: [u64; 2],
    /// What it was let through since it was last looked at, and when that was.
    passed: [(u64, u64); 2],
    checked: u64,
    habit: Habit,
}

impl Node {
    /// A group that is not there.
    fn none() -> Self {
        Self {
            parent: NIL,
            exists: false,
            is_leaf: false,
            low: [Rate::NONE; 2],
            idle: Span::ZERO,
            latency: Span::ZERO,
            slices: [Slice::default(); 2],
            queued: [List::EMPTY; 2],
            waiting: [0; 2],
            overflowed: [0; 2],
            passed: [(0, 0); 2],
            checked: 0,
            habit: Habit::default(),
        }
    }

    fn is_limited(&self) -> bool {
        self.low != [Rate::NONE; 2]
    }

    fn waits(&self) -> bool {
        self.waiting != [0, 0]
    }
}

/// The controller. Numbers are slots of groups and of live requests.
#[derive(Debug)]
pub(super) struct Low {
    config: Config,
    clock: Clock,
    nodes: Vec<Node>,
    pace: Pace,
    baseline: Baseline,
    /// Requests that wait at a group, by whence they came: two lists (own, and of groups below by which) of each direction.
    sources: Vec<List>,
    requests: Links,
    turns: Links,
    /// The source in which a request waits, or [`NIL`].
    waits_in: Vec<u32>,
    passed: List,
    /// When the first request of each group that waits may go.
    timers: Heap,
    look_at: Instant,
}

/// The source of a group's requests: its own, or those that go up from it to the group above.
fn source_of(group: u32, direction: usize, goes_up: bool) -> u32 {
    group * 4 + direction as u32 * 2 + u32::from(goes_up)
}

impl Low {
    pub(super) fn new(config: &Config, table: &Table) -> Self {
        let (live, groups) = (table.requests.capacity(), table.groups.capacity());
        let tick = config.tick.as_nanos();
        let slice = match config.throttle_sample_time {
            Span::ZERO if table.shape.rotational => Span::from_millis(100),
            Span::ZERO => Span::from_millis(20),
            stated => stated,
        };
        Self {
            config: *config,
            clock: Clock {
                hz: 1_000_000_000 / tick,
                slice: slice.as_nanos().div_ceil(tick),
            },
            nodes: vec![Node::none(); groups as usize],
            pace: Pace::default(),
            baseline: Baseline::new(table.shape.rotational),
            sources: vec![List::EMPTY; groups as usize * 4],
            requests: Links::new(live),
            turns: Links::new(groups * 4),
            waits_in: vec![NIL; live as usize],
            passed: List::EMPTY,
            timers: Heap::new(groups),
            look_at: Instant::MAX,
        }
    }

    /// Now in ticks; never zero.
    fn tick(&self, now: Instant) -> u64 {
        now.as_nanos() / self.config.tick.as_nanos() + 1
    }

    fn instant(&self, tick: u64) -> Instant {
        Instant::from_nanos((tick - 1).saturating_mul(self.config.tick.as_nanos()))
    }

    /// How many ticks a request waits at a group; zero: it may go.
    fn wait(&mut self, now: u64, group: u32, direction: usize, bytes: u64) -> u64 {
        let rate = self.rate(now, group, direction);
        let node = &mut self.nodes[group as usize];
        let queued = node.waiting[direction] > 0;
        node.slices[direction].wait(self.clock, now, rate, bytes, queued)
    }

    /// What a group may have now.
    fn rate(&mut self, now: u64, group: u32, direction: usize) -> Rate {
        let Node { low, is_leaf, .. } = self.nodes[group as usize];
        let low = low[direction];
        if !self.pace.is_low() {
            self.pace.grow(now, self.clock.slice);
            let of = |low| {
                if low == 0 {
                    u64::MAX
                } else {
                    self.pace.scaled(low)
                }
            };
            return Rate {
                bytes: of(low.bytes),
                requests: of(low.requests),
            };
        }
        let or = |low, other, least| match (low, other, is_leaf) {
            (0, 0, true) => least,
            (0, ..) => u64::MAX,
            _ => low,
        };
        Rate {
            bytes: or(low.bytes, low.requests, LEAST.bytes),
            requests: or(low.requests, low.bytes, LEAST.requests),
        }
    }

    fn charge(&mut self, group: u32, direction: usize, bytes: u64) {
        let node = &mut self.nodes[group as usize];
        node.slices[direction].charge(bytes);
        let (all, requests) = &mut node.passed[direction];
        *all = all.saturating_add(bytes);
        *requests += 1;
    }

    fn trim(&mut self, now: u64, group: u32, direction: usize) {
        let rate = self.rate(now, group, direction);
        self.nodes[group as usize].slices[direction].trim(self.clock, now, rate);
    }

    /// A request waits at a group from now on.
    fn queue(&mut self, cx: &Cx, group: u32, direction: usize, source: u32, id: u32) {
        debug_assert!(self.waits_in[id as usize] == NIL, "it waits already");
        let list = &mut self.sources[source as usize];
        let node = &mut self.nodes[group as usize];
        if list.is_empty() {
            self.turns.push_back(&mut node.queued[direction], source);
        }
        self.requests.push_back(list, id);
        self.waits_in[id as usize] = source;
        node.waiting[direction] += 1;
        if node.waiting[direction] == 1 {
            self.set_timer(cx, group);
        }
    }

    /// The first request that waits at a group in a direction.
    fn first(&self, group: u32, direction: usize) -> Option<u32> {
        let source = self.nodes[group as usize].queued[direction].first()?;
        self.sources[source as usize].first()
    }

    /// Takes the first request out; its source has the last turn then.
    fn pop(&mut self, group: u32, direction: usize) {
        let node = &mut self.nodes[group as usize];
        let queued = &mut node.queued[direction];
        let Some(source) = self.turns.pop_front(queued) else {
            return;
        };
        let list = &mut self.sources[source as usize];
        debug_assert!(!list.is_empty(), "a source without requests has a turn");
        if let Some(id) = self.requests.pop_front(list) {
            self.waits_in[id as usize] = NIL;
            node.waiting[direction] -= 1;
        }
        if !list.is_empty() {
            self.turns.push_back(queued, source);
        }
    }

    /// Takes anew when the first request of a group may go.
    fn set_timer(&mut self, cx: &Cx, group: u32) {
        let now = self.tick(cx.now);
        let mut least = None;
        for direction in 0..2 {
            if let Some(id) = self.first(group, direction) {
                let bytes = u64::from(cx.table.requests[id].request.charge());
                let wait = self.wait(now, group, direction, bytes);
                least = Some(least.map_or(wait, |least: u64| least.min(wait)));
            }
        }
        let Some(wait) = least else {
            self.timers.clear(group);
            return;
        };
        let at = if wait == 0 {
            cx.now
        } else {
            self.instant(now.saturating_add(wait))
        };
        if self.timers.first().is_none() {
            self.look_at = self.instant(now + LOOK_SLICES * self.clock.slice);
        }
        let ticket = self.timers.ticket();
        self.timers.set(group, at, ticket);
    }

    /// Lets go what may of a group, as much as makes a turn.
    fn dispatch(&mut self, cx: &Cx, group: u32) {
        let now = self.tick(cx.now);
        let parent = self.nodes[group as usize].parent;
        for (direction, most) in QUANTUM.into_iter().enumerate() {
            for _ in 0..most {
                let Some(id) = self.first(group, direction) else {
                    break;
                };
                let bytes = u64::from(cx.table.requests[id].request.charge());
                if self.wait(now, group, direction, bytes) > 0 {
                    break;
                }
                self.pop(group, direction);
                self.charge(group, direction, bytes);
                if parent == NIL {
                    self.requests.push_back(&mut self.passed, id);
                } else {
                    let childs = self.nodes[group as usize].slices[direction].start;
                    let slice = &mut self.nodes[parent as usize].slices[direction];
                    if slice.is_over(now) {
                        slice.begin_with_credit(self.clock, now, childs);
                    }
                    self.queue(cx, parent, direction, source_of(group, direction, true), id);
                }
                self.trim(now, group, direction);
            }
        }
        self.set_timer(cx, group);
    }

    /// Everyone who waits is looked at again.
    fn set_timers(&mut self, cx: &Cx) {
        for group in 0..self.nodes.len() as u32 {
            if self.nodes[group as usize].waits() {
                self.set_timer(cx, group);
            }
        }
    }

    /// Takes the low limit of a group anew; true if it is another.
    fn set_group(&mut self, cx: &Cx, id: GroupId) -> bool {
        let now = self.tick(cx.now);
        let groups = &cx.table.groups;
        let node = &mut self.nodes[id.0 as usize];
        let Some(group) = groups.get(id).filter(|_| id != ROOT) else {
            let changed = node.is_limited();
            *node = Node::none();
            return changed;
        };
        let (contract, max, knobs) = (group.contract, group.contract.max, group.knobs.low);
        let least = |low: u64, maxes: [u64; 2]| {
            let maxes = maxes.into_iter().filter(|&max| max > 0);
            maxes.fold(low, u64::min)
        };
        // What is said of each direction counts as it stands; a min counts for those that the tunable names.
        let (bytes, requests, limits) = if knobs.is_limited() {
            let bytes = [knobs.read_bandwidth, knobs.write_bandwidth];
            (bytes, [knobs.read_iops, knobs.write_iops], Directions::Both)
        } else {
            let limits = self.config.limits;
            ([contract.min; 2], [contract.min_iops; 2], limits)
        };
        let reads = Rate {
            bytes: least(bytes[0], [max.bandwidth, max.read_bandwidth]),
            requests: least(requests[0], [max.iops, max.read_iops]),
        };
        let writes = Rate {
            bytes: least(bytes[1], [max.bandwidth, max.write_bandwidth]),
            requests: least(requests[1], [max.iops, max.write_iops]),
        };
        let low = match limits {
            Directions::Both => [reads, writes],
            Directions::Reads => [reads, Rate::NONE],
            Directions::Writes => [Rate::NONE, writes],
        };
        let or = |knob: Span, tunable| if knob == Span::ZERO { tunable } else { knob };
        node.idle = or(knobs.idle, self.config.idle);
        node.latency = or(knobs.latency, self.config.latency);
        let changed = node.low != low;
        node.low = low;
        if changed {
            node.slices
                .iter_mut()
                .for_each(|s| s.begin(self.clock, now));
        }
        node.exists = true;
        node.is_leaf = group.children == 0;
        node.parent = match group.parent {
            ROOT => NIL,
            parent => parent.0,
        };
        changed
    }
}

impl Controller for Low {
    fn set(&mut self, cx: &mut Cx) {
        let mut changed = false;
        for id in (0..cx.table.groups.capacity()).map(GroupId) {
            changed |= self.set_group(cx, id);
        }
        if changed {
            self.pace.set(self.nodes.iter().any(Node::is_limited));
            self.set_timers(cx);
        }
    }

    fn covers(&self, group: GroupId) -> bool {
        self.pace.is_on() && group != ROOT
    }

    fn counts(&self) -> bool {
        self.pace.is_on()
    }

    fn enter(&mut self, cx: &mut Cx, id: u32) -> Verdict {
        let live = &cx.table.requests[id];
        if !self.covers(live.group) {
            return Verdict::Pass;
        }
        let (now, bytes) = (self.tick(cx.now), u64::from(live.request.charge()));
        let direction = usize::from(!live.request.op.is_read());
        let mut group = live.group.0;
        let mut source = source_of(group, direction, false);
        self.baseline.look(cx.now);
        self.nodes[group as usize].habit.came(cx.now);
        while group != NIL {
            self.look_at_group(cx, group, direction);
            if self.nodes[group as usize].waiting[direction] > 0 {
                break;
            }
            if self.wait(now, group, direction, bytes) > 0 {
                self.nodes[group as usize].overflowed[direction] = now;
                if self.may_upgrade(cx.now, Some(group)) {
                    self.upgrade(cx);
                    continue;
                }
                break;
            }
            self.charge(group, direction, bytes);
            self.trim(now, group, direction);
            source = source_of(group, direction, true);
            group = self.nodes[group as usize].parent;
        }
        if group == NIL {
            return Verdict::Pass;
        }
        let (stream, cookie) = (live.request.stream, live.request.cookie);
        self.queue(cx, group, direction, source, id);
        cx.publish(|| Event::Throttled { stream, cookie });
        Verdict::Hold
    }

    fn next_passed(&mut self, cx: &mut Cx) -> Option<u32> {
        let id = self.requests.pop_front(&mut self.passed)?;
        let request = &cx.table.requests[id].request;
        let (stream, cookie) = (request.stream, request.cookie);
        cx.publish(|| Event::Passed { stream, cookie });
        Some(id)
    }

    fn ended(&mut self, cx: &mut Cx, id: u32, took: Option<Span>) {
        let live = &cx.table.requests[id];
        if took.is_none() || !self.covers(live.group) {
            return;
        }
        let (tick, bytes) = (self.tick(cx.now), u64::from(live.request.charge()));
        let direction = usize::from(!live.request.op.is_read());
        if self.pace.is_low() && matches!(live.request.op, Op::Read | Op::Write) {
            let served = cx.now.since(live.dispatched);
            self.baseline.add(direction, bytes, served);
        }
        let node = &mut self.nodes[live.group.0 as usize];
        let took = cx.now.since(live.cleared);
        let bad = self.baseline.is_bad(direction, bytes, took, node.latency);
        node.habit.went(cx.now, tick, self.clock.slice, bad);
    }

    fn remove(&mut self, cx: &mut Cx, id: u32) {
        let source = core::mem::replace(&mut self.waits_in[id as usize], NIL);
        if source == NIL {
            self.requests.remove(&mut self.passed, id);
            return;
        }
        let (from, direction) = (source / 4, (source as usize % 4) / 2);
        let group = if source.is_multiple_of(2) {
            from
        } else {
            self.nodes[from as usize].parent
        };
        let list = &mut self.sources[source as usize];
        self.requests.remove(list, id);
        let node = &mut self.nodes[group as usize];
        debug_assert!(node.waiting[direction] > 0, "more leave than wait");
        node.waiting[direction] -= 1;
        if list.is_empty() {
            self.turns.remove(&mut node.queued[direction], source);
        }
        self.set_timer(cx, group);
    }

    /// Lets go what may, and looks whether the limits are to end.
    fn run(&mut self, cx: &mut Cx) {
        if self.wake().is_none_or(|wake| wake.at > cx.now) {
            return;
        }
        if self.may_upgrade(cx.now, None) {
            self.upgrade(cx);
        }
        while let Some((at, group)) = self.timers.first() {
            if at > cx.now {
                break;
            }
            self.dispatch(cx, group);
        }
        let next = self.tick(cx.now) + LOOK_SLICES * self.clock.slice;
        self.look_at = self.instant(next);
    }

    fn wake(&self) -> Option<Wake> {
        let first = self.timers.next();
        let at = first.min(self.look_at);
        (first < Instant::MAX && !mutant::is(mutant::LOW_TIMER_LOST)).then_some(Wake {
            at,
            reason: Reason::Limit,
        })
    }

    fn sample(&self, _cx: &Cx, take: &mut Take<'_>) {
        if !self.pace.is_on() {
            return;
        }
        take(Sample::Low {
            limited: self.pace.is_low(),
            scale: self.pace.scale(),
        });
        for (group, node) in (0..).map(GroupId).zip(&self.nodes) {
            let requests = node.waiting[0] + node.waiting[1];
            if requests > 0 {
                let by = Kind::Low;
                take(Sample::Held {
                    by,
                    group,
                    requests,
                });
            }
        }
    }
}
