//! The max of contracts, enforced exactly at every level of the tree.
//!
//! A request waits in its group's queue, separately for reads and writes, until *all* limits on its
//! path are ready at the same instant. It is charged to all of them at that instant. The envelope
//! of each limit therefore holds for the requests that leave, and not only for those that enter.
//! Limits on requests count requests as clients sent them. If a request was split before it arrived
//! here, its further parts wait only for limits on bytes.
//!
//! A queue waits at one level at a time, which is the one that will be ready last. Queues that wait
//! at the same level take turns of one request each, so that no member of a group can use up its
//! limit. Linux's `blk-throttle.c` passes level by level instead (see docs/deviations.md).

use super::bucket::Bucket;
use super::controller::{Controller, Verdict};
use super::held::{HeldStreams, release_event};
use crate::contract::{Max, MaxDebt};
use crate::cx::Cx;
use crate::heap::Heap;
use crate::id::{GroupId, ROOT};
use crate::knobs::ControllerKind;
use crate::list::{Links, List, NIL};
use crate::request::Request;
use crate::sample::{Sample, Take};
use crate::table::Table;
use crate::time::{Instant, Span};
use alloc::vec;
use alloc::vec::Vec;

/// The buckets of one group, and the path to the next limited group.
#[derive(Clone, Debug)]
struct MaxNode {
    /// Buckets for read, write and common bandwidth.
    bytes: [Bucket; 3],
    /// Buckets for read, write and common requests.
    requests: [Bucket; 3],
    /// The number of bytes that count as one request, or zero if every request counts as one.
    iops_size: u64,
    /// This group if it is limited, or the nearest limited group above it, or [`NIL`].
    limited: u32,
    /// The nearest limited group above this one, or [`NIL`]. The path continues there after
    /// `limited`.
    above: u32,
}

impl MaxNode {
    /// A group that does not exist and is not limited.
    const NONE: Self = Self {
        bytes: [Bucket::NONE; 3],
        requests: [Bucket::NONE; 3],
        iops_size: 0,
        limited: NIL,
        above: NIL,
    };

    fn set_debt(&mut self, now: Instant, debt: &MaxDebt) {
        let bytes = [debt.read_bandwidth, debt.write_bandwidth, debt.bandwidth];
        let requests = [debt.read_iops, debt.write_iops, debt.iops];
        let buckets = self.bytes.iter_mut().chain(&mut self.requests);
        for (bucket, debt) in buckets.zip(bytes.into_iter().chain(requests)) {
            bucket.set_debt(now, debt);
        }
    }

    fn debt(&self, now: Instant) -> MaxDebt {
        let [read_bandwidth, write_bandwidth, bandwidth] = self.bytes.map(|b| b.debt(now));
        let [read_iops, write_iops, iops] = self.requests.map(|b| b.debt(now));
        MaxDebt {
            bandwidth,
            read_bandwidth,
            write_bandwidth,
            iops,
            read_iops,
            write_iops,
        }
    }
}

/// The controller for exact limits, with the requests that it holds. Numbers are slots of live
/// requests.
#[derive(Debug)]
pub(super) struct Throttle {
    nodes: Vec<MaxNode>,
    /// Held requests of each queue, which is a group and a direction.
    queues: Vec<List>,
    held: Links,
    /// The held requests of each stream.
    streams: HeldStreams,
    /// Requests that were held, have been charged, and may continue.
    passed: List,
    /// Queues that wait at each level, which is a group and a direction. `level` has the level at
    /// which each queue waits.
    waiting: Vec<List>,
    waiters: Links,
    level: Vec<u32>,
    timers: Heap,
    /// The time at which limits were last set. No held request counts as ready before it.
    set_at: Instant,
}

/// The longest lateness of the driver that costs a client nothing. A held request is charged as of
/// the time at which it was ready, up to this long ago. If the driver is on time, the envelopes are
/// exact.
const LATENESS_MAX: Span = Span::from_millis(5);

/// Returns the queue of a group's requests in one direction.
fn queue_of(group: GroupId, request: &Request) -> u32 {
    group.0 * 2 + u32::from(!request.op.is_read())
}

/// Returns the number of client requests that a request counts as. It is zero for a further part of
/// a request that the driver split.
fn client_requests(request: &Request) -> u32 {
    u32::from(request.within == 0)
}

const READ: usize = 0;
const WRITE: usize = 1;
const COMMON: usize = 2;

impl Throttle {
    pub(super) fn new(table: &Table) -> Self {
        let (groups, requests) = (table.groups.capacity(), table.requests.capacity());
        let queues = groups as usize * 2;
        Self {
            nodes: vec![MaxNode::NONE; groups as usize],
            queues: vec![List::EMPTY; queues],
            held: Links::new(requests),
            streams: HeldStreams::new(table),
            passed: List::EMPTY,
            waiting: vec![List::EMPTY; queues],
            waiters: Links::new(groups * 2),
            level: vec![NIL; queues],
            timers: Heap::new(groups * 2),
            set_at: Instant::ZERO,
        }
    }
}

impl Controller for Throttle {
    /// Applies the limits of every group. Debts remain.
    fn set(&mut self, cx: &mut Cx) {
        for id in (0..cx.table.groups.capacity()).map(GroupId) {
            self.set_group(cx, id);
        }
        self.place_all(cx);
    }

    fn set_debt(&mut self, cx: &mut Cx, group: GroupId, debt: &MaxDebt) {
        if let Some(node) = self.nodes.get_mut(group.0 as usize) {
            node.set_debt(cx.now, debt);
            self.place_all(cx);
        }
    }

    fn debt(&self, now: Instant, group: GroupId) -> MaxDebt {
        let node = self.nodes.get(group.0 as usize);
        node.map_or(MaxDebt::NONE, |node| node.debt(now))
    }

    fn covers(&self, group: GroupId) -> bool {
        self.nodes[group.0 as usize].limited != NIL
    }

    fn enter(&mut self, cx: &mut Cx, id: u32) -> Verdict {
        let live = &cx.table.requests[id];
        let queue = queue_of(live.group, &live.request);
        let waits = !self.queues[queue as usize].is_empty();
        // A request of a group without limits still waits behind older ones, which were held under
        // a limit that was removed.
        let is_free = !waits && !self.covers(live.group);
        if is_free || !waits && self.ready(queue, &live.request).0 <= cx.now {
            if !is_free {
                self.take(cx.now, queue, &live.request);
            }
            cx.events.publish(cx.now, || release_event(live));
            return Verdict::Pass;
        }
        self.streams
            .count(&live.request, client_requests(&live.request));
        self.held.push_back(&mut self.queues[queue as usize], id);
        if self.level[queue as usize] == NIL {
            self.place(cx, queue);
        }
        Verdict::Hold
    }

    fn next_passed(&mut self, cx: &mut Cx) -> Option<u32> {
        let id = self.held.pop_front(&mut self.passed)?;
        let live = &cx.table.requests[id];
        self.streams
            .count_out(&live.request, client_requests(&live.request));
        cx.events.publish(cx.now, || release_event(live));
        Some(id)
    }

    fn remove(&mut self, cx: &mut Cx, id: u32) {
        debug_assert!(self.passed.is_empty(), "what has passed was taken at once");
        let live = &cx.table.requests[id];
        self.streams
            .count_out(&live.request, client_requests(&live.request));
        let queue = queue_of(live.group, &live.request);
        self.held.remove(&mut self.queues[queue as usize], id);
        if self.queues[queue as usize].is_empty() && self.level[queue as usize] != NIL {
            self.leave(queue);
        }
    }

    fn run(&mut self, cx: &mut Cx) {
        while let Some(id) = self.release(cx) {
            self.held.push_back(&mut self.passed, id);
        }
    }

    fn due(&self) -> Instant {
        self.timers.next()
    }

    fn backlog(&self, table: &Table, stream: u32) -> Span {
        self.streams.backlog(table, stream, |max| max.iops_size)
    }

    fn sample(&self, _cx: &Cx, take: &mut Take<'_>) {
        for (group, [reads, writes]) in (0..).map(GroupId).zip(self.queues.as_chunks().0) {
            let requests = reads.len() + writes.len();
            if requests > 0 {
                let by = ControllerKind::Max;
                take(Sample::Held {
                    by,
                    group,
                    requests,
                });
            }
        }
    }
}

impl Throttle {
    /// Applies the limits of a group.
    fn set_group(&mut self, cx: &Cx, id: GroupId) {
        let groups = &cx.table.groups;
        let Some(group) = groups.get(id) else {
            self.nodes[id.0 as usize] = MaxNode::NONE;
            return;
        };
        let max = if id == ROOT {
            Max::NONE
        } else {
            group.contract.max
        };
        let mut limited = groups
            .path(id)
            .filter(|&g| groups.get(g).is_some_and(|g| g.contract.max.is_limited()))
            .map(|g| g.0);
        let first = limited.next().unwrap_or(NIL);
        let above = if first == id.0 {
            limited.next().unwrap_or(NIL)
        } else {
            first
        };
        let node = &mut self.nodes[id.0 as usize];
        let bytes = [max.read_bandwidth, max.write_bandwidth, max.bandwidth];
        for (bucket, rate) in node.bytes.iter_mut().zip(bytes) {
            bucket.set(cx.now, rate, max.burst);
        }
        let requests = [max.read_iops, max.write_iops, max.iops];
        for (bucket, rate) in node.requests.iter_mut().zip(requests) {
            bucket.set(cx.now, rate, max.burst);
        }
        node.iops_size = max.iops_size;
        (node.limited, node.above) = (first, above);
    }

    /// Lets every queue wait at its level again, after limits or debts were set.
    fn place_all(&mut self, cx: &Cx) {
        self.set_at = cx.now;
        for queue in 0..self.queues.len() as u32 {
            if !self.queues[queue as usize].is_empty() {
                self.place(cx, queue);
            }
        }
    }

    /// Returns the next held request that may continue now, already charged.
    fn release(&mut self, cx: &Cx) -> Option<u32> {
        let now = cx.now;
        while let Some((at, level)) = self.timers.first() {
            if at > now {
                return None;
            }
            let Some(queue) = self.waiting[level as usize].first() else {
                self.timers.clear(level);
                continue;
            };
            let Some(id) = self.queues[queue as usize].first() else {
                self.leave(queue);
                continue;
            };
            let request = &cx.table.requests[id].request;
            let (ready, bottleneck) = self.ready(queue, request);
            if ready <= now {
                self.held.pop_front(&mut self.queues[queue as usize]);
                // A part is not throttled by limits on requests, so the time at which those were
                // ready does not matter.
                let due = if request.within == 0 { ready } else { now };
                let when = due.max(now.saturating_sub(LATENESS_MAX)).max(self.set_at);
                self.take(when, queue, request);
                self.leave(queue);
                if !self.waiting[level as usize].is_empty() {
                    // With a new ticket, a request that also waits for a limit shared with this
                    // level is first.
                    let ticket = self.timers.ticket();
                    self.timers.set(level, now, ticket);
                }
                if !self.queues[queue as usize].is_empty() {
                    self.place(cx, queue);
                }
                return Some(id);
            } else if bottleneck == level {
                // Another queue used the limit up. The level keeps its ticket, so that it is first
                // when the limit is ready again.
                let (_, ticket) = self.timers.get(level).expect("the level has a timer");
                self.timers.set(level, ready, ticket);
            } else {
                self.leave(queue);
                self.place(cx, queue);
            }
        }
        None
    }

    /// Returns the latest instant at which a limit on the queue's path becomes ready for a request,
    /// and the level of that limit.
    fn ready(&self, queue: u32, request: &Request) -> (Instant, u32) {
        let direction = if queue & 1 == 0 { READ } else { WRITE };
        let (mut latest, mut level) = (Instant::ZERO, queue);
        let mut group = self.nodes[(queue / 2) as usize].limited;
        while group != NIL {
            let node = &self.nodes[group as usize];
            let bytes = [&node.bytes[direction], &node.bytes[COMMON]];
            let requests = [&node.requests[direction], &node.requests[COMMON]];
            // The first part of a split request has waited for all of its parts.
            let requests = requests.into_iter().filter(|_| request.within == 0);
            for bucket in bytes.into_iter().chain(requests) {
                let ready = bucket.ready();
                if ready > latest {
                    (latest, level) = (ready, group * 2 + (queue & 1));
                }
            }
            group = node.above;
        }
        (latest, level)
    }

    /// Charges a request to every limit on the queue's path.
    fn take(&mut self, now: Instant, queue: u32, request: &Request) {
        let direction = if queue & 1 == 0 { READ } else { WRITE };
        let mut group = self.nodes[(queue / 2) as usize].limited;
        while group != NIL {
            let node = &mut self.nodes[group as usize];
            let operations = request.operations(node.iops_size);
            for side in [direction, COMMON] {
                node.bytes[side].take(now, request.charge());
                node.requests[side].take(now, operations);
            }
            group = node.above;
        }
    }

    /// Lets a queue wait at the level that will be ready last, behind those that already wait
    /// there.
    fn place(&mut self, cx: &Cx, queue: u32) {
        let Some(first) = self.queues[queue as usize].first() else {
            return;
        };
        if self.level[queue as usize] != NIL {
            self.leave(queue);
        }
        let (ready, level) = self.ready(queue, &cx.table.requests[first].request);
        self.level[queue as usize] = level;
        self.waiters
            .push_back(&mut self.waiting[level as usize], queue);
        let earlier = self.timers.get(level).filter(|&(at, _)| at <= ready);
        if earlier.is_none() {
            let ticket = self.timers.ticket();
            self.timers.set(level, ready, ticket);
        }
    }

    fn leave(&mut self, queue: u32) {
        let level = core::mem::replace(&mut self.level[queue as usize], NIL);
        self.waiters
            .remove(&mut self.waiting[level as usize], queue);
        if self.waiting[level as usize].is_empty() {
            self.timers.clear(level);
        }
    }
}
