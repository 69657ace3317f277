//! The counters of one volume.

use super::Causes;
use super::latency::LatencyHistogram;
use weir_core::{Done, Op, Outcome, Span, Waits};
use weir_measure::WaitSplit;
use weir_measure::promise::Promise;

/// The number of operations. [`Op`] numbers them.
pub(crate) const OPS: usize = Op::ALL.len();

/// The names of operations in metrics, by the operation's number.
pub(crate) const OP_NAMES: [&str; OPS] = [
    "read",
    "write",
    "flush",
    "discard",
    "write_zeroes",
    "extents",
];

/// The counters of the requests of one volume.
#[derive(Debug)]
pub(crate) struct VolumeTally {
    pub(crate) requests: [u64; OPS],
    pub(crate) bytes: [u64; OPS],
    pub(crate) errors: [u64; OPS],
    /// The histograms of the time that requests spent in each stage, and the sums.
    pub(crate) split: WaitSplit,
    pub(crate) waits: Waits,
    /// The total time that requests waited before the shard took them, in nanoseconds.
    pub(crate) untaken_ns: u64,
    /// The CPU time that the shard spent on the volume, in nanoseconds. It is estimated, and is
    /// updated once per second.
    pub(crate) processor_ns: u64,
    /// The histogram of request latency.
    pub(crate) latency: LatencyHistogram,
    /// The promise to the volume, with its result so far.
    pub(crate) promise: Promise,
    /// The causes that limit the volume's clients.
    pub(crate) causes: Causes,
    /// The number of requests that were submitted and are not completed.
    pub(crate) live: u32,
    /// The bytes served in the current second and in the last full one.
    pub(crate) second_bytes: u64,
    pub(crate) last_bytes: u64,
    logged: u64,
}

impl VolumeTally {
    pub(crate) fn new() -> Self {
        Self {
            requests: [0; OPS],
            bytes: [0; OPS],
            errors: [0; OPS],
            // The metrics only print powers of two, so that one bit of precision suffices. Three
            // such histograms take less than 1 KiB.
            split: WaitSplit::with_bits(1),
            waits: Waits::default(),
            untaken_ns: 0,
            processor_ns: 0,
            latency: LatencyHistogram::default(),
            promise: Promise::new(0, None),
            causes: Causes::default(),
            live: 0,
            second_bytes: 0,
            last_bytes: 0,
            logged: 0,
        }
    }

    /// Counts a completed request. `untaken` is the time that it waited before the shard took
    /// it.
    pub(crate) fn done(&mut self, done: &Done, untaken: Span) {
        // Saturating, so that a miscount cannot stop the shard.
        self.live = self.live.saturating_sub(1);
        if done.outcome == Outcome::Ok {
            let op = done.op as usize;
            self.requests[op] += 1;
            // The length of a look-up is not that of its range (the core receives only the first
            // sector).
            if done.op != Op::Extents {
                self.bytes[op] += u64::from(done.length);
            }
            self.split.record_waits(&done.waits);
            self.waits += done.waits;
            self.untaken_ns += untaken.as_nanos();
            let whole = done.waits.total() + untaken;
            self.latency.record(whole.as_nanos());
        }
    }

    /// Counts a piece that the storage failed.
    pub(crate) fn failed(&mut self, op: Op) {
        self.errors[op as usize] += 1;
    }

    /// Counts an error, and returns true if it should be logged: the first ten errors, and then
    /// every thousandth.
    pub(crate) fn count_error(&mut self) -> bool {
        self.logged += 1;
        // A failing drive can cause thousands of errors per second, which must not fill the log.
        self.logged <= 10 || self.logged.is_multiple_of(1000)
    }

    /// Ends a second. `last` is true if it is the most recent full second. Otherwise at least one
    /// more second has passed, in which nothing was served.
    pub(crate) fn end_second(&mut self, last: bool) {
        let bytes = std::mem::take(&mut self.second_bytes);
        self.last_bytes = if last { bytes } else { 0 };
    }
}
