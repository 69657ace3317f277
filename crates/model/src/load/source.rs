//! What a driver asks for requests.

use crate::load::client::{Client, Io, Step};
use weir_core::Instant;

/// Something that issues requests: a [`Client`], or a measurement. Its driver has the clock and does the I/O.
pub trait Source {
    /// The step at `now`.
    fn next(&mut self, now: Instant) -> Step;

    /// A request is over; `failed` if with an error.
    fn completed(&mut self, now: Instant, io: &Io, failed: bool);

    /// The data of a write: appends `io.length` bytes to `into`. They are not zero, and different for each request.
    fn payload(&mut self, io: &Io, into: &mut Vec<u8>) {
        let word = (io.number | 1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .to_le_bytes();
        into.extend(word.iter().cycle().take(io.length as usize));
    }

    /// Data that a read brought: `bytes` of its range, the first of them `at` bytes behind the beginning of the range. Zeroes that a
    /// server told of without sending them are left out.
    fn received(&mut self, _io: &Io, _at: u64, _bytes: &[u8]) {}
}

impl Source for Client {
    fn next(&mut self, now: Instant) -> Step {
        Self::next(self, now)
    }

    fn completed(&mut self, now: Instant, _: &Io, _: bool) {
        Self::completed(self, now);
    }
}
