//! Memory for simulations and tests: bytes behind a counter, and a guest's regions made of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::{Guest, Load, Outside, Shared, Store};

/// A piece of memory. Clones are the same memory; [`part`](Self::part) is a window on it.
///
/// Numbers are put together from bytes, so only one thread may use it at a time: it is for two sides in one loop.
#[derive(Clone, Debug)]
pub struct Memory {
    bytes: Arc<[AtomicU8]>,
    start: usize,
    length: usize,
}

impl Memory {
    /// `length` bytes of zeroes.
    pub fn new(length: usize) -> Self {
        Self {
            bytes: (0..length).map(|_| AtomicU8::new(0)).collect(),
            start: 0,
            length,
        }
    }

    /// The `length` bytes from `start` on.
    ///
    /// # Panics
    /// If they are not all in it.
    pub fn part(&self, start: usize, length: usize) -> Self {
        assert!(
            start
                .checked_add(length)
                .is_some_and(|end| end <= self.length),
            "{length} bytes at {start} of {}",
            self.length
        );
        Self {
            bytes: Arc::clone(&self.bytes),
            start: self.start + start,
            length,
        }
    }

    fn at(&self, at: usize, length: usize) -> &[AtomicU8] {
        assert!(
            at.checked_add(length).is_some_and(|end| end <= self.length),
            "{length} bytes at {at} of {}",
            self.length
        );
        &self.bytes[self.start + at..][..length]
    }

    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        self.read(at, &mut bytes);
        bytes
    }
}

impl Shared for Memory {
    fn len(&self) -> usize {
        self.length
    }

    fn load16(&self, at: usize, _: Load) -> u16 {
        u16::from_le_bytes(self.get(at))
    }

    fn load32(&self, at: usize, _: Load) -> u32 {
        u32::from_le_bytes(self.get(at))
    }

    fn store16(&self, at: usize, value: u16, _: Store) {
        self.write(at, &value.to_le_bytes());
    }

    fn store32(&self, at: usize, value: u32, _: Store) {
        self.write(at, &value.to_le_bytes());
    }

    fn fence(&self) {}

    fn read(&self, at: usize, into: &mut [u8]) {
        let bytes = self.at(at, into.len());
        for (to, from) in into.iter_mut().zip(bytes) {
            *to = from.load(Ordering::Relaxed);
        }
    }

    fn write(&self, at: usize, from: &[u8]) {
        for (to, from) in self.at(at, from.len()).iter().zip(from) {
            to.store(*from, Ordering::Relaxed);
        }
    }
}

/// A guest's memory: regions at addresses.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    /// Address and memory, in the order of addresses; none overlap.
    regions: Vec<(u64, Memory)>,
}

impl Regions {
    /// No memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `memory` at `address`.
    ///
    /// # Panics
    /// If it is empty, goes beyond the last address, or overlaps what is there.
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

    /// The region of `address`, and where in it that is.
    fn find(&self, address: u64) -> Option<(&Memory, usize)> {
        let after = self.regions.partition_point(|(start, _)| *start <= address);
        let (start, memory) = self.regions.get(after.checked_sub(1)?)?;
        let at = usize::try_from(address - start).ok()?;
        (at < memory.len()).then_some((memory, at))
    }

    /// Does `each` with every piece of the range that is in one region: the memory, where in it, and which bytes of the range.
    fn pieces(
        &self,
        address: u64,
        length: usize,
        mut each: impl FnMut(&Memory, usize, std::ops::Range<usize>),
    ) -> Result<(), Outside> {
        let outside = Outside {
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

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Outside> {
        self.pieces(address, into.len(), |memory, at, range| {
            memory.read(at, &mut into[range]);
        })
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Outside> {
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
    fn a_range_over_two_regions_is_whole() {
        let guest = two();
        let written: Vec<u8> = (0..=255).collect();
        guest.write(0x1f80, &written).expect("both regions");
        let mut read = [0; 256];
        guest.read(0x1f80, &mut read).expect("both regions");
        assert_eq!(read[..], written[..]);
        assert_eq!(guest.contiguous(0x1f80, 256), Some(128));
        assert_eq!(guest.check(0x1000, 0x2000), Ok(()));
    }

    #[test]
    fn gaps_and_ends_are_outside() {
        let guest = two();
        for (address, length) in [
            (0, 1),
            (0xfff, 2),
            (0x2fff, 2),
            (0x1000, 0x2001),
            (u64::MAX, 2),
        ] {
            let outside = Outside { address, length };
            assert_eq!(guest.check(address, length), Err(outside), "{outside}");
            let mut bytes = vec![0; length as usize];
            assert_eq!(guest.read(address, &mut bytes), Err(outside), "{outside}");
        }
    }

    #[test]
    fn the_last_byte_there_is_can_be_the_guests() {
        let mut guest = Regions::new();
        guest.add(u64::MAX - 15, Memory::new(16));
        assert_eq!(guest.check(u64::MAX - 15, 16), Ok(()));
        assert!(guest.check(u64::MAX - 15, 17).is_err());
        assert!(guest.read(u64::MAX, &mut [0; 2]).is_err());
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn regions_do_not_overlap() {
        two().add(0x17ff, Memory::new(1));
    }
}
