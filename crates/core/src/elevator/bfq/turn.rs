//! The turn of the queue in service: its beginning, dispatching, idling and expiration.
//!
//! [`Bfq::decide`] is the entry. It begins a turn if there is none, sends the next request of the
//! queue in service, injects a request of another queue, waits, or ends the turn with
//! [`Bfq::expire`].

use super::Bfq;
use super::budget::TurnResult;
use super::config::Charge;
use super::entity::IDLE;
use super::idle::SHORT;
use super::inject::InjectedRequest;
use crate::cx::Cx;
use crate::elevator::DispatchDecision;
use crate::elevator::common::seek::{is_seeky, sectors};
use crate::event::{Event, Expiry};
use crate::list::NIL;
use crate::stream::State;
use crate::table::Table;
use crate::wake::{Reason, Wake};
use crate::{Instant, Span};

/// The shortest time for which the drive idles for a raised queue (Linux: in
/// `bfq_arm_slice_timer`).
const RAISED_IDLE: Span = Span::from_millis(20);

/// The turn in progress: the queue in service and its limits of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct BfqTurn {
    /// The queue in service, or [`NIL`].
    pub(super) queue: u32,
    started: Instant,
    timeout_at: Instant,
    /// The end of idling for the queue's next request, or `None` while the drive does not idle.
    pub(super) idle_until: Option<Instant>,
    idle_since: Instant,
    /// Bytes sent in this turn.
    served: u64,
}

impl BfqTurn {
    pub(super) const NONE: Self = Self {
        queue: NIL,
        started: Instant::ZERO,
        timeout_at: Instant::MAX,
        idle_until: None,
        idle_since: Instant::ZERO,
        served: 0,
    };

    /// Returns the bytes sent in this turn.
    pub(super) fn served(&self) -> u64 {
        self.served
    }

    /// Returns true if the longest time of the turn has passed (Linux: `bfq_bfqq_budget_timeout`).
    pub(super) fn timed_out(&self, now: Instant) -> bool {
        now >= self.timeout_at
    }
}

/// The next step of a turn.
enum BfqStep {
    /// Send this request, which is charged this number of sectors.
    Send(u32, u64),
    /// Send a request of another queue while the queue in service has none.
    Inject(InjectedRequest),
    Wait(DispatchDecision),
    Over(Expiry),
}

impl Bfq {
    /// Returns the next request to dispatch, or the reason to wait (Linux:
    /// `__bfq_dispatch_request`, `bfq_select_queue`).
    pub(super) fn decide(&mut self, cx: &mut Cx) -> DispatchDecision {
        let now = cx.now;
        self.end_idling(cx);
        // With one request at a time in the drive, the drive cannot reorder the requests of
        // different queues.
        if self.config.strict_guarantees && self.in_drive > 0 {
            return DispatchDecision::Nothing;
        }
        loop {
            if self.turn.queue == NIL && !self.begin_turn(cx) {
                return DispatchDecision::Nothing;
            }
            match self.step(now, &cx.table) {
                BfqStep::Send(request, charge) => return self.send(cx, request, charge),
                BfqStep::Inject(injected) => return self.send_injected(now, &injected, &cx.table),
                BfqStep::Wait(next) => return next,
                BfqStep::Over(reason) => self.expire(cx, reason, now),
            }
        }
    }

    /// Ends the turn if the time of idling is over (Linux: `bfq_idle_slice_timer_body`). Does
    /// nothing while the drive does not idle.
    ///
    /// A request that arrives for the queue ends the idling, but not the turn, when it is inserted.
    #[inline]
    pub(super) fn end_idling(&mut self, cx: &mut Cx) {
        if self.turn.idle_until.is_none_or(|until| cx.now < until) {
            return;
        }
        self.turn.idle_until = None;
        if self.turn.timed_out(cx.now) {
            // The turn is counted up to the beginning of idling, because the time of idling shows
            // nothing about the queue's speed.
            self.expire(cx, Expiry::BudgetTimeout, self.turn.idle_since);
        } else if self.queue(self.turn.queue).next == NIL {
            self.expire(cx, Expiry::TooIdle, self.turn.idle_since);
        }
    }

    /// Begins to idle or ends the turn when a piece of the queue in service has completed, if that
    /// is due (Linux: in `bfq_completed_request`).
    pub(super) fn completed_in_service(&mut self, cx: &mut Cx, q: u32) {
        let now = cx.now;
        let queue = self.queue(q);
        let is_empty = queue.next == NIL;
        if is_empty && queue.dispatched > 0 {
            // The dispatch decision that follows each completion keeps the turn or ends it.
            return;
        }
        if is_empty && self.better_to_idle(q, &cx.table) {
            self.begin_idling(now, q);
        } else if self.may_time_out(now, q) {
            self.expire(cx, Expiry::BudgetTimeout, now);
        } else if is_empty {
            self.expire(cx, Expiry::NoMoreRequests, now);
        }
    }

    /// Returns true if waiting for the next request of `q` is worth more than serving another queue
    /// (Linux: `bfq_better_to_idle`).
    #[expect(
        clippy::inline_always,
        reason = "once a request; its other callers are rare"
    )]
    #[inline(always)]
    pub(super) fn better_to_idle(&self, q: u32, table: &Table) -> bool {
        let queue = self.queue(q);
        // A stream that closes or is on hold will not send anything, and a stream whose next
        // request is throttled by a limit will not send for now. Linux does not see the latter. If
        // limits release requests in slices as in Linux (`paces` is false), Weir ignores them too.
        if queue.sync {
            let crate::StreamId { index, generation } = queue.stream;
            let stream = table.streams.get_named(index, generation);
            let sends = stream
                .is_some_and(|s| s.state == State::Open && !(table.paces && s.is_throttled()));
            if !sends || queue.sharing.users == 0 {
                return false;
            }
        }
        if self.config.strict_guarantees {
            return true;
        }
        if !queue.sync || queue.class == IDLE || self.config.slice_idle == Span::ZERO {
            return false;
        }
        self.idling_keeps_guarantees(q) || self.idling_boosts_throughput(q)
    }

    /// Ends the turn of the queue in service, counting its behaviour up to `until` (Linux:
    /// `bfq_bfqq_expire`).
    pub(super) fn expire(&mut self, cx: &mut Cx, reason: Expiry, until: Instant) {
        let now = cx.now;
        let q = self.turn.queue;
        debug_assert!(q != NIL, "there is no turn to end");
        if self.cooperation.is_on {
            self.reconsider_sharing(q);
        }
        self.charge_time(reason, until, q);
        let e = self.entity_of(q);
        let charged = self.engine.entity(e).service;
        self.assign_budget(reason, q);
        cx.publish(|| Event::Expired {
            stream: self.queue(q).stream,
            reason,
            served: self.turn.served,
            charged: charged * 512,
        });
        // A preempted queue without requests stays in the scheduler if idling for it is needed,
        // because it would otherwise lose its place among the waiting queues.
        let keep = reason == Expiry::Preempted
            && self.queue(q).sharing.users > 0
            && self.idling_keeps_guarantees(q);
        self.turn.queue = NIL;
        self.turn.idle_until = None;
        let queue = &mut self.queues[q as usize];
        if self.config.low_latency {
            let (empty, idle) = (queue.next == NIL, self.config.slice_idle);
            (queue.raising).on_turn_end(now, empty, queue.dispatched, idle);
        }
        if queue.next != NIL || keep {
            self.engine.requeue(e);
        } else {
            if queue.dispatched == 0 {
                queue.raising.quiet(now);
            }
            self.symmetry.leave(queue);
            self.engine.retire(e);
        }
        // A queue that only waits for its next request keeps the rest of its budget, and may use it
        // if that request comes in time.
        let used_up = matches!(reason, Expiry::BudgetTimeout | Expiry::BudgetExhausted);
        if queue.busy || used_up {
            self.engine.entity_mut(e).service = 0;
        } else {
            queue.waits = true;
        }
        if self.cooperation.is_on {
            self.end_lingering(q);
        }
    }

    /// Takes a queue out of the scheduler that lost its last request while it was not in service
    /// (Linux: in `bfq_remove_request`).
    pub(super) fn empty_out_of_service(&mut self, q: u32) {
        let e = self.entity_of(q);
        self.symmetry.leave(&mut self.queues[q as usize]);
        self.engine.deactivate(e);
        let entity = self.engine.entity_mut(e);
        entity.budget = 0;
        entity.service = 0;
        if self.cooperation.is_on {
            self.end_lingering(q);
        }
    }

    /// Adopts a new estimate of the drive's rate as the largest budget.
    pub(super) fn update_max_budget(&mut self) {
        // The largest budget is the amount that the drive serves at its peak rate in the longest
        // turn.
        let ms = self.config.timeout_sync.as_nanos() / 1_000_000;
        self.budgets.estimate(self.peak.sectors_in(ms));
    }

    /// Begins a turn for the queue chosen by B-WF2Q+. Returns false if no queue waits (Linux:
    /// `bfq_set_in_service_queue`).
    fn begin_turn(&mut self, cx: &mut Cx) -> bool {
        let now = cx.now;
        let Some(e) = self.engine.select(now) else {
            return false;
        };
        let q = e - self.groups;
        let queue = &mut self.queues[q as usize];
        queue.fifo_checked = false;
        // Several streams send to an asynchronous or shared queue. The turn is published for the
        // one whose request is next.
        if (!queue.sync || queue.sharing.is_shared) && queue.next != NIL {
            queue.stream = cx.table.requests[queue.next].request.stream;
        }
        let most = self
            .config
            .timeout_sync
            .saturating_mul(queue.raising.turn_factor());
        let timeout_at = now + most;
        queue.raising.on_turn_begin(now, timeout_at);
        self.turn = BfqTurn {
            queue: q,
            started: now,
            timeout_at,
            ..BfqTurn::NONE
        };
        self.budgets.assign();
        let (stream, budget) = (queue.stream, self.engine.entity(e).budget * 512);
        cx.publish(|| Event::Selected { stream, budget });
        true
    }

    /// Returns the next step of the turn in progress (Linux: `bfq_select_queue`).
    fn step(&mut self, now: Instant, table: &Table) -> BfqStep {
        let q = self.turn.queue;
        let request = self.queue(q).next;
        if request != NIL {
            if self.may_time_out(now, q) {
                return BfqStep::Over(Expiry::BudgetTimeout);
            }
            let left = self.engine.entity(self.entity_of(q)).budget_left();
            let charge = self.charge(q, request);
            if charge > left {
                return BfqStep::Over(Expiry::BudgetExhausted);
            }
            return BfqStep::Send(request, charge);
        }
        if let Some(at) = self.turn.idle_until {
            let reason = if at >= self.turn.timeout_at {
                Reason::BudgetTimeout
            } else {
                Reason::Idling
            };
            if !self.better_to_idle(q, table) {
                return BfqStep::Over(Expiry::NoMoreRequests);
            }
            let wait = BfqStep::Wait(DispatchDecision::Wait(Wake { at, reason }));
            return self.inject(q, table).map_or(wait, BfqStep::Inject);
        }
        // Pieces in the drive lead to another decision when they complete, so no timer is needed.
        if self.queue(q).dispatched > 0 && self.better_to_idle(q, table) {
            let wait = BfqStep::Wait(DispatchDecision::Nothing);
            return self.inject(q, table).map_or(wait, BfqStep::Inject);
        }
        if self.may_time_out(now, q) {
            return BfqStep::Over(Expiry::BudgetTimeout);
        }
        BfqStep::Over(Expiry::NoMoreRequests)
    }

    /// Sends the next piece of a request of the queue in service (Linux:
    /// `bfq_dispatch_rq_from_bfqq`, `bfq_dispatch_remove`).
    fn send(&mut self, cx: &mut Cx, request: u32, charge: u64) -> DispatchDecision {
        let q = self.turn.queue;
        self.engine.served(self.entity_of(q), charge);
        let bytes = self.remove_piece(cx.now, q, request, charge, &cx.table);
        self.turn.idle_until = None;
        self.turn.served += u64::from(bytes);
        if self.symmetry.is_special() {
            self.sent_special(cx, q);
        }
        DispatchDecision::Take { request, bytes }
    }

    /// Adjusts raising and the turn after a piece was sent, while raised queues or queues of the
    /// idle class compete.
    fn sent_special(&mut self, cx: &mut Cx, q: u32) {
        let queue = self.queue(q);
        let is_idle_class = queue.class == IDLE;
        if queue.raising.is_raised() && queue.raising.is_due(cx.now) {
            self.reconsider_raising(cx.now, q);
        }
        // A queue of the idle class gives way to others after each piece.
        if is_idle_class && self.symmetry.busy() > 1 {
            self.expire(cx, Expiry::BudgetExhausted, cx.now);
        }
    }

    /// Sends a request of another queue, which is charged for it. The turn in progress continues
    /// unchanged.
    #[cold]
    fn send_injected(
        &mut self,
        now: Instant,
        injected: &InjectedRequest,
        table: &Table,
    ) -> DispatchDecision {
        let &InjectedRequest {
            queue: q,
            request,
            charge,
        } = injected;
        self.engine.served_rarely(self.entity_of(q), charge);
        let before = self.queue(q).next;
        let bytes = self.remove_piece(now, q, request, charge, table);
        let next = self.queue(q).next;
        if next == NIL {
            self.empty_out_of_service(q);
        } else if next != before {
            self.next_changed(q);
        }
        self.engine.on_injection(self.entity_of(q));
        DispatchDecision::Take { request, bytes }
    }

    /// Sends the next piece of a request to the drive and returns its length in bytes.
    #[expect(clippy::inline_always, reason = "once a request; injection is rare")]
    #[inline(always)]
    fn remove_piece(
        &mut self,
        now: Instant,
        q: u32,
        request: u32,
        charge: u64,
        table: &Table,
    ) -> u32 {
        let item = self.order.item(request);
        let (bytes, last) = (item.bytes, item.is_last());
        let (start, end) = (item.start(), item.end(bytes));
        debug_assert!(table.piece(request).0 == bytes);
        if item.moves_data() {
            let length = sectors(u64::from(bytes));
            let seeky = is_seeky(start, length, self.head, self.rotational);
            if self.peak.on_dispatch(now, length, seeky, self.in_drive) {
                self.update_max_budget();
            }
        }
        self.head = end;
        self.in_drive += 1;
        let queue = &mut self.queues[q as usize];
        queue.dispatched += 1;
        queue.raising.charged(charge);
        queue.advance_request(&mut self.order, request, now);
        self.queued -= u32::from(last);
        if self.cooperation.is_on {
            self.sent_among_cooperators(now, q, end);
        }
        bytes
    }

    /// Begins to idle for the next request of `q` (Linux: `bfq_arm_slice_timer`).
    fn begin_idling(&mut self, now: Instant, q: u32) {
        let queue = self.queue(q);
        let seeky = queue.history.is_seeky(self.config.seeky_threshold);
        let length = if queue.raising.is_raised() {
            self.config.slice_idle.max(RAISED_IDLE)
        // A seek is expected before the next request of a seeky queue in any case, so a long wait
        // gains nothing unless fairness requires it.
        } else if seeky && !self.symmetry.is_broken_for(queue) {
            self.config.slice_idle.min(SHORT)
        } else {
            self.config.slice_idle
        };
        self.turn.idle_since = now;
        self.turn.idle_until = Some(now + length);
    }

    /// Returns true if the guarantees of `q` would be broken by serving others while it has no
    /// request (Linux: `idling_needed_for_service_guarantees`).
    fn idling_keeps_guarantees(&self, q: u32) -> bool {
        let queue = self.queue(q);
        self.symmetry.is_broken_for(queue)
            || self.symmetry.busy() == 1
            // A raised queue would wait behind four or more requests of others in the drive. A
            // device that queues serves them in its own order.
            || queue.raising.is_raised()
                && (self.symmetry.raised_busy() < self.symmetry.busy()
                    || self.in_drive >= queue.dispatched + 4)
    }

    /// Returns true if idling for `q` is likely to raise the throughput of the drive (Linux:
    /// `idling_boosts_thr_without_issues`).
    pub(super) fn idling_boosts_throughput(&self, q: u32) -> bool {
        let no_queueing = self.queueing.is_absent();
        // Raised queues suffer from idling for others, and flash that queues is kept busy only by
        // several queues.
        if (!self.rotational && !no_queueing) || self.symmetry.raised_busy() > 0 {
            return false;
        }
        let queue = self.queue(q);
        (self.rotational && no_queueing)
            || (!queue.history.is_seeky(self.config.seeky_threshold)
                && queue.intensity.is_bound
                && queue.think.is_short)
    }

    /// Returns true if the turn is to end because its time is over (Linux:
    /// `bfq_may_expire_for_budg_timeout`).
    ///
    /// If the drive idles for the queue and less than a third of the budget is left, the queue may
    /// finish its budget.
    fn may_time_out(&self, now: Instant, q: u32) -> bool {
        if !self.turn.timed_out(now) {
            return false;
        }
        let entity = self.engine.entity(self.entity_of(q));
        self.turn.idle_until.is_none() || entity.budget_left() >= entity.budget / 3
    }

    /// Charges a queue by time if it is slow, or if its time ran out with a third or more of its
    /// budget left (Linux: `bfq_bfqq_charge_time`).
    fn charge_time(&mut self, reason: Expiry, until: Instant, q: u32) {
        if self.config.charge == Charge::Service || self.queue(q).raising.is_raised() {
            return;
        }
        let e = self.entity_of(q);
        let entity = *self.engine.entity(e);
        let (slow, ms) = self.is_slow(until, q);
        let early = reason == Expiry::BudgetTimeout && entity.budget_left() >= entity.budget / 3;
        if !slow && !early {
            return;
        }
        let timeout_ms = self.config.timeout_sync.as_nanos() / 1_000_000;
        // The largest budget is the service of a whole `timeout_sync`, so this is the service of
        // the time that the queue held the drive. The queue is never charged for more than one
        // `timeout_sync`.
        let by_time = self.budgets.max() * ms.min(timeout_ms) / timeout_ms;
        let total = by_time.max(entity.service);
        // A charge above the budget would make the remainder of the budget meaningless (Linux
        // raises the budget too).
        self.engine.entity_mut(e).budget = entity.budget.max(total);
        let more = total - entity.service;
        self.engine.served_rarely(e, more);
        self.queues[q as usize].raising.charged(more);
    }

    /// Returns true if a turn was slow, and the length of the turn in milliseconds (Linux:
    /// `bfq_bfqq_is_slow`).
    fn is_slow(&self, until: Instant, q: u32) -> (bool, u64) {
        let queue = self.queue(q);
        if !queue.sync {
            return (false, 0);
        }
        let length = until.since(self.turn.started);
        let ms = Span::from_millis(1).as_nanos();
        // Too short to measure. A seeky queue is assumed to have held the drive for as long as
        // idling for it would take.
        if length < Span::from_millis(1) {
            let seeky = queue.history.is_seeky(self.config.seeky_threshold);
            let assumed = if self.rotational {
                self.config.slice_idle
            } else {
                SHORT
            };
            return (seeky, assumed.as_nanos() / ms);
        }
        let service = self.engine.entity(self.entity_of(q)).service;
        // The rate over less than 20 ms has spikes, so only longer turns are judged by their rate.
        // In Linux, a seeky queue counts as slow in a shorter turn. Half of the peak rate is enough
        // because slow zones of a disk are slower than the average that the estimate is (comments
        // of Linux's `bfq_bfqq_is_slow`).
        let slow = length > Span::from_millis(20) && service < self.budgets.max() / 2;
        (slow, length.as_nanos() / ms)
    }

    /// Assigns the budget of the queue's next turn.
    fn assign_budget(&mut self, reason: Expiry, q: u32) {
        let e = self.entity_of(q);
        let queue = self.queue(q);
        let next = queue.next;
        let budget = self.budgets.feedback(&TurnResult {
            reason,
            sync: queue.sync,
            raised: queue.raising.is_raised(),
            budget: queue.max_budget,
            service: self.engine.entity(e).service,
            dispatched: queue.dispatched,
        });
        let raised = queue.raising.is_raised();
        self.queues[q as usize].max_budget = budget;
        // A preempted queue continues with its old budget, except if it is raised.
        if next != NIL && (reason != Expiry::Preempted || raised) {
            let least = self.charge(q, next);
            self.engine.entity_mut(e).budget = budget.max(least);
        }
    }
}
