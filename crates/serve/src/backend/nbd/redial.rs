//! When a server that was lost is dialled again, and since when requests have had no answer.
//!
//! A server can complete handshakes and then break every session. So a handshake proves nothing:
//! the pause before an attempt doubles with each attempt, successful or not. Only a session that
//! lasts takes doublings back, one for each [`LONGEST`]. Therefore a server is dialled at most
//! [`MOST`] times and once more for each [`LONGEST`] that has passed, whatever it does.

use weir_core::{Instant, Span};

/// Second pause; the first attempt after a session that lasted follows without a pause.
const SHORTEST: Span = Span::from_millis(50);
/// Longest pause, and the part of a session's duration that takes one doubling back.
const LONGEST: Span = Span::from_secs(5);
/// Number of attempts after which the pause is the longest.
const MOST: u32 = 8;

/// What the attempts to reach a server, and its sessions, have shown of it.
#[derive(Debug, Default)]
pub(super) struct Redial {
    /// Attempts that no session has made up for, at most [`MOST`].
    attempts: u32,
    /// Begin of the session; `None` while there is none, and for the first one of all.
    session: Option<Instant>,
    /// The session has answered a request.
    served: bool,
    /// Begin of the outage: the first loss since a session answered a request or lasted.
    outage: Option<Instant>,
}

impl Redial {
    /// A session begins.
    pub(super) fn connected(&mut self, now: Instant) {
        self.session = Some(now);
        self.served = false;
    }

    /// The session has answered a request.
    pub(super) fn answered(&mut self) {
        self.served = true;
    }

    /// The session is over. Returns when the outage began: `now`, or earlier if the session changed
    /// nothing for those that wait.
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

    /// The pause before the next attempt, which is made then.
    pub(super) fn pause(&mut self) -> Span {
        let pause = match self.attempts {
            0 => Span::ZERO,
            n => SHORTEST.saturating_mul(1 << (n - 1)).min(LONGEST),
        };
        self.attempts = (self.attempts + 1).min(MOST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use weir_core::random::Rng;

    const MINUTES: Span = Span::from_secs(600);

    /// Plays ten minutes with a server whose sessions last as long as `session` draws. Returns when
    /// it was dialled.
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
        let most = MINUTES.as_nanos() / LONGEST.as_nanos() + u64::from(MOST) + 1;
        assert!(dials.len() as u64 <= most, "dialled {} times", dials.len());
    }

    #[test]
    fn no_way_of_breaking_sessions_has_a_server_dialled_more_often() {
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

    /// Otherwise requests to a server that breaks each session would wait for ever.
    #[test]
    fn an_outage_lasts_until_a_request_is_answered_or_a_session_lasts() {
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
