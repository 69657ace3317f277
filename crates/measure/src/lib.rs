//! What the server, the simulator and the clients measure with, and the common form of their results.
//!
//! Times are plain `u64` nanoseconds on the caller's clock, real or virtual; sizes are bytes; rates in
//! results are MB/s of 10^6 bytes. Nothing here reads a clock, and nothing on the request path allocates.
//!
//! - [`Histogram`]: latencies in fixed memory, with exact count, sums, minimum and maximum;
//! - [`Series`]: bytes and requests per window;
//! - [`promise`]: whether a promise was kept in a second, and if not, by how much it was missed and why;
//! - [`Course`] and [`Level`]: latencies and levels over time;
//! - [`State`]: what a controller or elevator was doing over time;
//! - [`Breakdown`] and [`Split`]: where requests spent their time;
//! - [`Meter`]: all of these for one client;
//! - [`Run`], [`Record`], [`write_records`]: the result record and its JSON Lines form;
//! - [`Need`]: the drives that clients need under a policy;
//! - [`median`], [`ratio`], [`Interval`]: figures over several clients or repetitions.
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

pub use apart::{Apart, Kind};
pub use breakdown::{Breakdown, Split};
pub use course::{Course, Level, Spread};
pub use figures::{median, ratio};
pub use histogram::Histogram;
pub use interval::Interval;
pub use jsonl::{to_line, write_records};
pub use meter::Meter;
pub use need::Need;
pub use occupancy::Occupancy;
pub use record::{
    Absence, KindRecord, Latency, LimitedBy, Place, PromiseSeconds, Record, Run, ShortRecord,
    SplitUs, Starved, TOTAL,
};
pub use rings::{Rings, RingsPerSecond};
pub use series::{Series, Window, mb_per_s};
pub use state::State;

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;
