//! Clients of the scenes.

use weir_core::testing::{self, Client, FILE, STREAMER, us};
use weir_core::{Flags, Op};

/// Reads its file of 256 MiB from the start, 64 KiB at a time, one request after the other.
pub(crate) const READER: Client = STREAMER.file(FILE).length(64 << 10).depth(1).think(us(20));

/// Reads 4 KiB anywhere, one request after the other.
pub(crate) const RANDOM: Client = READER.place(testing::RANDOM.place).length(4 << 10);

/// Writes much at a time and waits for nothing.
pub(crate) const WRITER: Client = READER.op(Op::Write).length(256 << 10).depth(16).think(0);

/// Every `n`th request of a client without flags is a flush.
pub(crate) const fn flush(n: u64) -> (u64, Op, Flags) {
    (n, Op::Flush, Flags::NONE)
}
