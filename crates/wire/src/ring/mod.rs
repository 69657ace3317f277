//! Rings of requests in memory that two sides share: a guest and its back end.
//!
//! Each side moves its own index and reads the other's; nobody takes a lock. Before a side sleeps it leaves word from which entry on
//! it wants an event, and then *looks once more*: that final check is what makes it impossible that one sleeps while work is
//! pending and no event is on its way.
//!
//! - [`xen`]: the ring of Xen's block devices, both halves.
//! - [`split`]: virtio's split queue, the device's half and the driver's.
//! - [`plain`]: memory for simulations and tests.
//!
//! Nothing here reads a clock, moves an event or maps memory. The caller brings memory as [`Shared`] (what the ring itself lies in)
//! and [`Guest`] (what its entries point to), and moves the events: a method that returns `true` for "tell the other side" has
//! decided, not done it. When to look and when to call is what the machines of [`notify`](crate::notify) decide.
//!
//! # What the other side may do
//! Anything, at any time: it shares the memory. Every value is read once and checked after it was read; every index of the other
//! side is compared with our own count, so that no call does more work than the ring has entries. What cannot be made sense of has a
//! name, and a ring that cannot go on says so in every later call ([`xen::Broken`], [`split::Broken`]).

mod event;
pub mod plain;
pub mod split;
pub mod xen;

use std::sync::atomic::Ordering;

pub use event::{crossed16, crossed32};

/// How a load is ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Not at all: the value is a hint, or is ordered by a load or a fence beside it.
    Relaxed,
    /// Nothing that follows is read before it: what the other side wrote before its [`Store::Release`] is seen.
    Acquire,
}

/// How a store is ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Store {
    /// Not at all.
    Relaxed,
    /// A side that sees the store through [`Load::Acquire`] sees everything before the store.
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

/// A piece of memory that both sides read and write: the ring itself, with its indices and entries.
///
/// Places are offsets in bytes from its start; values are little-endian there, whatever the machine. A place is always accessed with
/// the same width, and numbers are aligned to theirs. The callers in this module check the length once, when the ring is made, and
/// keep within it: an implementation may panic beyond its end, and must not touch anything there.
///
/// All methods take `&self`, and the other side may write at the same time: an implementation must make that harmless (atomic or
/// volatile accesses; bytes that are copied while they change may come out mixed).
#[expect(clippy::len_without_is_empty, reason = "no ring is empty")]
pub trait Shared {
    /// How long it is in bytes.
    fn len(&self) -> usize;

    /// The 16-bit number at `at`.
    fn load16(&self, at: usize, order: Load) -> u16;

    /// The 32-bit number at `at`.
    fn load32(&self, at: usize, order: Load) -> u32;

    /// Writes the 16-bit number at `at`.
    fn store16(&self, at: usize, value: u16, order: Store);

    /// Writes the 32-bit number at `at`.
    fn store32(&self, at: usize, value: u32, order: Store);

    /// A full barrier: no load after it is done before a store ahead of it is seen by everyone (`SeqCst`).
    fn fence(&self);

    /// Copies the bytes from `at` on.
    fn read(&self, at: usize, into: &mut [u8]);

    /// Copies bytes to `at`.
    fn write(&self, at: usize, from: &[u8]);
}

/// What a guest's addresses lead to: regions with gaps between them.
///
/// A range may lie over several regions that adjoin in the guest's addresses and lie elsewhere in ours.
pub trait Guest {
    /// How many bytes from `address` on lie in one region, at most `length`; `None` if not even the first does. `length` is not 0.
    fn contiguous(&self, address: u64, length: u64) -> Option<u64>;

    /// Copies the bytes from `address` on.
    ///
    /// # Errors
    /// [`Outside`] if not all of them are the guest's; `into` may have been written in part.
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Outside>;

    /// Copies bytes to `address`.
    ///
    /// # Errors
    /// [`Outside`] if not all of the range is the guest's; a part may have been written.
    fn write(&self, address: u64, from: &[u8]) -> Result<(), Outside>;

    /// Whether the whole range is the guest's. It takes as many steps as there are regions in the range.
    ///
    /// # Errors
    /// [`Outside`] with the range.
    fn check(&self, address: u64, length: u64) -> Result<(), Outside> {
        let outside = Outside { address, length };
        let (mut at, mut left) = (address, length);
        while left > 0 {
            let piece = self.contiguous(at, left).ok_or(outside)?;
            left -= piece.clamp(1, left);
            at = match at.checked_add(piece) {
                Some(next) => next,
                None if left == 0 => return Ok(()),
                None => return Err(outside),
            };
        }
        Ok(())
    }
}

/// A range that is not, or not wholly, the guest's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{length} bytes at {address:#x} are not entirely in the guest's memory")]
pub struct Outside {
    /// Where it starts.
    pub address: u64,
    /// How long it is in bytes.
    pub length: u64,
}
