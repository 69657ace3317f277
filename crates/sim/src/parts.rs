//! Where the time of a request went, in parts.

use weir_core::{Instant, Span, Waits};
use weir_measure::Within;

/// Where the time of a request went: the layer's waits, and what lies within them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) waits: Waits,
    /// Of the time in the elevator: the elevator kept the drive for somebody's next request.
    pub(crate) idle: Span,
    /// Of the time in the drive: the drive had not begun to work on it.
    pub(crate) queue: Span,
}

impl Parts {
    /// The last part, `length` long, of waits one after the other. Idling comes last in the elevator.
    pub(crate) fn last(self, length: Span) -> Self {
        let waits = self.waits;
        let total = waits.limit + waits.elevator + waits.drive;
        let mut before = total.saturating_sub(length);
        let mut cut = |wait: Span| {
            let part = wait.min(before);
            before = before.saturating_sub(part);
            wait.saturating_sub(part)
        };
        let left = Waits {
            limit: cut(waits.limit),
            elevator: cut(waits.elevator),
            drive: cut(waits.drive),
        };
        Self {
            waits: left,
            idle: self.idle.min(left.elevator),
            queue: self
                .queue
                .saturating_sub(waits.drive.saturating_sub(left.drive)),
        }
    }

    /// Adds what came after.
    pub(crate) fn add(&mut self, more: Self) {
        self.waits.limit += more.waits.limit;
        self.waits.elevator += more.waits.elevator;
        self.waits.drive += more.waits.drive;
        self.idle += more.idle;
        self.queue += more.queue;
    }

    /// As meters take them.
    pub(crate) fn measured(&self) -> (weir_measure::Waits, Within) {
        let waits = weir_measure::Waits {
            limit_ns: self.waits.limit.as_nanos(),
            elevator_ns: self.waits.elevator.as_nanos(),
            drive_ns: self.waits.drive.as_nanos(),
        };
        let within = Within {
            idle_ns: self.idle.as_nanos(),
            queue_ns: self.queue.as_nanos(),
        };
        (waits, within)
    }
}

/// How long the elevator has kept the drive for somebody's next request, in all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idling {
    total: Span,
    since: Option<Instant>,
}

impl Idling {
    /// Whether it does so from `now` on.
    #[inline]
    pub(crate) fn set(&mut self, now: Instant, idles: bool) {
        match (self.since, idles) {
            (None, true) => self.since = Some(now),
            (Some(since), false) => {
                self.total += now.since(since);
                self.since = None;
            }
            _ => {}
        }
    }

    /// The sum up to `now`.
    #[inline]
    pub(crate) fn until(&self, now: Instant) -> Span {
        self.total + self.since.map_or(Span::ZERO, |since| now.since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(n: u64) -> Span {
        Span::from_nanos(n)
    }

    #[test]
    fn waits_before_the_process_waited_are_cut_off() {
        let parts = |limit, elevator, drive, idle, queue| Parts {
            waits: Waits {
                limit: ns(limit),
                elevator: ns(elevator),
                drive: ns(drive),
            },
            idle: ns(idle),
            queue: ns(queue),
        };
        let last = |length| parts(10, 20, 30, 16, 20).last(ns(length));
        assert_eq!(last(100), parts(10, 20, 30, 16, 20));
        assert_eq!(last(55), parts(5, 20, 30, 16, 20));
        assert_eq!(last(45), parts(0, 15, 30, 15, 20));
        assert_eq!(last(27), parts(0, 0, 27, 0, 17));
        assert_eq!(last(7), parts(0, 0, 7, 0, 0));
    }

    #[test]
    fn idling_adds_up() {
        let at = Instant::from_nanos;
        let mut idling = Idling::default();
        for (now, idles) in [(10, true), (20, true), (30, false), (40, false), (50, true)] {
            idling.set(at(now), idles);
        }
        assert_eq!([45, 60].map(|now| idling.until(at(now))), [ns(20), ns(30)]);
    }
}
