//! The two states of `io.low`, in which low limits apply or not, and the changes between them
//! (Linux: `throtl_can_upgrade`, `throtl_upgrade_state`, `throtl_downgrade_check`,
//! `throtl_adjusted_limit`).

use super::LowController;
use crate::control::slices::SliceRate;
use crate::cx::Cx;
use crate::time::Instant;

/// The largest scale (Linux: in `throtl_adjusted_limit`).
const SCALE_MAX: u64 = 4096;

/// The limits that apply at present.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LowPace {
    /// True if a group has a low limit.
    on: bool,
    /// True while low limits apply to every group.
    low: bool,
    /// The number of halves of its low limit that a group may have in addition.
    scale: u64,
    upgraded: u64,
    downgraded: u64,
}

impl LowPace {
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn is_low(&self) -> bool {
        self.low
    }

    pub(super) fn scale(&self) -> u32 {
        self.scale as u32
    }

    /// Begins with low limits if there are any.
    pub(super) fn set(&mut self, on: bool) {
        (self.on, self.low) = (on, on);
    }

    /// Raises the scale by one in each slice.
    pub(super) fn grow(&mut self, now: u64, slice: u64) {
        if self.scale < SCALE_MAX && now >= self.upgraded + self.scale * slice {
            self.scale = now.saturating_sub(self.upgraded) / slice;
        }
    }

    /// Returns the limit of a group with this low limit while low limits do not apply.
    pub(super) fn scaled(&self, low: u64) -> u64 {
        low.saturating_add((low >> 1).saturating_mul(self.scale))
    }

    fn upgrade(&mut self, now: u64) {
        // The scale begins at zero, so the first limits are the low limits themselves and rise
        // slowly.
        self.low = false;
        self.upgraded = now;
        self.scale = 0;
    }

    /// Halves the scale. When it reaches zero, low limits apply to every group again.
    fn downgrade(&mut self, now: u64, slice: u64) {
        self.scale /= 2;
        if self.scale > 0 {
            // The time of the upgrade is moved so that the scale continues to grow from its present
            // value.
            self.upgraded = now.saturating_sub(self.scale * slice);
        } else {
            self.low = true;
            self.downgraded = now;
        }
    }
}

impl LowController {
    /// Checks the state when a request arrives at a group: low limits may begin or end.
    pub(super) fn check_group(&mut self, cx: &Cx, group: u32, direction: usize) {
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
            // The group reached its low limit in this direction since the last check.
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

    /// Returns true if a group and all above it are below their low limits.
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

    /// Returns the tick at which a group last had more work than its low limit permits, in both
    /// directions if both are limited. It is the present tick if the group has no limit.
    fn overflowed(&self, tick: u64, group: u32) -> u64 {
        let node = &self.limits.nodes[group as usize];
        let limited = node.low.iter().zip(node.overflowed);
        let of = limited.filter(|(low, _)| **low != SliceRate::NONE);
        of.map(|(_, at)| at).min().unwrap_or(tick)
    }

    /// Returns the tick at which a group, or a limited one above it, last had more work than its
    /// low limit permits.
    fn overflowed_above(&self, tick: u64, group: u32) -> u64 {
        let counts = |at: &u32| *at == group || self.limits.nodes[*at as usize].is_limited();
        let path = self.levels.path(group).filter(counts);
        let last = path.map(|at| self.overflowed(tick, at)).max();
        last.expect("a path begins with its group")
    }

    /// Returns true if every group with a low limit reaches it or is idle. The group `except` is
    /// known to reach it.
    pub(super) fn may_upgrade(&self, now: Instant, except: Option<u32>) -> bool {
        let tick = self.levels.tick(now);
        // Low limits last for at least one slice, so that latencies can be measured under them.
        if !self.limits.pace.is_low() || tick < self.limits.pace.downgraded + self.limits.slice {
            return false;
        }
        (0..self.limits.nodes.len() as u32).all(|group| {
            let node = &self.limits.nodes[group as usize];
            let counts = node.exists && node.is_leaf && Some(group) != except;
            !counts || self.lets_upgrade(now, tick, group)
        })
    }

    /// Returns true if a group, or one above it, reaches its low limit or is idle.
    fn lets_upgrade(&self, now: Instant, tick: u64, group: u32) -> bool {
        self.levels.path(group).any(|at| {
            let node = &self.limits.nodes[at as usize];
            let of = node.low.iter().zip(self.levels.waiting(at));
            let reached = of
                .into_iter()
                .all(|(low, waiting)| *low == SliceRate::NONE || waiting > 0);
            let rests = tick >= self.overflowed_above(tick, at) + self.limits.slice;
            reached || rests && self.is_idle(now, at)
        })
    }

    /// Ends low limits for every group.
    pub(super) fn upgrade(&mut self, cx: &Cx) {
        let tick = self.levels.tick(cx.now);
        self.limits.pace.upgrade(tick);
        self.levels.set_timers(&mut self.limits, cx);
    }
}
