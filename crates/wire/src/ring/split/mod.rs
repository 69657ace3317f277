//! virtio's split queue: the device's side ([`Device`]), and the driver's side ([`Driver`]) for
//! simulations and tests.
//!
//! The source is the virtio specification 1.2, section 2.7. The driver writes descriptors, each of
//! which is a buffer in guest memory. They are chained by `next`. The driver puts the head of each
//! chain into the *available* ring, and the device returns heads through the *used* ring. Indices
//! have 16 bits, are free-running and wrap.
//!
//! | area | bytes | content |
//! |---|---|---|
//! | descriptors | 16 × size | address u64, length u32, flags u16, next u16 |
//! | available | 6 + 2 × size | flags, index, heads, `used_event` |
//! | used | 6 + 8 × size | flags, index, (head, bytes written), `avail_event` |
//!
//! With [`EVENT_IDX`](crate::virtio_blk::feature::EVENT_IDX), the driver needs a call when the used
//! index passes `used_event`, and the device needs a kick when the available index passes
//! `avail_event`. Without it, a flag in each ring suppresses all events.
//!
//! # The device's loop
//! ```
//! use weir_wire::ring::plain::{Memory, Regions};
//! use weir_wire::ring::split::{Areas, Buffer, BufferChain, Device, Driver, Settings};
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
//! let mut chain = BufferChain::default(); // kept, so that nothing is allocated later
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

pub use chain::{Buffer, BufferChain, ChainError, DESCRIPTOR, Descriptor, TableError, write_table};
pub use device::{Device, TakeError};
pub use driver::{Driver, DriverError, NoRoom, UsedHead};

use super::Shared;

/// The largest size of a queue.
pub const MAX_SIZE: u16 = 1 << 15;

// Positions in the available ring and in the used ring, which both begin with flags and an index
// (virtio 1.2, sections 2.7.6 and 2.7.8).
const FLAGS: usize = 0;
const INDEX: usize = 2;
const ENTRIES: usize = 4;
/// The available ring's flag with which a driver without `EVENT_IDX` suppresses calls.
const NO_INTERRUPT: u16 = 1;
/// The used ring's flag with which a device without `EVENT_IDX` suppresses kicks.
const NO_NOTIFY: u16 = 1;

/// The properties of a queue that both sides agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The number of entries of each ring, a power of two and at most [`MAX_SIZE`].
    pub size: u16,
    /// True if events are requested by index and not by flag.
    pub event_idx: bool,
    /// True if chains may end in a table of descriptors outside of the queue.
    pub indirect: bool,
    /// The maximum number of descriptors of such a table. Linux creates tables that are longer than
    /// the queue, and QEMU accepts up to 1024 descriptors.
    pub table: u16,
}

impl Settings {
    /// Returns settings with events by index and tables of up to 1024 descriptors.
    pub const fn new(size: u16) -> Self {
        Self {
            size,
            event_idx: true,
            indirect: true,
            table: 1024,
        }
    }
}

/// The three memory areas of a queue, each of which is contiguous.
#[derive(Clone, Debug)]
pub struct Areas<M> {
    /// The table of the queue's own descriptors.
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

/// Returns the required lengths in bytes of the three areas for `size` entries: descriptors,
/// available, used. Their alignments are 16, 2 and 4.
pub const fn lengths(size: u16) -> [usize; 3] {
    let size = size as usize;
    [DESCRIPTOR * size, 6 + 2 * size, 6 + 8 * size]
}

/// Returns the position of `used_event` in the available ring.
const fn used_event(size: u16) -> usize {
    ENTRIES + 2 * size as usize
}

/// Returns the position of `avail_event` in the used ring.
const fn avail_event(size: u16) -> usize {
    ENTRIES + 8 * size as usize
}

/// Returns the position in the available ring of the entry with this index.
const fn available_entry(index: u16, size: u16) -> usize {
    ENTRIES + 2 * (index & (size - 1)) as usize
}

/// Returns the position in the used ring of the entry with this index.
const fn used_entry(index: u16, size: u16) -> usize {
    ENTRIES + 8 * (index & (size - 1)) as usize
}

/// The reason why the areas and the size do not make up a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LayoutError {
    /// The size is 0 or not a power of two. The largest power of two is [`MAX_SIZE`].
    #[error("a queue has {size} entries; it must have a power of two, at most {MAX_SIZE}")]
    Size {
        /// The size of the queue in entries.
        size: u16,
    },
    /// An area is too short for the size of the queue.
    #[error("the area of the queue's {area} has {length} bytes, but needs {needed}")]
    TooShort {
        /// The name of the area.
        area: &'static str,
        /// The length of the area in bytes.
        length: usize,
        /// The required length in bytes.
        needed: usize,
    },
}

/// The reason why a queue cannot continue. Every later call returns it, until the queue is created
/// again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QueueError {
    /// The driver's index is further ahead than the queue has entries, because it jumped or moved
    /// backwards.
    #[error(
        "the available index changed from {taken} to {found} in a queue of {size}, which is invalid"
    )]
    Index {
        /// The index that was read.
        found: u16,
        /// The index up to which heads were taken.
        taken: u16,
        /// The number of entries of the queue.
        size: u16,
    },
    /// A head is not a descriptor of the queue.
    #[error("head {head} is outside the queue of {size}")]
    Head {
        /// The head in the available ring.
        head: u16,
        /// The number of descriptors of the queue.
        size: u16,
    },
    /// A head is in flight already.
    #[error("head {head} is in flight already")]
    HeadTwice {
        /// The head that the driver added twice.
        head: u16,
    },
}
