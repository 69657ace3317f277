//! Request patterns of clients: think time, outstanding requests, and the latency with and without
//! contention.

use super::average;
use crate::elevator::contract::constants::{PAUSE_MAX, SOON, SOON_THINKS};
use crate::elevator::contract::unit::Cost;
use crate::table::Live;
use crate::{Instant, Span};

/// The request pattern of a stream or a group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    /// Number of requests that are queued in the scheduler or in flight.
    outstanding: u32,
    /// The time at which the last request ended.
    quiet: Instant,
    /// The average think time: from a completion that left no request outstanding to the next
    /// request.
    think: Span,
}

impl Arrivals {
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Accounts for a request that arrives. Returns the length of the pause if no request was
    /// outstanding. A pause longer than `longest` does not count as think time.
    #[inline]
    pub(crate) fn observe_request(&mut self, now: Instant, longest: Span) -> Option<Span> {
        let pause = (self.outstanding == 0).then(|| now.since(self.quiet));
        if let Some(pause) = pause.filter(|&pause| pause <= longest) {
            self.think = Span::from_nanos(average(self.think.as_nanos(), pause.as_nanos()));
        }
        self.outstanding += 1;
        pause
    }

    /// Accounts for a request that ended.
    #[inline]
    pub(crate) fn observe_answer(&mut self, now: Instant) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.quiet = now;
    }

    /// Ends the current pause at `now`, so that the time until now does not count as think time.
    pub(crate) fn observe_quiet(&mut self, now: Instant) {
        self.quiet = now;
    }

    /// Sets the number of outstanding requests to zero, before they are counted again.
    pub(crate) fn forget_outstanding(&mut self) {
        self.outstanding = 0;
    }

    /// Adds one outstanding request.
    pub(crate) fn count(&mut self) {
        self.outstanding += 1;
    }

    /// Returns the average think time.
    pub(crate) fn think(&self) -> Span {
        self.think
    }

    /// Returns the longest time within which the next request is expected after a completion.
    pub(crate) fn pause(&self) -> Span {
        self.think.saturating_mul(SOON_THINKS) + SOON
    }

    /// Returns the time by which the next request is expected, if the client sends one.
    pub(crate) fn expected(&self) -> Instant {
        self.quiet + self.pause()
    }

    /// Creates a pattern with a known think time.
    #[cfg(test)]
    pub(crate) fn thinking(think_ns: u64, outstanding: u32) -> Self {
        Self {
            outstanding,
            think: Span::from_nanos(think_ns),
            ..Self::default()
        }
    }
}

/// The latency of a group's requests, with and without work of other groups in the drive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Presence {
    pub(crate) arrivals: Arrivals,
    /// Modelled cost of the group's pieces in flight.
    flight: Cost,
    /// The average latency, from the arrival of a request, in nanoseconds.
    usual_ns: u64,
    /// The average service time of requests that had the drive to themselves, in nanoseconds.
    /// Before the first such request (`is_solo`), it approaches the shortest service time of all
    /// requests. Zero: unknown.
    solo_ns: u64,
    is_solo: bool,
}

impl Presence {
    /// Returns the cost of the group's pieces in flight.
    #[cfg(debug_assertions)]
    pub(crate) fn flight(&self) -> Cost {
        self.flight
    }

    /// Accounts for a request that arrives. Returns true if the group had requests outstanding
    /// until a moment ago.
    #[inline]
    pub(crate) fn observe_request(&mut self, now: Instant) -> bool {
        let resumes = self.kept_until().is_none_or(|until| now <= until);
        self.arrivals.observe_request(now, PAUSE_MAX);
        resumes
    }

    /// Accounts for a piece of `cost` that is dispatched while the drive has `flight` in flight.
    /// Returns the part of `flight` that belongs to other groups.
    #[inline]
    pub(crate) fn observe_dispatch(&mut self, cost: Cost, flight: Cost) -> Cost {
        let others = flight.saturating_sub(self.flight);
        self.flight += cost;
        others
    }

    /// Accounts for a piece that completed.
    #[inline]
    pub(crate) fn observe_completion(&mut self, cost: Cost) {
        self.flight = self.flight.saturating_sub(cost);
    }

    /// Accounts for a request that completed. `alone` is true if no other group had work in the
    /// drive at any time since its dispatch.
    #[inline]
    pub(crate) fn observe_answer(&mut self, now: Instant, live: &Live, alone: bool) {
        self.note_answer(
            now,
            now.since(live.cleared),
            now.since(live.dispatched),
            alone,
        );
    }

    /// Accounts for a request with the latency `waited` and the service time `served`.
    #[inline]
    fn note_answer(&mut self, now: Instant, waited: Span, served: Span, alone: bool) {
        self.arrivals.observe_answer(now);
        self.usual_ns = average(self.usual_ns, waited.as_nanos());
        let sample = served.as_nanos();
        // The first sample without other work replaces the estimate, because that was only a
        // minimum.
        if self.solo_ns == 0 || alone && !self.is_solo {
            (self.solo_ns, self.is_solo) = (sample, alone);
        } else if alone {
            self.solo_ns = average(self.solo_ns, sample);
        } else if !self.is_solo {
            // Only shorter samples count, so the estimate approaches the shortest one.
            self.solo_ns -= self.solo_ns.saturating_sub(sample) / 2;
        }
    }

    /// Returns how much more the client would get without contention, in percent. It is
    /// `u32::MAX` if that is not known.
    pub(crate) fn gain(&self) -> u32 {
        if self.solo_ns == 0 {
            return u32::MAX;
        }
        let alone = self.arrivals.think.as_nanos() + self.solo_ns;
        let delay = self.usual_ns.saturating_sub(self.solo_ns);
        u32::try_from(delay.saturating_mul(100) / alone).unwrap_or(u32::MAX)
    }

    /// Returns true if the group keeps its place although it has no queued request.
    pub(crate) fn keeps_place(&self) -> bool {
        self.arrivals.outstanding > 0
    }

    /// Returns the time until which the group keeps its place. `None` if it still has a request in
    /// the drive, because then there is no limit.
    pub(crate) fn kept_until(&self) -> Option<Instant> {
        if self.arrivals.outstanding > 0 {
            return None;
        }
        // A wait for the client must not take longer than the request that is waited for.
        let soon = self.arrivals.think.as_nanos() <= self.solo_ns;
        Some(if soon {
            self.arrivals.expected()
        } else {
            self.arrivals.quiet
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a client with a queue depth of 1 whose requests each take `time`.
    fn asking(time: Span, alone: bool) -> Presence {
        let (mut presence, mut now) = (Presence::default(), Instant::ZERO);
        for _ in 0..100 {
            presence.observe_request(now);
            now += time;
            presence.note_answer(now, time, time, alone);
        }
        presence
    }

    #[test]
    fn the_gain_is_the_latency_that_contention_adds() {
        let later = |client: &mut Presence, micros: u64| {
            let now = Instant::ZERO + Span::from_millis(200);
            for _ in 0..200 {
                client.observe_request(now);
                let waited = Span::from_micros(micros);
                client.note_answer(now, waited, waited, false);
            }
        };
        assert_eq!(Presence::default().gain(), u32::MAX, "nothing is known");
        let mut client = asking(Span::from_millis(1), true);
        assert_eq!(client.gain(), 0);
        later(&mut client, 1_245);
        assert_eq!(client.gain(), 24);
        let mut crowded = asking(Span::from_millis(1), false);
        assert_eq!(crowded.gain(), 0, "it is never served sooner");
        later(&mut crowded, 1_245);
        assert_eq!(crowded.gain(), 24, "it has been served sooner");
    }

    #[test]
    fn a_client_keeps_its_place_with_requests_in_flight_and_in_think_time() {
        let mut client = asking(Span::from_millis(1), true);
        // Without think time, the place is kept for 100 us.
        let quiet = client.arrivals.quiet;
        assert_eq!(client.kept_until(), Some(quiet + Span::from_micros(100)));
        assert!(!client.observe_request(quiet + Span::from_micros(101)));
        assert!(client.keeps_place() && client.kept_until().is_none());
        assert!(client.observe_request(quiet + Span::from_micros(102)));
    }
}
