//! Reading records.

use super::call::{Call, Room};
use super::code::{Code, Input, Malformed};
use super::recorder::unzigzag;
use super::{END, FRAME_MAX, MAGIC, VERSION};
use crate::{Config, Instant};
use alloc::vec::Vec;

/// One recorded call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// How many calls were recorded before it.
    pub number: u64,
    /// The `now` it was made with.
    pub now: Instant,
    /// The call.
    pub call: Call<'a>,
}

/// Takes a record in pieces of any size and gives its frames.
///
/// [`feed`](Self::feed) it bytes, take [`next`](Self::next) until there is none, and so on; say [`end`](Self::end) when there are
/// no more bytes. After an error it is of no further use.
#[derive(Debug, Default)]
pub struct Reader {
    /// Bytes not read yet, from `at`.
    bytes: Vec<u8>,
    at: usize,
    /// Where in the record `bytes` begins.
    offset: u64,
    config: Option<Config>,
    frames: u64,
    /// The end was read.
    ended: bool,
    now: Instant,
    room: Room,
}

impl Reader {
    /// A reader that has been fed nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes more bytes. What was read is forgotten.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.offset += self.at as u64;
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// What the recorded layer was made from; `None` until the header has been fed.
    ///
    /// # Errors
    /// The bytes are no record, or one of another version.
    pub fn config(&mut self) -> Result<Option<&Config>, Malformed> {
        if self.config.is_none() {
            self.header()?;
        }
        Ok(self.config.as_ref())
    }

    /// The next call; `None` if it has not been fed as a whole.
    ///
    /// # Errors
    /// The bytes are no record, or one of another version.
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
            return Err(Malformed {
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
        self.now = Instant::from_nanos(self.now.as_nanos().wrapping_add(passed as u64));
        self.frames += 1;
        Ok(Some(Frame {
            number: self.frames - 1,
            now: self.now,
            call,
        }))
    }

    /// Whether the record's end has been read; otherwise there is more, or it was cut.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Bytes that have been read: the header, and whole calls.
    pub fn position(&self) -> u64 {
        self.offset + self.at as u64
    }

    /// Checks that the record ends where a frame ends.
    ///
    /// # Errors
    /// It was cut off.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.config.is_some() && self.at == self.bytes.len() {
            return Ok(());
        }
        Err(Malformed {
            offset: self.offset + self.bytes.len() as u64,
            expected: "more data: the recording is cut off",
        })
    }

    fn header(&mut self) -> Result<(), Malformed> {
        let start = MAGIC.len() + 4;
        let known = self.bytes.len().min(MAGIC.len());
        if self.bytes[..known] != MAGIC[..known] {
            return Err(Malformed {
                offset: 0,
                expected: "the first bytes of a recording",
            });
        }
        let Some(version) = self.bytes.get(MAGIC.len()..start) else {
            return Ok(());
        };
        if version != VERSION.to_le_bytes() {
            return Err(Malformed {
                offset: MAGIC.len() as u64,
                expected: "a recording of this build's version",
            });
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

/// Where the body of the frame at `at` begins and ends, if it is there as a whole.
fn frame(bytes: &[u8], at: usize, offset: u64) -> Result<Option<(usize, usize)>, Malformed> {
    let Some(&[a, b, c, d]) = bytes.get(at..at + 4) else {
        return Ok(None);
    };
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if !(1..=FRAME_MAX).contains(&length) {
        return Err(Malformed {
            offset: offset + at as u64,
            expected: "a frame of 1 byte to 16 MiB",
        });
    }
    let (from, to) = (at + 4, at + 4 + length);
    Ok((to <= bytes.len()).then_some((from, to)))
}
