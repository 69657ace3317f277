//! Clients of the scenes.

use weir_core::testing::{self, Client, FILE, STREAMER, us};
use weir_core::{Flags, Op};

/// Reads its file of 256 MiB from the start, 64 KiB at a time, one request after the other.
pub(crate) const READER: Client = Client {
    file: FILE,
    length: 64 << 10,
    depth: 1,
    think: us(20),
    ..STREAMER
};

/// Reads 4 KiB anywhere, one request after the other.
pub(crate) const RANDOM: Client = Client {
    place: testing::RANDOM.place,
    length: 4 << 10,
    ..READER
};

/// Writes much at a time and waits for nothing.
pub(crate) const WRITER: Client = Client {
    op: Op::Write,
    length: 256 << 10,
    depth: 16,
    think: 0,
    ..READER
};

/// Every `n`th request of a client without flags is a flush.
pub(crate) const fn flush(n: u64) -> (u64, Op, Flags) {
    (n, Op::Flush, Flags::NONE)
}
