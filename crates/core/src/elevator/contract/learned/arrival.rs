//! When a client asks again, and whether it would get more if it had the drive to itself.

use super::average;
use crate::elevator::contract::constants::{PAUSE_MAX, SOON, SOON_THINKS, SUFFERS};
use crate::elevator::contract::unit::Cost;
use crate::table::Live;
use crate::{Instant, Span};

/// The requests of a stream, or of a group, as they come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    /// Requests that wait here or are in the drive.
    outstanding: u32,
    /// When the last one ended; and the average time from an answer that left nothing outstanding to the next request.
    quiet: Instant,
    think: Span,
}

impl Arrivals {
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// It asks. If it had nothing outstanding: for how long. A pause that is longer than `longest` is no time to think.
    #[inline]
    pub(crate) fn observe_request(&mut self, now: Instant, longest: Span) -> Option<Span> {
        let pause = (self.outstanding == 0).then(|| now.since(self.quiet));
        if let Some(pause) = pause.filter(|&pause| pause <= longest) {
            self.think = Span::from_nanos(average(self.think.as_nanos(), pause.as_nanos()));
        }
        self.outstanding += 1;
        pause
    }

    /// A request of it is over.
    #[inline]
    pub(crate) fn observe_answer(&mut self, now: Instant) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.quiet = now;
    }

    /// It has nothing outstanding up to now, and did not think.
    pub(crate) fn observe_quiet(&mut self, now: Instant) {
        self.quiet = now;
    }

    /// What is outstanding is counted anew ...
    pub(crate) fn forget_outstanding(&mut self) {
        self.outstanding = 0;
    }

    /// ... a request at a time.
    pub(crate) fn count(&mut self) {
        self.outstanding += 1;
    }

    /// How long it takes to ask again on average.
    pub(crate) fn think(&self) -> Span {
        self.think
    }

    /// How long it takes to ask again, at the most.
    pub(crate) fn pause(&self) -> Span {
        self.think.saturating_mul(SOON_THINKS) + SOON
    }

    /// By when it will have asked again, if it asks at all.
    pub(crate) fn expected(&self) -> Instant {
        self.quiet + self.pause()
    }

    /// A pattern that was observed.
    #[cfg(test)]
    pub(crate) fn thinking(think_ns: u64, outstanding: u32) -> Self {
        Self {
            outstanding,
            think: Span::from_nanos(think_ns),
            ..Self::default()
        }
    }
}

/// How long a group's requests take, and how long they take if others have nothing in the drive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Presence {
    pub(crate) arrivals: Arrivals,
    /// Modelled cost of its pieces in the drive.
    flight: Cost,
    /// The average time from when a request came.
    usual_ns: u64,
    /// The average time in the drive of those that had it to themselves. Before there were any (`is_solo`) it is about the least of all.
    solo_ns: u64,
    is_solo: bool,
}

impl Presence {
    #[cfg(debug_assertions)]
    pub(crate) fn flight(&self) -> Cost {
        self.flight
    }

    /// It asks. True if it had something outstanding until a moment ago.
    #[inline]
    pub(crate) fn observe_request(&mut self, now: Instant) -> bool {
        let resumes = self.kept_until().is_none_or(|until| now <= until);
        self.arrivals.observe_request(now, PAUSE_MAX);
        resumes
    }

    /// A piece of it goes to the drive at `cost`, which has `flight`. Returns what of that is others'.
    #[inline]
    pub(crate) fn observe_dispatch(&mut self, cost: Cost, flight: Cost) -> Cost {
        let others = flight.saturating_sub(self.flight);
        self.flight += cost;
        others
    }

    /// A piece came back.
    #[inline]
    pub(crate) fn observe_completion(&mut self, cost: Cost) {
        self.flight = self.flight.saturating_sub(cost);
    }

    /// A request is over, with nothing of others in the drive as long as it was there (`alone`).
    #[inline]
    pub(crate) fn observe_answer(&mut self, now: Instant, live: &Live, alone: bool) {
        self.note_answer(
            now,
            now.since(live.cleared),
            now.since(live.dispatched),
            alone,
        );
    }

    #[inline]
    fn note_answer(&mut self, now: Instant, waited: Span, served: Span, alone: bool) {
        self.arrivals.observe_answer(now);
        self.usual_ns = average(self.usual_ns, waited.as_nanos());
        let sample = served.as_nanos();
        if self.solo_ns == 0 || alone && !self.is_solo {
            (self.solo_ns, self.is_solo) = (sample, alone);
        } else if alone {
            self.solo_ns = average(self.solo_ns, sample);
        } else if !self.is_solo {
            self.solo_ns -= self.solo_ns.saturating_sub(sample) / 2;
        }
    }

    /// True if it would get a 32nd more with the drive to itself, or if that is not known.
    pub(crate) fn suffers(&self) -> bool {
        let is_known = self.solo_ns > 0;
        let think = self.arrivals.think.as_nanos();
        let alone = think + self.solo_ns;
        !is_known || think + self.usual_ns > alone + alone / SUFFERS
    }

    /// True if its place is kept for it now that it has nothing to send.
    pub(crate) fn keeps_place(&self) -> bool {
        self.arrivals.outstanding > 0
    }

    /// Until when its place is kept, unless something of it is still in the drive: no longer than what is waited for takes.
    pub(crate) fn kept_until(&self) -> Option<Instant> {
        if self.arrivals.outstanding > 0 {
            return None;
        }
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

    /// A client with one request at a time, each of which comes back `time` after it came.
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
    fn a_client_suffers_that_would_get_more_alone() {
        let later = |client: &mut Presence, micros: u64| {
            let now = Instant::ZERO + Span::from_millis(200);
            for _ in 0..200 {
                client.observe_request(now);
                let waited = Span::from_micros(micros);
                client.note_answer(now, waited, waited, false);
            }
        };
        assert!(Presence::default().suffers(), "nothing is known");
        let mut client = asking(Span::from_millis(1), true);
        assert!(!client.suffers());
        later(&mut client, 1_025);
        assert!(!client.suffers());
        later(&mut client, 1_040);
        assert!(client.suffers());
        let mut crowded = asking(Span::from_millis(1), false);
        assert!(!crowded.suffers(), "it is never served sooner");
        later(&mut crowded, 1_200);
        assert!(crowded.suffers(), "it has been served sooner");
    }

    #[test]
    fn a_place_is_kept_as_long_as_something_is_in_the_drive_and_while_the_client_thinks() {
        let mut client = asking(Span::from_millis(1), true);
        let quiet = client.arrivals.quiet;
        assert_eq!(client.kept_until(), Some(quiet + Span::from_micros(100)));
        assert!(!client.observe_request(quiet + Span::from_micros(101)));
        assert!(client.keeps_place() && client.kept_until().is_none());
        assert!(client.observe_request(quiet + Span::from_micros(102)));
    }
}
