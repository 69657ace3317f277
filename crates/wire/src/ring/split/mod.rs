//! virtio's split queue: the device's half ([`Device`]), and the driver's ([`Driver`]) for simulations and tests.
//!
//! Source: the virtio specification 1.2, section 2.7. The driver writes descriptors (a buffer in guest memory each, chained by
//! `next`) and puts the head of each chain into the *available* ring; the device returns heads through the *used* ring. Indices are
//! 16 bits, run freely and wrap.
//!
//! | area | bytes | what |
//! |---|---|---|
//! | descriptors | 16 × size | address u64, length u32, flags u16, next u16 |
//! | available | 6 + 2 × size | flags, index, heads, `used_event`: call me when the used index passes it |
//! | used | 6 + 8 × size | flags, index, (head, bytes written), `avail_event`: kick me when the available index passes it |
//!
//! With [`EVENT_IDX`](crate::virtio_blk::feature::EVENT_IDX) the two events say which entry is worth an event; without it, a flag in
//! each ring says "none".
//!
//! # The device's turn
//! ```
//! use weir_wire::ring::plain::{Memory, Regions};
//! use weir_wire::ring::split::{Areas, Buffer, Chain, Device, Driver, Settings};
//!
//! let settings = Settings::new(8);
//! let areas = Areas::new(8);
//! let mut driver = Driver::new(areas.clone(), settings)?;
//! let mut device = Device::new(areas, settings, 0)?;
//! let mut guest = Regions::new();
//! guest.add(0x10000, Memory::new(0x1000));
//!
//! driver.add(&[Buffer { address: 0x10000, length: 16, writable: false }]).expect("there is a free descriptor");
//! if driver.publish() { /* kick the device */ }
//!
//! let mut chain = Chain::default(); // kept, so that nothing is allocated later
//! loop {
//!     while let Some(head) = device.take(&guest, &mut chain)? {
//!         assert_eq!(chain.buffers.len(), 1);
//!         device.finish(head, 0);
//!     }
//!     if device.publish() { /* call the guest */ }
//!     if !device.arm()? {
//!         break; // sleeps until there is a kick
//!     }
//! }
//! assert_eq!(driver.take()?.map(|used| used.written), Some(0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chain;
mod device;
mod driver;

pub use chain::{Buffer, Chain, ChainError, DESCRIPTOR, Descriptor, TableError, write_table};
pub use device::{Device, TakeError};
pub use driver::{Driver, DriverError, NoRoom, Used};

use super::Shared;

/// The largest queue there can be.
pub const MAX_SIZE: u16 = 1 << 15;

const FLAGS: usize = 0;
const INDEX: usize = 2;
const ENTRIES: usize = 4;
/// The available ring's flag by which a driver without `EVENT_IDX` wants no calls.
const NO_INTERRUPT: u16 = 1;
/// The used ring's flag by which a device without `EVENT_IDX` wants no kicks.
const NO_NOTIFY: u16 = 1;

/// What a queue's two sides have agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How many entries each ring has: a power of two, at most [`MAX_SIZE`].
    pub size: u16,
    /// Events by index and not by flag.
    pub event_idx: bool,
    /// Chains may end in a table of descriptors elsewhere.
    pub indirect: bool,
    /// How many descriptors such a table has at most. Linux makes tables longer than the queue; QEMU takes up to 1024.
    pub table: u16,
}

impl Settings {
    /// Events by index, tables of up to 1024 descriptors.
    pub const fn new(size: u16) -> Self {
        Self {
            size,
            event_idx: true,
            indirect: true,
            table: 1024,
        }
    }
}

/// Where a queue lies. The three areas may be anywhere, each in one piece.
#[derive(Clone, Debug)]
pub struct Areas<M> {
    /// The table of descriptors.
    pub descriptors: M,
    /// The available ring, which the driver writes.
    pub available: M,
    /// The used ring, which the device writes.
    pub used: M,
}

impl<M: Shared> Areas<M> {
    /// Checks that a queue of `size` entries fits.
    fn check(&self, size: u16) -> Result<(), LayoutError> {
        if size == 0 || !size.is_power_of_two() {
            return Err(LayoutError::Size { size });
        }
        let [descriptors, available, used] = lengths(size);
        for (area, needed, length) in [
            ("descriptors", descriptors, self.descriptors.len()),
            ("available", available, self.available.len()),
            ("used", used, self.used.len()),
        ] {
            if length < needed {
                return Err(LayoutError::TooShort {
                    area,
                    length,
                    needed,
                });
            }
        }
        Ok(())
    }
}

/// How many bytes the areas of a queue of `size` entries have: descriptors, available, used. They are aligned to 16, 2 and 4.
pub const fn lengths(size: u16) -> [usize; 3] {
    let size = size as usize;
    [DESCRIPTOR * size, 6 + 2 * size, 6 + 8 * size]
}

/// Where `used_event` stands in the available ring.
const fn used_event(size: u16) -> usize {
    ENTRIES + 2 * size as usize
}

/// Where `avail_event` stands in the used ring.
const fn avail_event(size: u16) -> usize {
    ENTRIES + 8 * size as usize
}

/// Where the entry of an index stands in the available ring.
const fn available_entry(index: u16, size: u16) -> usize {
    ENTRIES + 2 * (index & (size - 1)) as usize
}

/// Where the entry of an index stands in the used ring.
const fn used_entry(index: u16, size: u16) -> usize {
    ENTRIES + 8 * (index & (size - 1)) as usize
}

/// Why there can be no such queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LayoutError {
    /// A size that is 0 or no power of two; the powers end at [`MAX_SIZE`].
    #[error("a queue has {size} entries; it must have a power of two, at most {MAX_SIZE}")]
    Size {
        /// The size.
        size: u16,
    },
    /// An area that is too short for the size.
    #[error("the area of the queue's {area} has {length} bytes, but needs {needed}")]
    TooShort {
        /// Which.
        area: &'static str,
        /// How long it is in bytes.
        length: usize,
        /// How long it has to be.
        needed: usize,
    },
}

/// Why a queue cannot go on. It says so in every later call, until it is made anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Broken {
    /// The driver's index is further ahead than the queue has entries: it jumped or went back.
    #[error(
        "the available index changed from {taken} to {found} in a queue of {size}, which is invalid"
    )]
    Index {
        /// The index as read.
        found: u16,
        /// How far we had taken.
        taken: u16,
        /// How many entries the queue has.
        size: u16,
    },
    /// A head that is no descriptor.
    #[error("head {head} is outside the queue of {size}")]
    Head {
        /// The head.
        head: u16,
        /// How many descriptors there are.
        size: u16,
    },
    /// A head that is in flight already.
    #[error("head {head} is in flight already")]
    HeadTwice {
        /// The head.
        head: u16,
    },
}
