//! The schedule for dialling a lost server, and the time since which requests have had no reply.
//!
//! A server can complete handshakes and then break every session, so a successful handshake proves
//! nothing. The pause before an attempt doubles with each attempt, successful or not. Only a
//! session that lasts reduces the pause, by one doubling for each [`LONGEST`]. A server is
//! therefore dialled at most [`MOST`] times plus once for each [`LONGEST`] that has passed,
//! whatever it does.

use weir_core::{Instant, Span};

/// The second pause. The first attempt after a session that lasted follows without a pause.
const SHORTEST: Span = Span::from_millis(50);
/// The longest pause, and the duration of a session that undoes one doubling.
const LONGEST: Span = Span::from_secs(5);
/// The number of attempts after which the pause is the longest (50 ms × 2^7 = 6.4 s exceed it).
const MOST: u32 = 8;

/// The history of attempts to reach a server, and of its sessions.
#[derive(Debug, Default)]
pub(super) struct Redial {
    /// The number of attempts that no session has compensated, at most [`MOST`].
    attempts: u32,
    /// The start of the session, or `None` without a session and during the very first one.
    session: Option<Instant>,
    /// True if the session has answered a request.
    served: bool,
    /// The start of the outage: the first loss since a session answered a request or lasted.
    outage: Option<Instant>,
}

impl Redial {
    /// Begins a session.
    pub(super) fn connected(&mut self, now: Instant) {
        self.session = Some(now);
        self.served = false;
    }

    /// Notes that the session has answered a request.
    pub(super) fn answered(&mut self) {
        self.served = true;
    }

    /// Ends the session. Returns the start of the outage. This is `now`, or an earlier time if the
    /// session has not helped the waiting requests.
    pub(super) fn lost(&mut self, now: Instant) -> Instant {
        let begun = self.session.take();
        let lasted = begun.map_or(Span::ZERO, |begun| now.since(begun));
        let paid = lasted.as_nanos() / LONGEST.as_nanos();
        self.attempts = (u64::from(self.attempts)).saturating_sub(paid) as u32;
        if self.served || paid > 0 {
            self.outage = None;
        }
        *self.outage.get_or_insert(now)
    }

    /// Returns the pause before the next attempt, and counts that attempt.
    pub(super) fn pause(&mut self) -> Span {
        let pause = match self.attempts {
            0 => Span::ZERO,
            n => SHORTEST.saturating_mul(1 << (n - 1)).min(LONGEST),
        };
        // More doublings would not lengthen the pause, but would take longer to undo.
        self.attempts = (self.attempts + 1).min(MOST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use weir_core::random::Rng;

    const MINUTES: Span = Span::from_secs(600);

    /// Simulates ten minutes with a server whose sessions have the durations that `session`
    /// returns. Returns the times when it was dialled.
    fn dials(mut session: impl FnMut() -> Span) -> Vec<Instant> {
        let mut redial = Redial::default();
        let (mut now, mut dials) = (Instant::ZERO, Vec::new());
        while now.since(Instant::ZERO) < MINUTES {
            redial.lost(now);
            now += redial.pause();
            dials.push(now);
            redial.connected(now);
            redial.answered();
            now += session();
        }
        dials
    }

    fn bound(dials: &[Instant]) {
        // The bound of the module's documentation, and the attempt at the start.
        let most = MINUTES.as_nanos() / LONGEST.as_nanos() + u64::from(MOST) + 1;
        assert!(dials.len() as u64 <= most, "dialled {} times", dials.len());
    }

    #[test]
    fn dialling_is_bounded_however_sessions_break() {
        for millis in [0, 1, 50, 1000, 4999, 5000, 5001, 9999, 10_000] {
            bound(&dials(|| Span::from_millis(millis)));
        }
        let mut rng = Rng::new(1);
        for _ in 0..100 {
            let longest = rng.range(1, 60_000);
            let mut rng = Rng::new(longest);
            bound(&dials(|| match rng.range(0, 3) {
                0 => Span::from_millis(rng.range(0, longest)),
                1 => LONGEST,
                _ => Span::ZERO,
            }));
        }
    }

    #[test]
    fn pauses_grow_to_the_longest_whether_or_not_an_attempt_succeeds() {
        let at = dials(|| Span::ZERO);
        let pauses = at.windows(2).map(|pair| pair[1].since(pair[0]).as_nanos());
        let millis: Vec<u64> = pauses.take(9).map(|ns| ns / 1_000_000).collect();
        assert_eq!(millis, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        let mut away = Redial::default();
        away.lost(Instant::ZERO);
        let pauses = std::iter::repeat_with(|| away.pause().as_nanos() / 1_000_000);
        assert_eq!(pauses.take(4).collect::<Vec<_>>(), [0, 50, 100, 200]);
    }

    #[test]
    fn a_session_that_lasts_is_dialled_again_at_once() {
        let mut redial = Redial::default();
        for _ in 0..20 {
            redial.pause();
        }
        let long = LONGEST.saturating_mul(u64::from(MOST));
        redial.connected(Instant::ZERO);
        assert_eq!(redial.lost(Instant::ZERO + long), Instant::ZERO + long);
        assert_eq!(redial.pause(), Span::ZERO);
    }

    /// Otherwise, requests to a server that breaks each session would wait forever.
    #[test]
    fn an_outage_lasts_until_a_request_is_answered_or_a_session_lasts() {
        // The session from 11 to 12 s answers nothing, so the outage continues. The one from 13 s
        // on answers, and the one from 15 to 20 s lasts for `LONGEST`.
        let at = |seconds| Instant::ZERO + Span::from_secs(seconds);
        let mut redial = Redial::default();
        assert_eq!(redial.lost(at(10)), at(10));
        redial.connected(at(11));
        assert_eq!(redial.lost(at(12)), at(10));
        redial.connected(at(13));
        redial.answered();
        assert_eq!(redial.lost(at(14)), at(14));
        redial.connected(at(15));
        assert_eq!(redial.lost(at(20)), at(20));
    }
}
