//! The block layer as a state machine, without a clock and without I/O.
//!
//! A driver (the live server or the simulator) owns a [`Layer`], reports events to it, and carries
//! out its decisions:
//!
//! ```text
//!   open · close · hold · cancel     a client connects, disconnects, does not read its replies, or
//!                                    gives up a request
//!   submit(now, requests)            accepted, or refused with a reason
//!   complete(now, completions)       pieces ended in the drive
//!   stall(now, space)                the storage of one space does not answer, while the drive's
//!                                    other spaces do
//!   change(now, edits)               groups, contracts and spaces: applied completely or refused
//!                                    completely
//!   poll(now, out)                   actions to carry out now, and the time of the next call
//! ```
//!
//! Each of these methods takes `now`, an [`Instant`] that the driver chooses. The crate has no
//! dependencies, no `unsafe`, no floating-point arithmetic and no hidden randomness, so the same
//! calls lead to the same decisions on every machine. The module [`record`] writes the calls down
//! as bytes.
//!
//! After [`Layer::new`], nothing is allocated on the path of a request, because every table has the
//! size that its [`Sizes`] state. The terms are defined in `docs/glossary.md` and
//! `docs/code-terms.md`.

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
pub use contract::{Capacity, Class, Contract, Max, MaxDebt};
pub use event::{Event, Listener, Mask, Publish};
pub use group::Edit;
pub use id::{GroupId, QueueId, ROOT, SpaceId, StreamId, Tag};
pub use knobs::{ControllerKind, Knobs, LowKnobs};
pub use layer::{Config, Counters, Gauges, Layer, OpenError, Output, Part, Rejection};
pub use reading::{Reading, Subject, Unit};
pub use refusal::{PromiseSums, Refusal};
pub use request::{Completion, Cookie, Dispatch, Done, Flags, Op, Outcome, Reject, Request, Waits};
pub use rule::ConfigError;
pub use sample::{Domain, Sample, SampleMask};
pub use shape::{DriveShape, Sizes};
pub use stream::{Priority, PriorityClass, StreamSpec};
pub use time::{Instant, Span};
pub use wake::{Reason, Wake};
