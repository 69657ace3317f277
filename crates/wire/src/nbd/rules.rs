//! The checks that a request must pass before it reaches the storage.

use super::errno::Errno;
use super::flags::{CommandFlags, TransmissionFlags};
use super::request::{NbdCommand, NbdRequest};

/// The negotiated properties of a connection against which its requests are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleSettings {
    /// Size of the export in bytes.
    pub size: u64,
    /// The transmission flags that were sent to the client.
    pub flags: TransmissionFlags,
    /// True if `base:allocation` was selected for this export, which `BLOCK_STATUS` requires.
    pub meta_allocation: bool,
    /// Required alignment of offset and length in bytes, a power of two.
    pub minimum_block: u32,
    /// Longest READ or WRITE in bytes.
    pub maximum_payload: u32,
    /// Longest TRIM, CACHE or `WRITE_ZEROES` in bytes. `BLOCK_STATUS` has no limit.
    pub maximum_range: u32,
}

/// [`RuleSettings`] prepared for the check: a table look-up and a few comparisons for a valid
/// request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    settings: RuleSettings,
    /// By command code: the flag bits that the command must not carry.
    forbidden: [u16; COMMANDS],
    /// By command code: the maximum length in bytes. It is 0 for commands without a range and for
    /// commands that are always refused.
    longest: [u32; COMMANDS],
    /// The bits that must be clear in offset and length.
    unaligned: u64,
}

/// The number of known commands, whose codes are 0 to 7.
const COMMANDS: usize = 8;

impl Rules {
    /// Prepares the check from the settings.
    ///
    /// # Panics
    /// If the minimum block size is not a power of two.
    pub fn new(settings: RuleSettings) -> Self {
        assert!(
            settings.minimum_block.is_power_of_two(),
            "minimum block size of {}",
            settings.minimum_block
        );
        let mut rules = Self {
            settings,
            forbidden: [0; COMMANDS],
            longest: [0; COMMANDS],
            unaligned: u64::from(settings.minimum_block) - 1,
        };
        for code in 0..COMMANDS {
            let command = NbdCommand::from_wire(code as u16);
            rules.forbidden[code] = !settings.allowed_flags(command).bits();
            // A limit of 0 sends the request to the detailed check, which finds the error to reply.
            if !settings.is_refused_as_read_only(command) && settings.is_offered(command) {
                rules.longest[code] = settings.longest(command);
            }
        }
        rules
    }

    /// Returns the settings from which these rules were made.
    pub fn settings(&self) -> &RuleSettings {
        &self.settings
    }

    /// Returns true if a request with a range is valid. [`Self::validate_in_detail`] decides about
    /// all others.
    #[inline]
    fn is_valid_fast(&self, request: &NbdRequest) -> bool {
        let code = usize::from(request.command.to_wire());
        let NbdRequest { offset, length, .. } = *request;
        code < COMMANDS
            && request.flags.bits() & self.forbidden[code] == 0
            // A length of 0 wraps to `u32::MAX`, which is below no limit, so that one comparison
            // checks both bounds.
            && length.wrapping_sub(1) < self.longest[code]
            && offset <= self.settings.size
            && u64::from(length) <= self.settings.size - offset
            && (offset | u64::from(length)) & self.unaligned == 0
    }

    /// Checks the request in the order that [`NbdRequest::validate`] documents.
    #[cold]
    fn validate_in_detail(&self, request: &NbdRequest) -> Result<(), RequestError> {
        let settings = &self.settings;
        let NbdRequest {
            command,
            offset,
            length,
            ..
        } = *request;
        if let NbdCommand::Unknown(_) = command {
            return Err(RequestError::UnknownCommand);
        }
        if !settings.allowed_flags(command).contains(request.flags) {
            return Err(RequestError::Flags);
        }
        if settings.is_refused_as_read_only(command) {
            return Err(RequestError::ReadOnly);
        }
        if !settings.is_offered(command) {
            return Err(RequestError::NotOffered);
        }
        // `proto.md` (Request types): offset and length of these commands must be zero.
        if matches!(command, NbdCommand::Flush | NbdCommand::Disconnect) {
            return if offset == 0 && length == 0 {
                Ok(())
            } else {
                Err(RequestError::Range)
            };
        }
        if length == 0 {
            return Err(RequestError::Empty);
        }
        let end = offset
            .checked_add(u64::from(length))
            .ok_or(RequestError::Overflow)?;
        if end > settings.size {
            // `proto.md` (Error values): a server should reply ENOSPC to writes beyond the end, and
            // EINVAL to other ranges.
            return Err(match command {
                NbdCommand::Write | NbdCommand::WriteZeroes => RequestError::WriteBeyondEnd,
                _ => RequestError::BeyondEnd,
            });
        }
        if (offset | u64::from(length)) & self.unaligned != 0 {
            return Err(RequestError::Unaligned);
        }
        if length > settings.longest(command) {
            return Err(RequestError::TooLong);
        }
        Ok(())
    }
}

impl RuleSettings {
    /// Returns the flags that a request may carry.
    ///
    /// If FUA was offered, it is permitted with every command. Some clients set it where it has no
    /// effect, and the protocol requires servers to accept it (`proto.md`, Command flags).
    fn allowed_flags(&self, command: NbdCommand) -> CommandFlags {
        let mut allowed = CommandFlags::EMPTY;
        let mut allow = |offered: TransmissionFlags, flag: CommandFlags| {
            if self.flags.contains(offered) {
                allowed |= flag;
            }
        };
        allow(TransmissionFlags::SEND_FUA, CommandFlags::FUA);
        match command {
            NbdCommand::Read => allow(TransmissionFlags::SEND_DF, CommandFlags::DF),
            NbdCommand::WriteZeroes => {
                allow(TransmissionFlags::SEND_WRITE_ZEROES, CommandFlags::NO_HOLE);
                allow(TransmissionFlags::SEND_FAST_ZERO, CommandFlags::FAST_ZERO);
            }
            // There is no transmission flag for `REQ_ONE`, so it is always offered.
            NbdCommand::BlockStatus => allow(TransmissionFlags::EMPTY, CommandFlags::REQ_ONE),
            _ => {}
        }
        allowed
    }

    fn is_refused_as_read_only(&self, command: NbdCommand) -> bool {
        command.modifies() && self.flags.contains(TransmissionFlags::READ_ONLY)
    }

    fn is_offered(&self, command: NbdCommand) -> bool {
        match command {
            NbdCommand::Read | NbdCommand::Write | NbdCommand::Disconnect => true,
            NbdCommand::Flush => self.flags.contains(TransmissionFlags::SEND_FLUSH),
            NbdCommand::Trim => self.flags.contains(TransmissionFlags::SEND_TRIM),
            NbdCommand::Cache => self.flags.contains(TransmissionFlags::SEND_CACHE),
            NbdCommand::WriteZeroes => self.flags.contains(TransmissionFlags::SEND_WRITE_ZEROES),
            NbdCommand::BlockStatus => self.meta_allocation,
            NbdCommand::Unknown(_) => false,
        }
    }

    /// Returns the maximum length of a range in bytes, or 0 for a command without a range.
    fn longest(&self, command: NbdCommand) -> u32 {
        match command {
            NbdCommand::Read | NbdCommand::Write => self.maximum_payload,
            NbdCommand::Trim | NbdCommand::Cache | NbdCommand::WriteZeroes => self.maximum_range,
            NbdCommand::BlockStatus => u32::MAX,
            NbdCommand::Flush | NbdCommand::Disconnect | NbdCommand::Unknown(_) => 0,
        }
    }
}

/// The reason why a request is refused. The connection continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The command is not known to this implementation.
    #[error("unknown command")]
    UnknownCommand,
    /// A flag is not known, does not belong to the command, or was not offered.
    #[error("flag unknown, not of this command, or not offered")]
    Flags,
    /// The export is read-only, but the command would change it.
    #[error("write to a read-only export")]
    ReadOnly,
    /// The command was not offered, or its preconditions were not negotiated.
    #[error("command not offered or not negotiated")]
    NotOffered,
    /// FLUSH or DISC has an offset or a length.
    #[error("offset or length must be zero")]
    Range,
    /// The length of the range is zero.
    #[error("length is zero")]
    Empty,
    /// Offset plus length does not fit into 64 bits.
    #[error("offset plus length overflows")]
    Overflow,
    /// A WRITE or `WRITE_ZEROES` extends beyond the end of the export.
    #[error("write beyond the end of the export")]
    WriteBeyondEnd,
    /// The range of another command extends beyond the end of the export.
    #[error("range beyond the end of the export")]
    BeyondEnd,
    /// Offset or length is not a multiple of the minimum block size.
    #[error("not a multiple of the minimum block size")]
    Unaligned,
    /// The range is longer than the limit for its command.
    #[error("longer than the maximum block size")]
    TooLong,
}

impl RequestError {
    /// Returns the error to send as the reply.
    pub const fn errno(self) -> Errno {
        match self {
            Self::ReadOnly => Errno::Perm,
            Self::WriteBeyondEnd => Errno::NoSpc,
            _ => Errno::Inval,
        }
    }
}

impl NbdRequest {
    /// Checks the request against the negotiated rules.
    ///
    /// Returns the first error that applies, in this order: unknown command, flags, read-only, not
    /// offered, offset or length of FLUSH and DISC, empty, overflow, beyond the end, unaligned, too
    /// long.
    ///
    /// # Errors
    /// Returns the reason why the request must be refused. [`RequestError::errno`] is the error to
    /// reply. A WRITE's payload still follows, and DISC has no reply at all.
    #[inline]
    pub fn validate(&self, rules: &Rules) -> Result<(), RequestError> {
        if rules.is_valid_fast(self) {
            Ok(())
        } else {
            rules.validate_in_detail(self)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL_FLAGS: TransmissionFlags = TransmissionFlags::SEND_FLUSH
        .with(TransmissionFlags::SEND_FUA)
        .with(TransmissionFlags::SEND_TRIM)
        .with(TransmissionFlags::SEND_WRITE_ZEROES)
        .with(TransmissionFlags::SEND_DF)
        .with(TransmissionFlags::SEND_CACHE)
        .with(TransmissionFlags::SEND_FAST_ZERO);

    fn settings() -> RuleSettings {
        RuleSettings {
            size: 1 << 20,
            flags: ALL_FLAGS,
            meta_allocation: true,
            minimum_block: 512,
            maximum_payload: 64 << 10,
            maximum_range: 256 << 10,
        }
    }

    fn request(command: NbdCommand, flags: CommandFlags, offset: u64, length: u32) -> NbdRequest {
        NbdRequest {
            command,
            flags,
            cookie: 1,
            offset,
            length,
        }
    }

    fn check(
        settings: RuleSettings,
        command: NbdCommand,
        offset: u64,
        length: u32,
    ) -> Result<(), RequestError> {
        request(command, CommandFlags::EMPTY, offset, length).validate(&Rules::new(settings))
    }

    const RANGED: [NbdCommand; 6] = [
        NbdCommand::Read,
        NbdCommand::Write,
        NbdCommand::Trim,
        NbdCommand::Cache,
        NbdCommand::WriteZeroes,
        NbdCommand::BlockStatus,
    ];

    #[test]
    fn good_requests_pass() {
        for command in RANGED {
            assert_eq!(check(settings(), command, 0, 512), Ok(()), "{command:?}");
            assert_eq!(
                check(settings(), command, (1 << 20) - 4096, 4096),
                Ok(()),
                "{command:?}"
            );
        }
        assert_eq!(check(settings(), NbdCommand::Flush, 0, 0), Ok(()));
        assert_eq!(check(settings(), NbdCommand::Disconnect, 0, 0), Ok(()));
    }

    #[test]
    fn requests_beyond_the_end_are_enospc_for_writes_and_otherwise_einval() {
        for command in RANGED {
            // The export has 1 MiB: begins at the end, extends beyond the end, lies far beyond it.
            for (offset, length) in [(1 << 20, 512), ((1 << 20) - 512, 1024), (1 << 40, 512)] {
                let error = check(settings(), command, offset, length).unwrap_err();
                let writes = matches!(command, NbdCommand::Write | NbdCommand::WriteZeroes);
                let expected = if writes { Errno::NoSpc } else { Errno::Inval };
                assert_eq!(error.errno(), expected, "{command:?} at {offset}");
            }
            // The end would be 2^64.
            let overflow = check(settings(), command, u64::MAX - 511, 512);
            assert_eq!(overflow, Err(RequestError::Overflow), "{command:?}");
        }
    }

    #[test]
    fn limits_of_length_depend_on_the_command() {
        for command in RANGED {
            assert_eq!(check(settings(), command, 0, 0), Err(RequestError::Empty));
            let limit = match command {
                NbdCommand::Read | NbdCommand::Write => 64 << 10,
                NbdCommand::BlockStatus => 1 << 20,
                _ => 256 << 10,
            };
            assert_eq!(check(settings(), command, 0, limit), Ok(()), "{command:?}");
            if command != NbdCommand::BlockStatus {
                assert_eq!(
                    check(settings(), command, 0, limit + 512),
                    Err(RequestError::TooLong)
                );
            }
            assert_eq!(
                check(settings(), command, 1, 512),
                Err(RequestError::Unaligned)
            );
            assert_eq!(
                check(settings(), command, 512, 511),
                Err(RequestError::Unaligned)
            );
        }
        assert_eq!(
            check(settings(), NbdCommand::Flush, 512, 0),
            Err(RequestError::Range)
        );
        assert_eq!(
            check(settings(), NbdCommand::Disconnect, 0, 1),
            Err(RequestError::Range)
        );
    }

    #[test]
    fn writes_to_a_read_only_export_are_eperm_even_if_not_offered() {
        let read_only = RuleSettings {
            flags: TransmissionFlags::READ_ONLY,
            meta_allocation: false,
            ..settings()
        };
        for command in RANGED {
            let expected = match command {
                NbdCommand::Read => Ok(()),
                NbdCommand::Write | NbdCommand::Trim | NbdCommand::WriteZeroes => {
                    Err(RequestError::ReadOnly)
                }
                _ => Err(RequestError::NotOffered),
            };
            assert_eq!(check(read_only, command, 0, 512), expected, "{command:?}");
        }
        assert_eq!(RequestError::ReadOnly.errno(), Errno::Perm);
        assert_eq!(
            check(read_only, NbdCommand::Flush, 0, 0),
            Err(RequestError::NotOffered)
        );
    }

    #[test]
    fn flags_belong_to_their_command_and_must_be_offered() {
        let own = |command| match command {
            NbdCommand::Read => CommandFlags::FUA | CommandFlags::DF,
            NbdCommand::WriteZeroes => {
                CommandFlags::FUA | CommandFlags::NO_HOLE | CommandFlags::FAST_ZERO
            }
            NbdCommand::BlockStatus => CommandFlags::FUA | CommandFlags::REQ_ONE,
            _ => CommandFlags::FUA,
        };
        let all = Rules::new(settings());
        let fewer = Rules::new(RuleSettings {
            flags: TransmissionFlags::SEND_TRIM,
            ..settings()
        });
        for command in RANGED {
            for bit in 0..16 {
                let flag = CommandFlags::from_bits(1 << bit);
                let request = request(command, flag, 0, 512);
                let expected = if own(command).contains(flag) {
                    Ok(())
                } else {
                    Err(RequestError::Flags)
                };
                assert_eq!(request.validate(&all), expected, "{command:?} {flag:?}");
                // `REQ_ONE` is always permitted with `BLOCK_STATUS`, because no transmission flag
                // announces it.
                if command != NbdCommand::BlockStatus || flag != CommandFlags::REQ_ONE {
                    assert_eq!(
                        request.validate(&fewer),
                        Err(RequestError::Flags),
                        "{command:?} {flag:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn unknown_commands_are_einval() {
        // Code 8 is RESIZE, which is not supported.
        for code in [8, 9, 1000, u16::MAX] {
            let error = check(settings(), NbdCommand::Unknown(code), 0, 512).unwrap_err();
            assert_eq!(
                (error, error.errno()),
                (RequestError::UnknownCommand, Errno::Inval)
            );
        }
    }

    /// Tests the detailed check directly, because `validate` calls it only for requests that fail
    /// the quick one.
    #[test]
    fn the_detailed_check_accepts_requests_at_the_limits() {
        let rules = Rules::new(settings());
        let to_the_end = request(NbdCommand::Read, CommandFlags::EMPTY, (1 << 20) - 512, 512);
        assert_eq!(rules.validate_in_detail(&to_the_end), Ok(()));
        let longest = request(NbdCommand::Read, CommandFlags::EMPTY, 0, 64 << 10);
        assert_eq!(rules.validate_in_detail(&longest), Ok(()));
    }

    proptest! {
        /// The quick check accepts exactly the requests that the detailed one accepts, except FLUSH
        /// and DISC.
        #[test]
        fn quick_and_explained_checks_agree(
            size in prop_oneof![(0..=16u64).prop_map(|n| n * 512), 0..=8192u64, any::<u64>()],
            bits in any::<u16>(),
            meta_allocation in any::<bool>(),
            shift in 0..=12u32,
            limits in (0..=16384u32, 0..=16384u32),
            code in 0..10u16,
            flags in prop_oneof![Just(0), 0..32u16, any::<u16>()],
            offset in prop_oneof![(0..=16u64).prop_map(|n| n * 512), any::<u64>()],
            length in prop_oneof![(0..=16u32).prop_map(|n| n * 512), any::<u32>()],
        ) {
            let rules = Rules::new(RuleSettings {
                size,
                flags: TransmissionFlags::from_bits(bits),
                meta_allocation,
                minimum_block: 1 << shift,
                maximum_payload: limits.0,
                maximum_range: limits.1,
            });
            let request = request(NbdCommand::from_wire(code), CommandFlags::from_bits(flags), offset, length);
            let explained = rules.validate_in_detail(&request);
            if matches!(request.command, NbdCommand::Flush | NbdCommand::Disconnect) {
                prop_assert!(!rules.is_valid_fast(&request));
            } else {
                prop_assert_eq!(rules.is_valid_fast(&request), explained.is_ok());
            }
            prop_assert_eq!(request.validate(&rules), explained);
        }
    }
}
