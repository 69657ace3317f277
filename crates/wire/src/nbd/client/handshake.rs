//! The client's side of the handshake.

use std::fmt;

use crate::nbd::export::BlockSizes;
use crate::nbd::flags::TransmissionFlags;

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandshakeConfig {
    /// Name of the export; empty for the server's default. At most 4096 bytes.
    pub export: String,
    /// Ask for structured replies.
    pub structured: bool,
    /// Ask for `base:allocation`; needs `structured`.
    pub meta_allocation: bool,
    /// Ask for the block sizes, and promise to obey them.
    pub block_sizes: bool,
    /// Use `EXPORT_NAME` at once instead of GO.
    pub export_name: bool,
    /// Longest data of one option reply the client accepts, in bytes. 64 KiB unless set.
    pub reply_data: u32,
    /// Most replies to one handshake. 1024 unless set.
    pub replies: u32,
}

impl HandshakeConfig {
    /// Everything asked for, with the default bounds.
    pub fn new(export: impl Into<String>) -> Self {
        Self {
            export: export.into(),
            structured: true,
            meta_allocation: true,
            block_sizes: true,
            export_name: false,
            reply_data: 64 << 10,
            replies: 1024,
        }
    }
}

/// What was agreed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Size of the export in bytes.
    pub size: u64,
    /// What the export can do.
    pub flags: TransmissionFlags,
    /// The server answers READ with chunks.
    pub structured: bool,
    /// The number the server gave to `base:allocation`, if it was selected.
    pub allocation: Option<u32>,
    /// Block sizes, if the server told them.
    pub block_sizes: Option<BlockSizes>,
}

/// How a handshake ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The transmission phase begins.
    Transmission(Session),
    /// The server would not; the goodbye is in the output: send it, then close.
    Refused {
        /// The option that was refused.
        option: u32,
        /// The error reply (`REP_ERR_*`).
        reply: u32,
        /// What the server says about it, possibly nothing.
        message: String,
    },
}

/// The client's side of one connection's handshake, as a state machine: bytes in, bytes out. It sends nothing before
/// the server's greeting has come.
#[derive(Debug, Clone)]
pub struct Handshake {
    config: HandshakeConfig,
}

impl Handshake {
    /// A handshake that has not begun.
    ///
    /// # Panics
    /// If the export's name is longer than 4096 bytes.
    pub fn new(config: HandshakeConfig) -> Self {
        Self { config }
    }

    /// Takes what the server sent, in pieces of any size, and appends what must be sent to it to `out`.
    ///
    /// Returns how many bytes of `input` were consumed (all, until there is an outcome), and the outcome once there is one.
    ///
    /// # Errors
    /// Why the connection must be closed: the server breaks the protocol.
    pub fn feed(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Outcome>), HandshakeError> {
        let _ = (out, &self.config);
        Ok((input.len(), None))
    }
}

/// How a server breaks the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The greeting is not that of an NBD server with the fixed newstyle handshake.
    NotFixedNewstyle,
    /// An option reply does not start with the magic number; this stands in its place.
    BadMagic(u64),
    /// A reply to another option than the one asked.
    WrongOption {
        /// The option that was sent.
        sent: u32,
        /// The option the reply names.
        found: u32,
    },
    /// A reply with more data than allowed.
    ReplyTooLong {
        /// Announced length in bytes.
        length: u32,
        /// Allowed length in bytes.
        limit: u32,
    },
    /// More replies than allowed.
    TooManyReplies {
        /// How many are allowed.
        limit: u32,
    },
    /// A reply that makes no sense, and why.
    BadReply(&'static str),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFixedNewstyle => {
                f.write_str("not an NBD server with the fixed newstyle handshake")
            }
            Self::BadMagic(found) => {
                write!(
                    f,
                    "option reply starts with {found:#018x} instead of the magic number"
                )
            }
            Self::WrongOption { sent, found } => {
                write!(f, "reply to option {found}, but option {sent} was sent")
            }
            Self::ReplyTooLong { length, limit } => {
                write!(
                    f,
                    "option reply of {length} bytes, more than the limit of {limit}"
                )
            }
            Self::TooManyReplies { limit } => write!(f, "more than {limit} option replies"),
            Self::BadReply(why) => write!(f, "malformed option reply: {why}"),
        }
    }
}

impl std::error::Error for HandshakeError {}
