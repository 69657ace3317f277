//! The trait of objects that issue requests.

use crate::load::client::{Io, LoadClient, Step};
use weir_core::Instant;

/// A source of requests: a [`LoadClient`], or a measurement. Its caller has the clock and does the
/// I/O.
pub trait RequestSource {
    /// Returns the step of the source at `now`.
    fn next(&mut self, now: Instant) -> Step;

    /// Completes a request. `failed` is true if it ended with an error.
    fn completed(&mut self, now: Instant, io: &Io, failed: bool);

    /// Appends the data of a write to `into`, which are `io.length` bytes. They are not all zero,
    /// and differ between most requests.
    fn payload(&mut self, io: &Io, into: &mut Vec<u8>) {
        // The lowest bit is set so that the product is not zero. The requests 2k and 2k + 1 have
        // the same data. The constant is 2^64 divided by the golden ratio.
        let word = (io.number | 1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .to_le_bytes();
        into.extend(word.iter().cycle().take(io.length as usize));
    }

    /// Receives data of a read: `bytes` of its range, from `at` bytes after its beginning on.
    /// Zeroes that the server describes without sending them are not passed.
    fn received(&mut self, _io: &Io, _at: u64, _bytes: &[u8]) {}
}

impl RequestSource for LoadClient {
    fn next(&mut self, now: Instant) -> Step {
        Self::next(self, now)
    }

    fn completed(&mut self, now: Instant, _: &Io, _: bool) {
        Self::completed(self, now);
    }
}
