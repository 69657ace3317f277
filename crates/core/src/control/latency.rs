//! `io.latency`: throttles the siblings of a group while its requests take longer than its target
//! (Linux: `blk-iolatency.c`).
//!
//! Siblings with a looser target or none get fewer requests in flight, until the group meets its
//! target again. Each group counts its requests in flight against a depth, and so does every group
//! above it.
//!
//! A parent has a *cookie* for its children. The cookie falls by 1/4 of the queue's requests when a
//! child misses its target, and rises by 1/16 when the child that made it fall meets its target.
//! With each of its requests, a child compares the cookie with the last value that it saw, and
//! halves or raises its depth. The cookie changes at most every half second ([`ADJUST`]), so a
//! reaction takes half a second per step. A group whose target was never the tightest one missed
//! does not throttle others.

use super::controller::{Controller, Verdict};
use crate::cx::Cx;
use crate::event::Event;
use crate::heap::Heap;
use crate::id::{GroupId, ROOT};
use crate::knobs::ControllerKind;
use crate::list::{Links, List, NIL};
use crate::request::Flags;
use crate::sample::{Sample, Take};
use crate::table::Table;
use crate::time::{Instant, Span};
use crate::wake::Reason;
use alloc::vec;
use alloc::vec::Vec;

/// The value of a cookie when no child is throttled.
const UNTHROTTLED: u32 = 1_000_000;
/// The shortest time between two changes of a parent's cookie.
const ADJUST: Span = Span::from_millis(500);
/// The length of a group's window in multiples of its target, within the two bounds below.
const WINDOW_TARGETS: u64 = 16;
const WINDOW_MIN: Span = Span::from_millis(100);
const WINDOW_MAX: Span = Span::from_secs(1);
/// The number of samples needed to show that a group meets its target.
const GOOD_SAMPLES: u64 = 5;
/// The interval at which cookies are raised that no child keeps low any more.
const HOUSEKEEPING: Span = Span::from_secs(1);
/// The time without a change after which the owner of a parent's scaling is forgotten.
const FORGET: Span = Span::from_secs(5);
/// The longest pause at one time by which a group pays for its unthrottled requests.
const DELAY_MAX: Span = Span::from_secs(1);
/// The part of the siblings' requests, in percent, up to which a group with a target of its own is
/// not throttled.
const SMALL_PART: u64 = 5;

/// Counts of requests and their latencies over a period.
#[derive(Clone, Copy, Debug, Default)]
struct LatencyCounts {
    total: u64,
    missed: u64,
    sum: u64,
}

impl LatencyCounts {
    fn add(&mut self, other: &Self) {
        self.total += other.total;
        self.missed += other.missed;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Returns true if the target was met: by more than 90 % of the requests, or by the mean on a
    /// drive that seeks.
    fn is_good(&self, target: Span, rotational: bool) -> bool {
        // On a drive that seeks, single latencies vary too much to count as misses (Linux:
        // `latency_sum_ok`).
        if rotational {
            self.sum <= target.as_nanos().saturating_mul(self.total)
        } else {
            self.missed < (self.total / 10).max(1)
        }
    }
}

/// The state of a group as a child, and as the parent of other groups.
#[derive(Clone, Debug)]
struct LatencyNode {
    parent: u32,
    /// The latency target, or zero if the group has none.
    target: Span,
    /// The number of requests that the group may have in flight. [`u32::MAX`] means any number.
    depth: u32,
    in_flight: u32,
    waiters: List,
    seen: u32,
    /// The number of steps down at which the depth was one already. `owed` is the time to pay for
    /// requests that were not throttled.
    delays: u32,
    owed: Span,
    paused_until: Instant,
    window_start: Instant,
    /// Latencies since the window began. `since_change` has those of all windows since the group
    /// last decided about the parent's cookie.
    window: LatencyCounts,
    since_change: LatencyCounts,
    samples: u64,
    /// The value that the group's children compare with ([module documentation](self)).
    cookie: u32,
    /// The child for whose sake the others are throttled, or [`NIL`].
    scale_owner: u32,
    tightest: Span,
    changed: Instant,
    childrens_samples: u64,
}

const NODE: LatencyNode = LatencyNode {
    parent: NIL,
    target: Span::ZERO,
    depth: u32::MAX,
    in_flight: 0,
    waiters: List::EMPTY,
    seen: UNTHROTTLED,
    delays: 0,
    owed: Span::ZERO,
    paused_until: Instant::ZERO,
    window_start: Instant::ZERO,
    window: LatencyCounts {
        total: 0,
        missed: 0,
        sum: 0,
    },
    since_change: LatencyCounts {
        total: 0,
        missed: 0,
        sum: 0,
    },
    samples: 0,
    cookie: UNTHROTTLED,
    scale_owner: NIL,
    tightest: Span::ZERO,
    changed: Instant::ZERO,
    childrens_samples: 0,
};

/// The controller `io.latency`. Numbers are slots of groups and of live requests.
#[derive(Debug)]
pub(super) struct LatencyController {
    nodes: Vec<LatencyNode>,
    /// True if a group has a target.
    enabled: bool,
    rotational: bool,
    /// The number of requests of the queue (Linux: `nr_requests`).
    requests: u32,
    links: Links,
    /// The group at which a request waits, or [`NIL`] if it has passed all or never entered.
    waits_at: Vec<u32>,
    /// The lowest group that counts a request, or [`NIL`]. `inside` is the number of requests that
    /// are counted.
    counted: Vec<u32>,
    inside: u32,
    /// Requests that have passed and may continue.
    passed: List,
    pauses: Heap,
    housekeeping: Instant,
    /// The earlier one of the next end of a pause and the next housekeeping.
    due: Instant,
}

impl LatencyController {
    pub(super) fn new(table: &Table) -> Self {
        let (live, groups) = (table.requests.capacity(), table.groups.capacity());
        Self {
            nodes: vec![NODE; groups as usize],
            enabled: false,
            rotational: table.shape.rotational,
            requests: table.tags,
            links: Links::new(live),
            waits_at: vec![NIL; live as usize],
            counted: vec![NIL; live as usize],
            inside: 0,
            passed: List::EMPTY,
            pauses: Heap::new(groups),
            housekeeping: Instant::MAX,
            due: Instant::MAX,
        }
    }

    fn forget(&mut self, id: u32) -> u32 {
        let group = core::mem::replace(&mut self.counted[id as usize], NIL);
        self.inside -= u32::from(group != NIL);
        group
    }

    fn set_due(&mut self) {
        self.due = self.pauses.next().min(self.housekeeping);
    }
}

impl Controller for LatencyController {
    /// Applies changed targets. Requests in flight remain counted.
    fn set(&mut self, cx: &mut Cx) {
        let (now, groups) = (cx.now, &cx.table.groups);
        let before = self.enabled;
        self.enabled = false;
        for id in 0..groups.capacity() {
            let group = groups.get(GroupId(id)).filter(|_| GroupId(id) != ROOT);
            let target = group.map_or(Span::ZERO, |g| g.knobs.latency);
            let parent = group.map_or(NIL, |g| g.parent.0);
            let node = &mut self.nodes[id as usize];
            if group.is_none() && GroupId(id) != ROOT {
                *node = NODE;
                continue;
            }
            node.parent = parent;
            if node.target != target {
                node.target = target;
                node.window_start = now;
                (node.window, node.since_change) =
                    (LatencyCounts::default(), LatencyCounts::default());
                self.reset_scaling(parent);
            }
            self.enabled |= target > Span::ZERO;
        }
        // The last target was removed, so every group returns to an unlimited depth at once.
        if before && !self.enabled {
            self.housekeeping = Instant::MAX;
            self.set_due();
            for id in 0..self.nodes.len() as u32 {
                self.nodes[id as usize].cookie = UNTHROTTLED;
                self.compare(id);
                self.wake_waiters(now, id);
            }
        }
    }

    /// Returns true for all groups while a target exists, because groups without a target are
    /// throttled for those with one.
    fn covers(&self, _group: GroupId) -> bool {
        self.enabled
    }

    fn counts(&self) -> bool {
        self.enabled || self.inside > 0
    }

    /// Decides about a request. One that is counted already has entered before, and continues.
    fn enter(&mut self, cx: &mut Cx, id: u32) -> Verdict {
        if !self.enabled || self.counted[id as usize] != NIL {
            return Verdict::Pass;
        }
        let live = &cx.table.requests[id];
        debug_assert!(self.waits_at[id as usize] == NIL, "it waits already");
        self.counted[id as usize] = live.group.0;
        self.inside += 1;
        // Other requests may depend on metadata, so metadata is never held (Linux: `REQ_META`). The
        // group pays for it by pauses.
        let free = live.request.flags.has(Flags::META);
        if self.climb(cx.now, id, live.group.0, free) {
            return Verdict::Pass;
        }
        let (stream, cookie) = (live.request.stream, live.request.cookie);
        cx.publish(|| Event::Throttled { stream, cookie });
        Verdict::Hold
    }

    fn next_passed(&mut self, cx: &mut Cx) -> Option<u32> {
        let id = self.links.pop_front(&mut self.passed)?;
        let request = &cx.table.requests[id].request;
        let (stream, cookie) = (request.stream, request.cookie);
        cx.publish(|| Event::Passed { stream, cookie });
        Some(id)
    }

    fn ended(&mut self, cx: &mut Cx, id: u32, took: Option<Span>) -> bool {
        let mut at = self.forget(id);
        if at == NIL {
            return !self.passed.is_empty();
        }
        let free = cx.table.requests[id].request.flags.has(Flags::META);
        while at != NIL && GroupId(at) != ROOT {
            let node = &mut self.nodes[at as usize];
            node.in_flight -= 1;
            let parent = node.parent;
            if node.target > Span::ZERO
                && let Some(took) = took
            {
                self.record(cx.now, at, took, free);
            }
            self.wake_waiters(cx.now, at);
            at = parent;
        }
        !self.passed.is_empty()
    }

    fn remove(&mut self, cx: &mut Cx, id: u32) {
        let level = core::mem::replace(&mut self.waits_at[id as usize], NIL);
        if level == NIL {
            self.links.remove(&mut self.passed, id);
            self.ended(cx, id, None);
            return;
        }
        self.links
            .remove(&mut self.nodes[level as usize].waiters, id);
        let mut at = self.forget(id);
        while at != level {
            debug_assert!(
                self.nodes[at as usize].in_flight > 0,
                "it was never counted"
            );
            self.nodes[at as usize].in_flight -= 1;
            let parent = self.nodes[at as usize].parent;
            self.wake_waiters(cx.now, at);
            at = parent;
        }
    }

    /// Ends pauses, and raises cookies that no child keeps low any more.
    fn run(&mut self, cx: &mut Cx) {
        let now = cx.now;
        while let Some((at, group)) = self.pauses.first() {
            if at > now {
                break;
            }
            self.pauses.clear(group);
            self.wake_waiters(now, group);
        }
        if self.housekeeping <= now {
            for group in 0..self.nodes.len() as u32 {
                self.scale_up(now, group);
            }
            let done = self.nodes.iter().all(|n| n.cookie == UNTHROTTLED);
            self.housekeeping = if done {
                Instant::MAX
            } else {
                now + HOUSEKEEPING
            };
        }
        self.set_due();
    }

    fn due(&self) -> Instant {
        self.due
    }

    fn reason(&self) -> Reason {
        Reason::Latency
    }

    fn sample(&self, cx: &Cx, take: &mut Take<'_>) {
        if !self.counts() {
            return;
        }
        let lowered = UNTHROTTLED - self.nodes[ROOT.0 as usize].cookie;
        take(Sample::Cookie {
            group: ROOT,
            lowered,
        });
        for (group, _) in cx.table.groups.iter().filter(|(id, _)| *id != ROOT) {
            let node = &self.nodes[group.0 as usize];
            take(Sample::Depth {
                group,
                depth: (node.depth != u32::MAX).then_some(node.depth),
                in_flight: node.in_flight,
            });
            if node.cookie != UNTHROTTLED {
                let lowered = UNTHROTTLED - node.cookie;
                take(Sample::Cookie { group, lowered });
            }
            if !node.waiters.is_empty() {
                take(Sample::Held {
                    by: ControllerKind::Latency,
                    group,
                    requests: node.waiters.len(),
                });
            }
        }
    }
}

/// Changes of depths, and the requests that wait for them.
impl LatencyController {
    /// Takes a request upwards from a group. Returns false if it must wait at one of the groups.
    fn climb(&mut self, now: Instant, id: u32, from: u32, free: bool) -> bool {
        let mut at = from;
        while at != NIL && GroupId(at) != ROOT {
            self.compare(at);
            if !free && !self.has_room(now, at) {
                self.waits_at[id as usize] = at;
                self.links
                    .push_back(&mut self.nodes[at as usize].waiters, id);
                return false;
            }
            self.nodes[at as usize].in_flight += 1;
            at = self.nodes[at as usize].parent;
        }
        true
    }

    /// Returns true if one more request of a group may pass. A group with unpaid time pauses first.
    fn has_room(&mut self, now: Instant, group: u32) -> bool {
        let node = &mut self.nodes[group as usize];
        if node.delays > 0 && node.owed > Span::ZERO && node.paused_until <= now {
            node.paused_until = now + node.owed.min(DELAY_MAX);
            node.owed = Span::ZERO;
            let ticket = self.pauses.ticket();
            self.pauses.set(group, node.paused_until, ticket);
            self.set_due();
        }
        let node = &self.nodes[group as usize];
        node.paused_until <= now && node.waiters.is_empty() && node.in_flight < node.depth
    }

    /// Lets waiting requests of a group continue while it has room.
    fn wake_waiters(&mut self, now: Instant, group: u32) {
        loop {
            let node = &mut self.nodes[group as usize];
            // The depth may have fallen below the number in flight. Those requests complete
            // normally.
            if node.in_flight >= node.depth || node.paused_until > now {
                return;
            }
            let Some(id) = self.links.pop_front(&mut node.waiters) else {
                return;
            };
            self.waits_at[id as usize] = NIL;
            node.in_flight += 1;
            let parent = node.parent;
            if self.climb(now, id, parent, false) {
                self.links.push_back(&mut self.passed, id);
            }
        }
    }

    /// Adapts the depth of a group to a change of its parent's cookie.
    fn compare(&mut self, group: u32) {
        let parent = self.nodes[group as usize].parent;
        if parent == NIL {
            return;
        }
        let (cookie, tightest, all) = {
            let p = &self.nodes[parent as usize];
            (p.cookie, p.tightest, p.childrens_samples)
        };
        let requests = self.requests;
        let node = &mut self.nodes[group as usize];
        let before = core::mem::replace(&mut node.seen, cookie);
        if cookie == before {
            return;
        }
        if cookie < before {
            // A group is exempt if its target is at least as tight as that of the child that misses
            // it. It is also exempt if it sends so little that throttling it would not help.
            let exempt = node.target > Span::ZERO
                && (tightest == Span::ZERO
                    || node.target <= tightest
                    || node.samples <= (all * SMALL_PART / 100).max(1));
            if exempt {
                return;
            }
            // The depth cannot fall below one, so the group pauses from now on.
            if node.depth == 1 {
                node.delays += 1;
            } else {
                node.depth = (node.depth.min(requests) / 2).max(1);
            }
        } else if cookie == UNTHROTTLED {
            (node.delays, node.owed, node.depth) = (0, Span::ZERO, u32::MAX);
        } else if node.depth == 1 && node.delays > 0 {
            // Pauses are reduced before the depth is raised, in the reverse order of the steps
            // down.
            node.delays -= 1;
        } else if node.depth < requests {
            node.depth = (node.depth + (requests / 16).max(1)).min(requests);
        }
    }
}

/// Comparison of latencies with targets, and changes of cookies.
impl LatencyController {
    fn record(&mut self, now: Instant, group: u32, took: Span, free: bool) {
        let node = &mut self.nodes[group as usize];
        let window = Span::from_nanos(node.target.as_nanos().saturating_mul(WINDOW_TARGETS));
        // Linux: `BLKIOLATENCY_MIN_WIN_SIZE` and `BLKIOLATENCY_MAX_WIN_SIZE`.
        let window = window.clamp(WINDOW_MIN, WINDOW_MAX);
        // A metadata request of a throttled group is not held, so the time by which it was faster
        // than the target is to be paid later.
        if free && node.depth != u32::MAX {
            node.owed += node.target.saturating_sub(took);
            return;
        }
        node.window.total += 1;
        node.window.missed += u64::from(took >= node.target);
        node.window.sum = node.window.sum.saturating_add(took.as_nanos());
        if !free && now.since(node.window_start) >= window {
            node.window_start = now;
            self.judge(now, group);
        }
    }

    /// Judges a group at the end of its window, and lowers or raises the parent's cookie.
    fn judge(&mut self, now: Instant, group: u32) {
        let (rotational, requests) = (self.rotational, self.requests);
        let node = &mut self.nodes[group as usize];
        let (target, parent) = (node.target, node.parent as usize);
        let window = core::mem::take(&mut node.window);
        let good = window.is_good(target, rotational);
        // In the normal case nothing is throttled and the target is met, so no counts are needed.
        if good && self.nodes[parent].cookie == UNTHROTTLED {
            return;
        }
        let node = &mut self.nodes[group as usize];
        node.since_change.add(&window);
        let (since_change, before) = (node.since_change, node.samples);
        // The parent's sum is updated by the difference, so no child needs to be scanned.
        node.samples = since_change.total;
        let p = &mut self.nodes[parent];
        p.childrens_samples = p.childrens_samples + since_change.total - before;
        // The effect of the last change must show first.
        if now.since(p.changed) < ADJUST {
            return;
        }
        if good && since_change.is_good(target, rotational) {
            if since_change.total < GOOD_SAMPLES {
                return;
            }
            // Only the child for whose sake others are throttled can end that.
            if p.scale_owner == group {
                p.changed = now;
                p.cookie = raised(p.cookie, requests);
            }
        // A miss of a looser target does not count, because the others are throttled for a tighter
        // one already.
        } else if p.tightest == Span::ZERO || p.tightest >= target {
            p.changed = now;
            // An equal target does not take over the scaling, so that two children cannot alternate
            // as its owner.
            if p.scale_owner == NIL || p.tightest > target {
                (p.scale_owner, p.tightest) = (group, target);
            }
            p.cookie = lowered(p.cookie, requests);
            self.housekeeping = self.housekeeping.min(now + HOUSEKEEPING);
            self.set_due();
        }
        self.nodes[group as usize].since_change = LatencyCounts::default();
    }

    /// Raises the cookie of a parent step by step, once none of its children misses its target.
    fn scale_up(&mut self, now: Instant, parent: u32) {
        let requests = self.requests;
        let p = &mut self.nodes[parent as usize];
        if p.cookie == UNTHROTTLED || p.changed >= now {
            return;
        }
        if p.scale_owner == NIL {
            p.cookie = raised(p.cookie, requests);
        } else if now.since(p.changed) >= FORGET {
            p.scale_owner = NIL;
        }
    }

    /// Ends the throttling of siblings, because the target of one of the children has changed.
    fn reset_scaling(&mut self, parent: u32) {
        if let Some(p) = self.nodes.get_mut(parent as usize) {
            (p.cookie, p.scale_owner, p.tightest) = (UNTHROTTLED, NIL, Span::ZERO);
        }
    }
}

/// Returns a cookie after a step down.
fn lowered(cookie: u32, requests: u32) -> u32 {
    // Steps of 1/4 of the queue's requests lower the cookie until it is lower by more than the
    // requests. Further steps are of one, down to twice the requests. Each step halves a depth, or
    // adds a pause if the depth is one.
    let below = UNTHROTTLED - cookie;
    if below <= requests {
        cookie.saturating_sub((requests / 4).max(1))
    } else if below < 2 * requests {
        cookie - 1
    } else {
        cookie
    }
}

/// Returns a cookie after a step up.
fn raised(cookie: u32, requests: u32) -> u32 {
    let step = if UNTHROTTLED - cookie > requests {
        1
    } else {
        (requests / 16).max(1)
    };
    (cookie + step).min(UNTHROTTLED)
}

#[cfg(test)]
mod tests;
