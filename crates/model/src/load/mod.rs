//! The programs of clients as state machines: which requests a client issues, and when.
//!
//! A [`Program`] describes a client, and a [`LoadClient`] runs it. The client has no clock and does
//! no I/O. Its caller passes in the time and each completion, and receives the next request or the
//! time of the next call. The simulator calls it in virtual time, the NBD client in real time. With
//! the same seed, both issue the same requests.
//!
//! ```
//! use weir_core::{Instant, Span};
//! use weir_model::load::{Arrival, LoadClient, Program, Region, Step};
//!
//! // 4 KiB random reads, one at a time, with a pause of 1 ms after each.
//! let mut program = Program::random_reads(4096, 1);
//! program.arrival = Arrival::Closed { think: Span::from_millis(1) };
//! let seed = weir_model::load::seed("example", 0, 0);
//! let mut client = LoadClient::new(&program, seed, Region { start: 0, length: 1 << 30 })?;
//!
//! let now = Instant::ZERO;
//! let Step::Issue(io) = client.next(now) else { panic!("it starts at once") };
//! assert_eq!((io.length, io.offset % 4096), (4096, 0));
//! assert_eq!(client.next(now), Step::WaitForCompletion);
//! let now = now + Span::from_micros(80);
//! client.completed(now);
//! assert_eq!(client.next(now), Step::WaitUntil(now + Span::from_millis(1)));
//! # Ok::<(), weir_core::rule::RuleViolation>(())
//! ```
//!
//! `docs/glossary.md` and `docs/code-terms.md` define the terms.

mod client;
mod offset;
mod pace;
mod power;
mod program;
mod seed;
mod shuffle;
mod skew;
mod source;
mod trace;

pub use client::{Io, LoadClient, Step, Streak};
pub use program::{
    Activity, Arrival, Law, Pattern, Program, Region, Size, Skew, Split, SyncMode, Zones,
};
pub use seed::seed;
pub use source::RequestSource;
pub use trace::{Trace, TraceTiming, TracedRequest};
pub use weir_core::random::Rng;
