//! Replies of the transmission phase, as the client reads them.

use std::fmt;

use crate::nbd::constants::{
    CHUNK_BLOCK_STATUS, CHUNK_ERROR_BIT, CHUNK_ERROR_OFFSET, CHUNK_FLAG_DONE, CHUNK_HEADER_LEN,
    CHUNK_NONE, CHUNK_OFFSET_DATA, CHUNK_OFFSET_HOLE, MAX_STRING, SIMPLE_REPLY_LEN,
    SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC,
};
use crate::nbd::errno::Errno;
use crate::nbd::fields::Fields;
use crate::nbd::meta::Extent;

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

/// Longest error chunk that is accepted, in bytes after its header: the longest message, the fields around it, and as
/// much again for what a later protocol may add.
const MAX_ERROR_CHUNK: u32 = 2 * (MAX_STRING as u32 + 14);

/// Reads heads of replies from a stream in pieces of any size. It holds the bytes of one head at most, an error's message
/// included.
#[derive(Debug, Clone, Default)]
pub struct ReplyParser {
    /// The beginning of a head of which the rest has not arrived.
    held: Vec<u8>,
}

impl ReplyParser {
    /// Length of the longest head, in bytes: an error with its message.
    pub const MAX_HEAD: usize = CHUNK_HEADER_LEN + MAX_ERROR_CHUNK as usize;

    /// A parser at the start of a reply.
    pub fn new() -> Self {
        Self::default()
    }

    /// Memory held, in bytes: at most [`MAX_HEAD`](Self::MAX_HEAD).
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Takes bytes from the stream until the head of a reply is complete. Returns how many were consumed, and the head
    /// once it is complete; the payload it announces, if any, begins with the first byte that was not consumed, and the
    /// caller takes it from the stream before calling again.
    ///
    /// # Errors
    /// The server breaks the protocol; the connection must end.
    pub fn feed(&mut self, input: &[u8]) -> Result<(usize, Option<Reply>), ReplyError> {
        if self.held.is_empty() {
            // The usual case: the whole head is there, and is read where it lies.
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

/// Length of the head that begins with `bytes`, as far as they tell: if it is at most `bytes.len()`, it is final.
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

/// Reads a head that is complete.
fn read_head(head: &[u8]) -> Result<Reply, ReplyError> {
    let mut fields = Fields::new(head);
    let reply = match fields.u32() {
        Some(SIMPLE_REPLY_MAGIC) => read_simple(&mut fields),
        _ => read_chunk(&mut fields)?,
    };
    reply.ok_or(ReplyError::BadChunk("a field is cut off"))
}

fn read_simple(fields: &mut Fields<'_>) -> Option<Reply> {
    let error = Errno::from_wire(fields.u32()?);
    Some(Reply::Simple {
        cookie: fields.u64()?,
        error,
    })
}

/// `None` if a field is missing, which [`head_len`] excludes.
fn read_chunk(fields: &mut Fields<'_>) -> Result<Option<Reply>, ReplyError> {
    let header = (fields.u16(), fields.u16(), fields.u64(), fields.u32());
    let (Some(flags), Some(kind), Some(cookie), Some(length)) = header else {
        return Ok(None);
    };
    let done = flags & CHUNK_FLAG_DONE != 0;
    Ok(match kind {
        CHUNK_NONE if !done => {
            return Err(ReplyError::BadChunk("a last chunk that is not the last"));
        }
        CHUNK_NONE => Some(Reply::None { cookie }),
        CHUNK_OFFSET_DATA => fields.u64().map(|offset| Reply::Data {
            cookie,
            offset,
            length: length - 8,
            done,
        }),
        CHUNK_OFFSET_HOLE => match (fields.u64(), fields.u32()) {
            (_, Some(0)) => return Err(ReplyError::BadChunk("a hole of no bytes")),
            (Some(offset), Some(length)) => Some(Reply::Hole {
                cookie,
                offset,
                length,
                done,
            }),
            _ => None,
        },
        CHUNK_BLOCK_STATUS => {
            let extents = (length - 4) / Extent::LEN as u32;
            fields.u32().map(|context| Reply::BlockStatus {
                cookie,
                context,
                extents,
                done,
            })
        }
        _ => Some(read_error(fields, cookie, kind, done)?),
    })
}

fn read_error(
    fields: &mut Fields<'_>,
    cookie: u64,
    kind: u16,
    done: bool,
) -> Result<Reply, ReplyError> {
    let (Some(value), Some(length)) = (fields.u32(), fields.u16()) else {
        return Err(ReplyError::BadChunk("an error that is cut off"));
    };
    let error =
        Errno::from_wire(value).ok_or(ReplyError::BadChunk("an error that says success"))?;
    let message = fields
        .bytes(usize::from(length))
        .filter(|message| message.len() <= MAX_STRING)
        .map(|message| String::from_utf8_lossy(message).into_owned())
        .ok_or(ReplyError::BadChunk("an error's message that is too long"))?;
    let offset = match kind {
        CHUNK_ERROR_OFFSET => Some(
            fields
                .u64()
                .ok_or(ReplyError::BadChunk("an error's message that is too long"))?,
        ),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::nbd::flags::ExtentFlags;
    use crate::nbd::reply::{
        append_block_status, append_error, encode_data_header, encode_error, encode_error_offset,
        encode_hole, encode_none, encode_simple_reply,
    };

    fn encoded<const N: usize>(encode: impl FnOnce(&mut [u8; N])) -> Vec<u8> {
        let mut out = [0xaa; N];
        encode(&mut out);
        out.to_vec()
    }

    /// One reply with the bytes the server sends for it, without payload.
    fn replies() -> impl Strategy<Value = (Reply, Vec<u8>)> {
        let errno = prop::sample::select(vec![Errno::Perm, Errno::Io, Errno::Inval, Errno::NoSpc]);
        let numbers = (any::<u64>(), any::<u64>(), 1..=u32::MAX - 8, any::<bool>());
        (0..8, numbers, errno, "\\PC{0,40}", 1..20u32).prop_map(
            |(kind, (cookie, offset, length, done), error, message, extents)| match kind {
                0 => simple(cookie, None),
                1 => simple(cookie, Some(error)),
                2 => (
                    Reply::Data {
                        cookie,
                        offset,
                        length,
                        done,
                    },
                    encoded(|out| encode_data_header(out, cookie, offset, length, done)),
                ),
                3 => (
                    Reply::Hole {
                        cookie,
                        offset,
                        length,
                        done,
                    },
                    encoded(|out| encode_hole(out, cookie, offset, length, done)),
                ),
                4 => (
                    Reply::None { cookie },
                    encoded(|out| encode_none(out, cookie)),
                ),
                5 if message.is_empty() => (
                    Reply::Error {
                        cookie,
                        error,
                        offset: None,
                        message,
                        done,
                    },
                    encoded(|out| encode_error(out, cookie, error, done)),
                ),
                5 => {
                    let mut bytes = Vec::new();
                    append_error(&mut bytes, cookie, error, &message, done);
                    (
                        Reply::Error {
                            cookie,
                            error,
                            offset: None,
                            message,
                            done,
                        },
                        bytes,
                    )
                }
                6 => (
                    Reply::Error {
                        cookie,
                        error,
                        offset: Some(offset),
                        message: String::new(),
                        done,
                    },
                    encoded(|out| encode_error_offset(out, cookie, error, offset, done)),
                ),
                _ => block_status(cookie, extents, done),
            },
        )
    }

    fn simple(cookie: u64, error: Option<Errno>) -> (Reply, Vec<u8>) {
        let bytes = encoded(|out| encode_simple_reply(out, cookie, error));
        (Reply::Simple { cookie, error }, bytes)
    }

    fn block_status(cookie: u64, extents: u32, done: bool) -> (Reply, Vec<u8>) {
        let list = vec![
            Extent {
                length: 512,
                flags: ExtentFlags::HOLE
            };
            extents as usize
        ];
        let mut bytes = Vec::new();
        append_block_status(&mut bytes, cookie, 1, &list, done);
        bytes.truncate(CHUNK_HEADER_LEN + 4);
        (
            Reply::BlockStatus {
                cookie,
                context: 1,
                extents,
                done,
            },
            bytes,
        )
    }

    proptest! {
        /// What the server encodes comes out, in pieces of any size, with exactly its bytes consumed.
        #[test]
        fn replies_round_trip(
            replies in prop::collection::vec(replies(), 1..6),
            piece in 1..50usize,
        ) {
            let stream: Vec<u8> = replies.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
            let mut parser = ReplyParser::new();
            let (mut at, mut heads, mut ends) = (0, Vec::new(), Vec::new());
            while at < stream.len() {
                let end = stream.len().min(at + piece);
                let (used, reply) = parser.feed(&stream[at..end]).expect("our server");
                prop_assert!(used > 0);
                prop_assert!(reply.is_some() || used == end - at);
                at += used;
                if let Some(reply) = reply {
                    heads.push(reply);
                    ends.push(at);
                }
            }
            prop_assert_eq!(parser.feed(&[]), Ok((0, None)));
            let mut expected_end = 0;
            for (index, (reply, bytes)) in replies.iter().enumerate() {
                expected_end += bytes.len();
                prop_assert_eq!(&heads[index], reply);
                prop_assert_eq!(ends[index], expected_end);
            }
        }
    }

    /// A chunk with the cookie 1.
    fn chunk(flags: u16, kind: u16, length: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = STRUCTURED_REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&1u64.to_be_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    fn error_of(bytes: &[u8]) -> ReplyError {
        let whole = ReplyParser::new().feed(bytes).expect_err("a broken reply");
        let mut parser = ReplyParser::new();
        let pieces = bytes.iter().find_map(|&byte| parser.feed(&[byte]).err());
        assert_eq!(pieces, Some(whole), "byte by byte");
        whole
    }

    #[test]
    fn chunks_of_a_wrong_length_are_refused_by_their_header() {
        for (kind, length) in [
            (CHUNK_NONE, 1),
            (CHUNK_OFFSET_DATA, 0),
            (CHUNK_OFFSET_DATA, 8),
            (CHUNK_OFFSET_HOLE, 11),
            (CHUNK_OFFSET_HOLE, 13),
            (CHUNK_BLOCK_STATUS, 4),
            (CHUNK_BLOCK_STATUS, 13),
            (CHUNK_BLOCK_STATUS, 3),
            (0x8001, 5),
            (0x8001, u32::MAX),
            (CHUNK_ERROR_OFFSET, 13),
            (0xffff, 5),
        ] {
            let error = error_of(&chunk(1, kind, length, &[]));
            assert_eq!(error, ReplyError::BadLength { kind, length });
        }
        assert_eq!(error_of(&chunk(1, 3, 0, &[])), ReplyError::UnknownChunk(3));
        assert_eq!(error_of(&[0x12; 16]), ReplyError::BadMagic(0x1212_1212));
    }

    #[test]
    fn chunks_that_contradict_themselves_are_refused() {
        let hole = chunk(1, CHUNK_OFFSET_HOLE, 12, &[0; 12]);
        assert_eq!(error_of(&hole), ReplyError::BadChunk("a hole of no bytes"));
        for bytes in [
            chunk(0, CHUNK_NONE, 0, &[]),
            chunk(1, 0x8001, 6, &[0; 6]),
            chunk(1, 0x8001, 6, &[0, 0, 0, 5, 0, 1]),
            chunk(
                1,
                CHUNK_ERROR_OFFSET,
                14,
                &[0, 0, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
        ] {
            assert!(
                matches!(error_of(&bytes), ReplyError::BadChunk(_)),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn errors_of_an_unknown_kind_or_value_are_errors_all_the_same() {
        let body = [0, 0, 0x10, 0, 0, 2, b'h', b'i', 9, 9, 9];
        let (used, reply) = ReplyParser::new()
            .feed(&chunk(0, 0xc000, 11, &body))
            .unwrap();
        assert_eq!(used, CHUNK_HEADER_LEN + 11);
        let expected = Reply::Error {
            cookie: 1,
            error: Errno::Inval,
            offset: None,
            message: "hi".into(),
            done: false,
        };
        assert_eq!(reply, Some(expected));
    }
}
