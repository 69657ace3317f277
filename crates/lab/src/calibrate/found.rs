//! The result of a calibration step.

use crate::calibrate::calibration::DEPTH_MAX;
use crate::calibrate::load::StepLoad;
use crate::calibrate::steady::{self, RateWindow, tail};
use serde::{Deserialize, Serialize};
use weir_measure::Histogram;

/// The number of consecutive windows that show the best case.
const RUN: usize = 3;

/// An upper bound of every measured value: bytes or requests per second, and microseconds.
const MOST: f64 = 1e12;

/// The result of one step.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StepResult {
    /// The name of the step.
    pub name: String,
    /// The requests of the step.
    #[serde(flatten)]
    pub load: StepLoad,
    /// The mean of the steady windows, in bytes per second.
    pub bytes_per_second: f64,
    /// Half of the width of that mean's 95 % confidence interval. `None` with fewer than two
    /// windows.
    pub half: Option<f64>,
    /// True if the drive was steady in these windows.
    pub steady: bool,
    /// The rise of the rate from the first of these windows to the last, as a part of the mean.
    pub trend: f64,
    /// The number of windows at the beginning that do not count.
    pub skipped: usize,
    /// All windows of the step, in their order.
    pub windows: Vec<RateWindow>,
    /// The duration of the step in seconds.
    pub seconds: f64,
    /// The number of requests that completed in that time.
    pub requests: u64,
    /// The latency in the steady windows. `None` without such a window.
    pub latency_us: Option<StepLatency>,
    /// The part of the time in which the measuring thread waited for a processor. `None` if that is
    /// not known.
    pub processor_wait: Option<f64>,
}

/// The latency of requests from submission to completion, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct StepLatency {
    /// The mean latency of the requests.
    pub mean: f64,
    /// The median, which is at most 0.8 % above the exact one. The next two have the same
    /// precision.
    pub p50: f64,
    /// The 95th percentile, with the precision of the median.
    pub p95: f64,
    /// The 99th percentile, with the precision of the median.
    pub p99: f64,
    /// The longest latency of a request.
    pub max: f64,
}

impl StepResult {
    /// Evaluates the windows of a step and the latencies in each.
    pub(crate) fn new(
        name: &str,
        load: StepLoad,
        windows: Vec<RateWindow>,
        latencies: &[Histogram],
        (seconds, requests): (f64, u64),
    ) -> Self {
        // Without windows, the rate is that of the whole step.
        let all = requests as f64 * f64::from(load.length) / seconds.max(1e-9);
        let cut = tail(&windows);
        // A single window has an infinite interval.
        let half = cut.map(|t| t.interval.half).filter(|half| half.is_finite());
        let skipped = cut.map_or(0, |t| t.skipped);
        Self {
            name: name.to_owned(),
            load,
            bytes_per_second: cut.map_or(all, |t| t.interval.mean),
            half,
            steady: cut.is_some_and(|t| t.steady),
            trend: cut.map_or(0.0, |t| t.trend),
            skipped,
            windows,
            seconds,
            requests,
            // Latencies are those of the same windows as the mean.
            latency_us: StepLatency::of(&latencies[skipped.min(latencies.len())..]),
            processor_wait: None,
        }
    }

    /// Returns true if its numbers can be those of a measurement.
    pub(crate) fn is_possible(&self) -> bool {
        let is_rate = |rate: &f64| (0.0..=MOST).contains(rate);
        let load = &self.load;
        (4096..=1 << 30).contains(&load.length)
            && (1..=DEPTH_MAX).contains(&load.depth)
            && load.writes <= 100
            && is_rate(&self.bytes_per_second)
            && self.half.is_none_or(|half| is_rate(&half))
            && (self.windows.iter()).all(|w| is_rate(&w.bytes_per_second) && is_rate(&w.seconds))
            && self.trend.is_finite()
            && is_rate(&self.seconds)
            && self.skipped <= self.windows.len()
            && self.requests <= MOST as u64
            && self.processor_wait.is_none_or(|part| is_rate(&part))
            && self.latency_us.is_none_or(StepLatency::is_possible)
    }

    /// Returns the requests per second in the steady windows.
    pub fn requests_per_second(&self) -> f64 {
        self.bytes_per_second / f64::from(self.load.length)
    }

    /// Returns the lower end of the confidence interval, in bytes per second.
    pub fn at_least(&self) -> f64 {
        // Without an interval, nothing is certain.
        (self.bytes_per_second - self.half.unwrap_or(self.bytes_per_second)).max(0.0)
    }

    /// Returns the rate of the fastest three consecutive windows, including the beginning, in bytes
    /// per second. It is the rate that caches and buffers permit for a while. A single window could
    /// contain completions that waited for this process.
    pub fn at_best(&self) -> f64 {
        let rates = self.windows.windows(RUN).filter_map(steady::mean);
        let fastest = rates.fold(0.0, |most, rate| rate.mean.max(most));
        fastest.max(self.bytes_per_second)
    }

    /// Returns half of the width of the confidence interval as a part of the mean.
    pub fn uncertainty(&self) -> Option<f64> {
        self.half.map(|half| half / self.bytes_per_second.max(1e-9))
    }

    /// Returns the number of bytes that were read and written.
    pub fn bytes(&self) -> u64 {
        self.requests.saturating_mul(self.load.length.into())
    }
}

impl StepLatency {
    fn is_possible(self) -> bool {
        let all = [self.mean, self.p50, self.p95, self.p99, self.max];
        all.iter().all(|us| (0.0..=MOST).contains(us))
    }

    fn of(windows: &[Histogram]) -> Option<Self> {
        let mut all = Histogram::new();
        for window in windows {
            all.merge(window);
        }
        let us = |ns: u64| ns as f64 / 1e3;
        (!all.is_empty()).then(|| Self {
            mean: all.mean() / 1e3,
            p50: us(all.quantile(1, 2)),
            p95: us(all.quantile(95, 100)),
            p99: us(all.quantile(99, 100)),
            max: us(all.max()),
        })
    }
}
