//! How long an elevator has idled.

use weir_core::{Instant, Span};

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

    #[test]
    fn idling_adds_up() {
        let at = Instant::from_nanos;
        let mut idling = Idling::default();
        for (now, idles) in [(10, true), (20, true), (30, false), (40, false), (50, true)] {
            idling.set(at(now), idles);
        }
        let until = [45, 60].map(|now| idling.until(at(now)).as_nanos());
        assert_eq!(until, [20, 30]);
    }
}
