//! Weight raising of interactive and soft real-time queues, which the tunable `low_latency`
//! switches on.
//!
//! A queue that begins to send after a pause is treated as interactive: it gets a multiple of its
//! weight for a few seconds. A queue that sends little and at regular times is treated as soft
//! real-time. It gets a far larger multiple for as long as it behaves so.

use super::Bfq;
use super::peak::Peak;
use super::queue::BfqQueue;
use crate::{Instant, Span};

/// The factor of an interactive queue's weight (Linux: `bfq_wr_coeff`).
const INTERACTIVE: u32 = 30;
/// The factor of a soft real-time queue's weight (Linux: `BFQ_SOFTRT_WEIGHT_FACTOR`).
const SOFT_REALTIME: u32 = 100 * INTERACTIVE;
/// The duration of a soft real-time period that is not renewed (Linux: `bfq_wr_rt_max_time`).
const SOFT_REALTIME_LENGTH: Span = Span::from_millis(300);
/// The idle time after which a queue counts as beginning interactive work (Linux:
/// `bfq_wr_min_idle_time`).
const LONG_IDLE: Span = Span::from_secs(2);
/// The time without a new request after which a busy asynchronous queue counts as beginning work
/// (Linux: `bfq_wr_min_inter_arr_async`).
const LONG_GAP_ASYNC: Span = Span::from_millis(500);
/// The idle time after which a queue has left the burst that it began in (Linux: in
/// `bfq_bfqq_handle_idle_busy_switch`).
const BURST_OVER: Span = Span::from_secs(10);
/// The largest rate of a soft real-time queue, in sectors per second (Linux:
/// `bfq_wr_max_softrt_rate`).
const SOFT_REALTIME_RATE: u64 = 7_000;
/// Four ticks of a clock of 250 Hz. They cover late timers of an isochronous process (Linux: in
/// `bfq_bfqq_softrt_next_start`).
const FOUR_TICKS: Span = Span::from_millis(16);
/// The number of sectors after which an interactive period ends (Linux: `max_service_from_wr`).
const MOST_SERVICE: u64 = 120_000;
/// The only priority level whose queues are raised, which is the default (Linux: the weight of 40).
const RAISED_LEVEL: u8 = 4;

/// The reason for which a queue is raised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RaisingKind {
    Interactive,
    SoftRealtime,
}

/// The state of weight raising of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raising {
    /// The factor of the queue's weight, or 1 if the queue is not raised.
    pub(super) coefficient: u32,
    kind: RaisingKind,
    length: Span,
    /// The beginning of the period. For an asynchronous queue that is not raised, it is the time of
    /// its last request or the end of its last turn (Linux: `last_wr_start_finish`).
    since: Instant,
    /// The beginning of the interactive period that a soft real-time period interrupts (Linux:
    /// `wr_start_at_switch_to_srt`).
    interactive_since: Option<Instant>,
    /// Sectors charged in total, and those before the period. The difference is Linux's
    /// `service_from_wr`.
    charged: u64,
    charged_before: u64,
    /// The last time at which the queue got requests after having none, and the sectors charged
    /// before (Linux: `last_idle_bklogged`, `service_from_backlogged`).
    backlogged_since: Instant,
    charged_unbacklogged: u64,
    /// The time before which a request is too early for a soft real-time queue (Linux:
    /// `soft_rt_next_start`).
    earliest: Instant,
    /// True if `earliest` must be determined when the queue's last request completes (Linux:
    /// `softrt_update`).
    earliest_due: bool,
    /// The time since when the queue has had no requests and all have completed (Linux:
    /// `budget_timeout`). While it has requests, it is the latest end of its last turn. `None`
    /// means that it never had any.
    quiet_since: Option<Instant>,
    /// True until the queue's first request (Linux: `just_created`).
    pub(super) is_new: bool,
    /// True if the queue is part of a large burst, whose queues are not raised (Linux:
    /// `in_large_burst`).
    in_large_burst: bool,
    /// True if the coefficient changed in the middle of a turn, so that the weight does not follow
    /// it yet.
    in_mid_turn: bool,
}

impl Raising {
    pub(super) const NEW: Self = Self {
        coefficient: 1,
        kind: RaisingKind::Interactive,
        length: Span::ZERO,
        since: Instant::ZERO,
        interactive_since: None,
        charged: 0,
        charged_before: 0,
        backlogged_since: Instant::ZERO,
        charged_unbacklogged: 0,
        earliest: Instant::ZERO,
        earliest_due: false,
        quiet_since: None,
        is_new: true,
        in_large_burst: false,
        in_mid_turn: false,
    };

    #[inline]
    pub(super) fn is_raised(&self) -> bool {
        self.coefficient > 1
    }

    /// Returns the factor of the longest turn (Linux: `bfq_set_budget_timeout`).
    pub(super) fn turn_factor(&self) -> u64 {
        match self.kind {
            RaisingKind::Interactive => u64::from(self.coefficient),
            RaisingKind::SoftRealtime => 1,
        }
    }

    /// Adds sectors that the queue was charged.
    #[inline]
    pub(super) fn charged(&mut self, sectors: u64) {
        self.charged += sectors;
    }

    pub(super) fn is_in_large_burst(&self) -> bool {
        self.in_large_burst
    }

    /// Returns the state to keep while the stream sends to a shared queue (Linux:
    /// `bfq_bfqq_save_state`).
    ///
    /// A queue without a request so far would have been raised with its first one, so its saved
    /// state is raised.
    pub(super) fn saved(&self, now: Instant, low_latency: bool, drive: &Peak) -> Self {
        let mut saved = *self;
        if self.is_new && !self.in_large_burst && low_latency {
            saved.begin(RaisingKind::Interactive, INTERACTIVE, drive.raising_time());
            saved.interactive_since = None;
            saved.since = now;
        }
        saved
    }

    /// Prepares the state of a queue whose stream was just split from others.
    pub(super) fn after_split(&mut self, now: Instant, in_large_burst: bool) {
        self.is_new = false;
        self.earliest = now;
        self.in_large_burst = in_large_burst;
    }

    /// Continues a saved period, unless it has ended by now (Linux: `bfq_bfqq_resume_state`).
    fn resume(&mut self, now: Instant, saved: &Self, drive: &Peak) {
        self.in_large_burst |= saved.in_large_burst;
        self.begin(saved.kind, saved.coefficient, saved.length);
        self.since = saved.since;
        self.interactive_since = saved.interactive_since;
        // Charges of the shared queue are not those of the period, so only the sectors served
        // before the merge count. The difference can be negative for a new queue.
        self.charged_before = self.charged.saturating_sub(saved.served());
        if self.is_raised() && (self.in_large_burst || self.since + self.length < now) {
            match self
                .interrupted(now, drive)
                .filter(|_| !self.in_large_burst)
            {
                Some(since) => self.fall_back(since, drive),
                None => self.coefficient = 1,
            }
        }
    }

    /// Returns the beginning of the interactive period that continues after a soft real-time one,
    /// if any.
    fn interrupted(&self, now: Instant, drive: &Peak) -> Option<Instant> {
        (self.interactive_since)
            .filter(|_| self.kind == RaisingKind::SoftRealtime)
            .filter(|&since| since + drive.raising_time() >= now)
    }

    /// Returns to the interactive period that a soft real-time one has interrupted (Linux:
    /// `switch_back_to_interactive_wr`).
    fn fall_back(&mut self, since: Instant, drive: &Peak) {
        self.begin(RaisingKind::Interactive, INTERACTIVE, drive.raising_time());
        self.since = since;
    }

    /// Records that the queue has no requests and all have completed.
    pub(super) fn quiet(&mut self, now: Instant) {
        self.quiet_since = Some(now);
    }

    /// Begins a turn that ends at `until` at the latest (Linux: `__bfq_set_in_service_queue`).
    ///
    /// The time for which a soft real-time queue waited for its turn does not count in its period.
    pub(super) fn on_turn_begin(&mut self, now: Instant, until: Instant) {
        let quiet_since = self.quiet_since.replace(until).unwrap_or(Instant::ZERO);
        if self.is_raised() && self.kind == RaisingKind::SoftRealtime && quiet_since < now {
            self.since = if quiet_since > self.since {
                self.since + now.since(quiet_since)
            } else {
                now
            };
        }
    }

    /// Ends a turn. `empty` means that the queue has no requests waiting, with `dispatched` in the
    /// drive (Linux: in `bfq_bfqq_expire`).
    pub(super) fn on_turn_end(
        &mut self,
        now: Instant,
        empty: bool,
        dispatched: u32,
        slice_idle: Span,
    ) {
        if !self.is_raised() {
            self.since = now;
        }
        if empty && dispatched == 0 {
            self.find_earliest(now, slice_idle);
        // The service is known in full only after the last completion.
        } else if empty {
            self.earliest_due = true;
        }
    }

    /// Records that no request of the queue waits or is in the drive (Linux: in
    /// `bfq_completed_request`).
    pub(super) fn on_drained(&mut self, now: Instant, slice_idle: Span) {
        if self.earliest_due && self.coefficient != INTERACTIVE {
            self.find_earliest(now, slice_idle);
        }
    }

    /// Determines the time before which the next request is too early for a soft real-time queue
    /// (Linux: `bfq_bfqq_softrt_next_start`).
    fn find_earliest(&mut self, now: Instant, slice_idle: Span) {
        let served = self.charged - self.charged_unbacklogged;
        let ns = served.saturating_mul(1_000_000_000) / SOFT_REALTIME_RATE;
        // A soft real-time process sends at most 7,000 sectors per second and pauses after each
        // batch. A greedy process sends its next request at once, which is earlier than both
        // bounds.
        let by_rate = self.backlogged_since + Span::from_nanos(ns);
        self.earliest = (self.earliest)
            .max(by_rate)
            .max(now + slice_idle + FOUR_TICKS);
    }

    /// Returns the sectors served while raised.
    fn served(&self) -> u64 {
        self.charged - self.charged_before
    }

    /// Returns true if the queue has had no requests for longer than `length` (Linux:
    /// `bfq_bfqq_idle_for_long_time`).
    fn was_quiet_for(&self, now: Instant, length: Span) -> bool {
        self.quiet_since.is_none_or(|since| since + length < now)
    }

    /// Begins, renews or ends a period when requests arrive, and returns true if one began (Linux:
    /// `bfq_update_bfqq_wr_on_rq_arrival`).
    fn update(&mut self, now: Instant, reasons: &RaisingReasons, drive: &Peak) -> bool {
        let was_raised = self.is_raised();
        if reasons.interactive && (was_raised || reasons.may_begin) {
            if !was_raised {
                self.charged_before = self.charged;
            }
            self.begin(RaisingKind::Interactive, INTERACTIVE, drive.raising_time());
        } else if !was_raised && reasons.soft_realtime && reasons.may_begin {
            self.interactive_since = None;
            self.begin(
                RaisingKind::SoftRealtime,
                SOFT_REALTIME,
                SOFT_REALTIME_LENGTH,
            );
        } else if was_raised && self.in_large_burst {
            self.coefficient = 1;
        } else if was_raised && reasons.soft_realtime {
            if self.kind == RaisingKind::Interactive {
                // The interactive period continues after the soft real-time one if its time is not
                // over by then.
                self.interactive_since = Some(self.since);
                self.begin(
                    RaisingKind::SoftRealtime,
                    SOFT_REALTIME,
                    SOFT_REALTIME_LENGTH,
                );
            }
            self.since = now;
        }
        if !was_raised || !self.is_raised() || reasons.interactive {
            self.since = now;
        }
        !was_raised && self.is_raised()
    }

    fn begin(&mut self, kind: RaisingKind, coefficient: u32, length: Span) {
        self.kind = kind;
        self.coefficient = coefficient;
        self.length = length;
    }

    /// Returns true if the period may be over, or began in mid-turn and has no effect yet.
    #[inline]
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.since + self.length < now
            || self.served() > MOST_SERVICE
            || self.in_large_burst
            || self.in_mid_turn
    }

    /// Decides whether the period continues, and of which kind, after a piece was sent (Linux:
    /// `bfq_update_wr_data`).
    fn reconsider(&mut self, now: Instant, drive: &Peak) {
        if self.in_large_burst {
            self.end(now);
        } else if self.since + self.length < now {
            match self.interrupted(now, drive) {
                Some(since) => self.fall_back(since, drive),
                None => self.end(now),
            }
        }
        // An application that starts reads a limited amount. More service shows that it is a long
        // transfer.
        if self.is_raised() && self.kind == RaisingKind::Interactive && self.served() > MOST_SERVICE
        {
            self.end(now);
        }
    }

    fn end(&mut self, now: Instant) {
        self.coefficient = 1;
        self.since = now;
    }
}

/// The reasons for which a queue that gets requests again may be raised.
#[derive(Debug)]
struct RaisingReasons {
    interactive: bool,
    soft_realtime: bool,
    may_begin: bool,
}

impl Bfq {
    /// Adds a queue with its first request to the burst, if one is in progress or begins.
    pub(super) fn join_burst(&mut self, now: Instant, q: u32) {
        let alone = self.symmetry.busy() == 0;
        let queue = self.queue(q);
        if !queue.sync || !(self.burst.is_under_way() || alone) {
            return;
        }
        let group = queue.group;
        let queues = &mut self.queues;
        self.burst.join(now, q, group, alone, |member| {
            queues[member as usize].raising.in_large_burst = true;
        });
    }

    /// Updates raising of a queue that gets requests again (Linux: in
    /// `bfq_bfqq_handle_idle_busy_switch`).
    pub(super) fn raise_on_activation(&mut self, now: Instant, q: u32) {
        let is_kept = self.is_kept_from_raising(self.queue(q));
        let queue = &mut self.queues[q as usize];
        let before = queue.raising.coefficient;
        let is_quiet = queue.dispatched == 0;
        let long_idle = is_quiet && queue.raising.was_quiet_for(now, LONG_IDLE);
        let eligible = !queue.raising.in_large_burst && queue.level == RAISED_LEVEL;
        let reasons = RaisingReasons {
            interactive: eligible && long_idle,
            soft_realtime: eligible
                && is_quiet
                && !queue.history.is_all_seeky()
                && queue.raising.earliest < now,
            // Asynchronous queues are raised by `raise_async`, and merged queues are not raised.
            may_begin: queue.sync && !is_kept,
        };
        // After a split, the pause comes from the merge and not from the process.
        let is_just_split = queue.sharing.is_just_split(now);
        let raising = &mut queue.raising;
        // After such a pause, the queue does something else than at its creation.
        if !raising.is_new && long_idle && raising.was_quiet_for(now, BURST_OVER) {
            self.burst.forget(q);
            raising.in_large_burst = false;
        }
        raising.is_new = false;
        let begins = !is_just_split && raising.update(now, &reasons, &self.peak);
        raising.backlogged_since = now;
        raising.charged_unbacklogged = raising.charged;
        raising.earliest_due = false;
        // A small budget makes raised queues wait little for each other.
        if begins {
            let entity = self.engine.entity_mut(self.groups + q);
            entity.budget = entity.budget.min(self.budgets.raised());
        }
        self.apply_raising(q, before);
    }

    /// Updates raising when a busy asynchronous queue gets a request (Linux: in `bfq_add_request`).
    pub(super) fn raise_async(&mut self, now: Instant, q: u32) {
        let raising = &mut self.queues[q as usize].raising;
        if !raising.is_raised() && raising.since + LONG_GAP_ASYNC < now {
            raising.begin(
                RaisingKind::Interactive,
                INTERACTIVE,
                self.peak.raising_time(),
            );
            raising.in_mid_turn = true;
            raising.since = now;
            self.apply_raising(q, 1);
        } else if !raising.is_raised() {
            raising.since = now;
        }
    }

    /// Ends or changes the period of the queue in service after a piece was sent. Its weight
    /// changes at once.
    #[cold]
    pub(super) fn reconsider_raising(&mut self, now: Instant, q: u32) {
        let raising = &mut self.queues[q as usize].raising;
        let before = raising.coefficient;
        raising.reconsider(now, &self.peak);
        raising.in_mid_turn = false;
        self.apply_raising(q, before);
        self.engine.reweigh(self.entity_of(q));
    }

    /// Passes the period of queue `from` on to queue `q`, with which it merges (Linux: in
    /// `bfq_merge_bfqqs`).
    pub(super) fn inherit_raising(&mut self, q: u32, from: u32) {
        let other = self.queue(from).raising;
        let raising = &mut self.queues[q as usize].raising;
        if raising.is_raised() || !other.is_raised() {
            if other.is_raised() {
                self.lower(from);
            }
            return;
        }
        raising.begin(other.kind, other.coefficient, other.length);
        raising.since = other.since;
        raising.interactive_since = other.interactive_since;
        // The period begins again for the merged queue, as far as its service is concerned.
        raising.charged_before = raising.charged;
        raising.in_mid_turn = true;
        self.apply_raising(q, 1);
        self.lower(from);
    }

    /// Ends the raising of a queue whose period was passed on to another queue.
    fn lower(&mut self, q: u32) {
        let raising = &mut self.queues[q as usize].raising;
        let before = core::mem::replace(&mut raising.coefficient, 1);
        self.apply_raising(q, before);
    }

    /// Restores the raising of a queue whose stream was split from others.
    pub(super) fn resume_raising(&mut self, now: Instant, q: u32, saved: &Raising) {
        let raising = &mut self.queues[q as usize].raising;
        let before = raising.coefficient;
        raising.resume(now, saved, &self.peak);
        raising.in_mid_turn = true;
        self.apply_raising(q, before);
    }

    /// Updates the counts and the weight after the coefficient may have changed.
    fn apply_raising(&mut self, q: u32, before: u32) {
        let e = self.entity_of(q);
        let queue = &mut self.queues[q as usize];
        let coefficient = queue.raising.coefficient;
        if coefficient != before {
            self.symmetry.update_raised(queue, before > 1);
            self.engine.raise(e, queue.weight(), coefficient);
        }
    }
}

impl BfqQueue {
    /// Returns the queue's weight among those of its group, with raising.
    pub(super) fn weight(&self) -> u32 {
        super::queue::weight(self.level) * self.raising.coefficient
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERACTIVE_ONE: RaisingReasons = RaisingReasons {
        interactive: true,
        soft_realtime: false,
        may_begin: true,
    };
    const SOFT_ONE: RaisingReasons = RaisingReasons {
        interactive: false,
        soft_realtime: true,
        may_begin: true,
    };

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    #[test]
    fn an_interactive_period_ends_with_its_time_or_its_service() {
        let drive = Peak::new(false);
        let mut raising = Raising::NEW;
        assert!(raising.update(ms(0), &INTERACTIVE_ONE, &drive));
        assert_eq!((raising.coefficient, raising.turn_factor()), (30, 30));
        // 1.5 times Linux's reference of 2.5 s for flash, because the first estimate of the rate is
        // 2/3 of the reference rate.
        raising.reconsider(ms(3_750), &drive);
        assert_eq!(raising.coefficient, 30);
        raising.reconsider(ms(3_751), &drive);
        assert_eq!(raising.coefficient, 1);
        assert!(raising.update(ms(9_000), &INTERACTIVE_ONE, &drive));
        raising.charged(120_000);
        raising.reconsider(ms(9_001), &drive);
        assert_eq!(raising.coefficient, 30);
        raising.charged(1);
        raising.reconsider(ms(9_001), &drive);
        assert_eq!(raising.coefficient, 1);
    }

    #[test]
    fn a_soft_real_time_period_lasts_while_it_is_renewed_and_falls_back_to_an_interactive_one() {
        let drive = Peak::new(false);
        let mut raising = Raising::NEW;
        raising.update(ms(0), &INTERACTIVE_ONE, &drive);
        assert!(!raising.update(ms(100), &SOFT_ONE, &drive), "goes on");
        assert_eq!((raising.coefficient, raising.turn_factor()), (3_000, 1));
        raising.reconsider(ms(400), &drive);
        raising.update(ms(400), &SOFT_ONE, &drive);
        raising.reconsider(ms(700), &drive);
        assert_eq!(raising.coefficient, 3_000);
        // The soft real-time period was renewed at 400 ms and lasts 300 ms.
        raising.reconsider(ms(701), &drive);
        assert_eq!((raising.coefficient, raising.since), (30, ms(0)));
        raising.reconsider(ms(3_751), &drive);
        assert_eq!(raising.coefficient, 1);
    }

    #[test]
    fn the_next_request_of_a_soft_real_time_queue_comes_no_earlier_than_its_rate_allows() {
        let mut raising = Raising::NEW;
        raising.charged(700);
        raising.on_turn_end(ms(1), true, 0, Span::from_millis(8));
        // 700 sectors at 7,000 sectors per second take 100 ms.
        assert_eq!(raising.earliest, ms(100));
        raising.on_turn_end(ms(90), true, 0, Span::from_millis(8));
        // 90 ms plus the idling of 8 ms plus four ticks of 4 ms.
        assert_eq!(raising.earliest, ms(114));
    }

    #[test]
    fn a_queue_was_quiet_after_a_long_pause_or_before_its_first_request() {
        let (mut raising, length) = (Raising::NEW, Span::from_millis(2_000));
        assert!(raising.was_quiet_for(ms(1), length));
        raising.quiet_since = Some(ms(500));
        for (now, quiet) in [(600, false), (2_500, false), (2_501, true), (9_000, true)] {
            assert_eq!(raising.was_quiet_for(ms(now), length), quiet, "{now}");
        }
    }

    #[test]
    fn a_saved_period_goes_on_unless_it_is_over_or_part_of_a_large_burst() {
        let drive = Peak::new(false);
        let mut saved = Raising::NEW;
        assert!(saved.update(ms(0), &INTERACTIVE_ONE, &drive));
        let coefficient = |now, in_large_burst| {
            let saved = Raising {
                in_large_burst,
                ..saved
            };
            let mut raising = Raising::NEW;
            raising.resume(now, &saved, &drive);
            raising.coefficient
        };
        assert_eq!(coefficient(ms(3_750), false), 30);
        assert_eq!(coefficient(ms(3_751), false), 1);
        assert_eq!(coefficient(ms(1), true), 1);
    }

    #[test]
    fn the_raised_period_excludes_the_wait_for_a_turn() {
        let drive = Peak::new(false);
        let mut raising = Raising::NEW;
        raising.update(ms(1_000), &SOFT_ONE, &drive);
        raising.on_turn_begin(ms(1_200), ms(1_325));
        assert_eq!(raising.since, ms(1_200));
        raising.on_turn_begin(ms(1_400), ms(1_525));
        // The turn ended at 1,325 ms at the latest, so 75 ms of waiting until 1,400 ms do not
        // count.
        assert_eq!(raising.since, ms(1_275));
        raising.reconsider(ms(1_575), &drive);
        assert!(raising.is_raised());
    }
}
