//! Rings of requests in memory that a guest and its back end share.
//!
//! Each side writes its own index and reads the index of the other side, without locks. A side that
//! is going to sleep *arms*: it writes the position from which on it needs an event, executes a
//! full barrier, and then *checks the ring once more*. Because of this final check, no side can
//! sleep while work is pending and no event is on its way.
//!
//! - [`xen`]: the ring of Xen's block devices, both sides.
//! - [`split`]: virtio's split queue, the device's side and the driver's side.
//! - [`plain`]: memory for simulations and tests.
//!
//! No code here reads a clock, delivers an event or maps memory. The caller provides memory as
//! [`Shared`] (the ring itself) and [`Guest`] (the memory to which its entries point), and delivers
//! the events. A method that returns `true` has decided that the other side must be notified, but
//! has not notified it. The state machines of [`notify`](crate::notify) decide when to check the
//! ring and when to call the guest. `docs/rings.md` has the rules and their proofs.
//!
//! # Hostile peers
//! The other side shares the memory, so it can write any value at any time. Every value is
//! therefore read once and checked afterwards. Every index of the other side is compared with a
//! count of our own, so that no call does more work than the ring has entries. Each kind of invalid
//! value has an error of its own. A ring that cannot continue returns the same error in every later
//! call ([`xen::RingError`], [`split::QueueError`]).

mod event;
pub mod plain;
pub mod split;
pub mod xen;

use std::sync::atomic::Ordering;

pub use event::{crossed16, crossed32};

/// The memory ordering of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// No ordering: the value is a hint, or another load or fence orders it.
    Relaxed,
    /// No later access moves before this load. A side that loads the result of a [`Store::Release`]
    /// sees every write before that store.
    Acquire,
}

/// The memory ordering of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Store {
    /// No ordering with other accesses.
    Relaxed,
    /// A side that sees this store through [`Load::Acquire`] also sees everything before it.
    Release,
}

impl From<Load> for Ordering {
    fn from(order: Load) -> Self {
        match order {
            Load::Relaxed => Self::Relaxed,
            Load::Acquire => Self::Acquire,
        }
    }
}

impl From<Store> for Ordering {
    fn from(order: Store) -> Self {
        match order {
            Store::Relaxed => Self::Relaxed,
            Store::Release => Self::Release,
        }
    }
}

/// Memory that both sides read and write: the ring itself, with its indices and entries.
///
/// Positions are offsets in bytes from the start. Values in memory are little-endian on every
/// machine. A position is always accessed with the same width, and numbers are aligned to their
/// width. The callers in this module check the length once, when they create a ring, and stay
/// within it. An implementation may panic beyond the end, and must not access memory there.
///
/// All methods take `&self`, and the other side may write at the same time. An implementation must
/// make that harmless, by atomic or volatile accesses. Bytes that change while they are copied may
/// be a mixture of old and new ones.
#[expect(clippy::len_without_is_empty, reason = "no ring is empty")]
pub trait Shared {
    /// Returns the length of the memory in bytes.
    fn len(&self) -> usize;

    /// Returns the 16-bit number at `at`.
    fn load16(&self, at: usize, order: Load) -> u16;

    /// Returns the 32-bit number at `at`.
    fn load32(&self, at: usize, order: Load) -> u32;

    /// Writes the 16-bit number at `at`.
    fn store16(&self, at: usize, value: u16, order: Store);

    /// Writes the 32-bit number at `at`.
    fn store32(&self, at: usize, value: u32, order: Store);

    /// Executes a full barrier (`SeqCst`): no later load is done before every earlier store is
    /// visible to the other side.
    fn fence(&self);

    /// Copies the bytes that begin at `at` into `into`.
    fn read(&self, at: usize, into: &mut [u8]);

    /// Copies the bytes of `from` to `at`.
    fn write(&self, at: usize, from: &[u8]);
}

/// A guest's memory: regions at guest addresses, with gaps between them.
///
/// A range may span several regions that are adjacent in guest addresses but not in ours.
pub trait Guest {
    /// Returns how many of the `length` bytes from `address` on are in the same region, or `None`
    /// if the first byte is in no region. `length` must not be 0.
    fn contiguous(&self, address: u64, length: u64) -> Option<u64>;

    /// Copies the bytes that begin at `address` into `into`.
    ///
    /// # Errors
    /// Returns [`OutsideGuestError`] if some bytes are not in the guest's memory. Part of `into`
    /// may have been written.
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutsideGuestError>;

    /// Copies the bytes of `from` to `address`.
    ///
    /// # Errors
    /// Returns [`OutsideGuestError`] if part of the range is not in the guest's memory. Another
    /// part may have been written.
    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutsideGuestError>;

    /// Checks that the whole range is in the guest's memory, in as many steps as the range has
    /// regions.
    ///
    /// # Errors
    /// Returns [`OutsideGuestError`] with the range.
    fn check(&self, address: u64, length: u64) -> Result<(), OutsideGuestError> {
        let outside = OutsideGuestError { address, length };
        let (mut at, mut left) = (address, length);
        while left > 0 {
            let piece = self.contiguous(at, left).ok_or(outside)?;
            // An implementation that returns 0 must not make this loop endless, nor one that
            // returns too much make it underflow.
            left -= piece.clamp(1, left);
            at = match at.checked_add(piece) {
                Some(next) => next,
                // The range may end at the last byte of the address space, where the next address
                // would overflow.
                None if left == 0 => return Ok(()),
                None => return Err(outside),
            };
        }
        Ok(())
    }
}

/// The error for a range that is not entirely in the guest's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{length} bytes at {address:#x} are not entirely in the guest's memory")]
pub struct OutsideGuestError {
    /// The first address of the range.
    pub address: u64,
    /// The length of the range in bytes.
    pub length: u64,
}
