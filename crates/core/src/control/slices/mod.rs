//! `io.max` as Linux has it: limits that count in slices of a tenth or a fiftieth of a second (Linux 6.1: `blk-throttle.c`).
//!
//! What a limit allows is rounded up to whole slices, so requests leave in bursts; what is left when a slice is over is lost in part.
//! A request passes its group's limit first, then that of each group above. `slice` says how much may go, `levels` which requests wait
//! where and when that may go; `io.low` is the same with limits that change. What `max` promises exactly, this promises as Linux
//! does.

mod config;
mod levels;
mod slice;
#[cfg(test)]
mod tests;

pub use config::Config;
pub(super) use config::{bounded, check};
pub(super) use levels::{Levels, Rates};
pub(super) use slice::{Amount, Rate};

use super::controller::{Controller, Verdict};
use super::held::{Streams, released};
use crate::contract::Max;
use crate::cx::Cx;
use crate::id::{GroupId, ROOT};
use crate::knobs::Kind;
use crate::list::NIL;
use crate::sample::Take;
use crate::table::Table;
use crate::time::{Instant, Span};
use alloc::vec;
use alloc::vec::Vec;

/// What groups may have at most, reads and writes.
#[derive(Debug)]
struct MaxRates {
    rates: Vec<[Rate; 2]>,
}

impl Rates for MaxRates {
    fn rate(&mut self, _tick: u64, group: u32, direction: usize) -> Rate {
        self.rates[group as usize][direction]
    }
}

/// The controller. Numbers are slots of groups and of live requests.
#[derive(Debug)]
pub(super) struct Slices {
    limits: MaxRates,
    levels: Levels,
    /// Groups that are limited, or below one that is.
    covered: Vec<bool>,
    streams: Streams,
}

impl Slices {
    pub(super) fn new(config: &Config, table: &Table) -> Self {
        let groups = table.groups.capacity() as usize;
        Self {
            limits: MaxRates {
                rates: vec![[Rate::UNLIMITED; 2]; groups],
            },
            levels: Levels::new(table, config.tick, config.throttle_sample_time),
            covered: vec![false; groups],
            streams: Streams::new(table),
        }
    }

    /// Takes the limits of a group anew; true if they are others. Its slices begin with them (Linux: `tg_conf_updated`).
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

/// The limits of Linux that a max comes to: one of reads and writes together is one of each.
fn rates(max: &Max) -> [Rate; 2] {
    let least = |limits: [u64; 2]| {
        let limits = limits.into_iter().filter(|&limit| limit > 0);
        limits.fold(u64::MAX, u64::min)
    };
    [
        Rate {
            bytes: least([max.bandwidth, max.read_bandwidth]),
            requests: least([max.iops, max.read_iops]),
        },
        Rate {
            bytes: least([max.bandwidth, max.write_bandwidth]),
            requests: least([max.iops, max.write_iops]),
        },
    ]
}

impl Controller for Slices {
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
        cx.events.publish(cx.now, || released(live));
        Verdict::Pass
    }

    fn next_passed(&mut self, cx: &mut Cx) -> Option<u32> {
        let id = self.levels.next_passed()?;
        let live = &cx.table.requests[id];
        let amount = Amount::of(&live.request, &cx.table.shape);
        self.streams.count_out(&live.request, amount.requests);
        cx.events.publish(cx.now, || released(live));
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
        self.levels.sample(Kind::Max, take);
    }
}
