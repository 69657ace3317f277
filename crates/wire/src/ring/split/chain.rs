//! Chains of descriptors, direct or through a table. Each descriptor is read exactly once.
//!
//! The source is the virtio specification 1.2, section 2.7.5.

use super::super::{Guest, OutsideGuestError, Shared};
use super::Settings;

/// The length of a descriptor in bytes.
pub const DESCRIPTOR: usize = 16;

// The flags of a descriptor (virtio 1.2, section 2.7.5).
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// A descriptor in the format of the queue's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Descriptor {
    /// The address of the buffer in guest memory.
    pub address: u64,
    /// The length of the buffer in bytes.
    pub length: u32,
    /// Bit 0 if there is a next descriptor, bit 1 if the device writes the buffer, bit 2 if the
    /// buffer is a table of descriptors.
    pub flags: u16,
    /// The index of the next descriptor, if bit 0 of `flags` is set.
    pub next: u16,
}

impl Descriptor {
    /// Returns the descriptor of a buffer, without a next descriptor.
    pub const fn of(buffer: Buffer) -> Self {
        Self {
            address: buffer.address,
            length: buffer.length,
            flags: if buffer.writable { WRITE } else { 0 },
            next: 0,
        }
    }

    /// Returns the descriptor of a table of `count` descriptors.
    pub const fn table(address: u64, count: u16) -> Self {
        Self {
            address,
            length: DESCRIPTOR as u32 * count as u32,
            flags: INDIRECT,
            next: 0,
        }
    }

    /// Returns this descriptor, followed by the descriptor `next`.
    pub const fn then(self, next: u16) -> Self {
        Self {
            flags: self.flags | NEXT,
            next,
            ..self
        }
    }

    /// Encodes the descriptor in the format of the queue's memory.
    pub fn encode(&self) -> [u8; DESCRIPTOR] {
        let mut out = [0; DESCRIPTOR];
        out[..8].copy_from_slice(&self.address.to_le_bytes());
        out[8..12].copy_from_slice(&self.length.to_le_bytes());
        out[12..14].copy_from_slice(&self.flags.to_le_bytes());
        out[14..].copy_from_slice(&self.next.to_le_bytes());
        out
    }

    /// Decodes a descriptor from the queue's memory.
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

/// Writes a table of descriptors for `buffers` at `address`, chained in their order.
///
/// # Errors
/// Returns [`OutsideGuestError`] if the table is not entirely in the guest's memory.
pub fn write_table<G: Guest>(
    guest: &G,
    address: u64,
    buffers: &[Buffer],
) -> Result<(), OutsideGuestError> {
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

/// A buffer in guest memory. Its range is not yet checked against the guest's regions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Buffer {
    /// The guest address of the buffer. `address + length` is at most 2^64.
    pub address: u64,
    /// The length of the buffer in bytes. It is never 0 in a chain that was taken.
    pub length: u32,
    /// True if the device writes the buffer, false if it reads it.
    pub writable: bool,
}

/// The buffers of one request: first the ones that the device reads, then the ones that it writes.
///
/// Keep it from one call to the next, so that its memory is reused.
#[derive(Clone, Debug, Default)]
pub struct BufferChain {
    /// The buffers in the order of the chain.
    pub buffers: Vec<Buffer>,
    /// The number of bytes that the device reads.
    pub readable: u64,
    /// The number of bytes that the device writes.
    pub writable: u64,
}

/// The reason why a chain is invalid. Its head can still be returned, with no data written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChainError {
    /// The chain has more descriptors than the queue or the table, so it is a loop.
    #[error("the chain is a loop: it has more than {descriptors} descriptors")]
    Loop {
        /// The number of descriptors of the queue or the table.
        descriptors: u16,
    },
    /// A next descriptor is outside of the queue or the table.
    #[error("the next descriptor is {next}, but there are {descriptors}")]
    Next {
        /// The index of the next descriptor.
        next: u16,
        /// The number of descriptors of the queue or the table.
        descriptors: u16,
    },
    /// A buffer has no bytes.
    #[error("a buffer has no bytes")]
    EmptyBuffer,
    /// A buffer extends beyond the last address.
    #[error("a buffer of {length} bytes at {address:#x} extends beyond the last address")]
    Overflow {
        /// The guest address of the buffer.
        address: u64,
        /// The length of the buffer in bytes.
        length: u32,
    },
    /// A readable buffer follows a writable one.
    #[error("a readable buffer follows a writable one")]
    Order,
    /// The buffers have more than 2^32 bytes in total.
    #[error("the buffers have {bytes} bytes, more than 2^32")]
    TooLong {
        /// The number of bytes up to the buffer that exceeded the limit.
        bytes: u64,
    },
    /// The chain leads to an invalid table of descriptors.
    #[error("descriptor table: {0}")]
    Table(TableError),
}

/// The reason why a table of descriptors is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// Tables of descriptors were not negotiated.
    #[error("it was not negotiated")]
    NotAgreed,
    /// The table is inside another table.
    #[error("it is in another table")]
    Nested,
    /// The descriptor of the table has a next descriptor.
    #[error("its descriptor has a next")]
    Next,
    /// The address is not a multiple of 16, or the length is not a multiple of a descriptor's.
    #[error("{length} bytes at {address:#x} are not aligned")]
    Misaligned {
        /// The guest address of the table.
        address: u64,
        /// The length of the table in bytes.
        length: u32,
    },
    /// The table has no descriptors.
    #[error("it is empty")]
    Empty,
    /// The table has more descriptors than [`Settings::table`].
    #[error("it has too many descriptors ({descriptors})")]
    TooLong {
        /// The number of descriptors of the table.
        descriptors: u32,
    },
    /// The table is not entirely in guest memory.
    #[error("{0}")]
    Outside(OutsideGuestError),
}

impl BufferChain {
    /// Reads the chain that begins with the descriptor `head`, which must be in the queue.
    ///
    /// Each descriptor is read once, so that the guest cannot change it between check and use. The
    /// number of reads is bounded by the size of the queue plus the size of the table at the end of
    /// the chain.
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
        // A chain without a loop has at most as many descriptors as the queue.
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
            // The address cannot overflow, because `table_length` checked that the whole table ends
            // below 2^64.
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

    /// Adds a buffer and returns the next of `count` descriptors, if there is one.
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
        // Virtio 1.2, section 2.7.4.2: writable buffers must follow the readable ones.
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
        // Virtio 1.2, section 2.7.5: a chain has at most 2^32 bytes.
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

/// Returns the number of descriptors of a table, after all checks of its descriptor.
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
    // The specification does not require this alignment, but Linux's tables have it, and rust-vmm
    // requires it as well.
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
    // The last byte may be the last of the address space, so the end itself may be 2^64.
    if address.checked_add(u64::from(length) - 1).is_none() {
        let length = u64::from(length);
        return Err(TableError::Outside(OutsideGuestError { address, length }));
    }
    Ok(descriptors as u16)
}
