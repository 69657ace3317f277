//! The time for which an elevator has idled.

use weir_core::{Instant, Span};

/// The total time for which the elevator has kept the drive free for the next request of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idling {
    total: Span,
    since: Option<Instant>,
}

impl Idling {
    /// Sets the state: the elevator idles from `now` on, or no longer does.
    #[inline]
    pub(crate) fn set(&mut self, now: Instant, idles: bool) {
        match (self.since, idles) {
            // The state is set at each poll, so most calls do not change it.
            (None, true) => self.since = Some(now),
            (Some(since), false) => {
                self.total += now.since(since);
                self.since = None;
            }
            _ => {}
        }
    }

    /// The total up to `now`, including the present period.
    #[inline]
    pub(crate) fn until(&self, now: Instant) -> Span {
        self.total + self.since.map_or(Span::ZERO, |since| now.since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_intervals_are_summed() {
        let at = Instant::from_nanos;
        let mut idling = Idling::default();
        for (now, idles) in [(10, true), (20, true), (30, false), (40, false), (50, true)] {
            idling.set(at(now), idles);
        }
        let until = [45, 60].map(|now| idling.until(at(now)).as_nanos());
        assert_eq!(until, [20, 30]);
    }
}
