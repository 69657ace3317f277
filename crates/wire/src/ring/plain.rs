//! Shared memory and guest memory made of atomic words, for simulations and tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::split::{Areas, lengths};
use super::{Guest, Load, OutsideGuestError, Shared, Store};

/// The length of a word in bytes.
const WORD: usize = 4;

/// A range of shared memory. Clones refer to the same memory, and [`part`](Self::part) returns a
/// window on it.
///
/// Both sides may use it from one loop or from two threads. Numbers must be aligned in the whole
/// memory, not only in a part.
#[derive(Clone, Debug)]
pub struct Memory {
    words: Arc<[AtomicU32]>,
    start: usize,
    length: usize,
}

impl Memory {
    /// Allocates `length` bytes of zeroes.
    pub fn new(length: usize) -> Self {
        let words = length.div_ceil(WORD);
        Self {
            words: (0..words).map(|_| AtomicU32::new(0)).collect(),
            start: 0,
            length,
        }
    }

    /// Returns a window on the `length` bytes from `start` on.
    ///
    /// # Panics
    /// If the window is not entirely within this memory.
    pub fn part(&self, start: usize, length: usize) -> Self {
        Self {
            words: Arc::clone(&self.words),
            start: self.whole(start, length),
            length,
        }
    }

    /// Converts a position in this window into one in the whole memory, and checks the end.
    fn whole(&self, at: usize, length: usize) -> usize {
        assert!(
            at.checked_add(length).is_some_and(|end| end <= self.length),
            "{length} bytes at {at} of {}",
            self.length
        );
        self.start + at
    }

    /// Returns the word that contains a number of `length` bytes, and the shift in bits of the
    /// number in that word.
    fn number(&self, at: usize, length: usize) -> (&AtomicU32, usize) {
        let at = self.whole(at, length);
        assert!(
            at.is_multiple_of(length),
            "a number of {length} bytes at {at}"
        );
        (&self.words[at / WORD], at % WORD * 8)
    }
}

/// Replaces the bits of `mask` in a word by those of `value`. Concurrent changes of other bits are
/// not lost.
fn change(word: &AtomicU32, mask: u32, value: u32, order: Ordering) {
    let merge = |old: u32| Some(old & !mask | value);
    // `merge` always returns a new value, so the update cannot fail.
    let _ = word.fetch_update(order, Ordering::Relaxed, merge);
}

impl Shared for Memory {
    fn len(&self) -> usize {
        self.length
    }

    fn load16(&self, at: usize, order: Load) -> u16 {
        let (word, shift) = self.number(at, 2);
        (word.load(order.into()) >> shift) as u16
    }

    fn load32(&self, at: usize, order: Load) -> u32 {
        self.number(at, 4).0.load(order.into())
    }

    fn store16(&self, at: usize, value: u16, order: Store) {
        let (word, shift) = self.number(at, 2);
        change(
            word,
            0xffff << shift,
            u32::from(value) << shift,
            order.into(),
        );
    }

    fn store32(&self, at: usize, value: u32, order: Store) {
        self.number(at, 4).0.store(value, order.into());
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        let mut at = self.whole(at, into.len());
        let mut rest = into;
        while !rest.is_empty() {
            let (skip, bytes) = (at % WORD, self.words[at / WORD].load(Ordering::Relaxed));
            let length = rest.len().min(WORD - skip);
            let (piece, left) = rest.split_at_mut(length);
            piece.copy_from_slice(&bytes.to_le_bytes()[skip..skip + length]);
            (at, rest) = (at + length, left);
        }
    }

    fn write(&self, at: usize, from: &[u8]) {
        let mut at = self.whole(at, from.len());
        let mut rest = from;
        while !rest.is_empty() {
            let skip = at % WORD;
            let length = rest.len().min(WORD - skip);
            let (piece, left) = rest.split_at(length);
            let (mut value, mut mask) = ([0; WORD], [0; WORD]);
            value[skip..skip + length].copy_from_slice(piece);
            mask[skip..skip + length].fill(u8::MAX);
            let (value, mask) = (u32::from_le_bytes(value), u32::from_le_bytes(mask));
            let word = &self.words[at / WORD];
            // A whole word needs no read, so a plain store is enough.
            if length == WORD {
                word.store(value, Ordering::Relaxed);
            } else {
                change(word, mask, value, Ordering::Relaxed);
            }
            (at, rest) = (at + length, left);
        }
    }
}

impl Areas<Memory> {
    /// Allocates zeroed areas of exactly the required length for a queue of `size` entries.
    pub fn new(size: u16) -> Self {
        let [descriptors, available, used] = lengths(size).map(Memory::new);
        Self {
            descriptors,
            available,
            used,
        }
    }
}

/// A guest's memory: regions at guest addresses.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    /// Address and memory of each region, in the order of addresses and without overlap.
    regions: Vec<(u64, Memory)>,
}

impl Regions {
    /// Creates a guest without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `memory` at `address`.
    ///
    /// # Panics
    /// If the region is empty, extends beyond the last address, or overlaps another one.
    pub fn add(&mut self, address: u64, memory: Memory) {
        let length = memory.len() as u64;
        assert!(length > 0, "an empty region");
        let last = address.checked_add(length - 1).expect("it ends below 2^64");
        let before = self.regions.partition_point(|(start, _)| *start < address);
        let overlaps = |(start, other): &(u64, Memory)| {
            *start <= last && address - (*start).min(address) < other.len() as u64
        };
        assert!(
            !self.regions.iter().any(overlaps),
            "regions overlap at {address:#x}"
        );
        self.regions.insert(before, (address, memory));
    }

    /// Returns the region that contains `address`, and the position of `address` in it.
    fn find(&self, address: u64) -> Option<(&Memory, usize)> {
        let after = self.regions.partition_point(|(start, _)| *start <= address);
        let (start, memory) = self.regions.get(after.checked_sub(1)?)?;
        let at = usize::try_from(address - start).ok()?;
        (at < memory.len()).then_some((memory, at))
    }

    /// Calls `each` for every part of the range that is in one region, with the memory, the
    /// position in it, and the bytes of the range.
    fn pieces(
        &self,
        address: u64,
        length: usize,
        mut each: impl FnMut(&Memory, usize, std::ops::Range<usize>),
    ) -> Result<(), OutsideGuestError> {
        let outside = OutsideGuestError {
            address,
            length: length as u64,
        };
        let mut done = 0;
        while done < length {
            let here = address.checked_add(done as u64).ok_or(outside)?;
            let (memory, at) = self.find(here).ok_or(outside)?;
            let piece = (memory.len() - at).min(length - done);
            each(memory, at, done..done + piece);
            done += piece;
        }
        Ok(())
    }
}

impl Guest for Regions {
    fn contiguous(&self, address: u64, length: u64) -> Option<u64> {
        let (memory, at) = self.find(address)?;
        Some(length.min((memory.len() - at) as u64))
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutsideGuestError> {
        self.pieces(address, into.len(), |memory, at, range| {
            memory.read(at, &mut into[range]);
        })
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutsideGuestError> {
        self.pieces(address, from.len(), |memory, at, range| {
            memory.write(at, &from[range]);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Regions {
        let mut regions = Regions::new();
        regions.add(0x2000, Memory::new(0x1000));
        regions.add(0x1000, Memory::new(0x1000));
        regions.add(0x8000, Memory::new(0x1000));
        regions
    }

    #[test]
    fn a_range_over_two_regions_is_read_and_written_whole() {
        let guest = two();
        let written: Vec<u8> = (0..=255).collect();
        guest.write(0x1f80, &written).expect("both regions");
        let mut read = [0; 256];
        guest.read(0x1f80, &mut read).expect("both regions");
        assert_eq!(read[..], written[..]);
        // 128 bytes are in the region up to 0x2000, and 128 in the next.
        assert_eq!(guest.contiguous(0x1f80, 256), Some(128));
        assert_eq!(guest.check(0x1000, 0x2000), Ok(()));
    }

    #[test]
    fn ranges_in_gaps_and_beyond_the_end_are_refused() {
        let guest = two();
        for (address, length) in [
            (0, 1),
            (0xfff, 2),
            (0x2fff, 2),
            // Both regions and one byte of the gap after them.
            (0x1000, 0x2001),
            (u64::MAX, 2),
        ] {
            let outside = OutsideGuestError { address, length };
            assert_eq!(guest.check(address, length), Err(outside), "{outside}");
            let mut bytes = vec![0; length as usize];
            assert_eq!(guest.read(address, &mut bytes), Err(outside), "{outside}");
        }
    }

    #[test]
    fn a_guest_region_may_contain_the_last_address() {
        let mut guest = Regions::new();
        guest.add(u64::MAX - 15, Memory::new(16));
        assert_eq!(guest.check(u64::MAX - 15, 16), Ok(()));
        // One byte more would be beyond the address space.
        assert!(guest.check(u64::MAX - 15, 17).is_err());
        assert!(guest.read(u64::MAX, &mut [0; 2]).is_err());
    }

    #[test]
    fn byte_and_word_accesses_see_the_same_memory() {
        let whole = Memory::new(23);
        // The part begins within a word, and the memory ends within one.
        let part = whole.part(2, 21);
        for (start, length) in [
            (0, 0),
            (0, 1),
            (1, 1),
            (1, 2),
            (2, 4),
            (3, 9),
            (0, 21),
            (20, 1),
        ] {
            let written: Vec<u8> = (1..=length as u8).collect();
            whole.write(0, &[0xee; 23]);
            part.write(start, &written);
            let mut expected = [0xee; 23];
            expected[2 + start..][..length].copy_from_slice(&written);
            let mut read = [0; 23];
            whole.read(0, &mut read);
            assert_eq!(read, expected);
            let mut read = vec![0; length];
            part.read(start, &mut read);
            assert_eq!(read, written);
        }
        // Position 2 of the part is 4 in the whole, which is aligned.
        part.store32(2, 0x0403_0201, Store::Release);
        part.store16(4, 0x0605, Store::Relaxed);
        let mut read = [0; 4];
        part.read(2, &mut read);
        assert_eq!(read, [1, 2, 5, 6]);
        assert_eq!(part.load16(2, Load::Acquire), 0x0201);
        assert_eq!(whole.load32(4, Load::Relaxed), 0x0605_0201);
    }

    #[test]
    #[should_panic(expected = "22 bytes at 0 of 21")]
    fn a_read_beyond_the_end_of_a_part_panics() {
        Memory::new(23).part(2, 21).read(0, &mut [0; 22]);
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn regions_do_not_overlap() {
        // 0x17ff is inside the region from 0x1000 to 0x2000.
        two().add(0x17ff, Memory::new(1));
    }
}
