//! Reading of records in parts.

use super::call::{Call, CallBuffers};
use super::code::{Code, Input, Malformed};
use super::recorder::unzigzag;
use super::{END, FRAME_MAX, MAGIC, VERSION};
use crate::{Config, Instant};
use alloc::vec::Vec;

/// A recorded call with its position and time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// The number of calls that were recorded before it.
    pub number: u64,
    /// The `now` with which the call was made.
    pub now: Instant,
    /// The call with its arguments and results.
    pub call: Call<'a>,
}

/// A reader that takes a record in parts of any size and returns its frames.
///
/// Call [`feed`](Self::feed) with bytes and [`next`](Self::next) until it returns none, repeatedly.
/// Call [`end`](Self::end) if there are no more bytes. After an error, the reader cannot be used
/// any more.
#[derive(Debug, Default)]
pub struct Reader {
    /// The bytes that were not read yet, from index `at` on.
    bytes: Vec<u8>,
    at: usize,
    /// The position of `bytes` in the record.
    offset: u64,
    config: Option<Config>,
    frames: u64,
    /// True if the end mark was read.
    ended: bool,
    now: Instant,
    room: CallBuffers,
}

impl Reader {
    /// Creates a reader without any bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes. Those that were read are dropped.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.offset += self.at as u64;
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the configuration of the recorded layer, or `None` until the header is complete.
    ///
    /// # Errors
    /// Fails if the bytes are not a record, or have another version.
    pub fn config(&mut self) -> Result<Option<&Config>, Malformed> {
        if self.config.is_none() {
            self.header()?;
        }
        Ok(self.config.as_ref())
    }

    /// Returns the next call, or `None` if it is not complete yet.
    ///
    /// # Errors
    /// Fails if the bytes are not a record, or have another version.
    #[expect(
        clippy::should_implement_trait,
        reason = "it lends what it gives, as no Iterator can"
    )]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, Malformed> {
        if self.config()?.is_none() {
            return Ok(None);
        }
        if !self.ended && self.bytes[self.at..].starts_with(&END.to_le_bytes()) {
            self.at += size_of_val(&END);
            self.ended = true;
        }
        if self.ended && self.at < self.bytes.len() {
            return Err(Malformed::At {
                offset: self.offset + self.at as u64,
                expected: "no data after the end",
            });
        }
        let Some((from, to)) = frame(&self.bytes, self.at, self.offset)? else {
            return Ok(None);
        };
        let mut input = Input::new(&self.bytes[from..to], self.offset + from as u64);
        let code = input.byte()?;
        let passed = unzigzag(u64::take(&mut input)?);
        let call = self.room.take(code, &mut input)?;
        input.end()?;
        self.at = to;
        // Wrapping, because untrusted bytes can contain any difference.
        self.now = Instant::from_nanos(self.now.as_nanos().wrapping_add(passed as u64));
        // The call is counted only after it was decoded completely.
        self.frames += 1;
        Ok(Some(Frame {
            number: self.frames - 1,
            now: self.now,
            call,
        }))
    }

    /// Returns true if the end mark was read. Otherwise there is more to read, or the record is
    /// incomplete.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns the number of bytes of the header and the complete calls that were read, and of the
    /// end mark if it was read.
    pub fn position(&self) -> u64 {
        self.offset + self.at as u64
    }

    /// Checks that the record ends at the end of a frame.
    ///
    /// # Errors
    /// Fails if the record was cut off.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.config.is_some() && self.at == self.bytes.len() {
            return Ok(());
        }
        Err(Malformed::At {
            offset: self.offset + self.bytes.len() as u64,
            expected: "more data: the recording is cut off",
        })
    }

    fn header(&mut self) -> Result<(), Malformed> {
        let start = MAGIC.len() + 4;
        // The bytes that are present are checked at once, so a file of another kind is refused even
        // if it is shorter than a header.
        let known = self.bytes.len().min(MAGIC.len());
        if self.bytes[..known] != MAGIC[..known] {
            return Err(Malformed::At {
                offset: 0,
                expected: "the first bytes of a recording",
            });
        }
        let Some(&[a, b, c, d]) = self.bytes.get(MAGIC.len()..start) else {
            return Ok(());
        };
        let version = u32::from_le_bytes([a, b, c, d]);
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let Some((from, to)) = frame(&self.bytes, start, self.offset)? else {
            return Ok(());
        };
        let mut input = Input::new(&self.bytes[from..to], self.offset + from as u64);
        let config = Config::take(&mut input)?;
        input.end()?;
        self.config = Some(config);
        self.at = to;
        Ok(())
    }
}

/// Returns the start and end of the body of the frame at `at`, or `None` if it is not complete.
fn frame(bytes: &[u8], at: usize, offset: u64) -> Result<Option<(usize, usize)>, Malformed> {
    let Some(&[a, b, c, d]) = bytes.get(at..at + 4) else {
        return Ok(None);
    };
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    // The limit bounds the memory that a damaged length can request. An empty frame marks a call
    // that was too long.
    if !(1..=FRAME_MAX).contains(&length) {
        return Err(Malformed::At {
            offset: offset + at as u64,
            expected: "a frame of 1 byte to 16 MiB",
        });
    }
    let (from, to) = (at + 4, at + 4 + length);
    Ok((to <= bytes.len()).then_some((from, to)))
}
