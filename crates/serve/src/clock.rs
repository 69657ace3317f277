//! The server's clock: nanoseconds since it started, the same for all its threads.

use std::time::Duration;

use weir_core::Instant;

/// Gives the core's instants from the system's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            origin: std::time::Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.at(std::time::Instant::now())
    }

    /// An instant of the system's monotonic clock.
    pub(crate) fn at(&self, at: std::time::Instant) -> Instant {
        let since = at.saturating_duration_since(self.origin);
        // 584 years fit.
        Instant::from_nanos(since.as_nanos() as u64)
    }
}

/// How long it is from `now` to `at`.
pub(crate) fn until(now: Instant, at: Instant) -> Duration {
    Duration::from_nanos(at.since(now).as_nanos())
}
