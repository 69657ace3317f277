//! Memory of a driver that a process may read.

use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// A read-only mapping of memory to which a driver writes at any time, such as its list of
/// requests.
#[derive(Debug)]
pub struct DriverMemory {
    base: NonNull<u8>,
    bytes: usize,
}

impl DriverMemory {
    /// Maps `bytes` of a driver's memory from `offset` on. The driver defines which ranges are
    /// valid.
    ///
    /// # Errors
    ///
    /// Returns the error of mmap(2).
    pub fn new(device: impl AsFd, offset: u64, bytes: usize) -> Result<Self, Errno> {
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing. It is only
        // read, and its memory exists as long as the mapping, because a driver counts its mappings.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED,
                device,
                offset,
            )
        }?;
        Ok(Self {
            base: NonNull::new(base.cast()).expect("mmap maps nothing at address 0"),
            bytes,
        })
    }

    /// Reads `N` bytes from `at` on, both of which must be multiples of 8. Each group of 8 bytes is
    /// read in one access, so it is consistent.
    ///
    /// # Panics
    ///
    /// If the range is not inside the mapping, or not aligned.
    pub fn read<const N: usize>(&self, at: usize) -> [u8; N] {
        assert!(
            at.is_multiple_of(8) && N.is_multiple_of(8) && at <= self.bytes && N <= self.bytes - at,
            "{N} bytes from {at} on of {}",
            self.bytes
        );
        let mut read = [0; N];
        for (n, eight) in read.chunks_exact_mut(8).enumerate() {
            // SAFETY: the assertion above keeps the access inside the mapping and aligned, because
            // a mapping begins at a page. Any value is valid, even if the driver writes it at the
            // same time.
            let word = unsafe { self.base.add(at + 8 * n).cast::<u64>().read_volatile() };
            eight.copy_from_slice(&word.to_ne_bytes());
        }
        read
    }
}

impl Drop for DriverMemory {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, of that length, and no reference to it exists.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "the mapping is our own: {unmapped:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn of(bytes: &[u8]) -> DriverMemory {
        let name = rustix::fs::memfd_create("driver", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = std::fs::File::from(name);
        file.write_all(bytes).unwrap();
        DriverMemory::new(&file, 0, bytes.len()).unwrap()
    }

    #[test]
    fn written_bytes_are_read() {
        let memory = of(&(0..64).collect::<Vec<u8>>());
        assert_eq!(memory.read::<8>(8), [8, 9, 10, 11, 12, 13, 14, 15]);
        // 40 + 24 is exactly the end of the mapping.
        assert_eq!(memory.read::<24>(40)[23], 63);
    }

    #[test]
    #[should_panic(expected = "24 bytes from 48 on of 64")]
    fn a_read_beyond_the_end_panics() {
        of(&[0; 64]).read::<24>(48);
    }
}
