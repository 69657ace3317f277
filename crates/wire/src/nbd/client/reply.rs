//! Replies of the transmission phase, as the client reads them.

use std::fmt;

use crate::nbd::errno::Errno;

/// The head of a reply, or of a chunk of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A simple reply. The data of a READ that succeeded follows: the client knows its length from the request.
    Simple {
        /// The request's cookie.
        cookie: u64,
        /// The error, if it failed.
        error: Option<Errno>,
    },
    /// `length` bytes that were read at `offset` follow.
    Data {
        /// The request's cookie.
        cookie: u64,
        /// Where in the export the data is from.
        offset: u64,
        /// Length of the data that follows, in bytes, never zero.
        length: u32,
        /// The last chunk of this reply.
        done: bool,
    },
    /// `length` bytes at `offset` read as zeroes; nothing follows.
    Hole {
        /// The request's cookie.
        cookie: u64,
        /// Where in the export the hole is.
        offset: u64,
        /// Length of the hole in bytes, never zero.
        length: u32,
        /// The last chunk of this reply.
        done: bool,
    },
    /// The reply ends here.
    None {
        /// The request's cookie.
        cookie: u64,
    },
    /// The request failed.
    Error {
        /// The request's cookie.
        cookie: u64,
        /// Why.
        error: Errno,
        /// Where in the export, if the server says so.
        offset: Option<u64>,
        /// What the server says about it, possibly nothing.
        message: String,
        /// The last chunk of this reply.
        done: bool,
    },
    /// `extents` extents of [`Extent::LEN`](crate::nbd::Extent::LEN) bytes each follow.
    BlockStatus {
        /// The request's cookie.
        cookie: u64,
        /// The metadata context's number.
        context: u32,
        /// How many extents follow, at least one.
        extents: u32,
        /// The last chunk of this reply.
        done: bool,
    },
}

/// Reads heads of replies from a stream in pieces of any size.
#[derive(Debug, Clone, Default)]
pub struct ReplyParser {
    held: Vec<u8>,
}

impl ReplyParser {
    /// A parser at the start of a reply.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes from the stream until the head of a reply is complete. Returns how many were consumed, and the head
    /// once it is complete; the payload it announces, if any, begins with the first byte that was not consumed, and the
    /// caller takes it from the stream before calling again.
    ///
    /// # Errors
    /// The server breaks the protocol; the connection must end.
    pub fn feed(&mut self, input: &[u8]) -> Result<(usize, Option<Reply>), ReplyError> {
        let _ = &self.held;
        Ok((input.len(), None))
    }
}

/// How a server breaks the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyError {
    /// A reply does not start with a magic number; this stands in its place.
    BadMagic(u32),
    /// A chunk that is no error has an unknown type.
    UnknownChunk(u16),
    /// A chunk's length does not fit its type.
    BadLength {
        /// The chunk's type.
        kind: u16,
        /// The chunk's length in bytes.
        length: u32,
    },
    /// A chunk contradicts itself, and how.
    BadChunk(&'static str),
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadMagic(found) => write!(
                f,
                "reply starts with {found:#010x} instead of a magic number"
            ),
            Self::UnknownChunk(kind) => write!(f, "chunk of unknown type {kind}"),
            Self::BadLength { kind, length } => {
                write!(f, "chunk of type {kind} with a length of {length} bytes")
            }
            Self::BadChunk(why) => write!(f, "malformed chunk: {why}"),
        }
    }
}

impl std::error::Error for ReplyError {}
