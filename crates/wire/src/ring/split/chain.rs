//! Chains of descriptors, direct and through a table, read once.

use super::super::{Guest, Outside, Shared};
use super::Settings;

/// How long a descriptor is in bytes.
pub const DESCRIPTOR: usize = 16;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// A descriptor as it stands in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Descriptor {
    /// Where the buffer is in guest memory.
    pub address: u64,
    /// How long it is in bytes.
    pub length: u32,
    /// 1: there is a next; 2: the device writes it; 4: it is a table of descriptors.
    pub flags: u16,
    /// The next one.
    pub next: u16,
}

impl Descriptor {
    /// The descriptor of a buffer without a next.
    pub const fn of(buffer: Buffer) -> Self {
        Self {
            address: buffer.address,
            length: buffer.length,
            flags: if buffer.writable { WRITE } else { 0 },
            next: 0,
        }
    }

    /// The descriptor of a table of `count` descriptors.
    pub const fn table(address: u64, count: u16) -> Self {
        Self {
            address,
            length: DESCRIPTOR as u32 * count as u32,
            flags: INDIRECT,
            next: 0,
        }
    }

    /// The same, followed by `next`.
    pub const fn then(self, next: u16) -> Self {
        Self {
            flags: self.flags | NEXT,
            next,
            ..self
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; DESCRIPTOR] {
        let mut out = [0; DESCRIPTOR];
        out[..8].copy_from_slice(&self.address.to_le_bytes());
        out[8..12].copy_from_slice(&self.length.to_le_bytes());
        out[12..14].copy_from_slice(&self.flags.to_le_bytes());
        out[14..].copy_from_slice(&self.next.to_le_bytes());
        out
    }

    /// The descriptor in these bytes.
    pub fn decode(bytes: &[u8; DESCRIPTOR]) -> Self {
        let b = bytes;
        Self {
            address: u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            length: u32::from_le_bytes([b[8], b[9], b[10], b[11]]),
            flags: u16::from_le_bytes([b[12], b[13]]),
            next: u16::from_le_bytes([b[14], b[15]]),
        }
    }

    const fn has(self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Writes a table of descriptors for `buffers`, chained in their order, at `address`.
///
/// # Errors
/// [`Outside`] if it is not all the guest's memory.
pub fn write_table<G: Guest>(guest: &G, address: u64, buffers: &[Buffer]) -> Result<(), Outside> {
    let mut bytes = Vec::with_capacity(buffers.len() * DESCRIPTOR);
    for (buffer, next) in buffers.iter().zip(1u16..) {
        let descriptor = Descriptor::of(*buffer);
        let last = usize::from(next) == buffers.len();
        let descriptor = if last {
            descriptor
        } else {
            descriptor.then(next)
        };
        bytes.extend_from_slice(&descriptor.encode());
    }
    guest.write(address, &bytes)
}

/// A buffer in guest memory. It is not known yet whether its range is the guest's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Buffer {
    /// Where it is. `address + length` is at most 2^64.
    pub address: u64,
    /// How long it is in bytes, never 0 in a chain that was taken.
    pub length: u32,
    /// Whether the device writes it; else it reads it.
    pub writable: bool,
}

/// The buffers of one request: first those the device reads, then those it writes. To be kept from one call to the next, so that its
/// memory is used again.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// The buffers.
    pub buffers: Vec<Buffer>,
    /// How many bytes the device reads.
    pub readable: u64,
    /// How many bytes it writes.
    pub writable: u64,
}

/// A chain that makes no sense. Its head can be returned all the same, with nothing written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChainError {
    /// More descriptors than there are: it goes round in a circle.
    #[error("the chain is a loop: it has more than {descriptors} descriptors")]
    Loop {
        /// How many there are.
        descriptors: u16,
    },
    /// A next that is no descriptor.
    #[error("the next descriptor is {next}, but there are {descriptors}")]
    Next {
        /// The next.
        next: u16,
        /// How many there are.
        descriptors: u16,
    },
    /// A buffer of no bytes.
    #[error("a buffer has no bytes")]
    EmptyBuffer,
    /// A buffer that goes beyond the last address.
    #[error("a buffer of {length} bytes at {address:#x} extends beyond the last address")]
    Overflow {
        /// Where it starts.
        address: u64,
        /// How long it is in bytes.
        length: u32,
    },
    /// A buffer to be read after one to be written.
    #[error("a readable buffer follows a writable one")]
    Order,
    /// More than 2^32 bytes.
    #[error("the buffers have {bytes} bytes, more than 2^32")]
    TooLong {
        /// How many there were when it was noticed.
        bytes: u64,
    },
    /// A table that makes no sense.
    #[error("descriptor table: {0}")]
    Table(TableError),
}

/// What is wrong with a table of descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// It was not agreed that there are any.
    #[error("it was not negotiated")]
    NotAgreed,
    /// A table in a table.
    #[error("it is in another table")]
    Nested,
    /// The descriptor of a table has a next.
    #[error("its descriptor has a next")]
    Next,
    /// Its address is no multiple of 16, or its length none of a descriptor's.
    #[error("{length} bytes at {address:#x} are not aligned")]
    Misaligned {
        /// Its address.
        address: u64,
        /// Its length in bytes.
        length: u32,
    },
    /// It has no descriptors.
    #[error("it is empty")]
    Empty,
    /// It has more descriptors than [`Settings::table`].
    #[error("it has too many descriptors ({descriptors})")]
    TooLong {
        /// How many.
        descriptors: u32,
    },
    /// It is not in guest memory.
    #[error("{0}")]
    Outside(Outside),
}

impl Chain {
    /// Reads the chain that starts with descriptor `head`, which is one of the queue's. Each descriptor is read once; at most as many
    /// are read as the queue has, and as the table has that the last may lead to.
    pub(super) fn read<M: Shared, G: Guest>(
        &mut self,
        table: &M,
        head: u16,
        settings: &Settings,
        guest: &G,
    ) -> Result<(), ChainError> {
        self.buffers.clear();
        (self.readable, self.writable) = (0, 0);
        let mut at = head;
        for _ in 0..settings.size {
            let mut bytes = [0; DESCRIPTOR];
            table.read(usize::from(at) * DESCRIPTOR, &mut bytes);
            let descriptor = Descriptor::decode(&bytes);
            if descriptor.has(INDIRECT) {
                let count = table_length(&descriptor, settings).map_err(ChainError::Table)?;
                return self.read_table(descriptor.address, count, guest);
            }
            match self.append(&descriptor, settings.size)? {
                Some(next) => at = next,
                None => return Ok(()),
            }
        }
        Err(ChainError::Loop {
            descriptors: settings.size,
        })
    }

    fn read_table<G: Guest>(
        &mut self,
        address: u64,
        count: u16,
        guest: &G,
    ) -> Result<(), ChainError> {
        let outside = |outside| ChainError::Table(TableError::Outside(outside));
        let mut at = 0;
        for _ in 0..count {
            let mut bytes = [0; DESCRIPTOR];
            // It cannot overflow: the whole table was found to end below 2^64.
            let place = address + u64::from(at) * DESCRIPTOR as u64;
            guest.read(place, &mut bytes).map_err(outside)?;
            let descriptor = Descriptor::decode(&bytes);
            if descriptor.has(INDIRECT) {
                return Err(ChainError::Table(TableError::Nested));
            }
            match self.append(&descriptor, count)? {
                Some(next) => at = next,
                None => return Ok(()),
            }
        }
        Err(ChainError::Loop { descriptors: count })
    }

    /// Adds a buffer; the next of `count` descriptors, if there is one.
    fn append(&mut self, descriptor: &Descriptor, count: u16) -> Result<Option<u16>, ChainError> {
        let Descriptor {
            address,
            length,
            next,
            ..
        } = *descriptor;
        let writable = descriptor.has(WRITE);
        if length == 0 {
            return Err(ChainError::EmptyBuffer);
        }
        if address.checked_add(u64::from(length) - 1).is_none() {
            return Err(ChainError::Overflow { address, length });
        }
        if !writable && self.writable > 0 {
            return Err(ChainError::Order);
        }
        let sum = if writable {
            &mut self.writable
        } else {
            &mut self.readable
        };
        *sum += u64::from(length);
        let bytes = self.readable + self.writable;
        if bytes > 1 << 32 {
            return Err(ChainError::TooLong { bytes });
        }
        self.buffers.push(Buffer {
            address,
            length,
            writable,
        });
        if !descriptor.has(NEXT) {
            return Ok(None);
        }
        if next >= count {
            return Err(ChainError::Next {
                next,
                descriptors: count,
            });
        }
        Ok(Some(next))
    }
}

/// How many descriptors a table has, if it can be one.
fn table_length(descriptor: &Descriptor, settings: &Settings) -> Result<u16, TableError> {
    let Descriptor {
        address, length, ..
    } = *descriptor;
    if !settings.indirect {
        return Err(TableError::NotAgreed);
    }
    if descriptor.has(NEXT) {
        return Err(TableError::Next);
    }
    let size = DESCRIPTOR as u32;
    if !address.is_multiple_of(u64::from(size)) || !length.is_multiple_of(size) {
        return Err(TableError::Misaligned { address, length });
    }
    if length == 0 {
        return Err(TableError::Empty);
    }
    let descriptors = length / size;
    if descriptors > u32::from(settings.table) {
        return Err(TableError::TooLong { descriptors });
    }
    if address.checked_add(u64::from(length) - 1).is_none() {
        let length = u64::from(length);
        return Err(TableError::Outside(Outside { address, length }));
    }
    Ok(descriptors as u16)
}
