//! `io.low`: limits all groups to their low limits until each group with a low limit reaches it or
//! is idle (Linux 4.12 to 6.9: `blk-throttle.c`).
//!
//! After that, low limits do not apply until a group that is not idle falls below its own. The low
//! limit of a group is the one set for io.low, or else the min of its contract. While low limits
//! apply (`LIMIT_LOW`), a group without one gets 320 KiB and 10 requests per second.
//!
//! A request passes the limit of its group first, then that of each group above. `pace` changes
//! between the two states, `idle` detects idle groups, and `Levels` has the waiting requests. The
//! code tour is docs/io-low.md.

mod config;
mod idle;
mod pace;
#[cfg(test)]
mod tests;

pub use config::{Config, Directions};

use super::controller::{Controller, Verdict};
use super::slices::{Amount, GroupRates, Levels, SliceRate};
use crate::cx::Cx;
use crate::event::Event;
use crate::id::{GroupId, ROOT};
use crate::knobs::ControllerKind;
use crate::list::NIL;
use crate::request::Op;
use crate::sample::{Sample, Take};
use crate::table::Table;
use crate::time::{Instant, Span};
use alloc::vec;
use alloc::vec::Vec;
use idle::{Baseline, IdleDetector};
use pace::LowPace;

/// The rate of a group without a low limit while low limits apply (Linux: `MIN_THROTL_BPS`,
/// `MIN_THROTL_IOPS`).
const LEAST: SliceRate = SliceRate {
    bytes: 320 * 1024,
    requests: 10,
};
/// The number of slices after which the end of low limits is checked again while a request waits.
const LOOK_SLICES: u64 = 8;

/// The low limit and the state of one group.
#[derive(Clone, Debug)]
struct LowNode {
    /// True if the group exists and is not the root.
    exists: bool,
    is_leaf: bool,
    /// The low limits for reads and for writes. Zero means none.
    low: [SliceRate; 2],
    /// The think time above which the group is idle. `latency` is the additional latency above
    /// which a request is slow.
    idle: Span,
    latency: Span,
    /// The ticks at which the group last had more work than its low limit permits, or zero if it
    /// never sent in that direction.
    overflowed: [u64; 2],
    /// The amounts that passed since the last check. `checked` is its tick.
    passed: [(u64, u64); 2],
    checked: u64,
    idle_detector: IdleDetector,
}

impl LowNode {
    /// Returns the state of a group that does not exist.
    fn none() -> Self {
        Self {
            exists: false,
            is_leaf: false,
            low: [SliceRate::NONE; 2],
            idle: Span::ZERO,
            latency: Span::ZERO,
            overflowed: [0; 2],
            passed: [(0, 0); 2],
            checked: 0,
            idle_detector: IdleDetector::default(),
        }
    }

    fn is_limited(&self) -> bool {
        self.low != [SliceRate::NONE; 2]
    }
}

/// The rates of all groups in the present state.
#[derive(Debug)]
struct LowRates {
    nodes: Vec<LowNode>,
    pace: LowPace,
    /// The number of ticks in a slice.
    slice: u64,
}

/// The controller `io.low`. Numbers are slots of groups and of live requests.
#[derive(Debug)]
pub(super) struct LowController {
    config: Config,
    limits: LowRates,
    levels: Levels,
    baseline: Baseline,
    look_at: Instant,
}

impl GroupRates for LowRates {
    fn rate(&mut self, tick: u64, group: u32, direction: usize) -> SliceRate {
        let LowNode { low, is_leaf, .. } = self.nodes[group as usize];
        let low = low[direction];
        if !self.pace.is_low() {
            self.pace.grow(tick, self.slice);
            let of = |low| {
                if low == 0 {
                    u64::MAX
                } else {
                    self.pace.scaled(low)
                }
            };
            return SliceRate {
                bytes: of(low.bytes),
                requests: of(low.requests),
            };
        }
        // A leaf without any low limit gets the least rate. A limit that is set in one unit only
        // leaves the other unit unlimited.
        let or = |low, other, least| match (low, other, is_leaf) {
            (0, 0, true) => least,
            (0, ..) => u64::MAX,
            _ => low,
        };
        SliceRate {
            bytes: or(low.bytes, low.requests, LEAST.bytes),
            requests: or(low.requests, low.bytes, LEAST.requests),
        }
    }

    fn passed(&mut self, group: u32, direction: usize, amount: Amount) {
        let (all, requests) = &mut self.nodes[group as usize].passed[direction];
        *all = all.saturating_add(amount.bytes);
        *requests += u64::from(amount.requests);
    }
}

impl LowController {
    pub(super) fn new(config: &Config, table: &Table) -> Self {
        let levels = Levels::new(table, config.tick, config.throttle_sample_time);
        Self {
            config: *config,
            limits: LowRates {
                nodes: vec![LowNode::none(); table.groups.capacity() as usize],
                pace: LowPace::default(),
                slice: levels.clock().slice,
            },
            levels,
            baseline: Baseline::new(table.shape.rotational),
            look_at: Instant::MAX,
        }
    }

    /// Returns the time of the next check whether low limits may end.
    fn next_look(&self, now: Instant) -> Instant {
        let slices = LOOK_SLICES * self.limits.slice;
        self.levels.instant(self.levels.tick(now) + slices)
    }

    /// Updates the low limit of a group and returns true if it changed.
    fn set_group(&mut self, cx: &Cx, id: GroupId) -> bool {
        let groups = &cx.table.groups;
        self.levels.place(groups, id);
        let node = &mut self.limits.nodes[id.0 as usize];
        let Some(group) = groups.get(id).filter(|_| id != ROOT) else {
            let changed = node.is_limited();
            *node = LowNode::none();
            return changed;
        };
        let (contract, max, knobs) = (group.contract, group.contract.max, group.knobs.low);
        // A low limit above the max could never be reached.
        let least = |low: u64, maxes: [u64; 2]| {
            let maxes = maxes.into_iter().filter(|&max| max > 0);
            maxes.fold(low, u64::min)
        };
        // Limits that are set for each direction apply as they are. A min applies to the directions
        // that the tunable `limits` selects.
        let (bytes, requests, limits) = if knobs.is_limited() {
            let bytes = [knobs.read_bandwidth, knobs.write_bandwidth];
            (bytes, [knobs.read_iops, knobs.write_iops], Directions::Both)
        } else {
            let limits = self.config.limits;
            ([contract.min; 2], [contract.min_iops; 2], limits)
        };
        let reads = SliceRate {
            bytes: least(bytes[0], [max.bandwidth, max.read_bandwidth]),
            requests: least(requests[0], [max.iops, max.read_iops]),
        };
        let writes = SliceRate {
            bytes: least(bytes[1], [max.bandwidth, max.write_bandwidth]),
            requests: least(requests[1], [max.iops, max.write_iops]),
        };
        let low = match limits {
            Directions::Both => [reads, writes],
            Directions::Reads => [reads, SliceRate::NONE],
            Directions::Writes => [SliceRate::NONE, writes],
        };
        let or = |knob: Span, tunable| if knob == Span::ZERO { tunable } else { knob };
        node.idle = or(knobs.idle, self.config.idle);
        node.latency = or(knobs.latency, self.config.latency);
        let changed = node.low != low;
        node.low = low;
        node.exists = true;
        node.is_leaf = group.children == 0;
        if changed {
            self.levels.begin(id.0, cx.now);
        }
        changed
    }
}

impl Controller for LowController {
    fn set(&mut self, cx: &mut Cx) {
        let mut changed = false;
        for id in (0..cx.table.groups.capacity()).map(GroupId) {
            changed |= self.set_group(cx, id);
        }
        if changed {
            let is_on = self.limits.nodes.iter().any(LowNode::is_limited);
            // Changed limits begin with low limits in effect.
            self.limits.pace.set(is_on);
            self.levels.set_timers(&mut self.limits, cx);
        }
    }

    fn covers(&self, group: GroupId) -> bool {
        self.limits.pace.is_on() && group != ROOT
    }

    fn counts(&self) -> bool {
        self.limits.pace.is_on()
    }

    fn enter(&mut self, cx: &mut Cx, id: u32) -> Verdict {
        let live = &cx.table.requests[id];
        if !self.covers(live.group) {
            return Verdict::Pass;
        }
        let amount = Amount::of(&live.request, &cx.table.shape);
        let (tick, direction) = (
            self.levels.tick(cx.now),
            usize::from(!live.request.op.is_read()),
        );
        let (mut group, mut below) = (live.group.0, None);
        self.baseline.update_means(cx.now);
        self.limits.nodes[group as usize]
            .idle_detector
            .observe_submission(cx.now);
        while group != NIL {
            self.check_group(cx, group, direction);
            let at = (group, direction);
            if self.levels.pass(&mut self.limits, tick, at, amount) {
                (group, below) = (self.levels.parent(group), Some(group));
            } else if self.levels.waiting(group)[direction] > 0 {
                break;
            } else {
                self.limits.nodes[group as usize].overflowed[direction] = tick;
                // The wait of this request may be the last sign that was missing: this group
                // reaches its limit now.
                if !self.may_upgrade(cx.now, Some(group)) {
                    break;
                }
                self.upgrade(cx);
            }
        }
        if group == NIL {
            return Verdict::Pass;
        }
        let (stream, cookie) = (live.request.stream, live.request.cookie);
        // The check at every eighth slice begins with the first request that waits.
        if self.levels.is_idle() {
            self.look_at = self.next_look(cx.now);
        }
        let at = (group, direction);
        self.levels.hold(&mut self.limits, cx, at, below, id);
        cx.publish(|| Event::Throttled { stream, cookie });
        Verdict::Hold
    }

    fn next_passed(&mut self, cx: &mut Cx) -> Option<u32> {
        let id = self.levels.next_passed()?;
        let request = &cx.table.requests[id].request;
        let (stream, cookie) = (request.stream, request.cookie);
        cx.publish(|| Event::Passed { stream, cookie });
        Some(id)
    }

    fn ended(&mut self, cx: &mut Cx, id: u32, took: Option<Span>) -> bool {
        let live = &cx.table.requests[id];
        if took.is_none() || !self.covers(live.group) {
            return false;
        }
        let (tick, bytes) = (self.levels.tick(cx.now), live.request.charge());
        let direction = usize::from(!live.request.op.is_read());
        // Only requests under low limits show the latency without competition.
        if self.limits.pace.is_low() && matches!(live.request.op, Op::Read | Op::Write) {
            let served = cx.now.since(live.dispatched);
            self.baseline.add(direction, bytes, served);
        }
        let node = &mut self.limits.nodes[live.group.0 as usize];
        // This time includes the wait for a tag, which the baseline does not. The difference is the
        // effect of other groups.
        let took = cx.now.since(live.cleared);
        let bad = self.baseline.is_bad(direction, bytes, took, node.latency);
        node.idle_detector
            .observe_completion(cx.now, tick, self.limits.slice, bad);
        false
    }

    fn remove(&mut self, cx: &mut Cx, id: u32) {
        self.levels.remove(&mut self.limits, cx, id);
    }

    /// Lets requests continue that may by now, and checks whether low limits may end.
    fn run(&mut self, cx: &mut Cx) {
        if self.due() > cx.now {
            return;
        }
        if self.may_upgrade(cx.now, None) {
            self.upgrade(cx);
        }
        self.levels.run(&mut self.limits, cx);
        self.look_at = self.next_look(cx.now);
    }

    fn due(&self) -> Instant {
        // Without waiting requests, no timer is needed: the next request checks the state.
        match self.levels.next() {
            Instant::MAX => Instant::MAX,
            first => first.min(self.look_at),
        }
    }

    fn sample(&self, _cx: &Cx, take: &mut Take<'_>) {
        if !self.limits.pace.is_on() {
            return;
        }
        take(Sample::Low {
            limited: self.limits.pace.is_low(),
            scale: self.limits.pace.scale(),
        });
        self.levels.sample(ControllerKind::Low, take);
    }
}
