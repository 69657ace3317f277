//! Whether everyone is held to its low limit, and when that changes (Linux: `throtl_can_upgrade`, `throtl_upgrade_state`,
//! `throtl_downgrade_check`, `throtl_adjusted_limit`).

use super::Low;
use crate::control::slices::Rate;
use crate::cx::Cx;
use crate::time::Instant;

/// The scale goes no further.
const SCALE_MAX: u64 = 4096;

/// Which limits hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Some group has a low limit.
    on: bool,
    /// Everyone is held to its low limit.
    low: bool,
    /// By how many halves of its low limit a group may have more.
    scale: u64,
    upgraded: u64,
    downgraded: u64,
}

impl Pace {
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn is_low(&self) -> bool {
        self.low
    }

    pub(super) fn scale(&self) -> u32 {
        self.scale as u32
    }

    /// Limits were set.
    pub(super) fn set(&mut self, on: bool) {
        (self.on, self.low) = (on, on);
    }

    /// The scale rises by one in each slice.
    pub(super) fn grow(&mut self, now: u64, slice: u64) {
        if self.scale < SCALE_MAX && now >= self.upgraded + self.scale * slice {
            self.scale = now.saturating_sub(self.upgraded) / slice;
        }
    }

    /// What a group with this low limit may have when nobody is held to theirs.
    pub(super) fn scaled(&self, low: u64) -> u64 {
        low.saturating_add((low >> 1).saturating_mul(self.scale))
    }

    fn upgrade(&mut self, now: u64) {
        self.low = false;
        self.upgraded = now;
        self.scale = 0;
    }

    /// The scale is halved; below one, everyone is held to its low limit again.
    fn downgrade(&mut self, now: u64, slice: u64) {
        self.scale /= 2;
        if self.scale > 0 {
            self.upgraded = now.saturating_sub(self.scale * slice);
        } else {
            self.low = true;
            self.downgraded = now;
        }
    }
}

impl Low {
    /// What is due when a request comes to a group: has the group fallen below its low limit, or may the limits end?
    pub(super) fn look_at_group(&mut self, cx: &Cx, group: u32, direction: usize) {
        let tick = self.levels.tick(cx.now);
        let overflowed = &mut self.limits.nodes[group as usize].overflowed[direction];
        if *overflowed == 0 {
            *overflowed = tick;
        }
        if self.limits.pace.is_low() {
            self.check_upgrade(cx, tick, group);
        } else {
            self.check_downgrade(cx.now, tick, group);
            if self.limits.pace.is_low() {
                self.check_upgrade(cx, tick, group);
            }
        }
    }

    fn check_upgrade(&mut self, cx: &Cx, tick: u64, group: u32) {
        let slice = self.limits.slice;
        let overflowed = self.overflowed(tick, group);
        let node = &mut self.limits.nodes[group as usize];
        if node.checked + slice > tick {
            return;
        }
        node.checked = tick;
        if tick >= overflowed + slice && self.may_upgrade(cx.now, None) {
            self.upgrade(cx);
        }
    }

    fn check_downgrade(&mut self, now: Instant, tick: u64, group: u32) {
        let slice = self.limits.slice;
        let last = self.overflowed_above(tick, group);
        let node = &mut self.limits.nodes[group as usize];
        if !node.is_leaf || node.checked + slice > tick {
            return;
        }
        let elapsed = tick - node.checked;
        node.checked = tick;
        if tick < last + slice {
            return;
        }
        for direction in 0..2 {
            let (low, (bytes, requests)) = (node.low[direction], node.passed[direction]);
            let of = |amount: u64| amount.saturating_mul(self.levels.clock().hz) / elapsed;
            if low.bytes > 0 && of(bytes) >= low.bytes
                || low.requests > 0 && of(requests) >= low.requests
            {
                node.overflowed[direction] = tick;
            }
        }
        if self.is_below(now, tick, group) {
            self.limits.pace.downgrade(tick, slice);
        }
        self.limits.nodes[group as usize].passed = [(0, 0); 2];
    }

    /// Whether a group and all above it are below their low limits.
    fn is_below(&self, now: Instant, tick: u64, group: u32) -> bool {
        let slice = self.limits.slice;
        self.levels.path(group).all(|at| {
            let node = &self.limits.nodes[at as usize];
            tick >= self.limits.pace.upgraded + slice
                && tick >= self.overflowed_above(tick, at) + slice
                && (!node.is_leaf || !self.is_idle(now, at))
        })
    }

    fn is_idle(&self, now: Instant, group: u32) -> bool {
        let node = &self.limits.nodes[group as usize];
        !node.is_limited() || node.idle_detector.is_idle(now, node.idle)
    }

    /// When a group last had more to do than its low limit lets through, in both directions if both are limited; now, if it has no limit.
    fn overflowed(&self, tick: u64, group: u32) -> u64 {
        let node = &self.limits.nodes[group as usize];
        let limited = node.low.iter().zip(node.overflowed);
        let of = limited.filter(|(low, _)| **low != Rate::NONE);
        of.map(|(_, at)| at).min().unwrap_or(tick)
    }

    /// When a group, or one above it, last had more to do than its low limit lets through.
    fn overflowed_above(&self, tick: u64, group: u32) -> u64 {
        let counts = |at: &u32| *at == group || self.limits.nodes[*at as usize].is_limited();
        let path = self.levels.path(group).filter(counts);
        let last = path.map(|at| self.overflowed(tick, at)).max();
        last.expect("a path begins with its group")
    }

    /// Whether every group with a low limit reaches it or is idle; `except` is known to.
    pub(super) fn may_upgrade(&self, now: Instant, except: Option<u32>) -> bool {
        let tick = self.levels.tick(now);
        if !self.limits.pace.is_low() || tick < self.limits.pace.downgraded + self.limits.slice {
            return false;
        }
        (0..self.limits.nodes.len() as u32).all(|group| {
            let node = &self.limits.nodes[group as usize];
            let counts = node.exists && node.is_leaf && Some(group) != except;
            !counts || self.lets_upgrade(now, tick, group)
        })
    }

    /// Whether a group or one above it does.
    fn lets_upgrade(&self, now: Instant, tick: u64, group: u32) -> bool {
        self.levels.path(group).any(|at| {
            let node = &self.limits.nodes[at as usize];
            let of = node.low.iter().zip(self.levels.waiting(at));
            let reached = of
                .into_iter()
                .all(|(low, waiting)| *low == Rate::NONE || waiting > 0);
            let rests = tick >= self.overflowed_above(tick, at) + self.limits.slice;
            reached || rests && self.is_idle(now, at)
        })
    }

    /// Nobody is held to its low limit any more.
    pub(super) fn upgrade(&mut self, cx: &Cx) {
        let tick = self.levels.tick(cx.now);
        self.limits.pace.upgrade(tick);
        self.levels.set_timers(&mut self.limits, cx);
    }
}
