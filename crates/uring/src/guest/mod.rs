//! Memory that is shared with a guest: counted mappings of descriptors that arrived over a socket.
//!
//! The other side reads and writes this memory at the same time, and may truncate it. Therefore, no
//! reference to it is ever created. A [`Mapping`] hands out [`MappingPart`]s, whose loads and
//! stores are atomic or volatile, and [`GuestSlice`]s, on which operations of the ring work and
//! whose bytes can be copied. Each of them counts the mapping, so that the mapping exists until the
//! last operation on it has ended. `sigbus` handles the truncation of the underlying file.

mod memory;
mod sigbus;

use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering, compiler_fence, fence};

use rustix::fs::FileType;
use rustix::mm::{MapFlags, ProtFlags};
use weir_wire::ring::{Load, Shared, Store};

pub use memory::{GuestMemory, MappedRegion};
use sigbus::Guard;

/// Up to this number of bytes, copies use volatile accesses, so that each byte is read exactly
/// once.
const SMALL: usize = 64;

/// The reason why the memory of a descriptor cannot be mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The range is empty, or ends beyond the last address.
    #[error("{bytes:#x} bytes from {offset:#x} on cannot be mapped as memory")]
    Range {
        /// The first byte in the file.
        offset: u64,
        /// The length of the range in bytes.
        bytes: u64,
    },
    /// The file ends before the memory does.
    #[error("the memory should end at {end:#x}, but its file ends at {size:#x}")]
    Short {
        /// The stated end of the memory in the file.
        end: u64,
        /// The actual end of the file.
        size: u64,
    },
    /// The descriptor is neither a file nor a character device.
    #[error("the descriptor of the memory is not a file")]
    NoFile,
    /// The error that the system returned.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// A mapping of a range of a descriptor, shared with every process that has the descriptor.
///
/// Clones refer to the same mapping. It is removed when the last clone, [`MappingPart`] and
/// [`GuestSlice`] have been dropped.
#[derive(Clone, Debug)]
pub struct Mapping(Rc<MappedRange>);

#[derive(Debug)]
struct MappedRange {
    /// The start of the mapping. It is at or before `first`, because mappings begin at a page of
    /// the file.
    base: NonNull<u8>,
    mapped: usize,
    /// The start and the length of the requested range.
    first: NonNull<u8>,
    bytes: usize,
    /// The guard against SIGBUS, which must be dropped before the mapping is removed (see `Drop`).
    guard: Option<Guard>,
}

impl Mapping {
    /// Maps `bytes` of a file from `offset` on, for reading and writing. The descriptor is not
    /// needed afterwards.
    ///
    /// # Errors
    /// Returns [`MapError`] if the range cannot be mapped.
    pub fn new(file: impl AsFd, offset: u64, bytes: u64) -> Result<Self, MapError> {
        let range = || MapError::Range { offset, bytes };
        let stat = rustix::fs::fstat(&file).map_err(std::io::Error::from)?;
        let end = offset.checked_add(bytes).ok_or_else(range)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if end > stat.st_size.cast_unsigned() => {
                let size = stat.st_size.cast_unsigned();
                return Err(MapError::Short { end, size });
            }
            FileType::RegularFile | FileType::CharacterDevice => {}
            _ => return Err(MapError::NoFile),
        }
        // For huge pages, the block size of the file is the size of a page.
        let page = u64::try_from(stat.st_blksize).unwrap_or(0).max(4096);
        let page = if page.is_power_of_two() { page } else { 4096 };
        let start = offset / page * page;
        let mapped = end.checked_next_multiple_of(page).ok_or_else(range)? - start;
        if bytes == 0 || i64::try_from(mapped).is_err() {
            return Err(range());
        }
        let mapped = usize::try_from(mapped).map_err(|_| range())?;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing. Its
        // contents can change at any time and it can be truncated, and this module is written for
        // both.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                &file,
                start,
            )
        }
        .map_err(std::io::Error::from)?;
        let base = NonNull::new(base.cast::<u8>()).expect("mmap maps nothing at address 0");
        let lead = (offset - start) as usize;
        let mut region = MappedRange {
            base,
            mapped,
            // SAFETY: `lead` is within the mapping, which ends after `offset`.
            first: unsafe { base.add(lead) },
            bytes: bytes as usize,
            guard: None,
        };
        // If there is no slot for the guard, the mapping is removed with `region`.
        region.guard = Some(Guard::new(base.addr().get(), mapped)?);
        Ok(Self(Rc::new(region)))
    }

    /// Returns the length of the mapped range in bytes.
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Returns false, because a mapping has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns true if the memory was truncated while it was mapped. It has read as zeroes since
    /// then.
    pub fn is_broken(&self) -> bool {
        self.0.guard.as_ref().is_some_and(Guard::is_broken)
    }

    /// Returns a part for access to numbers, or `None` if it is not entirely inside the mapping.
    pub fn part(&self, at: u64, bytes: usize) -> Option<MappingPart> {
        let at = self.check(at, bytes)?;
        Some(MappingPart {
            mapping: self.clone(),
            at,
            bytes,
        })
    }

    /// Returns a slice for operations to work on, or `None` if it is empty or not entirely inside
    /// the mapping.
    pub fn slice(&self, at: u64, bytes: u32) -> Option<GuestSlice> {
        let part = self.part(at, bytes as usize)?;
        (bytes > 0).then_some(GuestSlice(part))
    }

    fn check(&self, at: u64, bytes: usize) -> Option<usize> {
        let at = usize::try_from(at).ok()?;
        (at <= self.0.bytes && bytes <= self.0.bytes - at).then_some(at)
    }

    /// Returns the address of a byte of the range, or of its end.
    fn address(&self, at: usize) -> *mut u8 {
        debug_assert!(at <= self.0.bytes);
        // SAFETY: the address is inside the mapping, or directly after the requested range.
        unsafe { self.0.first.add(at) }.as_ptr()
    }

    /// Copies bytes out of the mapping.
    fn read(&self, at: usize, into: &mut [u8]) {
        let from = self.address(at);
        assert!(into.len() <= self.0.bytes - at, "beyond the mapping");
        if into.len() <= SMALL {
            for (n, byte) in into.iter_mut().enumerate() {
                // SAFETY: the byte is inside the mapping. Any value is valid, even if the guest
                // writes the byte at the same time.
                *byte = unsafe { from.add(n).read_volatile() };
            }
            return;
        }
        // SAFETY: both ranges are valid for their length and cannot overlap, because `into` is
        // private to this process. The source may change during the copy. The bytes are then copied
        // in whatever state they are found, each by this one copy (see the fence).
        unsafe { from.copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
        // The fence keeps the compiler from reading the source again in place of the copy.
        compiler_fence(Ordering::SeqCst);
    }

    /// Copies bytes into the mapping.
    fn write(&self, at: usize, from: &[u8]) {
        let into = self.address(at);
        assert!(from.len() <= self.0.bytes - at, "beyond the mapping");
        // SAFETY: both ranges are valid for their length and cannot overlap, because `from` is
        // private to this process. Only other processes may read the destination at the same time.
        unsafe { into.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        compiler_fence(Ordering::SeqCst);
    }
}

impl Drop for MappedRange {
    fn drop(&mut self) {
        // No code accesses the mapping any more, and after munmap its addresses may belong to
        // another one.
        self.guard = None;
        // SAFETY: this is the mapping made in `Mapping::new`, of that length, or its replacement by
        // the guard. No part or slice of it is left, because each holds an `Rc` of this. Operations
        // of a ring hold the slices on which they work until they complete.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.mapped) };
        debug_assert!(unmapped.is_ok(), "the mapping is our own: {unmapped:?}");
    }
}

/// A part of a mapping that contains a ring, or on which operations work.
#[derive(Clone, Debug)]
pub struct MappingPart {
    mapping: Mapping,
    at: usize,
    bytes: usize,
}

impl MappingPart {
    /// Returns the mapping to which the part belongs.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Returns true if the part begins at a multiple of `align` in this process. `align` must be a
    /// power of two.
    pub fn is_aligned(&self, align: usize) -> bool {
        self.mapping.address(self.at).addr().is_multiple_of(align)
    }

    /// Returns the address of a number, which must be entirely in the part and aligned.
    fn number<T>(&self, at: usize) -> *mut T {
        let size = size_of::<T>();
        assert!(
            at <= self.bytes && size <= self.bytes - at,
            "{at} is beyond the part"
        );
        let address = self.mapping.address(self.at + at).cast::<T>();
        assert!(address.is_aligned(), "{at} is not aligned");
        address
    }
}

impl Shared for MappingPart {
    fn len(&self) -> usize {
        self.bytes
    }

    fn load16(&self, at: usize, order: Load) -> u16 {
        // SAFETY: `number` returns an aligned address inside a mapping that exists as long as
        // `self`.
        let number = unsafe { AtomicU16::from_ptr(self.number(at)) };
        u16::from_le(number.load(order.into()))
    }

    fn load32(&self, at: usize, order: Load) -> u32 {
        // SAFETY: `number` returns an aligned address inside a mapping that exists as long as
        // `self`.
        let number = unsafe { AtomicU32::from_ptr(self.number(at)) };
        u32::from_le(number.load(order.into()))
    }

    fn store16(&self, at: usize, value: u16, order: Store) {
        // SAFETY: `number` returns an aligned address inside a mapping that exists as long as
        // `self`.
        let number = unsafe { AtomicU16::from_ptr(self.number(at)) };
        number.store(value.to_le(), order.into());
    }

    fn store32(&self, at: usize, value: u32, order: Store) {
        // SAFETY: `number` returns an aligned address inside a mapping that exists as long as
        // `self`.
        let number = unsafe { AtomicU32::from_ptr(self.number(at)) };
        number.store(value.to_le(), order.into());
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        assert!(at <= self.bytes && into.len() <= self.bytes - at, "beyond");
        self.mapping.read(self.at + at, into);
    }

    fn write(&self, at: usize, from: &[u8]) {
        assert!(at <= self.bytes && from.len() <= self.bytes - at, "beyond");
        self.mapping.write(self.at + at, from);
    }
}

/// A part of a guest's memory that operations read into or write from. Clones refer to the same
/// memory.
#[derive(Clone, Debug)]
pub struct GuestSlice(MappingPart);

impl GuestSlice {
    /// Returns the length in bytes, which is never 0.
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Returns false, because a slice has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns true if start and length are multiples of `align`, a power of two. The start is that
    /// in this process.
    pub fn is_aligned(&self, align: usize) -> bool {
        self.0.is_aligned(align) && self.len().is_multiple_of(align)
    }

    /// Returns true if the memory was truncated while it was mapped.
    pub fn is_broken(&self) -> bool {
        self.0.mapping.is_broken()
    }

    /// Returns the part of `bytes` bytes from `at` on. `bytes` must not be 0.
    ///
    /// # Panics
    /// If the range is not entirely inside the slice.
    pub fn slice(&self, at: usize, bytes: usize) -> Self {
        assert!(
            bytes > 0 && at <= self.len() && bytes <= self.len() - at,
            "{bytes} bytes from {at} on of a slice of {}",
            self.len()
        );
        Self(MappingPart {
            mapping: self.0.mapping.clone(),
            at: self.0.at + at,
            bytes,
        })
    }

    /// Copies the bytes from `at` on into `into`.
    ///
    /// # Panics
    /// If the slice has fewer bytes.
    pub fn copy_to(&self, at: usize, into: &mut [u8]) {
        self.0.read(at, into);
    }

    /// Copies the bytes of `from` to `at`.
    ///
    /// # Panics
    /// If the slice has less room.
    pub fn copy_from(&self, at: usize, from: &[u8]) {
        self.0.write(at, from);
    }

    /// Returns the address of the first byte. The pointer is valid for as long as this slice
    /// exists.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.0.mapping.address(self.0.at)
    }
}

#[cfg(test)]
mod tests;
