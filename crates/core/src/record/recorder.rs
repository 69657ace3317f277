//! Writing of records in memory.

use super::call::Call;
use super::code::Code;
use super::{END, FRAME_MAX, MAGIC, VERSION};
use crate::{Config, Instant};
use alloc::vec::Vec;

/// A writer of frames in memory. Its owner must write [`bytes`](Self::bytes) to a file regularly
/// and call [`clear`](Self::clear) afterwards, which bounds the memory.
#[derive(Debug)]
pub struct Recorder {
    bytes: Vec<u8>,
    now: Instant,
    overflowed: u64,
}

impl Recorder {
    /// Creates a recorder for the calls into a layer that is created from `config`, and writes the
    /// header.
    pub fn new(config: &Config) -> Self {
        let mut recorder = Self {
            bytes: Vec::new(),
            now: Instant::ZERO,
            overflowed: 0,
        };
        recorder.bytes.extend_from_slice(&MAGIC);
        recorder.bytes.extend_from_slice(&VERSION.to_le_bytes());
        recorder.frame(|out| config.put(out));
        recorder
    }

    /// Appends a call, after it was made.
    pub fn append(&mut self, now: Instant, call: &Call<'_>) {
        let passed = now
            .as_nanos()
            // Differences are short as varints. They can be negative if a driver's clock goes back.
            .wrapping_sub(self.now.as_nanos())
            .cast_signed();
        self.frame(|out| {
            out.push(call.code());
            zigzag(passed).put(out);
            call.put(out);
        });
        self.now = now;
    }

    /// Appends the end mark: there are no more calls. Nothing may be appended afterwards.
    pub fn end(&mut self) {
        self.bytes.extend_from_slice(&END.to_le_bytes());
    }

    /// Returns the bytes since the last [`clear`](Self::clear).
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Drops the bytes and keeps their memory for reuse.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Returns the number of calls that did not fit into a frame of [`FRAME_MAX`]. The record can
    /// only be replayed up to the first of them.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Writes the output of `body` as one frame.
    fn frame(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        // Room for the length, which is known only after the body was written.
        self.bytes.extend_from_slice(&[0; 4]);
        body(&mut self.bytes);
        let length = self.bytes.len() - start - 4;
        if length > FRAME_MAX {
            // An empty frame is malformed, so a reader stops here instead of continuing without the
            // call.
            self.bytes.truncate(start + 4);
            self.overflowed += 1;
            return;
        }
        self.bytes[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
    }
}

/// Returns a number that is small if the difference `n` is close to zero, whatever its sign.
pub(super) const fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)).cast_unsigned()
}

/// Returns the difference for which [`zigzag`] returned `n`.
pub(super) const fn unzigzag(n: u64) -> i64 {
    (n >> 1).cast_signed() ^ -(n & 1).cast_signed()
}
