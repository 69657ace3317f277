//! The server's clock: nanoseconds since the server started, common to all threads.

use std::time::Duration;

use weir_core::Instant;

/// A clock that converts the system's monotonic time to instants of the core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerClock {
    origin: std::time::Instant,
}

impl ServerClock {
    pub(crate) fn start() -> Self {
        Self {
            origin: std::time::Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.at(std::time::Instant::now())
    }

    /// Converts an instant of the system's monotonic clock.
    pub(crate) fn at(&self, at: std::time::Instant) -> Instant {
        let since = at.saturating_duration_since(self.origin);
        // 2^64 ns are 584 years, so the cast cannot truncate.
        Instant::from_nanos(since.as_nanos() as u64)
    }
}

/// Returns the time from `now` to `at`, or zero if `at` has passed.
pub(crate) fn until(now: Instant, at: Instant) -> Duration {
    Duration::from_nanos(at.since(now).as_nanos())
}
