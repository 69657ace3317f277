//! `io.latency`: when a group's requests take longer than its target, its siblings with a looser target or none get fewer requests
//! in flight, until it meets its target again (Linux: `blk-iolatency.c`).
//!
//! Each group counts its requests in flight against a depth, and so does every group above it. A parent keeps a *cookie* for its
//! children: it falls by a quarter of the queue's requests when a child misses its target, and rises by a sixteenth when the child
//! that made it fall meets it; each child compares it with the one it saw last whenever a request of its enters, and halves or
//! raises its depth. So the reaction takes half a second a step, and a group that was never the slowest never slows others.

use super::controller::{Controller, Verdict};
use crate::cx::Cx;
use crate::event::Event;
use crate::heap::Heap;
use crate::id::{GroupId, ROOT};
use crate::knobs::Kind;
use crate::list::{Links, List, NIL};
use crate::request::Flags;
use crate::sample::{Sample, Take};
use crate::table::Table;
use crate::time::{Instant, Span};
use crate::wake::Reason;
use alloc::vec;
use alloc::vec::Vec;

/// The cookie when nothing is held back.
const UNTHROTTLED: u32 = 1_000_000;
/// The least time from one change of a parent's cookie to the next.
const ADJUST: Span = Span::from_millis(500);
/// Length of a group's window in targets, within these bounds.
const WINDOW_TARGETS: u64 = 16;
const WINDOW_MIN: Span = Span::from_millis(100);
const WINDOW_MAX: Span = Span::from_secs(1);
/// Samples that show that a group meets its target.
const GOOD_SAMPLES: u64 = 5;
/// The interval at which cookies are raised that no child holds down any more.
const HOUSEKEEPING: Span = Span::from_secs(1);
/// The owner of a parent's scaling is forgotten when it has changed nothing for this long.
const FORGET: Span = Span::from_secs(5);
/// What a group is made to wait for its unthrottled requests at one time.
const DELAY_MAX: Span = Span::from_secs(1);
/// A group with a target of its own and at most this part (in 1/100) of its siblings' requests is not slowed down.
const SMALL_PART: u64 = 5;

/// Latencies of a while.
#[derive(Clone, Copy, Debug, Default)]
struct Latencies {
    total: u64,
    missed: u64,
    sum: u64,
}

impl Latencies {
    fn add(&mut self, other: &Self) {
        self.total += other.total;
        self.missed += other.missed;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Whether the target was met: by nine in ten, or by the mean where the drive seeks.
    fn is_good(&self, target: Span, rotational: bool) -> bool {
        if rotational {
            self.sum <= target.as_nanos().saturating_mul(self.total)
        } else {
            self.missed < (self.total / 10).max(1)
        }
    }
}

/// What a group is as a child, and as the parent of others.
#[derive(Clone, Debug)]
struct Node {
    parent: u32,
    /// Zero: it has no target.
    target: Span,
    /// Requests it may have in flight; [`u32::MAX`]: any number.
    depth: u32,
    in_flight: u32,
    waiters: List,
    seen: u32,
    /// Steps down that found the depth at one already, and what it owes for requests that nothing held back.
    delays: u32,
    owed: Span,
    paused_until: Instant,
    window_start: Instant,
    /// Since the window began, and since the parent's cookie changed.
    window: Latencies,
    since_change: Latencies,
    samples: u64,
    /// For its children: see the module's documentation.
    cookie: u32,
    /// The child for whose sake the others are scaled down, or [`NIL`].
    scale_owner: u32,
    tightest: Span,
    changed: Instant,
    childrens_samples: u64,
}

const NODE: Node = Node {
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
    window: Latencies {
        total: 0,
        missed: 0,
        sum: 0,
    },
    since_change: Latencies {
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

/// The controller. Numbers are slots of groups and of live requests.
#[derive(Debug)]
pub(super) struct Latency {
    nodes: Vec<Node>,
    /// Some group has a target.
    enabled: bool,
    rotational: bool,
    /// The queue's requests (`nr_requests`).
    requests: u32,
    links: Links,
    /// The group at which a request waits; [`NIL`] if it has passed all or never came.
    waits_at: Vec<u32>,
    /// The lowest group that counts a request, or [`NIL`], and of how many requests that is known.
    counted: Vec<u32>,
    inside: u32,
    /// Requests that have passed and are to go on.
    passed: List,
    pauses: Heap,
    housekeeping: Instant,
    /// The earlier of the two.
    due: Instant,
}

impl Latency {
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

impl Controller for Latency {
    /// Takes the targets anew. What is in flight stays counted.
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
                (node.window, node.since_change) = (Latencies::default(), Latencies::default());
                self.reset_scaling(parent);
            }
            self.enabled |= target > Span::ZERO;
        }
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

    /// All groups: those without a target are slowed down for the sake of those with one.
    fn covers(&self, _group: GroupId) -> bool {
        self.enabled
    }

    fn counts(&self) -> bool {
        self.enabled || self.inside > 0
    }

    /// A request that is counted already has come before, and goes on.
    fn enter(&mut self, cx: &mut Cx, id: u32) -> Verdict {
        if !self.enabled || self.counted[id as usize] != NIL {
            return Verdict::Pass;
        }
        let live = &cx.table.requests[id];
        debug_assert!(self.waits_at[id as usize] == NIL, "it waits already");
        self.counted[id as usize] = live.group.0;
        self.inside += 1;
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

    /// Lets those go on whose pause is over, and raises cookies that no child holds down any more.
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
                    by: Kind::Latency,
                    group,
                    requests: node.waiters.len(),
                });
            }
        }
    }
}

/// Depths.
impl Latency {
    /// Takes a request from a group upwards until it is past all of them or has to wait.
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

    /// Whether one more request of a group may pass; a group that owes something pauses first.
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

    /// Lets waiting requests of a group go on while it has room.
    fn wake_waiters(&mut self, now: Instant, group: u32) {
        loop {
            let node = &mut self.nodes[group as usize];
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

    /// Follows the parent's cookie.
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
            let exempt = node.target > Span::ZERO
                && (tightest == Span::ZERO
                    || node.target <= tightest
                    || node.samples <= (all * SMALL_PART / 100).max(1));
            if exempt {
                return;
            }
            if node.depth == 1 {
                node.delays += 1;
            } else {
                node.depth = (node.depth.min(requests) / 2).max(1);
            }
        } else if cookie == UNTHROTTLED {
            (node.delays, node.owed, node.depth) = (0, Span::ZERO, u32::MAX);
        } else if node.depth == 1 && node.delays > 0 {
            node.delays -= 1;
        } else if node.depth < requests {
            node.depth = (node.depth + (requests / 16).max(1)).min(requests);
        }
    }
}

/// Targets.
impl Latency {
    fn record(&mut self, now: Instant, group: u32, took: Span, free: bool) {
        let node = &mut self.nodes[group as usize];
        let window = Span::from_nanos(node.target.as_nanos().saturating_mul(WINDOW_TARGETS));
        let window = window.clamp(WINDOW_MIN, WINDOW_MAX);
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

    /// A group's window is over.
    fn judge(&mut self, now: Instant, group: u32) {
        let (rotational, requests) = (self.rotational, self.requests);
        let node = &mut self.nodes[group as usize];
        let (target, parent) = (node.target, node.parent as usize);
        let window = core::mem::take(&mut node.window);
        let good = window.is_good(target, rotational);
        if good && self.nodes[parent].cookie == UNTHROTTLED {
            return;
        }
        let node = &mut self.nodes[group as usize];
        node.since_change.add(&window);
        let (since_change, before) = (node.since_change, node.samples);
        node.samples = since_change.total;
        let p = &mut self.nodes[parent];
        p.childrens_samples = p.childrens_samples + since_change.total - before;
        if now.since(p.changed) < ADJUST {
            return;
        }
        if good && since_change.is_good(target, rotational) {
            if since_change.total < GOOD_SAMPLES {
                return;
            }
            if p.scale_owner == group {
                p.changed = now;
                p.cookie = raised(p.cookie, requests);
            }
        } else if p.tightest == Span::ZERO || p.tightest >= target {
            p.changed = now;
            if p.scale_owner == NIL || p.tightest > target {
                (p.scale_owner, p.tightest) = (group, target);
            }
            p.cookie = lowered(p.cookie, requests);
            self.housekeeping = self.housekeeping.min(now + HOUSEKEEPING);
            self.set_due();
        }
        self.nodes[group as usize].since_change = Latencies::default();
    }

    /// No child of a parent misses its target any more: raises the cookie step by step until nothing is held back.
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

    /// A child's target changed: what its siblings were made to do for its sake is over.
    fn reset_scaling(&mut self, parent: u32) {
        if let Some(p) = self.nodes.get_mut(parent as usize) {
            (p.cookie, p.scale_owner, p.tightest) = (UNTHROTTLED, NIL, Span::ZERO);
        }
    }
}

/// A cookie after a step down.
fn lowered(cookie: u32, requests: u32) -> u32 {
    let below = UNTHROTTLED - cookie;
    if below <= requests {
        cookie.saturating_sub((requests / 4).max(1))
    } else if below < 2 * requests {
        cookie - 1
    } else {
        cookie
    }
}

/// A cookie after a step up.
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
