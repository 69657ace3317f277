//! `cfq`: Linux's Completely Fair Queueing as of 4.20, the last kernel that had it, with the
//! request lists of the single-queue layer in front of it.
//!
//! One queue at a time holds the drive, for a slice of time that begins when its first request
//! completes. Higher levels have longer slices. Groups are charged for the time of their turns,
//! divided by their part of the drive, and the group with the smallest sum is next. The main type
//! is `Cfq`. Its modules have these parts:
//!
//! - `groups` chooses the next group.
//! - `workload` chooses the class within the group, and the kind of queues for a part of a target
//!   time: asynchronous, random, which the drive idles for together, or sequential, which it idles
//!   for one by one.
//! - `turn` has the turn of a queue, and `idle` decides when the drive waits for its next request.
//! - `depth` limits the requests of a queue in the drive, and `preempt` decides which requests take
//!   the drive from a queue.
//! - `cooperate` lets streams that read one region together share a queue.
//! - `requests` limits the requests of a group.
//!
//! Each stream has a synchronous queue unless it shares one. Asynchronous queues belong to a group
//! and priority. The weight of a group is the share of its contract, from 10 to 1000. Class and
//! level come from the stream's `Priority`. If the drive does not idle and serves several requests
//! at once, groups are charged by requests. This is Linux's default on flash.
//!
//! The code tour with sources and tests of the rules is docs/cfq.md, and docs/deviations.md lists
//! the differences from Linux.

mod config;
mod cooperate;
mod depth;
mod groups;
mod idle;
mod members;
mod order;
mod preempt;
mod queue;
mod requests;
mod service;
mod sharing;
#[cfg(test)]
mod tests;
mod turn;
mod workload;

pub use config::Config;

use super::{DispatchDecision, Schedule};
use crate::cx::Cx;
use crate::elevator::common::members::Members;
use crate::elevator::common::order::{Item, Order};
use crate::elevator::common::seek::{self, SeekPosition};
use crate::elevator::common::think::Think;
use crate::id::GroupId;
use crate::list::NIL;
use crate::merge::Side;
use crate::sample::{Sample, SampleMask, Take};
use crate::table::{Piece, Table};
use crate::tree::Sorted;
use crate::{Instant, Op, Span, Tag};
use alloc::vec;
use alloc::vec::Vec;
use cooperate::PositionIndex;
use depth::QueueDetector;
use groups::CfqGroups;
use queue::CfqQueue;
use requests::{RequestOwner, Requests};
use turn::CfqTurn;
use workload::Workload;

/// The elevator `cfq` with all its queues and groups (Linux: `struct cfq_data`).
#[derive(Debug)]
pub(crate) struct Cfq {
    config: Config,
    /// The tunable `slice_idle`, or zero on flash without `flash_idles`.
    slice_idle: Span,
    queues: Vec<CfqQueue>,
    members: Members,
    order: Order,
    groups: CfqGroups,
    /// The order of turns in all service trees.
    turns: Sorted,
    workload: Workload,
    turn: CfqTurn,
    places: PositionIndex,
    queueing: QueueDetector,
    requests: Requests,
    limits_requests: bool,
    /// The think time of each stream.
    thinks: Vec<Think>,
    /// The end of the last piece that was sent.
    head: SeekPosition,
    /// Pieces in the drive, first the asynchronous and then the synchronous ones.
    in_drive: [u32; 2],
    /// Requests that wait in all queues.
    queued: u32,
    /// The number of busy queues. `busy_sync` counts the synchronous ones.
    busy: u32,
    busy_sync: u32,
    /// The time of the last completion of a synchronous request that had waited for too long
    /// (Linux: `last_delayed_sync`).
    last_late: Instant,
}

impl Cfq {
    pub(super) fn new(config: &Config, table: &Table) -> Self {
        let config = *config;
        let (groups, streams) = (table.groups.capacity(), table.streams.capacity());
        let requests = table.requests.capacity();
        // Two synchronous queues for each stream, because a queue that its streams have left exists
        // until it is empty (see `Members`), and an asynchronous one.
        let queues = 3 * streams;
        let idles = table.shape.rotational || config.flash_idles;
        Self {
            // Linux sets `slice_idle` to zero on flash when the drive is registered
            // (`cfq_registered_queue`).
            slice_idle: if idles { config.slice_idle } else { Span::ZERO },
            queues: (0..queues).map(|_| CfqQueue::UNUSED).collect(),
            members: Members::new(groups, streams),
            order: Order::new(requests, config.back_seek()),
            groups: CfqGroups::new(groups),
            turns: Sorted::new(queues),
            workload: Workload::NONE,
            turn: CfqTurn::NONE,
            places: PositionIndex::new(queues),
            queueing: if config.known_queueing {
                QueueDetector::of(table.shape.all_tags())
            } else {
                QueueDetector::default()
            },
            requests: Requests::new(config.nr_requests, groups, streams),
            limits_requests: config.nr_requests < requests,
            thinks: vec![Think::NEW; streams as usize],
            head: SeekPosition::START,
            in_drive: [0; 2],
            queued: 0,
            busy: 0,
            busy_sync: 0,
            last_late: Instant::ZERO,
            config,
        }
    }

    fn queue(&self, q: u32) -> &CfqQueue {
        &self.queues[q as usize]
    }

    /// Returns the stream, group and direction that a request is counted for.
    fn owner(request: u32, table: &Table) -> RequestOwner {
        let live = &table.requests[request];
        RequestOwner {
            stream: live.request.stream.index,
            group: live.group.0,
            sync: live.request.is_sync(),
        }
    }

    /// Observes the behaviour of a stream with a new request in queue `q` (Linux:
    /// `cfq_rq_enqueued`).
    fn observe_arrival(
        &mut self,
        now: Instant,
        q: u32,
        stream: u32,
        rotational: bool,
        item: &Item,
    ) {
        let queue = &mut self.queues[q as usize];
        let group = self.groups.get_mut(queue.group);
        if let (true, Some(kind)) = (queue.sync, queue.tree) {
            self.thinks[stream as usize].arrived(now, self.slice_idle);
            let service = group.services.get_mut(kind);
            service.think.last_end.get_or_insert(Instant::ZERO);
            service.think.arrived(now, self.slice_idle);
        }
        group.think.arrived(now, self.config.group_idle);
        // On a rotating disk, a distant request counts as a seek. On flash, a small request does.
        let far = queue.last_end.is_some_and(|last| item.start().is_far(last));
        let small = !seek::is_large(seek::sectors(item.left().into()));
        queue.history.push(if rotational { far } else { small });
        queue.last_end = Some(item.end(item.left()));
        self.reconsider_idling(q, stream);
    }

    /// Removes a request from its queue without dispatching it (Linux: `cfq_remove_request`).
    fn take_out(&mut self, request: u32) {
        let q = self.order.item(request).queue;
        let queue = &mut self.queues[q as usize];
        let before = queue.next;
        debug_assert!(!queue.is_empty() && self.queued > 0, "it does not wait");
        queue.remove(&mut self.order, request);
        self.queued -= 1;
        let (is_empty, moved) = (queue.is_empty(), queue.next != before);
        if moved {
            self.update_position(q);
        }
        if is_empty && self.turn.queue != q {
            self.rest(q);
        }
    }
}

impl Schedule for Cfq {
    fn sample(&self, cx: &Cx, wanted: SampleMask, take: &mut Take<'_>) {
        let q = self.turn.queue;
        if wanted.has(SampleMask::SERVICE) && q != NIL {
            let queue = self.queue(q);
            let stream = queue.stream;
            take(Sample::Slice {
                stream,
                served: self.turn.served(),
                used: self.turn.used(cx.now),
                left: self.turn.left(cx.now),
            });
            if queue.is_empty() && !cx.table.pieces.is_full() {
                take(Sample::Idling { stream });
            }
        }
        if wanted.has(SampleMask::GROUPS) {
            for (group, busy) in self.groups.iter_busy() {
                take(Sample::Used {
                    group: GroupId(group),
                    part: busy.part() << 4,
                    lead: self.groups.lead(busy),
                    queues: busy.queues,
                });
            }
        }
    }

    fn open(&mut self, cx: &mut Cx, stream: u32) {
        self.requests.open(stream);
        self.open_stream(cx, stream);
    }

    fn close(&mut self, cx: &mut Cx, stream: u32) {
        self.close_stream(cx, stream);
    }

    fn set_group(&mut self, cx: &mut Cx, id: GroupId) {
        self.groups.set(id, &cx.table);
    }

    fn remove_group(&mut self, _cx: &mut Cx, id: GroupId) {
        self.groups.forget(id);
    }

    /// Adds a request to its queue and lets the queue compete or preempt (Linux:
    /// `cfq_insert_request`).
    fn insert(&mut self, cx: &mut Cx, request: u32) {
        let now = cx.now;
        self.end_idling(cx);
        let live = &cx.table.requests[request];
        let (sync, stream) = (live.request.is_sync(), live.request.stream);
        let q = if live.pieces > 0 {
            // The request was removed half sent, while its client was on hold. Its pieces in the
            // drive are counted in its old queue, whatever queue its stream has been given since.
            self.order.item(request).queue
        } else if sync {
            self.queue_for_request(cx, stream.index)
        } else {
            self.members.async_queue(stream.index)
        };
        let expire = if sync {
            self.config.fifo_expire_sync
        } else {
            self.config.fifo_expire_async
        };
        let item = Item::new(&cx.table, request, q, now + expire);
        let queue = &mut self.queues[q as usize];
        let before = queue.next;
        queue.insert(&mut self.order, request, item, self.head);
        self.queued += 1;
        let moved = queue.next != before;
        if !queue.is_busy() {
            self.begin(now, q);
        }
        if moved {
            self.update_position(q);
        }
        let rotational = cx.table.shape.rotational;
        self.observe_arrival(now, q, stream.index, rotational, &item);
        if self.turn.queue == q {
            self.turn.idle_until = None;
        } else if self.should_preempt(cx, q, request) {
            self.preempt(cx, q);
        }
    }

    fn remove(&mut self, _cx: &mut Cx, request: u32) {
        self.take_out(request);
    }

    /// Returns true if a request may be merged into a command (Linux: `cfq_allow_bio_merge`).
    ///
    /// A request only joins a command of the queue that it would be put in, and a synchronous
    /// request no asynchronous command.
    fn allows(&mut self, cx: &mut Cx, command: u32, request: u32) -> bool {
        let is_sync = |id: u32| cx.table.requests[id].request.is_sync();
        cx.table.is_compatible(command, request)
            && (is_sync(command) || !is_sync(request))
            && self.order.item(command).queue == self.members.queue_of(request, &cx.table)
    }

    fn beginning_at(&mut self, table: &Table, request: u32, place: SeekPosition) -> Option<u32> {
        let queue = self.queue(self.members.queue_of(request, table));
        self.order.at(&queue.sorted, place)
    }

    /// Returns true if a request may become part of the command `leader` (Linux:
    /// `cfq_allow_rq_merge`).
    fn may_join(&self, cx: &Cx, leader: u32, request: u32, inside: bool) -> bool {
        let queue = if inside {
            self.order.item(request).queue
        } else {
            self.members.queue_of(request, &cx.table)
        };
        self.order.item(leader).queue == queue
    }

    /// Updates the order after a command has grown (Linux: `cfq_merged_request`).
    fn on_growth(&mut self, cx: &mut Cx, leader: u32, side: Side) {
        let q = self.order.item(leader).queue;
        let queue = &mut self.queues[q as usize];
        queue.grown(&mut self.order, leader, &cx.table);
        if side == Side::Front {
            queue.prefer(&self.order, leader, self.head);
            self.update_position(q);
        }
    }

    fn neighbour(&mut self, leader: u32, side: Side) -> Option<u32> {
        self.order.neighbour(leader, side)
    }

    /// Removes a request that became part of the command `by` (Linux: `cfq_merged_requests`).
    fn on_absorption(&mut self, _cx: &mut Cx, by: u32, request: u32) {
        let q = self.order.item(request).queue;
        if self.order.item(by).queue == q {
            self.queues[q as usize].inherit(&mut self.order, by, request);
        }
        self.take_out(request);
    }

    fn limits_tags(&self) -> bool {
        self.limits_requests
    }

    fn may_tag(&self, cx: &Cx, request: u32) -> bool {
        let of = Self::owner(request, &cx.table);
        // The drive idles for this request, so it must not wait for a place in the request list.
        let is_idled_for = self.turn.idle_until.is_some()
            && of.sync
            && self.members.sync_queue(of.stream) == self.turn.queue;
        self.requests.allows(cx.now, of, is_idled_for)
    }

    fn on_tag_taken(&mut self, cx: &mut Cx, request: u32) {
        let of = Self::owner(request, &cx.table);
        let waited = cx.table.requests[request].since < cx.now;
        self.requests.count_taken(cx.now, of, waited);
    }

    fn on_tag_returned(&mut self, cx: &mut Cx, request: u32) {
        self.requests
            .count_returned(Self::owner(request, &cx.table));
    }

    fn next(&mut self, cx: &mut Cx) -> DispatchDecision {
        let next = self.decide(cx);
        #[cfg(test)]
        self.check();
        next
    }

    /// Accounts for a completed piece (Linux: `cfq_completed_request`).
    fn complete(&mut self, cx: &mut Cx, tag: Tag) {
        let now = cx.now;
        let &Piece { op, request, .. } = cx.table.pieces.last(tag);
        if op == Op::Flush {
            return;
        }
        self.end_idling(cx);
        self.observe_queueing();
        let item = self.order.item(request);
        let q = item.queue;
        let was_late = now >= item.due();
        let queue = &mut self.queues[q as usize];
        debug_assert!(queue.dispatched > 0, "a piece comes back that was not sent");
        queue.dispatched -= 1;
        let sync = queue.sync;
        self.in_drive[usize::from(sync)] -= 1;
        let group = self.groups.get_mut(queue.group);
        group.dispatched -= 1;
        group.think.last_end = Some(now);
        if sync {
            let kind = queue.tree.unwrap_or_else(|| queue.kind());
            group.services.get_mut(kind).think.last_end = Some(now);
            let stream = cx.table.requests[request].request.stream.index;
            self.thinks[stream as usize].last_end = Some(now);
            if was_late {
                self.last_late = now;
            }
        }
        if self.turn.queue == q {
            self.completed_in_turn(cx);
        }
        self.end_lingering(q);
    }
}
