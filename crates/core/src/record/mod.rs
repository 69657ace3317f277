//! Records: the calls into a [`Layer`] and what came of them, as bytes, and their replay.
//!
//! A record is a header (the [`Config`] the layer was made from) and one frame for each call: its `now`, its arguments, its
//! results. A layer made from the header and called the same way decides the same, on any machine; [`Replay`] does so and names
//! the first difference if there is one. [`Recorded`] is a layer that writes its record as it goes.
//!
//! ```text
//!   record   "WEIRREC\0" · version (u32) · frame of the Config · frames · end (u32, 2^32 - 1)
//!   frame    length of the rest (u32) · body
//!   body     kind (u8) · now, as difference to the frame before · arguments · results
//! ```
//!
//! A record without its end was cut: its writer was killed or could not keep up, and what it says is a beginning of what happened.
//!
//! Fixed widths are little-endian; everything else is a varint (7 bits a byte, low bits first). A reader takes hostile bytes: it
//! never panics, and holds no more than one frame ([`FRAME_MAX`]) and what it was last fed.

mod call;
mod code;
mod config;
mod observed;
mod reader;
mod recorder;
mod replay;

pub use call::Call;
pub use code::Malformed;
pub use observed::{Observed, Observer, Recorded};
pub use reader::{Frame, Reader};
pub use recorder::Recorder;
pub use replay::{Divergence, Replay, ReplayError, Replayed, replay};

#[cfg(doc)]
use crate::{Config, Layer};

/// The longest body of a frame in bytes. A call with more in it than fits is not recorded whole, see [`Recorder::overflowed`].
pub const FRAME_MAX: usize = 16 << 20;

/// What every record begins with.
const MAGIC: [u8; 8] = *b"WEIRREC\0";

/// The layout written and the only one read. A change to what [`Call`] carries, or to the order of
/// fields, takes the next number; a new kind of call does not, since older records have none.
const VERSION: u32 = 5;

/// Stands where the length of a frame would: nothing more was done.
const END: u32 = u32::MAX;

#[cfg(test)]
mod tests;
