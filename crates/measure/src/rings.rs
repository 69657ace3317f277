//! Notifications between virtual machines and their back end, and the time of both sides' processors.

use serde::{Deserialize, Serialize};

/// What was counted in a run, of all virtual machines together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rings {
    /// Notifications from virtual machines, of requests or without one.
    pub kicks: u64,
    /// Notifications to virtual machines, of responses.
    pub calls: u64,
    /// How often a thread of the back end was woken.
    pub wakeups: u64,
    /// For how long virtual machines' processors were busy with requests and responses.
    pub guest_ns: u64,
    /// For how long the back end's threads were busy.
    pub backend_ns: u64,
    /// For how long it was counted.
    pub length_ns: u64,
}

/// The same a second, as results have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RingsPerSecond {
    /// Notifications a second from virtual machines.
    pub kicks: f64,
    /// Notifications a second to virtual machines.
    pub calls: f64,
    /// Notifications to virtual machines for each request answered.
    pub calls_per_request: f64,
    /// How often a second a thread of the back end was woken.
    pub wakeups: f64,
    /// Processor time of all virtual machines for it, in per cent of one processor.
    pub guest_percent: f64,
    /// Processor time of the back end, in per cent of one processor.
    pub backend_percent: f64,
}

impl Rings {
    /// A second's part, in a run in which `requests` requests were answered.
    pub fn per_second(&self, requests: u64) -> RingsPerSecond {
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
