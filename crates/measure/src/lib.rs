//! Measurements of the server, the simulator and the clients, and the common form of their results.
//!
//! A caller usually keeps one [`Meter`] per client. It reports each request to the meter, takes a
//! [`Record`] from it at the end of a [`RunId`], and writes the records as JSON Lines
//! ([`write_records`]). The other types are the parts of a meter, and can be used on their own:
//!
//! - [`Histogram`]: latencies in fixed memory, with exact count, sums, minimum and maximum
//! - [`Series`]: bytes and requests per window
//! - [`promise`]: the verdict for each promised second, with the shortfall and its cause
//! - [`explain`]: the journal of a drive, from which the latency of a volume is explained
//! - [`Course`] and [`LevelSeries`]: latencies and levels over time
//! - [`TracedState`]: the state of a controller or elevator over time
//! - [`Breakdown`] and [`WaitSplit`]: the time of requests, divided among the places where it was
//!   spent
//! - [`Need`]: the drives that clients need under a policy
//! - [`median`], [`ratio`], [`Interval`]: figures over several clients or repetitions
//!
//! Times are plain `u64` nanoseconds on the caller's clock, real or virtual. Sizes are bytes. Rates
//! in results are MB/s of 10^6 bytes. This crate never reads a clock, and its functions on the
//! request path do not allocate.
//!
//! `docs/glossary.md` and `docs/code-terms.md` define the terms.

mod apart;
mod breakdown;
mod course;
pub mod explain;
mod figures;
mod histogram;
mod interval;
mod jsonl;
pub mod keys;
mod late;
mod meter;
mod need;
pub mod number;
mod occupancy;
pub mod promise;
mod record;
mod rings;
mod series;
mod state;

pub use apart::{KindMeter, MeasuredKind};
pub use breakdown::{Breakdown, WaitSplit};
pub use course::{Course, LevelSeries, Spread};
pub use figures::{median, ratio};
pub use histogram::Histogram;
pub use interval::Interval;
pub use jsonl::{to_line, write_records};
pub use meter::Meter;
pub use need::{Need, NeedLimit};
pub use occupancy::Occupancy;
pub use record::{
    Absence, KindRecord, LatencyRecord, LimitedBy, PromiseSeconds, Record, RecordPlace, RunId,
    ShortRecord, SplitUs, StarvationKind, TOTAL,
};
pub use rings::{Rings, RingsPerSecond};
pub use series::{Series, WindowTotals, mb_per_s};
pub use state::TracedState;

/// Number of nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;
