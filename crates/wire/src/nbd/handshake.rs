//! The server's side of the handshake.

use std::fmt;

use super::export::{ExportInfo, Exports};
use super::flags::TransmissionFlags;
use super::rules::Rules;

/// Bounds and policy of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeConfig {
    /// Longest data of one option in bytes; more ends the connection. 64 KiB unless set.
    pub option_data: u32,
    /// Most options in one handshake; one more ends the connection. 64 unless set.
    pub options: u32,
    /// Once the output holds this many bytes, [`Handshake::feed`] answers no further option in the same call. 64 KiB
    /// unless set.
    pub output: usize,
    /// Refuse a client that did not ask for the block sizes of an export whose minimum block size is above 1.
    pub require_block_size: bool,
}

impl Default for HandshakeConfig {
    fn default() -> Self {
        Self {
            option_data: 64 << 10,
            options: 64,
            output: 64 << 10,
            require_block_size: false,
        }
    }
}

/// What was agreed when a handshake ended in the transmission phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The export, as [`Exports::find`] described it.
    pub export: ExportInfo,
    /// The flags as the client was told them.
    pub flags: TransmissionFlags,
    /// Structured replies were agreed: READ and `BLOCK_STATUS` must be answered by chunks.
    pub structured: bool,
    /// `base:allocation` was selected for this export, under [`BASE_ALLOCATION_ID`](super::BASE_ALLOCATION_ID).
    pub meta_allocation: bool,
    /// The client wanted no padding after `EXPORT_NAME`.
    pub no_zeroes: bool,
    /// The client asked for the block sizes with GO, and thus promised to obey them.
    pub block_sizes_requested: bool,
}

impl Session {
    /// The rules for this session's requests: READ and WRITE up to the export's maximum block size, ranges without
    /// payload up to `maximum_range` bytes.
    pub fn rules(&self, maximum_range: u32) -> Rules {
        let _ = maximum_range;
        unreachable!("signature")
    }
}

/// How a handshake ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The transmission phase begins with the first byte that was not consumed.
    Transmission(Box<Session>),
    /// The client said goodbye: send the output, then close.
    Aborted,
}

/// The server's side of one connection's handshake (fixed newstyle), as a state machine: bytes in, bytes out.
#[derive(Debug, Clone)]
pub struct Handshake {
    config: HandshakeConfig,
}

impl Handshake {
    /// A handshake that has not begun.
    pub fn new(config: HandshakeConfig) -> Self {
        Self { config }
    }

    /// Appends the bytes with which the server opens the connection. Call it once, before [`feed`](Self::feed).
    pub fn greet(&self, out: &mut Vec<u8>) {
        let _ = (out, self.config);
    }

    /// Takes what the client sent, in pieces of any size, and appends what must be sent to it to `out`.
    ///
    /// Returns how many bytes of `input` were consumed, and the outcome once there is one. Fewer bytes than given are
    /// consumed only when the handshake ended (the rest belongs to the transmission phase) or when `out` reached
    /// [`HandshakeConfig::output`]: send it, then call again with the rest. Each call with input consumes some of it.
    /// `out` must be sent in every case, also with an outcome or an error. After an outcome or an error the handshake must
    /// not be fed again.
    ///
    /// # Errors
    /// Why the connection must be closed.
    pub fn feed(
        &mut self,
        input: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Outcome>), HandshakeError> {
        let _ = (exports, out);
        Ok((input.len(), None))
    }
}

/// Why a handshake ends with the connection closed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The client set a flag it was not offered.
    ClientFlags(u32),
    /// The client does not speak the fixed newstyle handshake.
    NotFixedNewstyle,
    /// An option does not start with the magic number; this stands in its place.
    BadMagic(u64),
    /// An option with more data than allowed.
    OptionTooLong {
        /// The option's code.
        option: u32,
        /// Announced length in bytes.
        length: u32,
        /// Allowed length in bytes.
        limit: u32,
    },
    /// More options than allowed.
    TooManyOptions {
        /// How many are allowed.
        limit: u32,
    },
    /// `EXPORT_NAME` with a name that is too long or not UTF-8.
    BadName,
    /// `EXPORT_NAME` of an export that does not exist, with its name.
    UnknownExport(String),
    /// `EXPORT_NAME` of an export that demands its block sizes be asked for, with its name.
    BlockSizeRequired(String),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientFlags(flags) => {
                write!(f, "client flags {flags:#x} have bits that were not offered")
            }
            Self::NotFixedNewstyle => {
                f.write_str("client does not speak the fixed newstyle handshake")
            }
            Self::BadMagic(found) => write!(
                f,
                "option starts with {found:#018x} instead of the magic number"
            ),
            Self::OptionTooLong {
                option,
                length,
                limit,
            } => {
                write!(
                    f,
                    "option {option} with {length} bytes of data, more than the limit of {limit}"
                )
            }
            Self::TooManyOptions { limit } => {
                write!(f, "more than {limit} options in one handshake")
            }
            Self::BadName => f.write_str("export name is too long or not UTF-8"),
            Self::UnknownExport(name) => write!(f, "no export named {name:?}"),
            Self::BlockSizeRequired(name) => {
                write!(
                    f,
                    "export {name:?} needs a client that asks for its block sizes"
                )
            }
        }
    }
}

impl std::error::Error for HandshakeError {}
