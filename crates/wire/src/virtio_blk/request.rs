//! Requests: what a chain of buffers asks for, with everything checked.

use super::{RangeLimits, Rules, SECTOR};
use crate::ring::split::{Buffer, Chain};
use crate::ring::{Guest, Outside};

/// How long a request's header is in bytes.
pub const HEADER: usize = 16;
/// How long a range of a discard is in bytes.
pub const RANGE: usize = 16;
/// How long the device's name is in bytes, as [`Command::GetId`] returns it; shorter ones are filled up with zeroes.
pub const ID_LEN: usize = 20;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Command {
    /// Read into the data.
    #[default]
    In,
    /// Write from the data.
    Out,
    /// Put what was written on stable storage.
    Flush,
    /// The device's name, into the data.
    GetId,
    /// The ranges are no longer needed.
    Discard,
    /// Zero the ranges.
    WriteZeroes,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// Failed.
    IoError = 1,
    /// Not offered.
    Unsupported = 2,
}

/// A range of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Range {
    /// Where it starts, in bytes.
    pub offset: u64,
    /// How long it is in bytes, never 0.
    pub length: u64,
    /// Whether zeroing it may give up the space.
    pub unmap: bool,
}

/// A request that can be carried out. To be kept from one call to the next, so that its memory is used again.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// What it asks for.
    pub command: Command,
    /// Where it starts on the disk, in bytes; 0 for a flush, a name, and for requests with ranges.
    pub offset: u64,
    /// How many bytes its data has.
    pub length: u32,
    /// Where the status goes in guest memory.
    pub status: u64,
    /// The data: all to be read by the device, or all to be written. Empty for a flush, and for requests with ranges.
    pub data: Vec<Buffer>,
    /// The ranges of a discard, or of what is zeroed.
    pub ranges: Vec<Range>,
}

/// A request that is not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{why}")]
pub struct Refused {
    /// What is wrong with it.
    pub why: RequestError,
    /// Where its status goes; `None` if there is no room for one, and the head goes back without.
    pub status: Option<u64>,
}

impl Refused {
    /// The status it gets.
    pub const fn code(&self) -> Status {
        match self.why {
            RequestError::Unknown { .. }
            | RequestError::NotOffered { .. }
            | RequestError::Flags { .. } => Status::Unsupported,
            _ => Status::IoError,
        }
    }
}

/// What is wrong with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    /// Fewer bytes to be read than a header has: there is none, it is short, or it can only be written.
    #[error("the device can read {readable} bytes, but a header has {HEADER}")]
    Header {
        /// How many there are.
        readable: u64,
    },
    /// No byte that can be written: there is no room for the status, or it can only be read.
    #[error("the request has no writable byte for the status")]
    NoStatus,
    /// A buffer is not in guest memory.
    #[error("{0}")]
    Outside(Outside),
    /// A command that does not exist: its number.
    #[error("unknown command {number}")]
    Unknown {
        /// The number.
        number: u32,
    },
    /// A command that was not offered.
    #[error("{command:?} was not offered")]
    NotOffered {
        /// Which.
        command: Command,
    },
    /// Data to be read by the device that ought to be written, or the other way round.
    #[error("the data of {command:?} has the wrong direction")]
    Direction {
        /// The command.
        command: Command,
    },
    /// A read or write of nothing, or an empty range.
    #[error("the request has no data")]
    Empty,
    /// More data than the device takes at once.
    #[error("the request has {length} bytes; at most {limit} are supported")]
    TooLong {
        /// How many bytes.
        length: u64,
        /// How many there may be.
        limit: u64,
    },
    /// More buffers of data, or more ranges, than the device takes at once.
    #[error("the request has {count} buffers or ranges; at most {limit} are supported")]
    TooMany {
        /// How many.
        count: u64,
        /// How many there may be.
        limit: u64,
    },
    /// A range that does not start or end at a block, or a list of ranges that ends within one.
    #[error("{bytes} bytes are not a multiple of {block}")]
    Unaligned {
        /// The number that is no multiple.
        bytes: u64,
        /// What it has to be a multiple of.
        block: u32,
    },
    /// A range beyond the end of the disk.
    #[error("{sectors} sectors from {sector} on exceed the disk of {capacity} sectors")]
    BeyondEnd {
        /// Where it starts, in sectors.
        sector: u64,
        /// How many sectors it has.
        sectors: u64,
        /// How many the disk has.
        capacity: u64,
    },
    /// A write to a disk that can only be read.
    #[error("the disk is read-only")]
    ReadOnly,
    /// Flags of a range that do not exist, or not for this command.
    #[error("a range has the invalid flags {flags:#x}")]
    Flags {
        /// The flags.
        flags: u32,
    },
}

impl Request {
    /// Makes this the request in `chain`. It reads the header, and the ranges if there are some, once each.
    ///
    /// # Errors
    /// [`Refused`]; what `self` is then means nothing.
    pub fn parse<G: Guest>(
        &mut self,
        chain: &Chain,
        guest: &G,
        rules: &Rules,
    ) -> Result<(), Refused> {
        self.data.clear();
        self.ranges.clear();
        (self.offset, self.length, self.status) = (0, 0, 0);
        let status = status_place(chain, guest);
        let refused = |why| Refused {
            why,
            status: status.ok(),
        };
        self.status = status.map_err(refused)?;
        self.parse_body(chain, guest, rules).map_err(refused)
    }

    /// How many bytes were written into the buffers of a request that was done: its data, if it reads, and the status.
    pub fn written(&self) -> u32 {
        1 + match self.command {
            Command::In | Command::GetId => self.length,
            _ => 0,
        }
    }

    fn parse_body<G: Guest>(
        &mut self,
        chain: &Chain,
        guest: &G,
        rules: &Rules,
    ) -> Result<(), RequestError> {
        let readable = chain.readable;
        if readable < HEADER as u64 {
            return Err(RequestError::Header { readable });
        }
        let mut header = [0; HEADER];
        gather(&chain.buffers, 0, guest, &mut header)?;
        let number = le_u32(&header, 0);
        let sector = le_u64(&header, 8);
        self.command = command(number)?;
        let (out, into) = (readable - HEADER as u64, chain.writable - 1);
        let command = self.command;
        let wrong_way = match command {
            Command::In | Command::GetId => out > 0,
            Command::Out | Command::Discard | Command::WriteZeroes => into > 0,
            Command::Flush => out > 0 || into > 0,
        };
        if wrong_way {
            return Err(RequestError::Direction { command });
        }
        if matches!(
            command,
            Command::Out | Command::Discard | Command::WriteZeroes
        ) && rules.read_only
        {
            return Err(RequestError::ReadOnly);
        }
        match command {
            Command::Flush => Ok(()),
            Command::GetId => self.take_data(chain, guest, rules, into),
            Command::In => self
                .take_range(sector, into, rules)
                .and_then(|()| self.take_data(chain, guest, rules, into)),
            Command::Out => self
                .take_range(sector, out, rules)
                .and_then(|()| self.take_data(chain, guest, rules, out)),
            Command::Discard => self.take_ranges(chain, guest, rules, rules.discard),
            Command::WriteZeroes => self.take_ranges(chain, guest, rules, rules.write_zeroes),
        }
    }

    /// Notes where on the disk `length` bytes from `sector` on are.
    fn take_range(&mut self, sector: u64, length: u64, rules: &Rules) -> Result<(), RequestError> {
        self.offset = on_disk(sector, length, rules)?;
        Ok(())
    }

    /// Notes the `length` bytes of data between header and status.
    fn take_data<G: Guest>(
        &mut self,
        chain: &Chain,
        guest: &G,
        rules: &Rules,
        length: u64,
    ) -> Result<(), RequestError> {
        if length == 0 {
            return Err(RequestError::Empty);
        }
        if length > u64::from(rules.length) {
            let limit = u64::from(rules.length);
            return Err(RequestError::TooLong { length, limit });
        }
        // Whether the header's bytes come before it or the status after it: the data is what is left of each direction.
        let writable = !matches!(self.command, Command::Out);
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
            guest.check(address, taken).map_err(RequestError::Outside)?;
            self.data.push(Buffer {
                address,
                length: taken as u32,
                writable,
            });
        }
        let (count, limit) = (self.data.len() as u64, u64::from(rules.segments));
        if count > limit {
            return Err(RequestError::TooMany { count, limit });
        }
        self.length = length as u32;
        Ok(())
    }

    /// Reads the ranges that follow the header.
    fn take_ranges<G: Guest>(
        &mut self,
        chain: &Chain,
        guest: &G,
        rules: &Rules,
        limits: Option<RangeLimits>,
    ) -> Result<(), RequestError> {
        let command = self.command;
        let limits = limits.ok_or(RequestError::NotOffered { command })?;
        let bytes = chain.readable - HEADER as u64;
        if bytes == 0 {
            return Err(RequestError::Empty);
        }
        if !bytes.is_multiple_of(RANGE as u64) {
            let block = RANGE as u32;
            return Err(RequestError::Unaligned { bytes, block });
        }
        let (count, limit) = (bytes / RANGE as u64, u64::from(limits.ranges));
        if count > limit {
            return Err(RequestError::TooMany { count, limit });
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

/// The command of this number. 8 (`GET_ID`) is Linux's name for it.
fn command(number: u32) -> Result<Command, RequestError> {
    Ok(match number {
        0 => Command::In,
        1 => Command::Out,
        4 => Command::Flush,
        8 => Command::GetId,
        11 => Command::Discard,
        13 => Command::WriteZeroes,
        _ => return Err(RequestError::Unknown { number }),
    })
}

/// A range of a discard or of what is zeroed: sector u64, sectors u32, flags u32.
fn range(
    raw: &[u8; RANGE],
    command: Command,
    rules: &Rules,
    limits: RangeLimits,
) -> Result<Range, RequestError> {
    const UNMAP: u32 = 1;
    let (sector, sectors, flags) = (le_u64(raw, 0), le_u32(raw, 8), le_u32(raw, 12));
    let known = if command == Command::WriteZeroes {
        UNMAP
    } else {
        0
    };
    if flags & !known != 0 {
        return Err(RequestError::Flags { flags });
    }
    if sectors == 0 {
        return Err(RequestError::Empty);
    }
    let length = u64::from(sectors) * SECTOR;
    if sectors > limits.sectors {
        let limit = u64::from(limits.sectors) * SECTOR;
        return Err(RequestError::TooLong { length, limit });
    }
    Ok(Range {
        offset: on_disk(sector, length, rules)?,
        length,
        unmap: flags & UNMAP != 0,
    })
}

/// Where on the disk a range starts, in bytes, if it is aligned and on the disk.
fn on_disk(sector: u64, length: u64, rules: &Rules) -> Result<u64, RequestError> {
    let block = u64::from(rules.block);
    let unaligned = |bytes| RequestError::Unaligned {
        bytes,
        block: rules.block,
    };
    if !length.is_multiple_of(block) {
        return Err(unaligned(length));
    }
    let (sectors, capacity) = (length / SECTOR, rules.capacity);
    let offset = sector.checked_mul(SECTOR);
    match offset {
        Some(offset) if sector <= capacity && sectors <= capacity - sector => {
            if offset.is_multiple_of(block) {
                Ok(offset)
            } else {
                Err(unaligned(offset))
            }
        }
        _ => Err(RequestError::BeyondEnd {
            sector,
            sectors,
            capacity,
        }),
    }
}

/// Where the status goes: the last byte that can be written.
fn status_place<G: Guest>(chain: &Chain, guest: &G) -> Result<u64, RequestError> {
    match chain.buffers.last() {
        Some(last) if last.writable => {
            let place = last.address + (u64::from(last.length) - 1);
            guest.check(place, 1).map_err(RequestError::Outside)?;
            Ok(place)
        }
        _ => Err(RequestError::NoStatus),
    }
}

/// Reads the bytes from `skip` on of what the device can read, however they are spread over buffers.
fn gather<G: Guest>(
    buffers: &[Buffer],
    mut skip: u64,
    guest: &G,
    into: &mut [u8],
) -> Result<(), RequestError> {
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
            .map_err(RequestError::Outside)?;
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
