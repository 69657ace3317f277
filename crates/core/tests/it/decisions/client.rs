//! The clients that appear in scenes.

use weir_core::testing::{self, Client, FILE, STREAMER, us};
use weir_core::{Flags, Op};

/// A client that reads its file of 256 MiB sequentially, 64 KiB at a time with one request in
/// flight.
pub(crate) const READER: Client = STREAMER.file(FILE).length(64 << 10).depth(1).think(us(20));

/// A client that reads 4 KiB at random offsets with one request in flight.
pub(crate) const RANDOM: Client = READER.place(testing::RANDOM.place).length(4 << 10);

/// A client that writes 256 KiB at a time with 16 requests in flight.
pub(crate) const WRITER: Client = READER.op(Op::Write).length(256 << 10).depth(16).think(0);

/// Returns the setting that makes every `n`th request of a client a flush without flags.
pub(crate) const fn flush(n: u64) -> (u64, Op, Flags) {
    (n, Op::Flush, Flags::NONE)
}
