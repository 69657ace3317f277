//! The decision whether a ring polls for an event before it sleeps.

use std::time::Duration;

/// Decides for each wait whether it polls before the thread sleeps, from the waits before it.
///
/// The rule is our own. Waits begin to poll after some short waits in a row, and go on as long as
/// at least half of them find an event. If polling ends without lasting success, twice as many
/// short waits are required before it is tried again. Linux's governor `haltpoll` polls for longer
/// after each short wait, whether or not polling finds anything. That is harmful when the client
/// runs on the CPU of the thread that polls: its request never arrives before the polling ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpinRule {
    max: Duration,
    state: SpinState,
    /// The number of short waits in a row after which polling begins.
    patience: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpinState {
    /// Waits do not poll. The number is that of short waits in a row.
    Sleeping(u32),
    /// Waits poll. The number is that of polls that found an event, minus the others, at most
    /// [`SpinRule::LASTING`].
    Polling(u32),
}

impl SpinRule {
    /// A wait is short up to this multiple of the maximum. The time to wake the thread and the
    /// client is a part of it, which polling saves.
    const SHORT: u32 = 4;
    const PATIENCE_MIN: u32 = 4;
    const PATIENCE_MAX: u32 = 1024;
    /// The surplus of successful polls that resets the patience.
    const LASTING: u32 = 8;

    /// Returns the rule for waits that poll for at most `max`. Zero means that they never poll.
    pub(crate) const fn new(max: Duration) -> Self {
        Self {
            max,
            state: SpinState::Sleeping(0),
            patience: Self::PATIENCE_MIN,
        }
    }

    /// Returns false if no wait ever polls, so that waits need not be measured.
    pub(crate) const fn is_enabled(&self) -> bool {
        !self.max.is_zero()
    }

    /// Returns the time for which the next wait polls.
    pub(crate) const fn time(&self) -> Duration {
        match self.state {
            SpinState::Sleeping(_) => Duration::ZERO,
            SpinState::Polling(_) => self.max,
        }
    }

    /// Takes a wait into account. `until_event` is the time from its beginning to the event that
    /// ended it, or `None` if it ended without an event.
    pub(crate) fn observe(&mut self, until_event: Option<Duration>) {
        let within = |limit| until_event.is_some_and(|waited| waited <= limit);
        self.state = match self.state {
            SpinState::Sleeping(_) if !within(self.max * Self::SHORT) => SpinState::Sleeping(0),
            SpinState::Sleeping(short) if short + 1 < self.patience => {
                SpinState::Sleeping(short + 1)
            }
            SpinState::Sleeping(_) => SpinState::Polling(0),
            SpinState::Polling(surplus) if within(self.max) => {
                if surplus + 1 >= Self::LASTING {
                    self.patience = Self::PATIENCE_MIN;
                }
                SpinState::Polling((surplus + 1).min(Self::LASTING))
            }
            SpinState::Polling(0) => {
                self.patience = (self.patience * 2).min(Self::PATIENCE_MAX);
                SpinState::Sleeping(0)
            }
            SpinState::Polling(surplus) => SpinState::Polling(surplus - 1),
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: Duration = Duration::from_micros(50);

    /// Observes waits of this many microseconds.
    fn observe(rule: &mut SpinRule, waits: &[u64]) {
        for waited in waits {
            rule.observe(Some(Duration::from_micros(*waited)));
        }
    }

    #[test]
    fn short_waits_begin_to_poll_and_go_on_while_half_of_them_find_an_event() {
        let mut rule = SpinRule::new(MAX);
        observe(&mut rule, &[200, 200, 200, 201]);
        observe(&mut rule, &[200, 200, 200]);
        assert_eq!(rule.time(), Duration::ZERO);
        observe(&mut rule, &[200]);
        assert_eq!(rule.time(), MAX);
        observe(&mut rule, &[50, 51, 50, 51, 50, 51]);
        assert_eq!(rule.time(), MAX);
        rule.observe(None);
        assert_eq!(rule.time(), Duration::ZERO);
    }

    /// A client on the CPU of the thread sends its request only after the thread has gone to sleep.
    #[test]
    fn polling_that_finds_nothing_is_tried_ever_more_rarely() {
        let mut rule = SpinRule::new(MAX);
        let tries = |rule: &mut SpinRule| {
            let mut tries = 0;
            for _ in 0..10_000 {
                let polled = rule.time();
                tries += u32::from(!polled.is_zero());
                rule.observe(Some(polled + Duration::from_micros(10)));
            }
            tries
        };
        assert!(tries(&mut rule) < 20);
        // After lasting success, it is tried again soon.
        observe(&mut rule, &[10; SpinRule::PATIENCE_MAX as usize + 8]);
        observe(&mut rule, &[51; 9]);
        assert_eq!(rule.time(), Duration::ZERO);
        observe(&mut rule, &[10; 2 * SpinRule::PATIENCE_MIN as usize]);
        assert_eq!(rule.time(), MAX);
    }

    proptest! {
        /// Polls in vain are bounded by the number of short waits: the successful polls, and at
        /// least four sleeping waits before polling begins.
        #[test]
        fn polls_in_vain_are_bounded(
            max in 0_u64..100,
            waits in prop::collection::vec(prop::option::of(0_u64..500), 0..400),
        ) {
            let mut rule = SpinRule::new(Duration::from_nanos(max));
            let (mut in_vain, mut short) = (0, 0);
            for waited in waits {
                let waited = waited.map(Duration::from_nanos);
                let polled = rule.time();
                let is_short = waited.is_some_and(|waited| waited <= 4 * rule.max);
                if matches!(rule.state, SpinState::Sleeping(_)) {
                    short += u32::from(is_short);
                } else if waited.is_some_and(|waited| waited <= polled) {
                    short += 4;
                } else {
                    in_vain += 4;
                }
                rule.observe(waited);
                prop_assert!(in_vain <= short, "{in_vain} / 4 polls in vain");
            }
        }
    }
}
