//! `io.max` as in Linux: limits that count in slices of 100 ms on disks and 20 ms on flash (Linux
//! 6.1: `blk-throttle.c`). Linux has the slices of 20 ms only if it is built with
//! `CONFIG_BLK_DEV_THROTTLING_LOW`.
//!
//! The amount that a limit permits is rounded up to whole slices, so requests leave in bursts. A
//! part of the unused amount is lost at the end of a slice. A request passes the limit of its group
//! first, then that of each group above. `slice` computes the permitted amount, and `levels` has
//! the waiting requests. The controller `io.low` uses both with limits that change. The controller
//! in `max` enforces the same limits exactly.

mod config;
mod levels;
mod slice;
#[cfg(test)]
mod tests;

pub use config::Config;
pub(super) use config::{bounded, check};
pub(super) use levels::{GroupRates, Levels};
pub(super) use slice::{Amount, SliceRate};

use super::controller::{Controller, Verdict};
use super::held::{HeldStreams, release_event};
use crate::contract::Max;
use crate::cx::Cx;
use crate::id::{GroupId, ROOT};
use crate::knobs::ControllerKind;
use crate::list::NIL;
use crate::sample::Take;
use crate::table::Table;
use crate::time::{Instant, Span};
use alloc::vec;
use alloc::vec::Vec;

/// The limits of all groups for reads and writes.
#[derive(Debug)]
struct MaxRates {
    rates: Vec<[SliceRate; 2]>,
}

impl GroupRates for MaxRates {
    fn rate(&mut self, _tick: u64, group: u32, direction: usize) -> SliceRate {
        self.rates[group as usize][direction]
    }
}

/// The controller `io.max` in slices. Numbers are slots of groups and of live requests.
#[derive(Debug)]
pub(super) struct SlicesController {
    limits: MaxRates,
    levels: Levels,
    /// True for groups that are limited or below a limited group.
    covered: Vec<bool>,
    streams: HeldStreams,
}

impl SlicesController {
    pub(super) fn new(config: &Config, table: &Table) -> Self {
        let groups = table.groups.capacity() as usize;
        Self {
            limits: MaxRates {
                rates: vec![[SliceRate::UNLIMITED; 2]; groups],
            },
            levels: Levels::new(table, config.tick, config.throttle_sample_time),
            covered: vec![false; groups],
            streams: HeldStreams::new(table),
        }
    }

    /// Updates the limits of a group and returns true if they changed. Its slices begin with the
    /// new limits (Linux: `tg_conf_updated`).
    fn set_group(&mut self, cx: &Cx, id: GroupId) -> bool {
        let groups = &cx.table.groups;
        self.levels.place(groups, id);
        let limits = |id| groups.get(id).map_or(Max::NONE, |g| g.contract.max);
        let max = if id == ROOT { Max::NONE } else { limits(id) };
        self.covered[id.0 as usize] = groups.path(id).any(|above| limits(above).is_limited());
        let rates = rates(&max);
        let changed = self.limits.rates[id.0 as usize] != rates;
        if changed {
            self.limits.rates[id.0 as usize] = rates;
            self.levels.begin(id.0, cx.now);
        }
        changed
    }
}

/// Converts a max to Linux's limits, which are for each direction. A common limit of reads and
/// writes applies to each of them.
fn rates(max: &Max) -> [SliceRate; 2] {
    // Zero means no limit in a max.
    let least = |limits: [u64; 2]| {
        let limits = limits.into_iter().filter(|&limit| limit > 0);
        limits.fold(u64::MAX, u64::min)
    };
    [
        SliceRate {
            bytes: least([max.bandwidth, max.read_bandwidth]),
            requests: least([max.iops, max.read_iops]),
        },
        SliceRate {
            bytes: least([max.bandwidth, max.write_bandwidth]),
            requests: least([max.iops, max.write_iops]),
        },
    ]
}

impl Controller for SlicesController {
    fn set(&mut self, cx: &mut Cx) {
        let mut changed = false;
        for id in (0..cx.table.groups.capacity()).map(GroupId) {
            changed |= self.set_group(cx, id);
        }
        if changed {
            self.levels.set_timers(&mut self.limits, cx);
        }
    }

    fn covers(&self, group: GroupId) -> bool {
        self.covered[group.0 as usize]
    }

    fn enter(&mut self, cx: &mut Cx, id: u32) -> Verdict {
        let live = &cx.table.requests[id];
        let amount = Amount::of(&live.request, &cx.table.shape);
        let direction = usize::from(!live.request.op.is_read());
        let tick = self.levels.tick(cx.now);
        let (mut group, mut below) = (live.group.0, None);
        if !self.covers(live.group) {
            // No limit is on the path, so the request passes all levels at once.
            group = NIL;
        }
        while group != NIL {
            let at = (group, direction);
            if !self.levels.pass(&mut self.limits, tick, at, amount) {
                self.streams.count(&live.request, amount.requests);
                self.levels.hold(&mut self.limits, cx, at, below, id);
                return Verdict::Hold;
            }
            below = Some(group);
            group = self.levels.parent(group);
        }
        cx.events.publish(cx.now, || release_event(live));
        Verdict::Pass
    }

    fn next_passed(&mut self, cx: &mut Cx) -> Option<u32> {
        let id = self.levels.next_passed()?;
        let live = &cx.table.requests[id];
        let amount = Amount::of(&live.request, &cx.table.shape);
        self.streams.count_out(&live.request, amount.requests);
        cx.events.publish(cx.now, || release_event(live));
        Some(id)
    }

    fn remove(&mut self, cx: &mut Cx, id: u32) {
        let request = &cx.table.requests[id].request;
        let amount = Amount::of(request, &cx.table.shape);
        self.streams.count_out(request, amount.requests);
        self.levels.remove(&mut self.limits, cx, id);
    }

    fn run(&mut self, cx: &mut Cx) {
        self.levels.run(&mut self.limits, cx);
    }

    fn due(&self) -> Instant {
        self.levels.next()
    }

    fn backlog(&self, table: &Table, stream: u32) -> Span {
        self.streams.backlog(table, stream, |_| 0)
    }

    fn sample(&self, _cx: &Cx, take: &mut Take<'_>) {
        self.levels.sample(ControllerKind::Max, take);
    }
}
