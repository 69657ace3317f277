//! Requests: what a descriptor asks for, with everything checked, and the commands that fetch them.

use super::SECTOR;
use super::constants::{COMMIT_AND_FETCH, DESCRIPTOR_LEN, FETCH, MAX_DEPTH};
use super::control::at;

/// Where payloads begin in `/dev/ublkcN`.
const PAYLOADS: u64 = 0x8000_0000;
/// Bits of a place within a payload.
const PAYLOAD_BITS: u32 = 25;
/// Bits of a tag above it.
const TAG_BITS: u32 = 16;
/// The granularity of descriptors' memory.
const PAGE: usize = 4096;

const FUA: u32 = 1 << 13;
const NO_UNMAP: u32 = 1 << 15;

/// A descriptor, as it stands in the driver's memory.
pub type Descriptor = [u8; DESCRIPTOR_LEN];

/// Bytes of the descriptors of a queue with `depth` requests.
pub const fn descriptors_len(depth: u16) -> usize {
    (depth as usize * DESCRIPTOR_LEN).next_multiple_of(PAGE)
}

/// Where in `/dev/ublkcN` the descriptors of a queue are mapped.
pub const fn descriptors_offset(queue: u16) -> u64 {
    queue as u64 * descriptors_len(MAX_DEPTH) as u64
}

/// Where in `/dev/ublkcN` the payload of the request in a queue's place is read and written.
pub const fn payload_offset(queue: u16, tag: u16) -> u64 {
    PAYLOADS + ((queue as u64) << (PAYLOAD_BITS + TAG_BITS) | (tag as u64) << PAYLOAD_BITS)
}

/// A command that fetches the next request of a queue's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoCommand {
    /// The queue.
    pub queue: u16,
    /// The place.
    pub tag: u16,
    /// What came of the request that is there: bytes, or an error number below 0. `None`: there was none yet.
    pub result: Option<i32>,
}

impl IoCommand {
    /// The command's number.
    pub const fn code(&self) -> u32 {
        match self.result {
            Some(_) => COMMIT_AND_FETCH,
            None => FETCH,
        }
    }

    /// As the driver reads it.
    pub fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[0..2].copy_from_slice(&self.queue.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.result.unwrap_or(0).to_ne_bytes());
        bytes
    }
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Read into the payload.
    Read,
    /// Write the payload.
    Write,
    /// Put what was written on stable storage.
    Flush,
    /// The range is no longer needed.
    Discard,
    /// Zero the range.
    WriteZeroes,
}

/// A request that can be carried out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// What is asked for.
    pub operation: Operation,
    /// It is to be on stable storage when it is answered.
    pub fua: bool,
    /// What is zeroed keeps its space.
    pub keep: bool,
    /// Its first byte; 0 for a flush.
    pub offset: u64,
    /// Its bytes, never 0 but for a flush.
    pub length: u32,
}

/// What a device accepts: what the kernel was told, and is held to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// The device's size in sectors.
    pub sectors: u64,
    /// Nothing can be written.
    pub read_only: bool,
    /// Bytes of the longest read or write.
    pub longest: u32,
    /// Bytes of the longest range that is given back; 0 if none can be.
    pub discard: u32,
    /// Bytes of the longest range that is zeroed; 0 if none can be.
    pub write_zeroes: u32,
}

/// A request that is not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// An operation that is not known here, or that the device does not have.
    #[error("operation {0} is not supported by the device")]
    Operation(u8),
    /// A write to a device that is only read.
    #[error("a write to a read-only device")]
    ReadOnly,
    /// A range that is not all there, or too long.
    #[error("{sectors} sectors from {first} on exceed the device or the maximum request")]
    Range {
        /// The first sector.
        first: u64,
        /// How many.
        sectors: u32,
    },
}

impl Request {
    /// What a descriptor asks for.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(descriptor: &Descriptor, rules: &Rules) -> Result<Self, Refused> {
        let word = u32::from_ne_bytes(at(descriptor, 0));
        let sectors = u32::from_ne_bytes(at(descriptor, 4));
        let first = u64::from_ne_bytes(at(descriptor, 8));
        let (operation, longest) = match word as u8 {
            0 => (Operation::Read, rules.longest),
            1 => (Operation::Write, rules.longest),
            2 => (Operation::Flush, 0),
            3 => (Operation::Discard, rules.discard),
            5 => (Operation::WriteZeroes, rules.write_zeroes),
            other => return Err(Refused::Operation(other)),
        };
        let (fua, keep) = (word & FUA != 0, word & NO_UNMAP != 0);
        let mut request = Self {
            operation,
            fua: fua && operation != Operation::Read,
            keep: keep && operation == Operation::WriteZeroes,
            offset: 0,
            length: 0,
        };
        match operation {
            Operation::Flush => return Ok(request),
            Operation::Read => {}
            _ if rules.read_only => return Err(Refused::ReadOnly),
            _ if longest == 0 => return Err(Refused::Operation(word as u8)),
            _ => {}
        }
        let length = u64::from(sectors) * SECTOR;
        let end = first.checked_add(sectors.into());
        let there = end.is_some_and(|end| end <= rules.sectors);
        if sectors == 0 || !there || length > longest.into() {
            return Err(Refused::Range { first, sectors });
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

    const RULES: Rules = Rules {
        sectors: 1000,
        read_only: false,
        longest: 128 << 10,
        discard: 1 << 20,
        write_zeroes: 0,
    };

    fn descriptor(word: u32, sectors: u32, first: u64) -> Descriptor {
        let mut bytes = [0xff; DESCRIPTOR_LEN];
        bytes[0..4].copy_from_slice(&word.to_ne_bytes());
        bytes[4..8].copy_from_slice(&sectors.to_ne_bytes());
        bytes[8..16].copy_from_slice(&first.to_ne_bytes());
        bytes
    }

    #[test]
    fn requests_are_what_the_kernel_means() {
        let parse = |word, sectors, first| {
            let descriptor = descriptor(word, sectors, first);
            Request::parse(&descriptor, &RULES)
        };
        let write = parse(1 | FUA, 8, 992).unwrap();
        assert_eq!(write.operation, Operation::Write);
        assert!(write.fua && !write.keep);
        assert_eq!((write.offset, write.length), (992 * 512, 4096));
        let flush = parse(2, 77, u64::MAX).unwrap();
        assert_eq!((flush.offset, flush.length), (0, 0));
        for (word, sectors, first) in [(0, 8, 993), (0, 0, 0), (1, 257, 0), (3, 2, u64::MAX)] {
            let refused = Err(Refused::Range { first, sectors });
            assert_eq!(parse(word, sectors, first), refused);
        }
        assert_eq!(parse(5, 8, 0), Err(Refused::Operation(5)));
        assert_eq!(parse(4, 8, 0), Err(Refused::Operation(4)));
    }

    #[test]
    fn nothing_is_written_where_that_is_forbidden() {
        let rules = Rules {
            read_only: true,
            ..RULES
        };
        for word in [1, 3, 5] {
            let refused = Request::parse(&descriptor(word, 8, 0), &rules);
            assert_eq!(refused, Err(Refused::ReadOnly));
        }
        assert!(Request::parse(&descriptor(0, 8, 0), &rules).is_ok());
    }

    #[test]
    fn places_are_where_the_driver_has_them() {
        assert_eq!(payload_offset(0, 0), 1 << 31);
        assert_eq!(payload_offset(0, 1), (1 << 31) + (32 << 20));
        assert_eq!(payload_offset(3, 0), (1 << 31) + (3 << 41));
        assert_eq!(
            (descriptors_offset(2), descriptors_len(32)),
            (196_608, 4096)
        );
        assert_eq!(descriptors_len(171), 8192);
        let commit = IoCommand {
            queue: 1,
            tag: 2,
            result: Some(-5),
        };
        assert_eq!(commit.encode()[..8], [1, 0, 2, 0, 0xfb, 0xff, 0xff, 0xff]);
    }

    proptest! {
        /// Whatever stands in a descriptor, what is taken from it is on the device and no longer than was agreed.
        #[test]
        fn what_is_taken_is_within_the_rules(
            bytes in any::<[[u8; 8]; 3]>(),
            small in any::<bool>(),
            sectors in 1u64..1 << 40,
            longest in 1u32..1 << 16,
            zeroes in 0u32..1 << 16,
        ) {
            let mut bytes: Descriptor = bytes.concat().try_into().unwrap();
            if small {
                // Most of what is drawn would be refused at a glance.
                bytes[0] %= 6;
                bytes[6] = 0;
                bytes[7] = 0;
                bytes[11..16].fill(0);
            }
            let rules = Rules {
                sectors,
                read_only: false,
                longest: longest * 512,
                discard: zeroes * 512,
                write_zeroes: zeroes * 512,
            };
            let Ok(request) = Request::parse(&bytes, &rules) else { return Ok(()) };
            let most = match request.operation {
                Operation::Read | Operation::Write => rules.longest,
                Operation::Flush => 0,
                Operation::Discard | Operation::WriteZeroes => rules.discard,
            };
            prop_assert!(request.length <= most);
            prop_assert!(request.offset + u64::from(request.length) <= sectors * 512);
            prop_assert_eq!(request.length == 0, request.operation == Operation::Flush);
        }
    }
}
