//! Replies of the transmission phase, as the client parses them.

#[cfg(test)]
mod tests;

use crate::nbd::constants::{
    CHUNK_BLOCK_STATUS, CHUNK_ERROR_BIT, CHUNK_ERROR_OFFSET, CHUNK_FLAG_DONE, CHUNK_HEADER_LEN,
    CHUNK_NONE, CHUNK_OFFSET_DATA, CHUNK_OFFSET_HOLE, MAX_STRING, SIMPLE_REPLY_LEN,
    SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC,
};
use crate::nbd::errno::Errno;
use crate::nbd::fields::Fields;
use crate::nbd::meta::Extent;

/// The start of a reply, or of a chunk of a reply, up to its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A simple reply. The data of a successful READ follows, and the client knows its length from
    /// the request.
    Simple {
        /// The cookie of the request.
        cookie: u64,
        /// The error, if the request failed.
        error: Option<Errno>,
    },
    /// `length` bytes read at `offset` follow.
    Data {
        /// The cookie of the request.
        cookie: u64,
        /// The offset of the data in the export.
        offset: u64,
        /// The length of the data that follows, in bytes. It is never zero.
        length: u32,
        /// True for the last chunk of a reply.
        done: bool,
    },
    /// `length` bytes at `offset` read as zeroes. No payload follows.
    Hole {
        /// The cookie of the request.
        cookie: u64,
        /// The offset of the hole in the export.
        offset: u64,
        /// The length of the hole in bytes. It is never zero.
        length: u32,
        /// True for the last chunk of a reply.
        done: bool,
    },
    /// The reply ends here, without content.
    None {
        /// The cookie of the request.
        cookie: u64,
    },
    /// The request failed with an error.
    Error {
        /// The cookie of the request.
        cookie: u64,
        /// The error value that the server sent.
        error: Errno,
        /// The offset of the error in the export, if the server sends one.
        offset: Option<u64>,
        /// The message of the server, which may be empty.
        message: String,
        /// True for the last chunk of a reply.
        done: bool,
    },
    /// As many extents as `extents` follow, of [`Extent::LEN`](crate::nbd::Extent::LEN) bytes each.
    BlockStatus {
        /// The cookie of the request.
        cookie: u64,
        /// The ID of the metadata context.
        context: u32,
        /// The number of extents that follow, at least one.
        extents: u32,
        /// True for the last chunk of a reply.
        done: bool,
    },
}

/// Maximum length of an error chunk in bytes after its header: the longest message and the fields
/// around it, doubled to leave room for additions in later versions of the protocol.
const MAX_ERROR_CHUNK: u32 = 2 * (MAX_STRING as u32 + 14);

/// Parses the heads of replies from a stream that arrives in parts of any size.
///
/// It holds at most the bytes of one head, including an error's message.
#[derive(Debug, Clone, Default)]
pub struct ReplyParser {
    /// The part of a head that has arrived, if the rest is missing.
    held: Vec<u8>,
}

impl ReplyParser {
    /// Length in bytes of the longest head: an error with its message.
    pub const MAX_HEAD: usize = CHUNK_HEADER_LEN + MAX_ERROR_CHUNK as usize;

    /// Creates a parser at the start of a reply.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the memory held in bytes, which is at most [`MAX_HEAD`](Self::MAX_HEAD).
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Consumes bytes from the stream until the head of a reply is complete.
    ///
    /// Returns the number of consumed bytes, and the head once it is complete. The payload, if any,
    /// begins with the first byte that was not consumed. The caller must take the payload from the
    /// stream before it calls again.
    ///
    /// # Errors
    /// Returns the way in which the server violated the protocol. The connection must be closed.
    pub fn feed(&mut self, input: &[u8]) -> Result<(usize, Option<Reply>), ReplyError> {
        if self.held.is_empty() {
            // The usual case: the whole head has arrived and is parsed in place.
            let length = head_len(input)?;
            if let Some(head) = input.get(..length) {
                return Ok((length, Some(read_head(head)?)));
            }
        }
        let mut rest = input;
        loop {
            let missing = head_len(&self.held)? - self.held.len();
            if missing == 0 {
                let reply = read_head(&self.held)?;
                self.held.clear();
                return Ok((input.len() - rest.len(), Some(reply)));
            }
            if rest.is_empty() {
                return Ok((input.len(), None));
            }
            let (taken, left) = rest.split_at(missing.min(rest.len()));
            self.held.extend_from_slice(taken);
            rest = left;
        }
    }
}

/// Returns the length of the head that begins with `bytes`, as far as they determine it. A result
/// of at most `bytes.len()` is final.
fn head_len(bytes: &[u8]) -> Result<usize, ReplyError> {
    // No head is shorter than a simple reply.
    let Some(start) = bytes.first_chunk::<SIMPLE_REPLY_LEN>() else {
        return Ok(SIMPLE_REPLY_LEN);
    };
    match u32::from_be_bytes([start[0], start[1], start[2], start[3]]) {
        SIMPLE_REPLY_MAGIC => return Ok(SIMPLE_REPLY_LEN),
        STRUCTURED_REPLY_MAGIC => {}
        found => return Err(ReplyError::BadMagic(found)),
    }
    let Some(header) = bytes.first_chunk::<CHUNK_HEADER_LEN>() else {
        return Ok(CHUNK_HEADER_LEN);
    };
    let kind = u16::from_be_bytes([header[6], header[7]]);
    let length = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
    // `in_head` is the part of the chunk that belongs to the head. The rest is payload, which the
    // caller takes from the stream. `proto.md` (Structured reply types) gives the length of each
    // type.
    let (fits, in_head) = match kind {
        CHUNK_NONE => (length == 0, 0),
        CHUNK_OFFSET_DATA => (length > 8, 8),
        CHUNK_OFFSET_HOLE => (length == 12, 12),
        CHUNK_BLOCK_STATUS => (
            length > 4 && (length - 4).is_multiple_of(Extent::LEN as u32),
            4,
        ),
        CHUNK_ERROR_OFFSET => ((14..=MAX_ERROR_CHUNK).contains(&length), length),
        _ if kind & CHUNK_ERROR_BIT != 0 => ((6..=MAX_ERROR_CHUNK).contains(&length), length),
        _ => return Err(ReplyError::UnknownChunk(kind)),
    };
    if !fits {
        return Err(ReplyError::BadLength { kind, length });
    }
    Ok(CHUNK_HEADER_LEN + in_head as usize)
}

/// The error for a head that ends too early, which cannot occur after [`head_len`].
const CUT_OFF: ReplyError = ReplyError::BadChunk("a field is cut off");

/// Parses a head that has arrived completely.
fn read_head(head: &[u8]) -> Result<Reply, ReplyError> {
    let mut fields = Fields::new(head);
    if fields.u32() == Some(SIMPLE_REPLY_MAGIC) {
        let error = fields.u32().ok_or(CUT_OFF)?;
        let cookie = fields.u64().ok_or(CUT_OFF)?;
        return Ok(Reply::Simple {
            cookie,
            error: Errno::from_wire(error),
        });
    }
    let done = fields.u16().ok_or(CUT_OFF)? & CHUNK_FLAG_DONE != 0;
    let kind = fields.u16().ok_or(CUT_OFF)?;
    let cookie = fields.u64().ok_or(CUT_OFF)?;
    let length = fields.u32().ok_or(CUT_OFF)?;
    match kind {
        // This chunk ends a reply by definition, so that it must be marked as the last one
        // (`proto.md`, Structured reply types).
        CHUNK_NONE if done => Ok(Reply::None { cookie }),
        CHUNK_NONE => Err(ReplyError::BadChunk("another chunk follows the last one")),
        CHUNK_OFFSET_DATA => {
            let offset = fields.u64().ok_or(CUT_OFF)?;
            Ok(Reply::Data {
                cookie,
                offset,
                length: length - 8,
                done,
            })
        }
        CHUNK_OFFSET_HOLE => {
            let offset = fields.u64().ok_or(CUT_OFF)?;
            match fields.u32().ok_or(CUT_OFF)? {
                0 => Err(ReplyError::BadChunk("a hole has no bytes")),
                length => Ok(Reply::Hole {
                    cookie,
                    offset,
                    length,
                    done,
                }),
            }
        }
        CHUNK_BLOCK_STATUS => {
            let context = fields.u32().ok_or(CUT_OFF)?;
            let extents = (length - 4) / Extent::LEN as u32;
            Ok(Reply::BlockStatus {
                cookie,
                context,
                extents,
                done,
            })
        }
        _ => read_error(&mut fields, cookie, kind, done),
    }
}

/// Parses the content of an error chunk, after the header.
fn read_error(
    fields: &mut Fields<'_>,
    cookie: u64,
    kind: u16,
    done: bool,
) -> Result<Reply, ReplyError> {
    const TOO_LONG: ReplyError = ReplyError::BadChunk("the message of an error is too long");
    let error = Errno::from_wire(fields.u32().ok_or(CUT_OFF)?)
        .ok_or(ReplyError::BadChunk("an error has the code of success"))?;
    let length = usize::from(fields.u16().ok_or(CUT_OFF)?);
    if length > MAX_STRING {
        return Err(TOO_LONG);
    }
    let message = String::from_utf8_lossy(fields.bytes(length).ok_or(TOO_LONG)?).into_owned();
    let offset = match kind {
        CHUNK_ERROR_OFFSET => Some(fields.u64().ok_or(TOO_LONG)?),
        _ => None,
    };
    Ok(Reply::Error {
        cookie,
        error,
        offset,
        message,
        done,
    })
}

/// The way in which the server violated the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// A reply starts with this number instead of a magic number.
    #[error("the reply starts with {0:#010x} instead of a magic number")]
    BadMagic(u32),
    /// A chunk that is not an error has an unknown type.
    #[error("a chunk has the unknown type {0}")]
    UnknownChunk(u16),
    /// The length of a chunk does not fit its type.
    #[error("a chunk of type {kind} has an invalid length of {length} bytes")]
    BadLength {
        /// The type of the chunk.
        kind: u16,
        /// The length of the chunk in bytes.
        length: u32,
    },
    /// A chunk is inconsistent. Contains the reason.
    #[error("malformed chunk: {0}")]
    BadChunk(&'static str),
}
