//! Client programs as state machines: what a client asks for, and when.
//!
//! A [`Program`] describes a client, a [`Client`] runs it. It has no clock and does no I/O: whoever drives it says what time it is
//! and when a request was answered, and is told what to issue and when to ask again. The simulator drives it in virtual time, the
//! NBD client in real time; with the same seed both see the same requests.
//!
//! ```
//! use weir_core::{Instant, Span};
//! use weir_load::{Arrival, Client, Program, Region, Step};
//!
//! // 4 KiB random reads, one at a time, with a pause of 1 ms after each.
//! let mut program = Program::random_reads(4096, 1);
//! program.arrival = Arrival::Closed { think: Span::from_millis(1) };
//! let seed = weir_load::seed("example", 0, 0);
//! let mut client = Client::new(&program, seed, Region { start: 0, length: 1 << 30 })?;
//!
//! let now = Instant::ZERO;
//! let Step::Issue(io) = client.next(now) else { panic!("it starts at once") };
//! assert_eq!((io.length, io.offset % 4096), (4096, 0));
//! assert_eq!(client.next(now), Step::WaitForCompletion);
//! let now = now + Span::from_micros(80);
//! client.completed(now);
//! assert_eq!(client.next(now), Step::WaitUntil(now + Span::from_millis(1)));
//! # Ok::<(), weir_load::ProgramError>(())
//! ```

#![no_std]
#![forbid(unsafe_code)]
#![deny(
    clippy::float_arithmetic,
    clippy::std_instead_of_core,
    clippy::alloc_instead_of_core
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod client;
mod offset;
mod pace;
mod program;
mod rng;
mod shuffle;
mod zipf;

pub use client::{Client, Io, Step};
pub use program::{
    Activity, Arrival, Pattern, Program, ProgramError, Region, Size, Split, SyncMode, Zones,
};
pub use rng::{Rng, seed};
