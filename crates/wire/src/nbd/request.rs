//! Requests of the transmission phase: their parser and their encoder.

use super::constants::{REQUEST_LEN, REQUEST_MAGIC};
use super::flags::CommandFlags;

/// The command of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NbdCommand {
    /// Reads `length` bytes at `offset`.
    Read,
    /// Writes the `length` bytes that follow the header at `offset`.
    Write,
    /// Ends the session. There is no reply.
    Disconnect,
    /// Puts all completed writes on stable storage.
    Flush,
    /// States that the range is no longer needed.
    Trim,
    /// States that the range will be needed soon.
    Cache,
    /// Fills the range with zeroes.
    WriteZeroes,
    /// Reports the extents of the range.
    BlockStatus,
    /// A command that this implementation does not know. The reply is EINVAL.
    Unknown(u16),
}

impl NbdCommand {
    /// Returns the command with this code.
    #[inline]
    pub const fn from_wire(code: u16) -> Self {
        match code {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Disconnect,
            3 => Self::Flush,
            4 => Self::Trim,
            5 => Self::Cache,
            6 => Self::WriteZeroes,
            7 => Self::BlockStatus,
            other => Self::Unknown(other),
        }
    }

    /// Returns the code of the command.
    #[inline]
    pub const fn to_wire(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Disconnect => 2,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::Cache => 5,
            Self::WriteZeroes => 6,
            Self::BlockStatus => 7,
            Self::Unknown(code) => code,
        }
    }

    /// Returns true if the command changes the export's contents: WRITE, TRIM and `WRITE_ZEROES`.
    #[inline]
    pub const fn modifies(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }
}

/// The header of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NbdRequest {
    /// The command that the server must execute.
    pub command: NbdCommand,
    /// The flags of the command.
    pub flags: CommandFlags,
    /// The client's identifier of the request, which the reply repeats.
    pub cookie: u64,
    /// Start of the range in bytes.
    pub offset: u64,
    /// Length of the range in bytes.
    pub length: u32,
}

impl NbdRequest {
    /// Returns the length in bytes of the payload that follows the header: `length` for WRITE,
    /// otherwise zero.
    ///
    /// The payload follows even if the request is refused, and must then be skipped.
    #[inline]
    pub const fn payload_len(&self) -> u32 {
        match self.command {
            // Only WRITE has a payload in the request (`proto.md`, Request types).
            NbdCommand::Write => self.length,
            _ => 0,
        }
    }

    /// Returns the payload's length, unless it is more than the server accepts or skips.
    ///
    /// # Errors
    /// Returns [`FatalError::PayloadTooLong`] if the payload is longer than `limit` bytes. The
    /// connection must then end. `limit` should be at least 32 MiB whatever the maximum block size
    /// is, because the protocol recommends that (`proto.md`, Size constraints).
    #[inline]
    pub const fn check_payload(&self, limit: u32) -> Result<u32, FatalError> {
        let length = self.payload_len();
        if length > limit {
            Err(FatalError::PayloadTooLong { length, limit })
        } else {
            Ok(length)
        }
    }

    /// Encodes the header in the format of the wire.
    #[inline]
    pub fn encode(&self) -> [u8; REQUEST_LEN] {
        let mut out = [0; REQUEST_LEN];
        out[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        out[4..6].copy_from_slice(&self.flags.bits().to_be_bytes());
        out[6..8].copy_from_slice(&self.command.to_wire().to_be_bytes());
        out[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        out[16..24].copy_from_slice(&self.offset.to_be_bytes());
        out[24..28].copy_from_slice(&self.length.to_be_bytes());
        out
    }
}

/// Parses the header at the start of `input`. Returns `None` if there are fewer than
/// [`REQUEST_LEN`] bytes.
///
/// The caller advances by [`REQUEST_LEN`], then by [`NbdRequest::payload_len`]. An unknown command
/// does not end the stream. It is returned as [`NbdCommand::Unknown`], and the reply is EINVAL.
///
/// # Errors
/// Returns [`FatalError::BadMagic`] if the stream is out of sync, so that the connection must end.
#[inline]
pub fn parse_request(input: &[u8]) -> Result<Option<NbdRequest>, FatalError> {
    // Without extended headers, every request has the same length (`proto.md`, Request message).
    let Some(bytes) = input.first_chunk::<REQUEST_LEN>() else {
        return Ok(None);
    };
    let magic = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    if magic != REQUEST_MAGIC {
        return Err(FatalError::BadMagic { found: magic });
    }
    Ok(Some(NbdRequest {
        command: NbdCommand::from_wire(u16::from_be_bytes([bytes[6], bytes[7]])),
        flags: CommandFlags::from_bits(u16::from_be_bytes([bytes[4], bytes[5]])),
        cookie: be_u64(bytes, 8),
        offset: be_u64(bytes, 16),
        length: u32::from_be_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]),
    }))
}

/// The reason why a connection in the transmission phase must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FatalError {
    /// A request does not start with the magic number.
    #[error("the request starts with {found:#010x} instead of {REQUEST_MAGIC:#010x}")]
    BadMagic {
        /// The number found instead of the magic number.
        found: u32,
    },
    /// A WRITE announces more payload than the server will skip.
    #[error("a write of {length} bytes exceeds the limit of {limit} bytes")]
    PayloadTooLong {
        /// The announced length in bytes.
        length: u32,
        /// The permitted length in bytes.
        limit: u32,
    },
}

#[inline]
fn be_u64(bytes: &[u8; REQUEST_LEN], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_in_bytes() {
        let bytes = [
            0x25, 0x60, 0x95, 0x13, // magic
            0x00, 0x01, // FUA
            0x00, 0x01, // WRITE
            0, 1, 2, 3, 4, 5, 6, 7, // cookie
            0, 0, 0, 0, 0x10, 0, 0x20, 0, // offset
            0, 0, 0x10, 0, // length
        ];
        let write = NbdRequest {
            command: NbdCommand::Write,
            flags: CommandFlags::FUA,
            cookie: 0x0001_0203_0405_0607,
            offset: 0x1000_2000,
            length: 4096,
        };
        assert_eq!(parse_request(&bytes), Ok(Some(write)));
        assert_eq!(write.encode(), bytes);
    }

    #[test]
    fn a_wrong_magic_is_fatal_and_a_wrong_command_is_not() {
        let mut bytes = [0; REQUEST_LEN + 4];
        bytes[..4].copy_from_slice(&0x2560_9514u32.to_be_bytes());
        assert_eq!(
            parse_request(&bytes),
            Err(FatalError::BadMagic { found: 0x2560_9514 })
        );
        bytes[3] = 0x13;
        bytes[6..8].copy_from_slice(&[0x12, 0x34]);
        let request = parse_request(&bytes).unwrap().unwrap();
        assert_eq!(request.command, NbdCommand::Unknown(0x1234));
    }

    #[test]
    fn only_writes_have_a_payload_and_it_is_bounded() {
        for code in 0..10 {
            let command = NbdCommand::from_wire(code);
            let request = NbdRequest {
                command,
                flags: CommandFlags::EMPTY,
                cookie: 0,
                offset: 0,
                length: 4097,
            };
            let write = command == NbdCommand::Write;
            assert_eq!(
                request.payload_len(),
                if write { 4097 } else { 0 },
                "{command:?}"
            );
            assert_eq!(request.check_payload(4097), Ok(request.payload_len()));
            let expected = Err(FatalError::PayloadTooLong {
                length: 4097,
                limit: 4096,
            });
            assert_eq!(
                request.check_payload(4096),
                if write { expected } else { Ok(0) }
            );
        }
    }
}
