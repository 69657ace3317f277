//! `io.max` and a contract's max: limits at every level of the tree.
//!
//! A request waits in its group's queue (reads and writes apart) until *all* limits on its path are ready at the same instant,
//! and is charged to all of them then: so each limit's envelope holds in what leaves, not only in what enters. A queue waits at
//! one level at a time, the one that will be ready last; queues that wait at the same level take turns, one request each, so
//! that no member of a group can hog its limit (Linux: `blk-throttle.c`, which passes level by level; see `docs/deviations.md`).

use super::bucket::Bucket;
use crate::contract::Max;
use crate::group::{GroupId, Groups, ROOT};
use crate::heap::Heap;
use crate::list::{Links, List, NIL};
use crate::mutant;
use crate::{Instant, Request, Span};
use alloc::vec;
use alloc::vec::Vec;

/// The buckets of one group.
#[derive(Clone, Debug, Default)]
struct Node {
    /// Read, write and common bandwidth.
    bytes: [Bucket; 3],
    /// Read, write and common requests.
    requests: [Bucket; 3],
    /// This group if it is limited, else the nearest limited one above it, else [`NIL`].
    limited: u32,
    /// Where to go on above `limited`: the nearest limited group above this one, or [`NIL`].
    above: u32,
}

/// The limits of all groups and the requests they hold back. Numbers are slots of live requests.
#[derive(Debug)]
pub(crate) struct Limits {
    nodes: Vec<Node>,
    /// Held requests of each queue: a group and a direction.
    queues: Vec<List>,
    held: Links,
    charges: Vec<u32>,
    /// Queues that wait at each level (a group and a direction), and the level each waits at.
    waiting: Vec<List>,
    waiters: Links,
    level: Vec<u32>,
    timers: Heap,
    /// When the limits were last set: nothing held since before was due earlier.
    set_at: Instant,
}

/// A driver that comes late to a wake-up costs the client nothing: what it held is charged as of when it was ready, up to this
/// long ago. On time, the envelopes are exact.
const LATENESS_MAX: Span = Span::from_millis(5);

/// The queue of a group's requests of one direction.
fn queue_of(group: GroupId, request: &Request) -> u32 {
    group.0 * 2 + u32::from(!request.op.is_read())
}

const READ: usize = 0;
const WRITE: usize = 1;
const COMMON: usize = 2;

impl Limits {
    pub(crate) fn new(groups: u32, requests: u32) -> Self {
        let queues = groups as usize * 2;
        Self {
            nodes: vec![
                Node {
                    limited: NIL,
                    above: NIL,
                    ..Node::default()
                };
                groups as usize
            ],
            queues: vec![List::EMPTY; queues],
            held: Links::new(requests),
            charges: vec![0; requests as usize],
            waiting: vec![List::EMPTY; queues],
            waiters: Links::new(groups * 2),
            level: vec![NIL; queues],
            timers: Heap::new(groups * 2),
            set_at: Instant::ZERO,
        }
    }

    /// The tree or its contracts changed: takes the limits of every group anew. Debts and held requests stay.
    pub(crate) fn set(&mut self, now: Instant, groups: &Groups) {
        self.set_at = now;
        for id in (0..groups.capacity()).map(GroupId) {
            let Some(group) = groups.get(id) else {
                self.nodes[id.0 as usize] = Node {
                    limited: NIL,
                    above: NIL,
                    ..Node::default()
                };
                continue;
            };
            let max = if id == ROOT {
                Max::NONE
            } else {
                group.contract.max
            };
            let node = &mut self.nodes[id.0 as usize];
            for (bucket, rate) in
                node.bytes
                    .iter_mut()
                    .zip([max.read_bandwidth, max.write_bandwidth, max.bandwidth])
            {
                bucket.set(now, rate, max.burst);
            }
            for (bucket, rate) in
                node.requests
                    .iter_mut()
                    .zip([max.read_iops, max.write_iops, max.iops])
            {
                bucket.set(now, rate, max.burst);
            }
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
            (node.limited, node.above) = (first, above);
        }
        for queue in 0..self.queues.len() as u32 {
            if !self.queues[queue as usize].is_empty() {
                self.place(queue);
            }
        }
    }

    /// True if a group or one above it is limited. What the others send need not [pass](Self::pass).
    pub(crate) fn apply_to(&self, group: GroupId) -> bool {
        self.nodes[group.0 as usize].limited != NIL
    }

    /// True if a request may go on at once (and was charged); otherwise it is to be [held](Self::hold).
    pub(crate) fn pass(&mut self, now: Instant, group: GroupId, request: &Request) -> bool {
        let queue = queue_of(group, request);
        let passes = self.queues[queue as usize].is_empty() && self.ready(queue).0 <= now;
        if passes {
            self.take(now, queue, request.charge());
        }
        passes
    }

    /// Holds a request back that did not pass.
    pub(crate) fn hold(&mut self, id: u32, group: GroupId, request: &Request) {
        let queue = queue_of(group, request);
        self.charges[id as usize] = request.charge();
        self.held.push_back(&mut self.queues[queue as usize], id);
        if self.level[queue as usize] == NIL {
            self.place(queue);
        }
    }

    /// The next held request that may go on now; it has been charged.
    pub(crate) fn release(&mut self, now: Instant) -> Option<u32> {
        while let Some((at, level)) = self.timers.first() {
            if at > now {
                return None;
            }
            let Some(queue) = self.waiting[level as usize].first() else {
                self.timers.clear(level);
                continue;
            };
            let (ready, bottleneck) = self.ready(queue);
            if self.queues[queue as usize].is_empty() {
                self.leave(queue);
            } else if ready <= now {
                let id = self
                    .held
                    .pop_front(&mut self.queues[queue as usize])
                    .expect("the queue is not empty");
                self.take(
                    ready.max(now.back(LATENESS_MAX)).max(self.set_at),
                    queue,
                    self.charges[id as usize],
                );
                self.leave(queue);
                if !self.waiting[level as usize].is_empty() {
                    // A new ticket: whoever else waits for a limit shared with this level goes first.
                    let ticket = self.timers.ticket();
                    self.timers.set(level, now, ticket);
                }
                if !self.queues[queue as usize].is_empty() {
                    self.place(queue);
                }
                return Some(id);
            } else if bottleneck == level {
                // Someone else used the limit up: the level keeps its ticket, so that it is first when it is ready again.
                let (_, ticket) = self.timers.get(level).expect("the level has a timer");
                self.timers.set(level, ready, ticket);
            } else {
                self.leave(queue);
                self.place(queue);
            }
        }
        None
    }

    /// A held request is given up; nothing was charged.
    pub(crate) fn remove(&mut self, id: u32, group: GroupId, request: &Request) {
        let queue = queue_of(group, request);
        self.held.remove(&mut self.queues[queue as usize], id);
        if self.queues[queue as usize].is_empty() && self.level[queue as usize] != NIL {
            self.leave(queue);
        }
    }

    /// When [`Self::release`] is to be called next; [`Instant::MAX`]: nothing waits.
    #[inline]
    pub(crate) fn wake(&self) -> Instant {
        self.timers.next()
    }

    /// The latest instant at which a limit on the queue's path becomes ready, and the level it is at.
    fn ready(&self, queue: u32) -> (Instant, u32) {
        let direction = if queue & 1 == 0 { READ } else { WRITE };
        let (mut latest, mut level) = (Instant::ZERO, queue);
        let mut group = self.nodes[(queue / 2) as usize].limited;
        while group != NIL {
            let node = &self.nodes[group as usize];
            for bucket in [
                &node.bytes[direction],
                &node.bytes[COMMON],
                &node.requests[direction],
                &node.requests[COMMON],
            ] {
                let ready = bucket.ready();
                if ready > latest {
                    (latest, level) = (ready, group * 2 + (queue & 1));
                }
            }
            if mutant::is(mutant::ANCESTOR_LIMIT_SKIPPED) {
                break;
            }
            group = node.above;
        }
        (latest, level)
    }

    /// Charges a group's limits out of turn.
    pub(crate) fn charge(&mut self, now: Instant, group: GroupId, request: &Request) {
        self.take(now, queue_of(group, request), request.charge());
    }

    /// Charges every limit on the queue's path.
    fn take(&mut self, now: Instant, queue: u32, bytes: u32) {
        let direction = if queue & 1 == 0 { READ } else { WRITE };
        let mut group = self.nodes[(queue / 2) as usize].limited;
        while group != NIL {
            let node = &mut self.nodes[group as usize];
            for side in [direction, COMMON] {
                node.bytes[side].take(now, u64::from(bytes));
                node.requests[side].take(now, 1);
            }
            group = node.above;
        }
    }

    /// Lets a queue wait at the level that will be ready last, behind those that wait there already.
    fn place(&mut self, queue: u32) {
        if self.level[queue as usize] != NIL {
            self.leave(queue);
        }
        let (ready, level) = self.ready(queue);
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
