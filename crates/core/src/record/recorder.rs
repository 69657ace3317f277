//! Writing records.

use super::call::Call;
use super::code::Code;
use super::{END, FRAME_MAX, MAGIC, VERSION};
use crate::{Config, Instant};
use alloc::vec::Vec;

/// Writes frames behind each other. Its owner writes [`bytes`](Self::bytes) out now and then and then [`clear`](Self::clear)s
/// it, which bounds the memory it takes.
#[derive(Debug)]
pub struct Recorder {
    bytes: Vec<u8>,
    now: Instant,
    overflowed: u64,
}

impl Recorder {
    /// A recorder of the calls into a layer made from `config`. The header is written.
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

    /// Writes one call down, after it was made.
    pub fn append(&mut self, now: Instant, call: &Call<'_>) {
        let passed = now
            .as_nanos()
            .wrapping_sub(self.now.as_nanos())
            .cast_signed();
        self.frame(|out| {
            out.push(call.code());
            zigzag(passed).put(out);
            call.put(out);
        });
        self.now = now;
    }

    /// Writes the end: there were no more calls. Nothing may be appended after it.
    pub fn end(&mut self) {
        self.bytes.extend_from_slice(&END.to_le_bytes());
    }

    /// What was written since the last [`clear`](Self::clear).
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what was written; its memory is used again.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Calls with more in them than fits into a frame of [`FRAME_MAX`]: the record cannot be replayed beyond the first of them.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Writes what `body` writes as one frame.
    fn frame(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        body(&mut self.bytes);
        let length = self.bytes.len() - start - 4;
        if length > FRAME_MAX {
            // An empty frame is malformed: a reader stops here instead of going on without the call.
            self.bytes.truncate(start + 4);
            self.overflowed += 1;
            return;
        }
        self.bytes[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
    }
}

/// A difference as a number that is small if the difference is small, whichever its sign.
pub(super) const fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)).cast_unsigned()
}

/// What [`zigzag`] was given.
pub(super) const fn unzigzag(n: u64) -> i64 {
    (n >> 1).cast_signed() ^ -(n & 1).cast_signed()
}
