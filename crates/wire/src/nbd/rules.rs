//! Which requests are answered with an error before they reach the storage.

use std::fmt;

use super::errno::Errno;
use super::flags::{CommandFlags, TransmissionFlags};
use super::request::{Command, Request};

/// What a connection's requests are checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleSettings {
    /// Size of the export in bytes.
    pub size: u64,
    /// What the client was told the export can do.
    pub flags: TransmissionFlags,
    /// Whether `base:allocation` was selected for this export, which `BLOCK_STATUS` needs.
    pub meta_allocation: bool,
    /// Alignment of offset and length in bytes, a power of two.
    pub minimum_block: u32,
    /// Longest READ or WRITE in bytes.
    pub maximum_payload: u32,
    /// Longest TRIM, CACHE or `WRITE_ZEROES` in bytes; `BLOCK_STATUS` has no limit.
    pub maximum_range: u32,
}

/// [`RuleSettings`] made ready for checking requests: one table look-up and a few comparisons for a request that passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    settings: RuleSettings,
    /// By code of the command: flags it must not carry.
    forbidden: [u16; COMMANDS],
    /// By code of the command: longest length; 0 where the quick check cannot pass.
    longest: [u32; COMMANDS],
    unaligned: u64,
}

/// Codes below this are commands with a range, or FLUSH and DISC.
const COMMANDS: usize = 8;

impl Rules {
    /// Prepares the check.
    pub fn new(settings: RuleSettings) -> Self {
        let _ = settings;
        unreachable!("signature")
    }

    /// The settings these rules were made from.
    pub fn settings(&self) -> &RuleSettings {
        &self.settings
    }
}

/// Why a request is refused; the connection lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// The command is not known.
    UnknownCommand,
    /// A flag is not known, does not belong to the command, or was not offered.
    Flags,
    /// The export is read-only.
    ReadOnly,
    /// The command was not offered, or its preconditions were not negotiated.
    NotOffered,
    /// FLUSH or DISC with an offset or a length.
    Range,
    /// No bytes.
    Empty,
    /// Offset plus length is more than 64 bits hold.
    Overflow,
    /// A write beyond the end of the export.
    WriteBeyondEnd,
    /// Another range beyond the end of the export.
    BeyondEnd,
    /// Offset or length is no multiple of the minimum block size.
    Unaligned,
    /// Longer than allowed.
    TooLong,
}

impl RequestError {
    /// What to answer.
    pub const fn errno(self) -> Errno {
        match self {
            Self::ReadOnly => Errno::Perm,
            Self::WriteBeyondEnd => Errno::NoSpc,
            _ => Errno::Inval,
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownCommand => "unknown command",
            Self::Flags => "flag unknown, not of this command, or not offered",
            Self::ReadOnly => "write to a read-only export",
            Self::NotOffered => "command not offered or not negotiated",
            Self::Range => "offset or length where there must be none",
            Self::Empty => "length is zero",
            Self::Overflow => "offset plus length overflows",
            Self::WriteBeyondEnd => "write beyond the end of the export",
            Self::BeyondEnd => "range beyond the end of the export",
            Self::Unaligned => "not a multiple of the minimum block size",
            Self::TooLong => "longer than the maximum block size",
        })
    }
}

impl std::error::Error for RequestError {}

impl Request {
    /// Checks the request against what was negotiated.
    ///
    /// The first of these that applies is returned: unknown command, flags, read-only, not offered, (FLUSH and DISC:)
    /// offset or length not zero, empty, overflow, beyond the end, unaligned, too long.
    ///
    /// # Errors
    /// Why the request must be refused; [`RequestError::errno`] is the answer. A WRITE's payload still follows.
    #[inline]
    pub fn validate(&self, rules: &Rules) -> Result<(), RequestError> {
        let _ = (rules, Command::Read, CommandFlags::FUA);
        Err(RequestError::UnknownCommand)
    }
}
