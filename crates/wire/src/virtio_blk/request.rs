//! Parser that converts a chain of buffers into a request, with all checks.

use super::{BlkRules, RangeLimits, SECTOR};
use crate::ring::split::{Buffer, BufferChain};
use crate::ring::{Guest, OutsideGuestError};

/// The length of a request's header in bytes.
pub const HEADER: usize = 16;
/// The length of one range of a discard in bytes.
pub const RANGE: usize = 16;
/// The length in bytes of the device's name, as [`BlkCommand::GetId`] returns it. Shorter names are
/// padded with zeroes.
pub const ID_LEN: usize = 20;

/// The command of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum BlkCommand {
    /// Reads from the disk into the data.
    #[default]
    In,
    /// Writes the data to the disk.
    Out,
    /// Puts completed writes on stable storage.
    Flush,
    /// Reads the device's name into the data.
    GetId,
    /// States that the ranges are no longer needed.
    Discard,
    /// Fills the ranges with zeroes.
    WriteZeroes,
}

/// The result of a request, with its value in guest memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Status {
    /// The request was executed successfully.
    Ok = 0,
    /// The request failed with an error.
    IoError = 1,
    /// The request is not supported by the device.
    Unsupported = 2,
}

/// A range of the disk in a discard or a request that writes zeroes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DiskRange {
    /// The start of the range in bytes.
    pub offset: u64,
    /// The length of the range in bytes. It is never 0.
    pub length: u64,
    /// True if zeroing the range may deallocate its space.
    pub unmap: bool,
}

/// A request that passed all checks.
///
/// Keep it from one call to the next, so that its memory is reused.
#[derive(Clone, Debug, Default)]
pub struct BlkRequest {
    /// The command of the request.
    pub command: BlkCommand,
    /// The start on the disk in bytes. It is 0 for a flush, for a name, and for requests with
    /// ranges.
    pub offset: u64,
    /// The length of the data in bytes.
    pub length: u32,
    /// The guest address of the status byte.
    pub status: u64,
    /// The data buffers, all of which the device reads, or all of which it writes. Empty for a
    /// flush and for requests with ranges.
    pub data: Vec<Buffer>,
    /// The ranges of a discard, or of a request that writes zeroes.
    pub ranges: Vec<DiskRange>,
}

/// A request that is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{why}")]
pub struct RefusedBlkRequest {
    /// The reason for the refusal.
    pub why: BlkRequestError,
    /// The guest address of the status byte. If it is `None`, there is no room for a status, and
    /// the head is returned without one.
    pub status: Option<u64>,
}

impl RefusedBlkRequest {
    /// Returns the status of the refused request.
    pub const fn code(&self) -> Status {
        match self.why {
            BlkRequestError::Unknown { .. }
            | BlkRequestError::NotOffered { .. }
            | BlkRequestError::Flags { .. } => Status::Unsupported,
            _ => Status::IoError,
        }
    }
}

/// The reason why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BlkRequestError {
    /// The device can read fewer bytes than a header has, because the header is missing, short or
    /// only writable.
    #[error("the device can read {readable} bytes, but a header has {HEADER}")]
    Header {
        /// The number of readable bytes of the chain.
        readable: u64,
    },
    /// The chain has no writable byte at its end, so that there is no room for the status.
    #[error("the request has no writable byte for the status")]
    NoStatus,
    /// A buffer is not entirely in guest memory.
    #[error("{0}")]
    Outside(OutsideGuestError),
    /// The command number does not exist.
    #[error("unknown command {number}")]
    Unknown {
        /// The number of the command.
        number: u32,
    },
    /// The command was not offered to the driver.
    #[error("{command:?} was not offered")]
    NotOffered {
        /// The command of the request.
        command: BlkCommand,
    },
    /// The direction of the data does not fit the command.
    #[error("the data of {command:?} has the wrong direction")]
    Direction {
        /// The command of the request.
        command: BlkCommand,
    },
    /// A read, a write or a range has no bytes.
    #[error("the request has no data")]
    Empty,
    /// The request has more data than the device accepts at once.
    #[error("the request has {length} bytes; at most {limit} are supported")]
    TooLong {
        /// The length of the data in bytes.
        length: u64,
        /// The permitted length in bytes.
        limit: u64,
    },
    /// The request has more data buffers or ranges than the device accepts at once.
    #[error("the request has {count} buffers or ranges; at most {limit} are supported")]
    TooMany {
        /// The number of buffers or ranges.
        count: u64,
        /// The permitted number.
        limit: u64,
    },
    /// A range does not begin or end at a block, or a list of ranges ends within one of them.
    #[error("{bytes} bytes are not a multiple of {block}")]
    Unaligned {
        /// The number that is not a multiple.
        bytes: u64,
        /// The required divisor in bytes.
        block: u32,
    },
    /// The range extends beyond the end of the disk.
    #[error("{sectors} sectors from {sector} on exceed the disk of {capacity} sectors")]
    BeyondEnd {
        /// The start of the range in sectors.
        sector: u64,
        /// The length of the range in sectors.
        sectors: u64,
        /// The size of the disk in sectors.
        capacity: u64,
    },
    /// The disk is read-only, but the request would change it.
    #[error("the disk is read-only")]
    ReadOnly,
    /// A range has unknown flags, or flags of another command.
    #[error("a range has the invalid flags {flags:#x}")]
    Flags {
        /// The flags of the range.
        flags: u32,
    },
}

impl BlkRequest {
    /// Parses the request in `chain` into `self`. Reads the header and any ranges exactly once.
    ///
    /// # Errors
    /// Returns [`RefusedBlkRequest`]. The content of `self` is then meaningless.
    pub fn parse<G: Guest>(
        &mut self,
        chain: &BufferChain,
        guest: &G,
        rules: &BlkRules,
    ) -> Result<(), RefusedBlkRequest> {
        self.data.clear();
        self.ranges.clear();
        (self.offset, self.length, self.status) = (0, 0, 0);
        // The place for the status comes first, because every later error is reported in it.
        let status = status_address(chain, guest);
        let refused = |why| RefusedBlkRequest {
            why,
            status: status.ok(),
        };
        self.status = status.map_err(refused)?;
        self.parse_body(chain, guest, rules).map_err(refused)
    }

    /// Returns how many bytes a successful request has written into its buffers: the status, and
    /// the data if the command reads.
    pub fn written(&self) -> u32 {
        1 + match self.command {
            BlkCommand::In | BlkCommand::GetId => self.length,
            _ => 0,
        }
    }

    fn parse_body<G: Guest>(
        &mut self,
        chain: &BufferChain,
        guest: &G,
        rules: &BlkRules,
    ) -> Result<(), BlkRequestError> {
        let readable = chain.readable;
        if readable < HEADER as u64 {
            return Err(BlkRequestError::Header { readable });
        }
        let mut header = [0; HEADER];
        gather(&chain.buffers, 0, guest, &mut header)?;
        let number = le_u32(&header, 0);
        let sector = le_u64(&header, 8);
        self.command = command(number)?;
        // The status takes the last writable byte, so the subtraction cannot underflow here.
        let (out, into) = (readable - HEADER as u64, chain.writable - 1);
        let command = self.command;
        let wrong_way = match command {
            BlkCommand::In | BlkCommand::GetId => out > 0,
            BlkCommand::Out | BlkCommand::Discard | BlkCommand::WriteZeroes => into > 0,
            BlkCommand::Flush => out > 0 || into > 0,
        };
        if wrong_way {
            return Err(BlkRequestError::Direction { command });
        }
        if matches!(
            command,
            BlkCommand::Out | BlkCommand::Discard | BlkCommand::WriteZeroes
        ) && rules.read_only
        {
            return Err(BlkRequestError::ReadOnly);
        }
        match command {
            BlkCommand::Flush => Ok(()),
            BlkCommand::GetId => self.take_data(chain, guest, rules, into),
            BlkCommand::In => self
                .take_range(sector, into, rules)
                .and_then(|()| self.take_data(chain, guest, rules, into)),
            BlkCommand::Out => self
                .take_range(sector, out, rules)
                .and_then(|()| self.take_data(chain, guest, rules, out)),
            BlkCommand::Discard => self.take_ranges(chain, guest, rules, rules.discard),
            BlkCommand::WriteZeroes => self.take_ranges(chain, guest, rules, rules.write_zeroes),
        }
    }

    /// Stores the position on the disk of the `length` bytes from `sector` on.
    fn take_range(
        &mut self,
        sector: u64,
        length: u64,
        rules: &BlkRules,
    ) -> Result<(), BlkRequestError> {
        self.offset = disk_offset(sector, length, rules)?;
        Ok(())
    }

    /// Stores the buffers of the `length` bytes of data between header and status.
    fn take_data<G: Guest>(
        &mut self,
        chain: &BufferChain,
        guest: &G,
        rules: &BlkRules,
        length: u64,
    ) -> Result<(), BlkRequestError> {
        if length == 0 {
            return Err(BlkRequestError::Empty);
        }
        if length > u64::from(rules.length) {
            let limit = u64::from(rules.length);
            return Err(BlkRequestError::TooLong { length, limit });
        }
        // Header and status have opposite directions, so the data is the rest of the buffers of its
        // own direction. Only readable data follows the header, and the count of bytes ends
        // writable data before the status.
        let writable = !matches!(self.command, BlkCommand::Out);
        let (mut skip, mut left) = (if writable { 0 } else { HEADER as u64 }, length);
        for buffer in chain.buffers.iter().filter(|b| b.writable == writable) {
            let skipped = skip.min(u64::from(buffer.length));
            skip -= skipped;
            let taken = left.min(u64::from(buffer.length) - skipped);
            if taken == 0 {
                continue;
            }
            left -= taken;
            let address = buffer.address + skipped;
            guest
                .check(address, taken)
                .map_err(BlkRequestError::Outside)?;
            self.data.push(Buffer {
                address,
                length: taken as u32,
                writable,
            });
        }
        let (count, limit) = (self.data.len() as u64, u64::from(rules.segments));
        if count > limit {
            return Err(BlkRequestError::TooMany { count, limit });
        }
        self.length = length as u32;
        Ok(())
    }

    /// Reads the ranges that follow the header.
    fn take_ranges<G: Guest>(
        &mut self,
        chain: &BufferChain,
        guest: &G,
        rules: &BlkRules,
        limits: Option<RangeLimits>,
    ) -> Result<(), BlkRequestError> {
        let command = self.command;
        let limits = limits.ok_or(BlkRequestError::NotOffered { command })?;
        let bytes = chain.readable - HEADER as u64;
        if bytes == 0 {
            return Err(BlkRequestError::Empty);
        }
        if !bytes.is_multiple_of(RANGE as u64) {
            let block = RANGE as u32;
            return Err(BlkRequestError::Unaligned { bytes, block });
        }
        let (count, limit) = (bytes / RANGE as u64, u64::from(limits.ranges));
        if count > limit {
            return Err(BlkRequestError::TooMany { count, limit });
        }
        for index in 0..count {
            let mut raw = [0; RANGE];
            let at = HEADER as u64 + index * RANGE as u64;
            gather(&chain.buffers, at, guest, &mut raw)?;
            let range = range(&raw, command, rules, limits)?;
            self.ranges.push(range);
        }
        Ok(())
    }
}

/// Returns the command with this number (virtio 1.2, section 5.2.6).
fn command(number: u32) -> Result<BlkCommand, BlkRequestError> {
    Ok(match number {
        0 => BlkCommand::In,
        1 => BlkCommand::Out,
        4 => BlkCommand::Flush,
        8 => BlkCommand::GetId,
        11 => BlkCommand::Discard,
        13 => BlkCommand::WriteZeroes,
        _ => return Err(BlkRequestError::Unknown { number }),
    })
}

/// Parses a range of a discard or of a request that writes zeroes: sector u64, sectors u32, flags
/// u32.
fn range(
    raw: &[u8; RANGE],
    command: BlkCommand,
    rules: &BlkRules,
    limits: RangeLimits,
) -> Result<DiskRange, BlkRequestError> {
    const UNMAP: u32 = 1;
    let (sector, sectors, flags) = (le_u64(raw, 0), le_u32(raw, 8), le_u32(raw, 12));
    // The specification (5.2.6.2) does not permit the flag `unmap` in a discard.
    let known = if command == BlkCommand::WriteZeroes {
        UNMAP
    } else {
        0
    };
    if flags & !known != 0 {
        return Err(BlkRequestError::Flags { flags });
    }
    if sectors == 0 {
        return Err(BlkRequestError::Empty);
    }
    let length = u64::from(sectors) * SECTOR;
    if sectors > limits.sectors {
        let limit = u64::from(limits.sectors) * SECTOR;
        return Err(BlkRequestError::TooLong { length, limit });
    }
    Ok(DiskRange {
        offset: disk_offset(sector, length, rules)?,
        length,
        unmap: flags & UNMAP != 0,
    })
}

/// Returns the start on the disk of a range in bytes, if the range is aligned and on the disk.
fn disk_offset(sector: u64, length: u64, rules: &BlkRules) -> Result<u64, BlkRequestError> {
    let block = u64::from(rules.block);
    let unaligned = |bytes| BlkRequestError::Unaligned {
        bytes,
        block: rules.block,
    };
    if !length.is_multiple_of(block) {
        return Err(unaligned(length));
    }
    let (sectors, capacity) = (length / SECTOR, rules.capacity);
    // The multiplication is checked, because the driver can state any 64-bit sector.
    let offset = sector.checked_mul(SECTOR);
    match offset {
        Some(offset) if sector <= capacity && sectors <= capacity - sector => {
            if offset.is_multiple_of(block) {
                Ok(offset)
            } else {
                Err(unaligned(offset))
            }
        }
        _ => Err(BlkRequestError::BeyondEnd {
            sector,
            sectors,
            capacity,
        }),
    }
}

/// Returns the guest address of the status, which is the last writable byte.
fn status_address<G: Guest>(chain: &BufferChain, guest: &G) -> Result<u64, BlkRequestError> {
    match chain.buffers.last() {
        Some(last) if last.writable => {
            let place = last.address + (u64::from(last.length) - 1);
            guest.check(place, 1).map_err(BlkRequestError::Outside)?;
            Ok(place)
        }
        _ => Err(BlkRequestError::NoStatus),
    }
}

/// Copies readable bytes from position `skip` on, however they are spread over buffers.
fn gather<G: Guest>(
    buffers: &[Buffer],
    mut skip: u64,
    guest: &G,
    into: &mut [u8],
) -> Result<(), BlkRequestError> {
    let mut done = 0;
    for buffer in buffers.iter().filter(|buffer| !buffer.writable) {
        let length = u64::from(buffer.length);
        if skip >= length {
            skip -= length;
            continue;
        }
        let piece = (length - skip).min((into.len() - done) as u64) as usize;
        guest
            .read(buffer.address + skip, &mut into[done..done + piece])
            .map_err(BlkRequestError::Outside)?;
        (skip, done) = (0, done + piece);
        if done == into.len() {
            break;
        }
    }
    debug_assert_eq!(done, into.len(), "the caller has counted the bytes");
    Ok(())
}

fn le_u32(bytes: &[u8; 16], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn le_u64(bytes: &[u8; 16], at: usize) -> u64 {
    u64::from(le_u32(bytes, at)) | u64::from(le_u32(bytes, at + 4)) << 32
}
