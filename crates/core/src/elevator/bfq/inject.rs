//! Injection: while the drive would idle for the queue in service, requests of other queues are
//! sent (Linux: `bfq_update_inject_limit`).
//!
//! The limit on injected requests is measured for each queue: as many as lengthen the wait of the
//! queue's next request by less than 50 %.

use super::Bfq;
use super::queue::BfqQueue;
use super::seek;
use crate::list::NIL;
use crate::table::Table;
use crate::{Instant, Span};

/// The time after the last decrease at which the limit is determined from scratch.
const RESET: Span = Span::from_millis(1_000);
/// The shortest time between a decrease of the limit and the next measurement.
const SAMPLING: Span = Span::from_millis(10);
/// The shortest time between a decrease and a reset because of a changed think time, unless the
/// think time became long.
const SETTLING: Span = Span::from_millis(100);
/// The number of candidates that are checked, which bounds the work. Linux checks all.
const CANDIDATES: usize = 8;

/// The measured tolerance of a queue to injection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Injection {
    /// The number of requests in the drive up to which others are injected while the drive idles
    /// for this queue (Linux: `inject_limit`).
    limit: u32,
    /// The time from arrival to completion of the queue's first request after a pause, with nothing
    /// else in the drive. Zero means unknown (Linux: `last_serv_time_ns`).
    base: Span,
    /// The time of the last decrease of the limit (Linux: `decrease_time_jif`).
    lowered: Instant,
}

impl Injection {
    pub(super) const NEW: Self = Self {
        limit: 0,
        base: Span::ZERO,
        lowered: Instant::ZERO,
    };

    /// Starts again without a measurement (Linux: `bfq_reset_inject_limit`).
    fn reset(&mut self, now: Instant, is_quick: bool) {
        self.base = Span::ZERO;
        // Idling for a queue with a long think time wastes much time, so one request is injected
        // even before a measurement.
        self.limit = u32::from(!is_quick);
        self.lowered = now;
    }

    /// Adapts the limit to the `time` of a first request. `injected` means that others were sent in
    /// the meantime, and `alone` that nothing else is in the drive.
    fn measured(&mut self, now: Instant, time: Span, injected: bool, alone: bool, most: u32) {
        let before = self.limit;
        if self.base > Span::ZERO && injected {
            // 50 % more than without injection is the tolerance of Linux.
            if time.as_nanos() >= self.base.as_nanos() * 3 / 2 {
                if before > 0 {
                    self.limit -= 1;
                    self.lowered = now;
                }
            // A limit above the largest number that was ever in the drive would change nothing.
            } else if before <= most {
                self.limit += 1;
            }
        }
        // The base is the service time without others. A shorter time than the base proves that the
        // base was too long, even with others in the drive.
        if (self.base == Span::ZERO && alone) || time < self.base {
            if self.base == Span::ZERO {
                self.limit = before.max(1);
            }
            self.base = time;
        // The drive's speed may have changed, so a measurement without others always replaces the
        // base.
        } else if !injected && alone {
            self.base = time;
        }
    }
}

/// The measurement in progress, of which there is one for the whole drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct InjectMeasurement {
    started: Instant,
    /// The measured request, or [`NIL`].
    request: u32,
    /// True if requests of other queues were sent during the measurement.
    injected: bool,
    /// The largest number of requests that were ever in the drive.
    most_in_drive: u32,
}

impl InjectMeasurement {
    pub(super) const NONE: Self = Self {
        started: Instant::ZERO,
        request: NIL,
        injected: false,
        most_in_drive: 0,
    };

    /// Cancels the measurement of a request that is removed undispatched.
    pub(super) fn forget(&mut self, request: u32) {
        if self.is_of(request) {
            self.request = NIL;
        }
    }

    /// Returns true if `request` is the one that is measured.
    #[inline]
    pub(super) fn is_of(&self, request: u32) -> bool {
        self.request == request
    }
}

/// A request to send although its queue is not in service.
#[derive(Clone, Copy, Debug)]
pub(super) struct InjectedRequest {
    pub(super) queue: u32,
    pub(super) request: u32,
    pub(super) charge: u64,
}

impl Bfq {
    /// Prepares injection and its measurement when a queue gets its first waiting request (Linux:
    /// in `bfq_add_request`).
    pub(super) fn first_after_idle(&mut self, now: Instant, q: u32, request: u32) {
        // A queue with a short think time does not wait for another process.
        if !self.queue(q).think.is_short {
            self.check_waker(now, q);
        }
        let in_service = self.turn.queue == q;
        let queue = &mut self.queues[q as usize];
        let injection = &mut queue.injection;
        if injection.lowered + RESET <= now {
            injection.reset(now, queue.think.is_short);
            self.measurement.request = NIL;
        }
        let empty = self.in_drive == 0;
        let worth = empty || (injection.base > Span::ZERO && self.measurement.injected);
        if in_service && worth && injection.lowered + SAMPLING <= now {
            self.measurement.started = now;
            self.measurement.request = request;
            self.measurement.injected &= !empty;
        }
    }

    /// Resets the limit after the think time of a queue became short or long (Linux: in
    /// `bfq_update_has_short_ttime`).
    pub(super) fn short_ttime_changed(&mut self, now: Instant, q: u32) {
        let queue = &mut self.queues[q as usize];
        let (injection, is_quick) = (&mut queue.injection, queue.think.is_short);
        let settled = injection.lowered + SETTLING <= now;
        if injection.base == Span::ZERO && (settled || !is_quick) {
            injection.reset(now, is_quick);
            self.measurement.request = NIL;
        }
    }

    /// Evaluates the measurement when the first piece of its request completes. The piece still
    /// counts as in the drive.
    #[cold]
    pub(super) fn measured_injection(&mut self, now: Instant, q: u32) {
        let InjectMeasurement {
            started, injected, ..
        } = self.measurement;
        let most = self.measurement.most_in_drive;
        let injection = &mut self.queues[q as usize].injection;
        injection.measured(now, now.since(started), injected, self.in_drive == 1, most);
        self.measurement.request = NIL;
        self.measurement.injected = false;
    }

    /// Returns the request to send while the drive idles for `q`, the queue in service (Linux: in
    /// `bfq_select_queue`).
    #[inline]
    pub(super) fn inject(&mut self, q: u32, table: &Table) -> Option<InjectedRequest> {
        if !self.config.injection {
            return None;
        }
        self.measurement.most_in_drive = self.measurement.most_in_drive.max(self.in_drive);
        // In most cases no request can be injected, whatever queues exist. This check is cheap.
        if self.in_drive >= self.queue(q).injection.limit
            && self.symmetry.async_busy() == 0
            && self.wakers.are_none()
        {
            return None;
        }
        self.find_injected(q, table)
    }

    #[inline(never)]
    fn find_injected(&mut self, q: u32, table: &Table) -> Option<InjectedRequest> {
        self.own_async(q, table)
            .or_else(|| self.affordable(self.wakers.of(q)))
            .or_else(|| self.affordable(self.wakers.woken_by(q)))
            .or_else(|| self.others(q))
    }

    /// Returns an asynchronous request of the same stream, if there is one.
    fn own_async(&self, q: u32, table: &Table) -> Option<InjectedRequest> {
        let owner = self.queue(q).sharing.owner;
        if owner == NIL {
            return None;
        }
        let found = self.affordable(self.members.async_queue(owner))?;
        (table.requests[found.request].request.stream.index == owner).then_some(found)
    }

    /// Returns the next request of a queue that has one and enough budget for it.
    fn affordable(&self, q: u32) -> Option<InjectedRequest> {
        if q == NIL || q == self.turn.queue {
            return None;
        }
        let BfqQueue { busy, next, .. } = *self.queue(q);
        if !busy || next == NIL {
            return None;
        }
        let charge = self.charge(q, next);
        let left = self.engine.entity(self.entity_of(q)).budget_left();
        (charge <= left).then_some(InjectedRequest {
            queue: q,
            request: next,
            charge,
        })
    }

    /// Returns a request of another queue, as far as the limit of the queue in service allows it
    /// (Linux: `bfq_choose_bfqq_for_injection`).
    fn others(&mut self, q: u32) -> Option<InjectedRequest> {
        let queue = self.queue(q);
        // A raised queue with a short think time is delayed only for another raised queue.
        let free = !queue.raising.is_raised() || !queue.think.is_short;
        // Linux means to allow one request as well if it has no measurement and has idled for
        // `slice_idle`. But it adds nanoseconds to a time in ticks, so that this never happens.
        let limit = queue.injection.limit;
        if (!free && self.symmetry.raised_busy() <= 1) || self.idling_boosts_throughput(q) {
            return None;
        }
        if self.in_drive >= limit {
            return None;
        }
        let mut at = self.engine.first_waiting();
        for _ in 0..CANDIDATES {
            let e = at?;
            let candidate = e - self.groups;
            let eligible = free || self.queue(candidate).raising.is_raised();
            if let Some(found) = self.affordable(candidate).filter(|_| eligible) {
                // On flash, at most one large request is injected, because the drive would prefer
                // it to small requests of the queue in service.
                let large = seek::is_large(found.charge);
                if self.rotational || !large || self.in_drive == 0 {
                    self.measurement.injected = true;
                    return Some(found);
                }
            }
            at = self.engine.next_waiting(e);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Span {
        Span::from_millis(n)
    }

    const NOW: Instant = Instant::from_nanos(5);

    #[test]
    fn the_limit_follows_the_cost_of_injection() {
        let mut queue = Injection::NEW;
        queue.measured(NOW, ms(2), false, false, 4);
        assert_eq!((queue.limit, queue.base), (0, ms(0)), "others were inside");
        queue.measured(NOW, ms(2), false, true, 4);
        assert_eq!((queue.limit, queue.base), (1, ms(2)));
        for limit in 2..=5 {
            // 2,999 us are just less than 1.5 times the base of 2 ms, so the limit grows to one
            // above the most in the drive.
            queue.measured(NOW, Span::from_micros(2_999), true, false, 4);
            assert_eq!(queue.limit, limit);
        }
        queue.measured(NOW, ms(2), true, false, 4);
        assert_eq!(queue.limit, 5, "no more than the drive ever had");
        // 3 ms are exactly 1.5 times the base, which is too much.
        queue.measured(NOW, ms(3), true, false, 4);
        assert_eq!((queue.limit, queue.lowered), (4, NOW));
        queue.measured(NOW, ms(1), true, false, 4);
        assert_eq!((queue.limit, queue.base), (5, ms(1)), "a better base");
        queue.measured(NOW, ms(9), false, true, 4);
        assert_eq!((queue.limit, queue.base), (5, ms(9)), "a base of today");
    }

    #[test]
    fn a_reset_begins_with_one_for_a_long_think_time() {
        let mut queue = Injection::NEW;
        queue.reset(NOW, false);
        assert_eq!(queue.limit, 1);
        queue.reset(NOW, true);
        assert_eq!((queue.limit, queue.base), (0, Span::ZERO));
    }
}
