//! Notifications between virtual machines and their back end, and the CPU time of both sides.

use serde::{Deserialize, Serialize};

/// The counts of one run, summed over all virtual machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rings {
    /// Notifications from virtual machines (kicks), including empty ones.
    pub kicks: u64,
    /// Notifications to virtual machines (calls).
    pub calls: u64,
    /// The number of times that a thread of the back end was woken.
    pub wakeups: u64,
    /// The CPU time of virtual machines for requests and responses, in nanoseconds.
    pub guest_ns: u64,
    /// The CPU time of the back end's threads, in nanoseconds.
    pub backend_ns: u64,
    /// The length of the measurement, in nanoseconds.
    pub length_ns: u64,
}

/// The counts per second, as results contain them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RingsPerSecond {
    /// Notifications per second from virtual machines (kicks).
    pub kicks: f64,
    /// Notifications per second to virtual machines (calls).
    pub calls: f64,
    /// Notifications to virtual machines (calls) per completed request.
    pub calls_per_request: f64,
    /// The number of times per second that a thread of the back end was woken.
    pub wakeups: f64,
    /// The CPU time of all virtual machines for requests and responses, as a percentage of one CPU.
    pub guest_percent: f64,
    /// The CPU time of the back end, as a percentage of one CPU.
    pub backend_percent: f64,
}

impl Rings {
    /// Returns the counts per second. `requests` is the number of requests that completed in the
    /// run.
    pub fn per_second(&self, requests: u64) -> RingsPerSecond {
        // A run without time or requests gives finite figures instead of a division by zero.
        let length = (self.length_ns as f64).max(1.0);
        let rate = |count: u64| count as f64 * 1e9 / length;
        let percent = |ns: u64| ns as f64 * 100.0 / length;
        RingsPerSecond {
            kicks: rate(self.kicks),
            calls: rate(self.calls),
            calls_per_request: self.calls as f64 / (requests as f64).max(1.0),
            wakeups: rate(self.wakeups),
            guest_percent: percent(self.guest_ns),
            backend_percent: percent(self.backend_ns),
        }
    }
}
