//! Injection: while the drive would idle for the queue in service, requests of others are sent, as many as lengthen the wait of
//! that queue's next request by less than half. How many that is, is measured (Linux: `bfq_update_inject_limit`).

use super::Bfq;
use super::queue::Queue;
use super::seek;
use crate::list::NIL;
use crate::table::Table;
use crate::{Instant, Span};

/// The limit is found anew this long after it was last lowered.
const RESET: Span = Span::from_millis(1_000);
/// It is measured no earlier than this after it was last lowered.
const SAMPLING: Span = Span::from_millis(10);
/// Nor does it follow a change of a queue's think time earlier, unless that became long.
const SETTLING: Span = Span::from_millis(100);
/// Candidates looked at. Linux looks at all.
const CANDIDATES: usize = 8;

/// What injection knows of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Injection {
    /// Requests in the drive up to which others are injected while the drive idles for it (Linux: `inject_limit`).
    limit: u32,
    /// From the arrival to the completion of its first request after a pause when nothing else is in the drive; zero: unknown
    /// (Linux: `last_serv_time_ns`).
    base: Span,
    /// When the limit was last lowered (Linux: `decrease_time_jif`).
    lowered: Instant,
}

impl Injection {
    pub(super) const NEW: Self = Self {
        limit: 0,
        base: Span::ZERO,
        lowered: Instant::ZERO,
    };

    /// Linux: `bfq_reset_inject_limit`.
    fn reset(&mut self, now: Instant, is_quick: bool) {
        self.base = Span::ZERO;
        self.limit = u32::from(!is_quick);
        self.lowered = now;
    }

    /// A first request took `time`; `injected` if others were sent meanwhile, `alone` if nothing else is in the drive.
    fn measured(&mut self, now: Instant, time: Span, injected: bool, alone: bool, most: u32) {
        let before = self.limit;
        if self.base > Span::ZERO && injected {
            if time.as_nanos() >= self.base.as_nanos() * 3 / 2 {
                if before > 0 {
                    self.limit -= 1;
                    self.lowered = now;
                }
            } else if before <= most {
                self.limit += 1;
            }
        }
        if (self.base == Span::ZERO && alone) || time < self.base {
            if self.base == Span::ZERO {
                self.limit = before.max(1);
            }
            self.base = time;
        } else if !injected && alone {
            self.base = time;
        }
    }
}

/// The measurement under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measurement {
    started: Instant,
    /// The request, or [`NIL`].
    request: u32,
    /// Others were sent meanwhile.
    injected: bool,
    /// The most that were ever in the drive.
    most_in_drive: u32,
}

impl Measurement {
    pub(super) const NONE: Self = Self {
        started: Instant::ZERO,
        request: NIL,
        injected: false,
        most_in_drive: 0,
    };

    /// A request is taken out undispatched.
    pub(super) fn forget(&mut self, request: u32) {
        if self.is_of(request) {
            self.request = NIL;
        }
    }

    /// True if this is the request that is measured.
    #[inline]
    pub(super) fn is_of(&self, request: u32) -> bool {
        self.request == request
    }
}

/// A request that is sent although its queue is not in service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Injected {
    pub(super) queue: u32,
    pub(super) request: u32,
    pub(super) charge: u64,
}

impl Bfq {
    /// A queue that had nothing waiting has a request (Linux: in `bfq_add_request`).
    pub(super) fn first_after_idle(&mut self, now: Instant, q: u32, request: u32) {
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

    /// The queue is now quick, or slow, to come with its next request (Linux: in `bfq_update_has_short_ttime`).
    pub(super) fn short_ttime_changed(&mut self, now: Instant, q: u32) {
        let queue = &mut self.queues[q as usize];
        let (injection, is_quick) = (&mut queue.injection, queue.think.is_short);
        let settled = injection.lowered + SETTLING <= now;
        if injection.base == Span::ZERO && (settled || !is_quick) {
            injection.reset(now, is_quick);
            self.measurement.request = NIL;
        }
    }

    /// The first piece of the request that is measured came back; it still counts as in the drive.
    #[cold]
    pub(super) fn measured_injection(&mut self, now: Instant, q: u32) {
        let Measurement {
            started, injected, ..
        } = self.measurement;
        let most = self.measurement.most_in_drive;
        let injection = &mut self.queues[q as usize].injection;
        injection.measured(now, now.since(started), injected, self.in_drive == 1, most);
        self.measurement.request = NIL;
        self.measurement.injected = false;
    }

    /// What to send while the drive idles for `q`, the queue in service (Linux: in `bfq_select_queue`).
    #[inline]
    pub(super) fn inject(&mut self, now: Instant, q: u32, table: &Table) -> Option<Injected> {
        if !self.config.injection {
            return None;
        }
        self.measurement.most_in_drive = self.measurement.most_in_drive.max(self.in_drive);
        // Most of the time no queue can be injected, whatever queues there are.
        if self.in_drive >= self.queue(q).injection.limit.max(1)
            && self.symmetry.async_busy() == 0
            && self.wakers.are_none()
        {
            return None;
        }
        self.find_injected(now, q, table)
    }

    #[inline(never)]
    fn find_injected(&mut self, now: Instant, q: u32, table: &Table) -> Option<Injected> {
        self.own_async(q, table)
            .or_else(|| self.affordable(self.wakers.of(q)))
            .or_else(|| self.affordable(self.wakers.woken_by(q)))
            .or_else(|| self.others(now, q))
    }

    /// Asynchronous requests of the same stream.
    fn own_async(&self, q: u32, table: &Table) -> Option<Injected> {
        let owner = self.queue(q).sharing.owner;
        if owner == NIL {
            return None;
        }
        let found = self.affordable(self.members.async_queue(owner))?;
        (table.requests[found.request].request.stream.index == owner).then_some(found)
    }

    /// The next request of a queue that has one and enough budget for it.
    fn affordable(&self, q: u32) -> Option<Injected> {
        if q == NIL || q == self.turn.queue {
            return None;
        }
        let Queue { busy, next, .. } = *self.queue(q);
        if !busy || next == NIL {
            return None;
        }
        let charge = self.charge(q, next);
        let left = self.engine.entity(self.entity_of(q)).budget_left();
        (charge <= left).then_some(Injected {
            queue: q,
            request: next,
            charge,
        })
    }

    /// When one request may be injected although nothing could be measured yet, because the drive has then idled for long; never if
    /// that is so already.
    pub(super) fn injection_begins(&self, now: Instant, q: u32) -> Instant {
        let Injection { limit, base, .. } = self.queue(q).injection;
        let begins = self.turn.idle_since() + self.config.slice_idle;
        if self.config.injection && limit == 0 && base == Span::ZERO && now < begins {
            begins
        } else {
            Instant::MAX
        }
    }

    /// Whatever the limit of the queue in service allows (Linux: `bfq_choose_bfqq_for_injection`).
    fn others(&mut self, now: Instant, q: u32) -> Option<Injected> {
        let queue = self.queue(q);
        let free = !queue.raising.is_raised() || !queue.think.is_short;
        let Injection {
            mut limit, base, ..
        } = queue.injection;
        if (!free && self.symmetry.raised_busy() <= 1) || self.idling_boosts_throughput(q) {
            return None;
        }
        // Nothing could be measured yet and much of the drive's time is lost meanwhile.
        let wasted =
            self.turn.idle_until.is_some() && self.injection_begins(now, q) == Instant::MAX;
        if limit == 0 && base == Span::ZERO && wasted {
            limit = 1;
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
                // On flash no more than one large request: the drive would prefer it to the small ones of the queue in service.
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
    fn the_limit_follows_what_injection_costs() {
        let mut queue = Injection::NEW;
        queue.measured(NOW, ms(2), false, false, 4);
        assert_eq!((queue.limit, queue.base), (0, ms(0)), "others were inside");
        queue.measured(NOW, ms(2), false, true, 4);
        assert_eq!((queue.limit, queue.base), (1, ms(2)));
        for limit in 2..=5 {
            queue.measured(NOW, Span::from_micros(2_999), true, false, 4);
            assert_eq!(queue.limit, limit);
        }
        queue.measured(NOW, ms(2), true, false, 4);
        assert_eq!(queue.limit, 5, "no more than the drive ever had");
        queue.measured(NOW, ms(3), true, false, 4);
        assert_eq!((queue.limit, queue.lowered), (4, NOW));
        queue.measured(NOW, ms(1), true, false, 4);
        assert_eq!((queue.limit, queue.base), (5, ms(1)), "a better base");
        queue.measured(NOW, ms(9), false, true, 4);
        assert_eq!((queue.limit, queue.base), (5, ms(9)), "a base of today");
    }

    #[test]
    fn it_starts_anew_with_one_for_a_queue_that_thinks_long() {
        let mut queue = Injection::NEW;
        queue.reset(NOW, false);
        assert_eq!(queue.limit, 1);
        queue.reset(NOW, true);
        assert_eq!((queue.limit, queue.base), (0, Span::ZERO));
    }
}
