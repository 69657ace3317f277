//! Records: the calls into a [`Layer`] with their results, as bytes, and their replay.
//!
//! A record is a header (the [`Config`] from which the layer was created) and one frame for each
//! call: its `now`, its arguments and its results. A layer that is created from the header and
//! receives the same calls makes the same decisions on every machine. [`Replay`] repeats them and
//! reports the first difference, if there is one. [`RecordedLayer`] is a layer that writes its
//! record while it runs.
//!
//! ```text
//!   record   "WEIRREC\0" · version (u32) · frame of the Config · frames · end (u32, 2^32 - 1)
//!   frame    length of the rest (u32) · body
//!   body     kind (u8) · now, as difference to the frame before · arguments · results
//! ```
//!
//! A record without an end mark is incomplete: its writer was killed or could not keep up. It
//! contains the calls up to that point.
//!
//! Numbers of fixed width are little-endian, and all others are varints (7 bits per byte, low bits
//! first). The reader accepts untrusted bytes: it never panics, and it holds no more than one frame
//! ([`FRAME_MAX`]) in addition to the bytes that it was fed last.

mod call;
mod code;
mod config;
mod observed;
mod reader;
mod recorder;
mod replay;

pub use call::Call;
pub use code::Malformed;
pub use observed::{ObservedLayer, Observer, RecordedLayer};
pub use reader::{Frame, Reader};
pub use recorder::Recorder;
pub use replay::{Divergence, Replay, ReplayError, ReplayTotals, replay};

#[cfg(doc)]
use crate::{Config, Layer};

/// The maximum length of a frame's body in bytes. A longer call is not recorded (see
/// [`Recorder::overflowed`]).
pub const FRAME_MAX: usize = 16 << 20;

/// The first bytes of every record.
const MAGIC: [u8; 8] = *b"WEIRREC\0";

/// The version of the layout, which is the only one that is read. It must be increased if the
/// content of [`Call`] or the order of fields changes. A new kind of call or edit does not need a
/// new version, because older records do not contain it.
const VERSION: u32 = 5;

/// The end mark, in the place of the length of a frame.
const END: u32 = u32::MAX;

#[cfg(test)]
mod tests;
