//! `bfq`: Linux's Budget Fair Queueing.
//!
//! One queue at a time is in service, for one turn. The turn lasts until its budget of sectors or
//! its time is used up, or until the queue has no more requests and idling for the next one is not
//! worthwhile. The main type is `Bfq`. Its modules have these parts:
//!
//! - `wf2q` chooses the next queue by the algorithm B-WF2Q+, and `budget` determines the size of
//!   the budget.
//! - `turn` decides when the drive idles for the queue in service, from the observations of `idle`,
//!   `symmetry`, `common::seek` and `common::think`.
//! - `peak` measures the rate of the drive.
//! - `raising` multiplies the weight of queues that begin interactive work or are soft real-time,
//!   unless they are part of a large `burst`.
//! - `inject` sends requests of other queues while the drive idles, those of the same stream and of
//!   `wakers` first.
//! - `depth` limits the scheduler tags of a queue if tags are scarce.
//! - `merge` lets streams whose requests interleave share a queue, and `stable` streams that start
//!   together.
//!
//! Each stream has a synchronous queue unless it shares one. Asynchronous requests go to a queue of
//! their group and priority, which the group's streams share. Linux has the same 17 asynchronous
//! queues per group, of which only those in use exist here.
//!
//! The weight of a group is the share of its contract, from 1 to 1000. The weight of a queue among
//! those of its group is `10 * (8 - level)`. Class and level come from the stream's `Priority`. No
//! other part of a contract counts: to this elevator every group is best effort, as in Linux.
//!
//! Every search takes time logarithmic in the number of groups or streams at each level, and no
//! list is scanned. The code tour is docs/bfq.md, and docs/deviations.md lists the differences from
//! Linux.

mod budget;
mod burst;
mod config;
mod depth;
mod entity;
mod idle;
mod inject;
mod join;
mod members;
mod merge;
mod order;
mod peak;
mod queue;
mod raising;
mod stable;
mod symmetry;
mod turn;
mod wakers;
mod weights;
mod wf2q;

#[cfg(test)]
mod tests;

pub use config::{Asymmetry, Charge, Config};

use super::{DispatchDecision, Schedule};
use crate::cx::Cx;
use crate::elevator::common::members::Members;
use crate::elevator::common::order::{Item, Order};
use crate::elevator::common::seek::{self, SeekPosition};
use crate::event::Expiry;
use crate::id::GroupId;
use crate::list::NIL;
use crate::merge::Side;
use crate::sample::{Sample, SampleMask, Take};
use crate::table::{Piece, Table};
use crate::{Instant, Op, Tag};
use budget::Budgets;
use burst::Burst;
use depth::TagDepth;
use entity::IDLE;
use idle::Queueing;
use inject::InjectMeasurement;
use merge::Cooperation;
use peak::Peak;
use queue::BfqQueue;
use symmetry::Symmetry;
use turn::BfqTurn;
use wakers::Wakers;
use wf2q::Wf2q;

/// The elevator `bfq` with all its queues, groups and measurements.
#[derive(Debug)]
pub(crate) struct Bfq {
    config: Config,
    rotational: bool,
    groups: u32,
    engine: Wf2q,
    queues: alloc::vec::Vec<BfqQueue>,
    members: Members,
    /// The parent of each group that B-WF2Q+ knows, and `None` for other groups.
    parents: alloc::vec::Vec<Option<u32>>,
    order: Order,
    turn: BfqTurn,
    budgets: Budgets,
    peak: Peak,
    queueing: Queueing,
    symmetry: Symmetry,
    burst: Burst,
    depth: TagDepth,
    cooperation: Cooperation,
    measurement: InjectMeasurement,
    wakers: Wakers,
    /// The end of the last piece that was sent.
    head: SeekPosition,
    /// Pieces in the drive, without flushes.
    in_drive: u32,
    /// Requests that wait in all queues.
    queued: u32,
}

impl Bfq {
    pub(super) fn new(config: &Config, table: &Table) -> Self {
        let config = *config;
        let rotational = table.shape.rotational;
        let (groups, streams) = (table.groups.capacity(), table.streams.capacity());
        // Two synchronous queues for each stream, because a queue that its streams have left exists
        // until it is empty (see `Members`), and an asynchronous one.
        let queues = 3 * streams;
        Self {
            rotational,
            groups,
            engine: Wf2q::new(groups, queues),
            queues: (0..queues).map(|_| BfqQueue::UNUSED).collect(),
            members: Members::new(groups, streams),
            parents: alloc::vec![None; groups as usize],
            order: Order::new(table.requests.capacity(), config.back_seek()),
            turn: BfqTurn::NONE,
            budgets: Budgets::new(config.max_budget),
            peak: Peak::new(rotational),
            queueing: Queueing::default(),
            symmetry: Symmetry::new(groups, config.asymmetry),
            burst: Burst::new(queues),
            depth: TagDepth::new(table, groups + queues),
            cooperation: Cooperation::new(groups, streams, queues, &config),
            measurement: InjectMeasurement::NONE,
            wakers: Wakers::new(queues),
            head: SeekPosition::START,
            in_drive: 0,
            queued: 0,
            config,
        }
    }

    fn queue(&self, q: u32) -> &BfqQueue {
        &self.queues[q as usize]
    }

    fn entity_of(&self, q: u32) -> u32 {
        self.groups + q
    }

    /// Returns the charge of the next piece of a request of queue `q`, in sectors (Linux:
    /// `bfq_serv_to_charge`).
    #[inline]
    fn charge(&self, q: u32, request: u32) -> u64 {
        let sectors = self.order.item(request).charge();
        let queue = self.queue(q);
        if queue.sync || queue.raising.is_raised() || self.symmetry.is_broken_for(queue) {
            sectors
        } else {
            // The larger charge limits the part of asynchronous writes among equals. If the drive
            // idles for each queue, the charge must be the service, or shares would be wrong.
            sectors * u64::from(self.config.async_charge_factor)
        }
    }

    /// Lets a queue that had no requests compete (Linux: `bfq_bfqq_handle_idle_busy_switch`).
    fn becomes_busy(&mut self, cx: &mut Cx, q: u32) {
        let now = cx.now;
        if self.config.low_latency && self.queue(q).raising.is_new {
            self.join_burst(now, q);
        }
        let resumed = self.assign_activation_budget(now, q);
        if self.config.low_latency {
            self.raise_on_activation(now, q);
        }
        let e = self.entity_of(q);
        let queue = &mut self.queues[q as usize];
        queue.waits = false;
        queue.sharing.first_served = None;
        self.symmetry.enter(queue);
        self.engine.activate(now, e, resumed);
        // Preemption has one of three reasons. The queue continues an earlier turn, and is raised
        // at least as much as the queue in service. It has a higher class or weight. Or the queue
        // in service is not worth idling for. `may_preempt` then checks that B-WF2Q+ would choose
        // another queue.
        let current = self.turn.queue;
        if current != NIL
            && (resumed && self.is_raised_like(q, current)
                || self.outranks(q, current)
                || !self.better_to_idle(current, &cx.table))
            && self.engine.may_preempt()
        {
            self.expire(cx, Expiry::Preempted, now);
        }
    }

    /// Assigns the budget of a queue that gets requests again, and returns true if it continues
    /// with the rest of its old budget (Linux: `bfq_bfqq_update_budg_for_activation`).
    ///
    /// The rest is kept if the queue came back in time. Otherwise a queue that thinks for a moment
    /// would lose its place each time.
    fn assign_activation_budget(&mut self, now: Instant, q: u32) -> bool {
        let queue = self.queue(q);
        let least = self.charge(q, queue.next);
        let in_time = queue.waits && queue.think.in_time(now, self.config.slice_idle);
        let max_budget = queue.max_budget;
        let entity = self.engine.entity_mut(self.groups + q);
        let left = entity.budget_left();
        let resumed = in_time && left > 0;
        entity.budget = if resumed {
            left.min(max_budget)
        } else {
            max_budget.max(least)
        };
        entity.service = 0;
        resumed
    }

    /// Returns true if queue `q` is raised at least as much as `other`.
    fn is_raised_like(&self, q: u32, other: u32) -> bool {
        self.queue(q).raising.coefficient >= self.queue(other).raising.coefficient
    }

    /// Returns true if queue `q` has a higher class or weight than `other` (Linux:
    /// `bfq_bfqq_higher_class_or_weight`).
    fn outranks(&self, q: u32, other: u32) -> bool {
        let (a, b) = (self.queue(q), self.queue(other));
        if a.class != b.class {
            return a.class < b.class;
        }
        // Queues of the same group compete directly, and so do queues of the root. Otherwise the
        // weights of their groups are compared.
        let weight = |q: u32, group: u32| {
            let e = if a.group == b.group || group == 0 {
                self.entity_of(q)
            } else {
                group
            };
            self.engine.entity(e).weight
        };
        weight(q, a.group) > weight(other, b.group)
    }

    /// Adapts the budget of a busy queue to its new next request (Linux: `bfq_updated_next_req`).
    ///
    /// The budget of the queue in service does not change, because B-WF2Q+ has already chosen the
    /// queue by it.
    fn next_changed(&mut self, q: u32) {
        if self.turn.queue == q {
            return;
        }
        let queue = self.queue(q);
        let least = self.charge(q, queue.next);
        let max_budget = queue.max_budget;
        let e = self.entity_of(q);
        let entity = self.engine.entity_mut(e);
        let budget = max_budget.max(least).max(entity.service);
        if entity.budget != budget {
            entity.budget = budget;
            self.engine.rebudgeted(e);
        }
    }

    /// Observes the behaviour of a stream before its new request is added to its queue.
    #[inline]
    fn observe_arrival(
        &mut self,
        now: Instant,
        q: u32,
        start: SeekPosition,
        end: SeekPosition,
        left: u32,
    ) {
        let queue = &mut self.queues[q as usize];
        let length = seek::sectors(u64::from(left));
        let seeky = seek::is_seeky(start, length, queue.last_end, self.rotational);
        queue.history.push(seeky);
        queue.last_end = end;
        if !queue.sync {
            return;
        }
        let slice_idle = self.config.slice_idle;
        if queue.dispatched == 0
            && !queue.busy
            && queue.class != IDLE
            && slice_idle > crate::Span::ZERO
        {
            let was_short = queue.think.is_short;
            queue.think.arrived(now, slice_idle);
            // The pause around a split is caused by the merge and says nothing about the stream.
            if queue.sharing.is_just_split(now) {
                queue.think.is_short = was_short;
            }
            if queue.think.is_short != was_short {
                self.short_ttime_changed(now, q);
            }
        }
        // On flash that queues requests, no decision depends on the intensity.
        if !self.rotational && self.queueing.is_certain() {
            return;
        }
        let queue = &mut self.queues[q as usize];
        let is_idle = queue.outstanding() == 0;
        let idle_since = queue.think.last_end.filter(|_| is_idle);
        queue.intensity.on_arrival(now, idle_since);
    }
}

impl Schedule for Bfq {
    fn sample(&self, cx: &Cx, wanted: SampleMask, take: &mut Take<'_>) {
        let q = self.turn.queue;
        if wanted.has(SampleMask::SERVICE) && q != NIL {
            let queue = self.queue(q);
            let stream = queue.stream;
            take(Sample::Serving {
                stream,
                served: self.turn.served(),
                left: self.engine.entity(self.entity_of(q)).budget_left() * 512,
            });
            // A queue in service without a request is idled for, whether its last request is still
            // in the drive or not.
            if queue.next == NIL && !cx.table.pieces.is_full() {
                take(Sample::Idling { stream });
            }
        }
        if wanted.has(SampleMask::DRIVE) {
            let rate = self.peak.bytes_a_second();
            take(Sample::Peak { rate });
        }
        if wanted.has(SampleMask::GROUPS) {
            for queue in self.queues.iter().filter(|queue| queue.busy) {
                take(Sample::Weight {
                    stream: queue.stream,
                    weight: queue::weight(queue.level),
                    raised: queue.raising.coefficient,
                });
            }
        }
    }

    fn open(&mut self, cx: &mut Cx, stream: u32) {
        self.open_stream(stream, &cx.table);
    }

    fn close(&mut self, cx: &mut Cx, stream: u32) {
        self.close_stream(cx, stream);
    }

    fn set_group(&mut self, cx: &mut Cx, id: GroupId) {
        self.set_group_weight(id, &cx.table);
    }

    fn remove_group(&mut self, _cx: &mut Cx, id: GroupId) {
        self.forget_group(id);
    }

    /// Adds a request to its queue and lets the queue compete (Linux: `bfq_insert_request`).
    fn insert(&mut self, cx: &mut Cx, request: u32) {
        let now = cx.now;
        self.end_idling(cx);
        let mut q = self.members.queue_of(request, &cx.table);
        if cx.table.requests[request].pieces > 0 {
            // The request was removed half sent, while its client was on hold. Its pieces in the
            // drive are counted in its old queue, whatever queue its stream has been given since.
            q = self.order.item(request).queue;
        } else if self.cooperation.is_on && self.queue(q).sync {
            q = self.cooperate(cx, request);
        }
        let expire = if self.queue(q).sync {
            self.config.fifo_expire_sync
        } else {
            self.config.fifo_expire_async
        };
        let item = Item::new(&cx.table, request, q, now + expire);
        *self.order.item_mut(request) = item;
        let (start, end, left) = (item.start(), item.end(item.left()), item.left());
        self.observe_arrival(now, q, start, end, left);
        let queue = &mut self.queues[q as usize];
        let before = queue.next;
        queue.insert(&mut self.order, request, start, self.head);
        self.queued += 1;
        let (busy, next, sync) = (queue.busy, queue.next, queue.sync);
        if self.cooperation.is_on && next != before {
            self.update_position(now, q);
        }
        if before == NIL && sync && self.config.injection {
            self.first_after_idle(now, q, request);
        }
        if busy {
            if !sync && self.config.low_latency {
                self.raise_async(now, q);
            }
            if next != before && self.turn.queue != q {
                self.next_changed(q);
            }
        } else {
            self.becomes_busy(cx, q);
        }
        // The request ends the idling for it. If the time of the turn passed in the meantime, the
        // turn ends too.
        if self.turn.queue == q && self.turn.idle_until.take().is_some() && self.turn.timed_out(now)
        {
            self.expire(cx, Expiry::BudgetTimeout, now);
        }
    }

    /// Removes a request that is not dispatched (Linux: `bfq_remove_request`).
    fn remove(&mut self, cx: &mut Cx, request: u32) {
        let now = cx.now;
        let q = self.order.item(request).queue;
        let queue = &mut self.queues[q as usize];
        let before = queue.next;
        self.measurement.forget(request);
        queue.remove(&mut self.order, request, now);
        self.queued -= 1;
        let (next, busy) = (queue.next, queue.busy);
        if self.cooperation.is_on {
            self.update_position(now, q);
        }
        if next != NIL {
            if next != before {
                self.next_changed(q);
            }
        } else if busy && self.turn.queue != q {
            self.empty_out_of_service(q);
        }
    }

    fn arrive(&mut self, cx: &mut Cx, request: u32) {
        let q = self.members.queue_of(request, &cx.table);
        if self.cooperation.is_on && self.queue(q).sync {
            self.update_stream_queue(cx, request);
        }
    }

    /// Returns true if a request may be merged into a command (Linux: `elv_bio_merge_ok`,
    /// `bfq_allow_bio_merge`).
    fn allows(&mut self, cx: &mut Cx, command: u32, request: u32) -> bool {
        let is_sync = |id: u32| cx.table.requests[id].request.is_sync();
        // A synchronous request must not wait for an asynchronous command.
        if !cx.table.is_compatible(command, request) || is_sync(request) && !is_sync(command) {
            return false;
        }
        self.predicted_queue(cx, request) == self.order.item(command).queue
    }

    fn beginning_at(&mut self, table: &Table, request: u32, place: SeekPosition) -> Option<u32> {
        let queue = self.queue(self.members.queue_of(request, table));
        self.order.at(&queue.sorted, place)
    }

    fn on_growth(&mut self, cx: &mut Cx, leader: u32, side: Side) {
        self.command_grown(cx, leader, side);
    }

    fn neighbour(&mut self, leader: u32, side: Side) -> Option<u32> {
        self.order.neighbour(leader, side)
    }

    fn on_absorption(&mut self, cx: &mut Cx, by: u32, request: u32) {
        self.command_absorbed(cx, by, request);
    }

    fn limits_tags(&self) -> bool {
        self.depth.is_limited
    }

    fn may_tag(&self, cx: &Cx, request: u32) -> bool {
        self.is_within_depth(request, &cx.table)
    }

    fn on_tag_taken(&mut self, cx: &mut Cx, request: u32) {
        self.count_tag(request, &cx.table, true);
    }

    fn on_tag_returned(&mut self, cx: &mut Cx, request: u32) {
        self.count_tag(request, &cx.table, false);
    }

    fn next(&mut self, cx: &mut Cx) -> DispatchDecision {
        debug_assert!(
            self.symmetry.busy() > 0 || self.queued == 0,
            "a queued request is in no queue"
        );
        self.decide(cx)
    }

    /// Accounts for a completed piece (Linux: `bfq_finish_requeue_request`,
    /// `bfq_completed_request`).
    fn complete(&mut self, cx: &mut Cx, tag: Tag) {
        let now = cx.now;
        let &Piece { op, request, .. } = cx.table.pieces.last(tag);
        if op == Op::Flush {
            return;
        }
        self.end_idling(cx);
        let q = self.order.item(request).queue;
        if !self.queueing.is_certain() {
            let current = self.queues.get(self.turn.queue as usize);
            let underused = current
                .is_some_and(|q| q.think.is_short && q.outstanding() < idle::QUEUE_THRESHOLD);
            (self.queueing).observe(self.in_drive, self.queued, underused);
            if !self.rotational && self.queueing.is_certain() {
                // On flash that queues requests, sharing a queue makes no difference to the drive.
                self.cooperation.stop();
            }
        }
        if self.measurement.is_of(request) {
            self.measured_injection(now, q);
        }
        self.wakers.last = q;
        debug_assert!(self.in_drive > 0, "a piece comes back that was not sent");
        self.in_drive -= 1;
        let queue = &mut self.queues[q as usize];
        queue.dispatched -= 1;
        queue.think.last_end = Some(now);
        if queue.dispatched == 0 {
            if !queue.busy {
                queue.raising.quiet(now);
                self.symmetry.settle(queue);
            }
            if queue.next == NIL {
                queue.raising.on_drained(now, self.config.slice_idle);
            }
        }
        if self.peak.on_completion(now) {
            self.update_max_budget();
        }
        if self.turn.queue == q {
            self.completed_in_service(cx, q);
        }
        if self.cooperation.is_on {
            self.completed_among_cooperators(q);
        }
    }
}
