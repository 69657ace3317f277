//! Weight raising: a queue that begins after a pause gets a multiple of its weight for a few seconds, and one that asks for little
//! and at regular times gets far more of it for as long as it does so. On by `low_latency`.

use super::Bfq;
use super::peak::Peak;
use super::queue::Queue;
use crate::{Instant, Span};

/// What the weight of a queue that starts something is multiplied with (Linux: `bfq_wr_coeff`).
const INTERACTIVE: u32 = 30;
/// What the weight of a soft real-time queue is multiplied with (Linux: `BFQ_SOFTRT_WEIGHT_FACTOR`).
const SOFT_REALTIME: u32 = 100 * INTERACTIVE;
/// How long the latter lasts, unless it is renewed (Linux: `bfq_wr_rt_max_time`).
const SOFT_REALTIME_LENGTH: Span = Span::from_millis(300);
/// Idle for this time, a queue is taken to start something (Linux: `bfq_wr_min_idle_time`).
const LONG_IDLE: Span = Span::from_secs(2);
/// Without a new request for this time, a busy asynchronous queue is (Linux: `bfq_wr_min_inter_arr_async`).
const LONG_GAP_ASYNC: Span = Span::from_millis(500);
/// Idle for this time, a queue has left the burst it began in (Linux: in `bfq_bfqq_handle_idle_busy_switch`).
const BURST_OVER: Span = Span::from_secs(10);
/// Sectors a second that a soft real-time queue asks for at most (Linux: `bfq_wr_max_softrt_rate`).
const SOFT_REALTIME_RATE: u64 = 7_000;
/// Four ticks of a clock of 250 Hz (Linux: in `bfq_bfqq_softrt_next_start`).
const FOUR_TICKS: Span = Span::from_millis(16);
/// Sectors after which it is no longer taken to start something (Linux: `max_service_from_wr`).
const MOST_SERVICE: u64 = 120_000;
/// Only queues of the default priority are raised (Linux: the weight of 40).
const RAISED_LEVEL: u8 = 4;

/// Why a queue is raised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Interactive,
    SoftRealtime,
}

/// What raising knows of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raising {
    /// What its weight is multiplied with; 1: it is not raised.
    pub(super) coefficient: u32,
    kind: Kind,
    length: Span,
    /// When the period began; of an asynchronous queue that is not raised, its last request or the end of its last turn
    /// (Linux: `last_wr_start_finish`).
    since: Instant,
    /// When the interactive period began that a soft real-time one interrupts (Linux: `wr_start_at_switch_to_srt`).
    interactive_since: Option<Instant>,
    /// Sectors charged in all, and up to the beginning of the period (Linux: `service_from_wr` is the difference).
    charged: u64,
    charged_before: u64,
    /// When it last came to have requests, and what was charged before (Linux: `last_idle_bklogged`,
    /// `service_from_backlogged`).
    backlogged_since: Instant,
    charged_unbacklogged: u64,
    /// A request before that is too early for a soft real-time queue (Linux: `soft_rt_next_start`).
    earliest: Instant,
    /// `earliest` is to be found when its last request comes back (Linux: `softrt_update`).
    earliest_due: bool,
    /// When it ran out of requests, all answered; while it has some, when its last turn is over at the latest. `None`: it never
    /// had any (Linux: `budget_timeout`).
    quiet_since: Option<Instant>,
    /// Has had no request yet (Linux: `just_created`).
    pub(super) is_new: bool,
    /// One of too many queues that started at the same time: none of them is raised (Linux: `in_large_burst`).
    in_large_burst: bool,
    /// The weight is yet to follow the coefficient.
    in_mid_turn: bool,
}

impl Raising {
    pub(super) const NEW: Self = Self {
        coefficient: 1,
        kind: Kind::Interactive,
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

    /// What the time of a turn is multiplied with (Linux: `bfq_set_budget_timeout`).
    pub(super) fn turn_factor(&self) -> u64 {
        match self.kind {
            Kind::Interactive => u64::from(self.coefficient),
            Kind::SoftRealtime => 1,
        }
    }

    /// `sectors` sectors were charged.
    #[inline]
    pub(super) fn charged(&mut self, sectors: u64) {
        self.charged += sectors;
    }

    pub(super) fn is_in_large_burst(&self) -> bool {
        self.in_large_burst
    }

    /// What is kept of it while its stream sends to a shared queue. One that had no request yet would have been raised
    /// (Linux: `bfq_bfqq_save_state`).
    pub(super) fn saved(&self, now: Instant, low_latency: bool, drive: &Peak) -> Self {
        let mut saved = *self;
        if self.is_new && !self.in_large_burst && low_latency {
            saved.begin(Kind::Interactive, INTERACTIVE, drive.raising_time());
            saved.interactive_since = None;
            saved.since = now;
        }
        saved
    }

    /// It is of a queue whose stream just parted from others.
    pub(super) fn after_split(&mut self, now: Instant, in_large_burst: bool) {
        self.is_new = false;
        self.earliest = now;
        self.in_large_burst = in_large_burst;
    }

    /// Its period goes on as it was saved, unless it is over by now (Linux: `bfq_bfqq_resume_state`).
    fn resume(&mut self, now: Instant, saved: &Self, drive: &Peak) {
        self.in_large_burst |= saved.in_large_burst;
        self.begin(saved.kind, saved.coefficient, saved.length);
        self.since = saved.since;
        self.interactive_since = saved.interactive_since;
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

    /// When the interactive period began that goes on after the soft real-time one.
    fn interrupted(&self, now: Instant, drive: &Peak) -> Option<Instant> {
        (self.interactive_since)
            .filter(|_| self.kind == Kind::SoftRealtime)
            .filter(|&since| since + drive.raising_time() >= now)
    }

    /// Linux: `switch_back_to_interactive_wr`.
    fn fall_back(&mut self, since: Instant, drive: &Peak) {
        self.begin(Kind::Interactive, INTERACTIVE, drive.raising_time());
        self.since = since;
    }

    /// It has no requests any more, and all are answered.
    pub(super) fn quiet(&mut self, now: Instant) {
        self.quiet_since = Some(now);
    }

    /// Its turn begins, to last until then. The time for which a soft real-time queue was not served does not count
    /// (Linux: `__bfq_set_in_service_queue`).
    pub(super) fn turn_begins(&mut self, now: Instant, until: Instant) {
        let quiet_since = self.quiet_since.replace(until).unwrap_or(Instant::ZERO);
        if self.is_raised() && self.kind == Kind::SoftRealtime && quiet_since < now {
            self.since = if quiet_since > self.since {
                self.since + now.since(quiet_since)
            } else {
                now
            };
        }
    }

    /// Its turn is over; `empty` if it has no requests waiting, with `dispatched` in the drive (Linux: in `bfq_bfqq_expire`).
    pub(super) fn turn_ends(
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
        } else if empty {
            self.earliest_due = true;
        }
    }

    /// Nothing of it is waiting or in the drive (Linux: in `bfq_completed_request`).
    pub(super) fn drained(&mut self, now: Instant, slice_idle: Span) {
        if self.earliest_due && self.coefficient != INTERACTIVE {
            self.find_earliest(now, slice_idle);
        }
    }

    /// Linux: `bfq_bfqq_softrt_next_start`.
    fn find_earliest(&mut self, now: Instant, slice_idle: Span) {
        let served = self.charged - self.charged_unbacklogged;
        let ns = served.saturating_mul(1_000_000_000) / SOFT_REALTIME_RATE;
        let by_rate = self.backlogged_since + Span::from_nanos(ns);
        self.earliest = (self.earliest)
            .max(by_rate)
            .max(now + slice_idle + FOUR_TICKS);
    }

    /// Sectors served while raised.
    fn served(&self) -> u64 {
        self.charged - self.charged_before
    }

    /// Linux: `bfq_bfqq_idle_for_long_time`.
    fn was_quiet_for(&self, now: Instant, length: Span) -> bool {
        self.quiet_since.is_none_or(|since| since + length < now)
    }

    /// A period begins or goes on (Linux: `bfq_update_bfqq_wr_on_rq_arrival`). Returns
    /// true if one began.
    fn update(&mut self, now: Instant, reasons: &Reasons, drive: &Peak) -> bool {
        let was_raised = self.is_raised();
        if reasons.interactive && (was_raised || reasons.may_begin) {
            if !was_raised {
                self.charged_before = self.charged;
            }
            self.begin(Kind::Interactive, INTERACTIVE, drive.raising_time());
        } else if !was_raised && reasons.soft_realtime && reasons.may_begin {
            self.interactive_since = None;
            self.begin(Kind::SoftRealtime, SOFT_REALTIME, SOFT_REALTIME_LENGTH);
        } else if was_raised && self.in_large_burst {
            self.coefficient = 1;
        } else if was_raised && reasons.soft_realtime {
            if self.kind == Kind::Interactive {
                self.interactive_since = Some(self.since);
                self.begin(Kind::SoftRealtime, SOFT_REALTIME, SOFT_REALTIME_LENGTH);
            }
            self.since = now;
        }
        if !was_raised || !self.is_raised() || reasons.interactive {
            self.since = now;
        }
        !was_raised && self.is_raised()
    }

    fn begin(&mut self, kind: Kind, coefficient: u32, length: Span) {
        self.kind = kind;
        self.coefficient = coefficient;
        self.length = length;
    }

    /// The period may be over, or has begun in mid-turn and counts for nothing yet.
    #[inline]
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.since + self.length < now
            || self.served() > MOST_SERVICE
            || self.in_large_burst
            || self.in_mid_turn
    }

    /// Whether the period goes on, and as what, now that a piece was sent (Linux: `bfq_update_wr_data`).
    fn reconsider(&mut self, now: Instant, drive: &Peak) {
        if self.in_large_burst {
            self.end(now);
        } else if self.since + self.length < now {
            match self.interrupted(now, drive) {
                Some(since) => self.fall_back(since, drive),
                None => self.end(now),
            }
        }
        if self.is_raised() && self.kind == Kind::Interactive && self.served() > MOST_SERVICE {
            self.end(now);
        }
    }

    fn end(&mut self, now: Instant) {
        self.coefficient = 1;
        self.since = now;
    }
}

/// Why a queue that gets requests again may be raised.
#[derive(Debug)]
struct Reasons {
    interactive: bool,
    soft_realtime: bool,
    may_begin: bool,
}

impl Bfq {
    /// A queue gets its first request: one of a burst?
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

    /// A queue that had no requests has one. True if it is raised and therefore wants the drive at once
    /// (Linux: in `bfq_bfqq_handle_idle_busy_switch`).
    pub(super) fn raise_on_activation(&mut self, now: Instant, q: u32) -> bool {
        let is_kept = self.is_kept_from_raising(self.queue(q));
        let queue = &mut self.queues[q as usize];
        let before = queue.raising.coefficient;
        let is_quiet = queue.dispatched == 0;
        let long_idle = is_quiet && queue.raising.was_quiet_for(now, LONG_IDLE);
        let eligible = !queue.raising.in_large_burst && queue.level == RAISED_LEVEL;
        let reasons = Reasons {
            interactive: eligible && long_idle,
            soft_realtime: eligible
                && is_quiet
                && !queue.history.is_all_seeky()
                && queue.raising.earliest < now,
            may_begin: queue.sync && !is_kept,
        };
        let is_just_split = queue.sharing.is_just_split(now);
        let raising = &mut queue.raising;
        if !raising.is_new && long_idle && raising.was_quiet_for(now, BURST_OVER) {
            self.burst.forget(q);
            raising.in_large_burst = false;
        }
        raising.is_new = false;
        let begins = !is_just_split && raising.update(now, &reasons, &self.peak);
        let wants = before > 1 || begins;
        raising.backlogged_since = now;
        raising.charged_unbacklogged = raising.charged;
        raising.earliest_due = false;
        if begins {
            let entity = self.engine.entity_mut(self.groups + q);
            entity.budget = entity.budget.min(self.budgets.raised());
        }
        self.raised(q, before);
        wants
    }

    /// A request came for a busy asynchronous queue (Linux: in `bfq_add_request`).
    pub(super) fn raise_async(&mut self, now: Instant, q: u32) {
        let raising = &mut self.queues[q as usize].raising;
        if !raising.is_raised() && raising.since + LONG_GAP_ASYNC < now {
            raising.begin(Kind::Interactive, INTERACTIVE, self.peak.raising_time());
            raising.in_mid_turn = true;
            raising.since = now;
            self.raised(q, 1);
        } else if !raising.is_raised() {
            raising.since = now;
        }
    }

    /// A piece of the queue in service, which is raised, was sent. Its weight changes at once.
    #[cold]
    pub(super) fn reconsider_raising(&mut self, now: Instant, q: u32) {
        let raising = &mut self.queues[q as usize].raising;
        let before = raising.coefficient;
        raising.reconsider(now, &self.peak);
        raising.in_mid_turn = false;
        self.raised(q, before);
        self.engine.reweigh(self.entity_of(q));
    }

    /// A queue is raised as another was that merges with it (Linux: in `bfq_merge_bfqqs`).
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
        raising.charged_before = raising.charged;
        raising.in_mid_turn = true;
        self.raised(q, 1);
        self.lower(from);
    }

    /// A queue is raised no longer, having given that to another.
    fn lower(&mut self, q: u32) {
        let raising = &mut self.queues[q as usize].raising;
        let before = core::mem::replace(&mut raising.coefficient, 1);
        self.raised(q, before);
    }

    /// A queue whose stream parted from others is raised as that was before.
    pub(super) fn resume_raising(&mut self, now: Instant, q: u32, saved: &Raising) {
        let raising = &mut self.queues[q as usize].raising;
        let before = raising.coefficient;
        raising.resume(now, saved, &self.peak);
        raising.in_mid_turn = true;
        self.raised(q, before);
    }

    /// The coefficient of a queue may have changed.
    fn raised(&mut self, q: u32, before: u32) {
        let e = self.entity_of(q);
        let queue = &mut self.queues[q as usize];
        let coefficient = queue.raising.coefficient;
        if coefficient != before {
            self.symmetry.raised(queue, before > 1);
            self.engine.raise(e, queue.weight(), coefficient);
        }
    }
}

impl Queue {
    /// Its weight among the queues of its group.
    pub(super) fn weight(&self) -> u32 {
        super::queue::weight(self.level) * self.raising.coefficient
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERACTIVE_ONE: Reasons = Reasons {
        interactive: true,
        soft_realtime: false,
        may_begin: true,
    };
    const SOFT_ONE: Reasons = Reasons {
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
        raising.reconsider(ms(701), &drive);
        assert_eq!((raising.coefficient, raising.since), (30, ms(0)));
        raising.reconsider(ms(3_751), &drive);
        assert_eq!(raising.coefficient, 1);
    }

    #[test]
    fn the_next_request_of_a_soft_real_time_queue_comes_no_earlier_than_its_rate_allows() {
        let mut raising = Raising::NEW;
        raising.charged(700);
        raising.turn_ends(ms(1), true, 0, Span::from_millis(8));
        assert_eq!(raising.earliest, ms(100));
        raising.turn_ends(ms(90), true, 0, Span::from_millis(8));
        assert_eq!(raising.earliest, ms(114));
    }

    #[test]
    fn it_was_quiet_for_long_if_more_than_that_has_passed_or_it_never_was_busy() {
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
    fn the_time_it_waits_for_its_turn_does_not_count() {
        let drive = Peak::new(false);
        let mut raising = Raising::NEW;
        raising.update(ms(1_000), &SOFT_ONE, &drive);
        raising.turn_begins(ms(1_200), ms(1_325));
        assert_eq!(raising.since, ms(1_200));
        raising.turn_begins(ms(1_400), ms(1_525));
        assert_eq!(raising.since, ms(1_275));
        raising.reconsider(ms(1_575), &drive);
        assert!(raising.is_raised());
    }
}
