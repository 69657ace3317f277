//! Counts of one volume.

use super::Causes;
use super::latency::Latency;
use weir_core::{Done, Op, Outcome, Span, Waits};
use weir_measure::Split;
use weir_measure::promise::Promise;

/// Operations, as [`Op`] numbers them.
pub(crate) const OPS: usize = Op::ALL.len();

/// The names of operations in metrics, by number.
pub(crate) const OP_NAMES: [&str; OPS] = [
    "read",
    "write",
    "flush",
    "discard",
    "write_zeroes",
    "extents",
];

/// What a volume has served.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) requests: [u64; OPS],
    pub(crate) bytes: [u64; OPS],
    pub(crate) errors: [u64; OPS],
    /// Where the time of its requests went, and the sums of it.
    pub(crate) split: Split,
    pub(crate) waits: Waits,
    /// How long they were there before they were taken, nanoseconds.
    pub(crate) untaken_ns: u64,
    /// Processor time that the shard spent on the volume, nanoseconds; estimated, and as of the last full second.
    pub(crate) processor_ns: u64,
    /// How long they took.
    pub(crate) latency: Latency,
    /// What it was promised, and how that fares.
    pub(crate) promise: Promise,
    /// What keeps its client from more.
    pub(crate) causes: Causes,
    /// Requests that were submitted and are not done.
    pub(crate) live: u32,
    /// Bytes served in the second under way, and in the last full one.
    pub(crate) second_bytes: u64,
    pub(crate) last_bytes: u64,
    logged: u64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            requests: [0; OPS],
            bytes: [0; OPS],
            errors: [0; OPS],
            // What is said of them are powers of two: three histograms of less than 1 KiB.
            split: Split::with_bits(1),
            waits: Waits::default(),
            untaken_ns: 0,
            processor_ns: 0,
            latency: Latency::default(),
            promise: Promise::new(0, None),
            causes: Causes::default(),
            live: 0,
            second_bytes: 0,
            last_bytes: 0,
            logged: 0,
        }
    }

    /// A request is over. `untaken`: for how long it was there before it was taken.
    pub(crate) fn done(&mut self, done: &Done, untaken: Span) {
        self.live = self.live.saturating_sub(1);
        if done.outcome == Outcome::Ok {
            let op = done.op as usize;
            self.requests[op] += 1;
            // A look-up's length is not that of the range.
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

    /// The storage failed a piece.
    pub(crate) fn failed(&mut self, op: Op) {
        self.errors[op as usize] += 1;
    }

    /// Whether an error is to be logged: the first ten, then one in a thousand.
    pub(crate) fn errors_logged(&mut self) -> bool {
        self.logged += 1;
        self.logged <= 10 || self.logged.is_multiple_of(1000)
    }

    /// A second ends; `last`: it is the last full one.
    pub(crate) fn end_second(&mut self, last: bool) {
        let bytes = std::mem::take(&mut self.second_bytes);
        self.last_bytes = if last { bytes } else { 0 };
    }
}
