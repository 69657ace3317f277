//! Counts of one volume, and whether its promise was kept.

use weir_core::{Contract, Done, Instant, Op, Outcome};
use weir_measure::{SECOND_NS, Split, Waits};

/// Gaps between two requests up to this long, in nanoseconds, do not end a client's waiting: it sends its next request when it has
/// the answer to the last.
const GAP_NS: u64 = weir_measure::Meter::GAP_NS;

/// Operations, as [`Op`] numbers them.
pub(crate) const OPS: usize = Op::ALL.len();

/// What a volume has served.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) requests: [u64; OPS],
    pub(crate) bytes: [u64; OPS],
    pub(crate) errors: [u64; OPS],
    /// Where the time of its requests went.
    pub(crate) split: Split,
    /// Seconds in which its promise was not kept, and the drive was the limit.
    pub(crate) violations: u64,
    /// Seconds in which it got less than its promise because it did not ask for more.
    pub(crate) limited_by_client: u64,
    /// Requests that were submitted and are not done.
    pub(crate) live: u32,
    second: Second,
    /// Bytes served in the last full second.
    pub(crate) last_bytes: u64,
    last_number: u64,
    logged: u64,
}

/// The second that is under way.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    /// Seconds since the server started.
    number: u64,
    bytes: u64,
    requests: u64,
    /// Sums over the requests done in it, nanoseconds.
    total: u64,
    limit: u64,
    /// How much of it a request was waiting, nanoseconds.
    covered: u64,
    /// When the waiting that goes on began, or when the last ended.
    since: u64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            requests: [0; OPS],
            bytes: [0; OPS],
            errors: [0; OPS],
            // Three histograms of 5 KiB stay in the cache.
            split: Split::with_bits(4),
            violations: 0,
            limited_by_client: 0,
            live: 0,
            second: Second::default(),
            last_bytes: 0,
            last_number: u64::MAX,
            logged: 0,
        }
    }

    /// A request was submitted.
    pub(crate) fn submitted(&mut self, now: Instant, terms: &Terms) {
        let ns = now.as_nanos();
        self.roll(ns, terms, false);
        if self.live == 0 {
            if ns - self.second.since.min(ns) <= GAP_NS {
                // The gap is bridged.
                self.cover(ns);
            }
            self.second.since = ns;
        }
        self.live += 1;
    }

    /// A request is over.
    pub(crate) fn done(&mut self, now: Instant, done: &Done, terms: &Terms) {
        let ns = now.as_nanos();
        let waits = Waits {
            limit_ns: done.waits.limit.as_nanos(),
            elevator_ns: done.waits.elevator.as_nanos(),
            drive_ns: done.waits.drive.as_nanos(),
        };
        let held = waits.limit_ns > waits.elevator_ns + waits.drive_ns;
        self.roll(ns, terms, held);
        self.live = self.live.saturating_sub(1);
        if self.live == 0 {
            self.cover(ns);
        }
        if done.outcome != Outcome::Ok {
            return;
        }
        let op = done.op as usize;
        self.requests[op] += 1;
        self.bytes[op] += u64::from(done.length);
        self.split.record(waits);
        self.second.bytes += u64::from(done.length);
        self.second.requests += 1;
        self.second.total += waits.total_ns();
        self.second.limit += waits.limit_ns;
    }

    /// A request ended before the core took it.
    pub(crate) fn withdrawn(&mut self, now: Instant) {
        self.live = self.live.saturating_sub(1);
        if self.live == 0 {
            self.cover(now.as_nanos());
        }
    }

    /// The storage failed a piece.
    pub(crate) fn failed(&mut self, op: Op) {
        self.errors[op as usize] += 1;
    }

    /// Whether an error is to be logged: the first ten, then one in a thousand.
    pub(crate) fn errors_logged(&mut self) -> bool {
        self.logged += 1;
        self.logged <= 10 || self.logged.is_multiple_of(1000)
    }

    /// Brings the seconds up to date: for a snapshot.
    pub(crate) fn up_to(&mut self, now: Instant, terms: &Terms) {
        self.roll(now.as_nanos(), terms, false);
    }

    /// Bytes in the last full second before `now`.
    pub(crate) fn last_second(&self, now: Instant) -> u64 {
        let previous = (now.as_nanos() / SECOND_NS).wrapping_sub(1);
        if self.last_number == previous {
            self.last_bytes
        } else {
            0
        }
    }

    /// Counts the time since the waiting began, or the gap since it ended, as waiting; within this second.
    fn cover(&mut self, until: u64) {
        let start = self.second.since.max(self.second.number * SECOND_NS);
        self.second.covered += until.saturating_sub(start);
        self.second.since = until;
    }

    /// Ends the seconds that are over. `held`: what has just ended was held back by a limit most of its time.
    #[inline]
    fn roll(&mut self, ns: u64, terms: &Terms, held: bool) {
        if ns >= (self.second.number + 1) * SECOND_NS {
            self.end_seconds(ns, terms, held);
        }
    }

    fn end_seconds(&mut self, ns: u64, terms: &Terms, held: bool) {
        let number = ns / SECOND_NS;
        while self.second.number < number {
            let end = (self.second.number + 1) * SECOND_NS;
            if self.live > 0 {
                self.cover(end);
            }
            self.judge(terms, held);
            (self.last_bytes, self.last_number) = (self.second.bytes, self.second.number);
            let idle = self.live == 0;
            self.second = Second {
                // Seconds without a request have nothing to be judged by.
                number: if idle { number } else { self.second.number + 1 },
                since: self.second.since,
                ..Second::default()
            };
        }
    }

    /// Was the promise kept in the second that ends?
    fn judge(&mut self, terms: &Terms, held: bool) {
        let second = &self.second;
        let asked = second.covered + GAP_NS >= SECOND_NS;
        let got = if terms.min > 0 {
            second.bytes
        } else {
            second.requests
        };
        let promised = terms.min.max(terms.min_iops);
        if promised == 0 || !asked || got * 100 >= promised * 99 {
            return;
        }
        let by_max = if second.requests == 0 {
            held
        } else {
            second.limit > second.total / 2
        };
        if by_max {
            return;
        }
        if second.requests > 0 && second.potential(got, terms.floor) * 100 < promised * 99 {
            self.limited_by_client += 1;
        } else {
            self.violations += 1;
        }
    }
}

impl Second {
    /// What the client would have had if none of its requests had waited for others: each would have taken the drive's shortest
    /// time instead of its own, with as many at a time (Little's law), and the client's own time between them stays.
    fn potential(&self, got: u64, floor: u64) -> u64 {
        let depth = (self.total / SECOND_NS).max(1);
        let saved = self.total.saturating_sub(self.requests * floor) / depth;
        let left = SECOND_NS.saturating_sub(saved).max(SECOND_NS / 1000);
        (u128::from(got) * u128::from(SECOND_NS) / u128::from(left)) as u64
    }
}

/// What a promise is judged by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Bytes a second.
    pub(crate) min: u64,
    /// Requests a second.
    pub(crate) min_iops: u64,
    /// The shortest time any request has taken in this drive, nanoseconds.
    pub(crate) floor: u64,
}

impl Terms {
    pub(crate) fn new(contract: &Contract, floor: u64) -> Self {
        Self {
            min: contract.min,
            min_iops: contract.min_iops,
            floor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::{Span, StreamId};

    const TERMS: Terms = Terms {
        min: 10_000_000,
        min_iops: 0,
        floor: 50_000,
    };

    /// A client with one request of 4 KiB at a time that takes `elevator` and `drive` microseconds, for some seconds.
    fn closed(elevator: u64, drive: u64, limit: u64, seconds: u64) -> Tally {
        let mut tally = Tally::new();
        let mut now = 0;
        while now < (seconds * 1_000_000) {
            let at = |us: u64| Instant::from_nanos(us * 1_000);
            tally.submitted(at(now), &TERMS);
            now += elevator + drive + limit;
            let done = Done {
                stream: StreamId::from_bits(0),
                cookie: 0,
                op: Op::Read,
                length: 4096,
                outcome: Outcome::Ok,
                submitted: at(0),
                waits: weir_core::Waits {
                    limit: Span::from_micros(limit),
                    elevator: Span::from_micros(elevator),
                    drive: Span::from_micros(drive),
                },
            };
            tally.done(at(now), &done, &TERMS);
            now += 10;
        }
        tally.up_to(Instant::from_nanos(now * 1_000), &TERMS);
        tally
    }

    #[test]
    fn a_second_below_the_promise_is_a_violation_unless_the_client_or_its_max_is_the_limit() {
        // 4096 bytes in 360 us: 11 MB/s.
        let kept = closed(200, 150, 0, 5);
        assert_eq!((kept.violations, kept.limited_by_client), (0, 0));
        // 4 MB/s, waiting behind others in the elevator, or in the drive's own queue.
        for (elevator, drive) in [(900, 100), (0, 1000)] {
            let broken = closed(elevator, drive, 0, 5);
            assert!(
                broken.violations >= 4 && broken.limited_by_client == 0,
                "{broken:?}"
            );
        }
        let max = closed(0, 100, 900, 5);
        assert_eq!((max.violations, max.limited_by_client), (0, 0));
    }

    #[test]
    fn a_client_that_asks_for_too_little_is_its_own_limit() {
        // 500 us in an idle drive: 8 MB/s at most.
        let terms = Terms {
            floor: 490_000,
            ..TERMS
        };
        let mut tally = Tally::new();
        tally.second = Second {
            bytes: 8_000_000,
            requests: 2_000,
            total: 990_000_000,
            covered: SECOND_NS,
            ..Second::default()
        };
        tally.judge(&terms, false);
        assert_eq!((tally.violations, tally.limited_by_client), (0, 1));
    }

    #[test]
    fn idle_seconds_are_not_judged_and_hangs_are() {
        let mut tally = Tally::new();
        let at = |s: u64| Instant::from_nanos(s * SECOND_NS + SECOND_NS / 2);
        tally.up_to(at(100), &TERMS);
        assert_eq!(tally.violations, 0);
        tally.submitted(at(100), &TERMS);
        tally.up_to(at(104), &TERMS);
        assert_eq!(tally.violations, 3);
    }
}
