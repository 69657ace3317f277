//! The block layer as a state machine: no clock, no I/O.
//!
//! A driver (the live server, the simulator) owns a [`Layer`], tells it what happened and carries out what it decides:
//!
//! ```text
//!   open · close · hold · cancel     a client came, left, is not reading its answers, gave a request up
//!   submit(now, requests)            accepted, or said why not
//!   complete(now, completions)       tags came back from the drive
//!   stall(now, space)                the storage of a space does not answer; the drive's others do
//!   change(now, edits)               groups, contracts, spaces: in force as a whole, or refused as a whole
//!   poll(now, out)                   what to do now, and when to call again
//! ```
//!
//! Every method takes `now`, an [`Instant`] of the driver's making. The crate has no dependency, no `unsafe`, no float and no
//! randomness, so the same calls give the same decisions on every machine; [`record`] writes the calls down as bytes.
//! After [`Layer::new`] nothing is allocated on the path of a request: every table has the size its [`Sizes`] state.
//! `docs/glossary.md` and `docs/code-terms.md` define the terms.

#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]
#![cfg_attr(
    not(test),
    deny(clippy::std_instead_of_core, clippy::alloc_instead_of_core)
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod admission;
mod contract;
pub mod control;
mod cx;
pub mod elevator;
mod event;
mod flush;
mod group;
mod heap;
mod id;
mod knobs;
mod layer;
mod leaves;
mod list;
pub mod merge;
mod pool;
pub mod random;
mod reading;
pub mod record;
mod refusal;
mod request;
pub mod rule;
mod sample;
mod setters;
mod shape;
mod space;
mod stream;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod time;
mod tournament;
mod tree;
pub mod tunable;
mod wake;

pub use admission::PROMISABLE;
pub use contract::{Capacity, Class, Contract, Max};
pub use event::{Event, Listener, Mask, Publish};
pub use group::Edit;
pub use id::{GroupId, QueueId, ROOT, SpaceId, StreamId, Tag};
pub use knobs::{Kind, Knobs, LowKnobs};
pub use layer::{Config, Counters, Gauges, Layer, OpenError, Output, Part, Rejected};
pub use reading::{Reading, Subject, Unit};
pub use refusal::{Promised, Refusal};
pub use request::{Completion, Cookie, Dispatch, Done, Flags, Op, Outcome, Reject, Request, Waits};
pub use rule::ConfigError;
pub use sample::{Domain, Sample, Wanted};
pub use shape::{DriveShape, Sizes};
pub use stream::{Priority, PriorityClass, StreamSpec};
pub use time::{Instant, Span};
pub use wake::{Reason, Wake};
