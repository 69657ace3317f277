//! Parser that converts a descriptor into a request, with all checks, and the commands that fetch
//! requests.

use super::SECTOR;
use super::constants::{COMMIT_AND_FETCH, DESCRIPTOR_LEN, FETCH, MAX_DEPTH};
use super::control::at;

/// The start of the payloads in `/dev/ublkcN` (`UBLKSRV_IO_BUF_OFFSET`).
const PAYLOADS: u64 = 0x8000_0000;
/// The number of bits of an offset within a payload (`UBLK_IO_BUF_BITS`).
const PAYLOAD_BITS: u32 = 25;
/// The number of bits of a tag above them (`UBLK_TAG_BITS`).
const TAG_BITS: u32 = 16;
/// The granularity of the memory for descriptors in bytes.
const PAGE: usize = 4096;

// The flags `UBLK_IO_F_FUA` and `UBLK_IO_F_NOUNMAP`.
const FUA: u32 = 1 << 13;
const NO_UNMAP: u32 = 1 << 15;

/// A request in the format of the driver's memory.
pub type UblkDescriptor = [u8; DESCRIPTOR_LEN];

/// Returns the length in bytes of the descriptors of a queue with `depth` requests.
pub const fn descriptors_len(depth: u16) -> usize {
    (depth as usize * DESCRIPTOR_LEN).next_multiple_of(PAGE)
}

/// Returns the offset in `/dev/ublkcN` at which the descriptors of a queue are mapped.
pub const fn descriptors_offset(queue: u16) -> u64 {
    // The driver places queues as if each had the maximum depth.
    queue as u64 * descriptors_len(MAX_DEPTH) as u64
}

/// Returns the offset in `/dev/ublkcN` of the payload of a request, by its queue and tag.
pub const fn payload_offset(queue: u16, tag: u16) -> u64 {
    PAYLOADS + ((queue as u64) << (PAYLOAD_BITS + TAG_BITS) | (tag as u64) << PAYLOAD_BITS)
}

/// A command that fetches the next request of a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoCommand {
    /// The number of the queue.
    pub queue: u16,
    /// The tag of the request in its queue.
    pub tag: u16,
    /// The result of the current request of the tag: bytes, or a negative error number. `None` if
    /// there has been no request yet.
    pub result: Option<i32>,
}

impl IoCommand {
    /// Returns the number of the command.
    pub const fn code(&self) -> u32 {
        match self.result {
            Some(_) => COMMIT_AND_FETCH,
            None => FETCH,
        }
    }

    /// Encodes the command in the driver's format.
    pub fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        // The layout of `struct ublksrv_io_cmd`. Its address stays 0, because payloads are copied
        // through `/dev/ublkcN` (`USER_COPY`).
        bytes[0..2].copy_from_slice(&self.queue.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.result.unwrap_or(0).to_ne_bytes());
        bytes
    }
}

/// The operation that a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UblkOperation {
    /// Reads from the device into the payload.
    Read,
    /// Writes the payload to the device.
    Write,
    /// Puts completed writes on stable storage.
    Flush,
    /// States that the range is no longer needed.
    Discard,
    /// Fills the range with zeroes.
    WriteZeroes,
}

/// A request that passed all checks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UblkRequest {
    /// The operation that the request asks for.
    pub operation: UblkOperation,
    /// True if the request may complete only when it is on stable storage.
    pub fua: bool,
    /// True if a zeroed range must keep its space.
    pub keep: bool,
    /// The start of the range in bytes, or 0 for a flush.
    pub offset: u64,
    /// The length of the range in bytes. It is 0 only for a flush.
    pub length: u32,
}

/// The limits of a device. The kernel learns them from [`DeviceParams`](super::DeviceParams), and
/// its requests are checked against them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UblkRules {
    /// The size of the device in sectors.
    pub sectors: u64,
    /// True if the device cannot be written.
    pub read_only: bool,
    /// The longest read or write in bytes.
    pub longest: u32,
    /// The longest discard in bytes, or 0 if discards are not supported.
    pub discard: u32,
    /// The longest range to zero in bytes, or 0 if that is not supported.
    pub write_zeroes: u32,
}

/// The reason why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UblkRequestError {
    /// The operation is unknown, or is not supported by the device.
    #[error("operation {0} is not supported by the device")]
    Operation(u8),
    /// The device is read-only, but the request would change it.
    #[error("a write to a read-only device")]
    ReadOnly,
    /// The range is not entirely on the device, or is too long.
    #[error("{sectors} sectors from {first} on exceed the device or the maximum request")]
    Range {
        /// The first sector of the range.
        first: u64,
        /// The number of sectors of the range.
        sectors: u32,
    },
}

impl UblkRequest {
    /// Parses a descriptor and checks it against the limits.
    ///
    /// # Errors
    /// Returns the reason why the request is refused.
    pub fn parse(descriptor: &UblkDescriptor, rules: &UblkRules) -> Result<Self, UblkRequestError> {
        // The layout of `struct ublksrv_io_desc`: operation and flags, sectors, first sector.
        let word = u32::from_ne_bytes(at(descriptor, 0));
        let sectors = u32::from_ne_bytes(at(descriptor, 4));
        let first = u64::from_ne_bytes(at(descriptor, 8));
        // The lowest byte is the operation (`UBLK_IO_OP_*`), the others are its flags.
        let (operation, longest) = match word as u8 {
            0 => (UblkOperation::Read, rules.longest),
            1 => (UblkOperation::Write, rules.longest),
            2 => (UblkOperation::Flush, 0),
            3 => (UblkOperation::Discard, rules.discard),
            5 => (UblkOperation::WriteZeroes, rules.write_zeroes),
            other => return Err(UblkRequestError::Operation(other)),
        };
        let (fua, keep) = (word & FUA != 0, word & NO_UNMAP != 0);
        // FUA means nothing for a read, and NO_UNMAP only has a meaning for zeroing, so both are
        // ignored elsewhere.
        let mut request = Self {
            operation,
            fua: fua && operation != UblkOperation::Read,
            keep: keep && operation == UblkOperation::WriteZeroes,
            offset: 0,
            length: 0,
        };
        // The sectors of a flush have no meaning, so they are not checked.
        match operation {
            UblkOperation::Flush => return Ok(request),
            UblkOperation::Read => {}
            _ if rules.read_only => return Err(UblkRequestError::ReadOnly),
            _ if longest == 0 => return Err(UblkRequestError::Operation(word as u8)),
            _ => {}
        }
        let length = u64::from(sectors) * SECTOR;
        let end = first.checked_add(sectors.into());
        let there = end.is_some_and(|end| end <= rules.sectors);
        if sectors == 0 || !there || length > longest.into() {
            return Err(UblkRequestError::Range { first, sectors });
        }
        request.offset = first * SECTOR;
        request.length = length as u32;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: UblkRules = UblkRules {
        sectors: 1000,
        read_only: false,
        longest: 128 << 10,
        discard: 1 << 20,
        write_zeroes: 0,
    };

    fn descriptor(word: u32, sectors: u32, first: u64) -> UblkDescriptor {
        let mut bytes = [0xff; DESCRIPTOR_LEN];
        bytes[0..4].copy_from_slice(&word.to_ne_bytes());
        bytes[4..8].copy_from_slice(&sectors.to_ne_bytes());
        bytes[8..16].copy_from_slice(&first.to_ne_bytes());
        bytes
    }

    #[test]
    fn descriptors_are_parsed_as_the_kernel_defines_them() {
        let parse = |word, sectors, first| {
            let descriptor = descriptor(word, sectors, first);
            UblkRequest::parse(&descriptor, &RULES)
        };
        // The device has 1000 sectors, so sectors 992 to 999 are the last ones.
        let write = parse(1 | FUA, 8, 992).unwrap();
        assert_eq!(write.operation, UblkOperation::Write);
        assert!(write.fua && !write.keep);
        assert_eq!((write.offset, write.length), (992 * 512, 4096));
        // The range of a flush has no meaning and is ignored.
        let flush = parse(2, 77, u64::MAX).unwrap();
        assert_eq!((flush.offset, flush.length), (0, 0));
        // Beyond the end, empty, longer than 128 KiB, and with an overflow.
        for (word, sectors, first) in [(0, 8, 993), (0, 0, 0), (1, 257, 0), (3, 2, u64::MAX)] {
            let refused = Err(UblkRequestError::Range { first, sectors });
            assert_eq!(parse(word, sectors, first), refused);
        }
        // Zeroing is not supported by these rules, and operation 4 (`UBLK_IO_OP_WRITE_SAME`) by
        // none.
        assert_eq!(parse(5, 8, 0), Err(UblkRequestError::Operation(5)));
        assert_eq!(parse(4, 8, 0), Err(UblkRequestError::Operation(4)));
    }

    #[test]
    fn writes_to_a_read_only_device_are_refused() {
        let rules = UblkRules {
            read_only: true,
            ..RULES
        };
        for word in [1, 3, 5] {
            let refused = UblkRequest::parse(&descriptor(word, 8, 0), &rules);
            assert_eq!(refused, Err(UblkRequestError::ReadOnly));
        }
        assert!(UblkRequest::parse(&descriptor(0, 8, 0), &rules).is_ok());
    }

    #[test]
    fn payload_and_descriptor_offsets_match_the_driver() {
        assert_eq!(payload_offset(0, 0), 1 << 31);
        // Each tag has 2^25 bytes (32 MiB), and each queue 2^16 tags.
        assert_eq!(payload_offset(0, 1), (1 << 31) + (32 << 20));
        assert_eq!(payload_offset(3, 0), (1 << 31) + (3 << 41));
        assert_eq!(
            // The kernel reserves 4096 · 24 bytes for each queue. 32 descriptors of 24 bytes fit
            // into one page, and 171 do not.
            (descriptors_offset(2), descriptors_len(32)),
            (196_608, 4096)
        );
        assert_eq!(descriptors_len(171), 8192);
        let commit = IoCommand {
            queue: 1,
            tag: 2,
            result: Some(-5),
        };
        // -5 is 0xfffffffb.
        assert_eq!(commit.encode()[..8], [1, 0, 2, 0, 0xfb, 0xff, 0xff, 0xff]);
    }

    proptest! {
        /// Whatever a descriptor contains, an accepted request is on the device and within the
        /// limits.
        #[test]
        fn accepted_requests_are_within_the_rules(
            bytes in any::<[[u8; 8]; 3]>(),
            small in any::<bool>(),
            sectors in 1u64..1 << 40,
            longest in 1u32..1 << 16,
            zeroes in 0u32..1 << 16,
        ) {
            let mut bytes: UblkDescriptor = bytes.concat().try_into().unwrap();
            if small {
                // Most random descriptors would be refused at once, so half of them are made
                // plausible.
                bytes[0] %= 6;
                bytes[6] = 0;
                bytes[7] = 0;
                bytes[11..16].fill(0);
            }
            let rules = UblkRules {
                sectors,
                read_only: false,
                longest: longest * 512,
                discard: zeroes * 512,
                write_zeroes: zeroes * 512,
            };
            let Ok(request) = UblkRequest::parse(&bytes, &rules) else { return Ok(()) };
            let most = match request.operation {
                UblkOperation::Read | UblkOperation::Write => rules.longest,
                UblkOperation::Flush => 0,
                UblkOperation::Discard | UblkOperation::WriteZeroes => rules.discard,
            };
            prop_assert!(request.length <= most);
            prop_assert!(request.offset + u64::from(request.length) <= sectors * 512);
            prop_assert_eq!(request.length == 0, request.operation == UblkOperation::Flush);
        }
    }
}
