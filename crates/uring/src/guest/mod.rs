//! Memory that is shared with a guest: counted mappings of descriptors that came over a socket.
//!
//! The other side reads and writes this memory while we do, and may take it away. So there is never a reference to it: a [`Mapping`]
//! gives out [`Part`]s, whose loads and stores are atomic or volatile, and [`GuestSlice`]s, which operations of the ring work on and
//! whose bytes are copied in and out. Each of them counts the mapping, so it stays until the last operation on it has ended. What
//! happens when the file behind it is truncated stands in `sigbus`.

mod memory;
mod sigbus;

use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering, compiler_fence, fence};

use rustix::fs::FileType;
use rustix::mm::{MapFlags, ProtFlags};
use weir_wire::ring::{Load, Shared, Store};

pub use memory::{GuestMemory, Mapped};
use sigbus::Guard;

/// Up to this many bytes are copied by volatile accesses, so that what is read once is read once.
const SMALL: usize = 64;

/// Why a descriptor's memory cannot be mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// It has no bytes, or ends beyond what an address can be.
    #[error("{bytes:#x} bytes from {offset:#x} on cannot be mapped as memory")]
    Range {
        /// First byte in the file.
        offset: u64,
        /// Bytes.
        bytes: u64,
    },
    /// The file ends before the memory does.
    #[error("the memory should end at {end:#x}, but its file ends at {size:#x}")]
    Short {
        /// Where it is said to end.
        end: u64,
        /// Where the file ends.
        size: u64,
    },
    /// It is neither a file nor a device.
    #[error("the descriptor of the memory is not a file")]
    NoFile,
    /// What the system says.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// A mapping of a part of a descriptor, shared with every other process that has the descriptor. Clones are the same mapping, which goes with
/// the last of them and of what was cut out of it.
#[derive(Clone, Debug)]
pub struct Mapping(Rc<Region>);

#[derive(Debug)]
struct Region {
    /// Where the mapping begins: at or before `first`, as the pages of the file want it.
    base: NonNull<u8>,
    mapped: usize,
    /// The first byte that was asked for, and how many.
    first: NonNull<u8>,
    bytes: usize,
    /// Dropped before the mapping goes, see `Drop`.
    guard: Option<Guard>,
}

impl Mapping {
    /// Maps `bytes` of a file from `offset` on, for reading and writing. The descriptor is not needed any more then.
    ///
    /// # Errors
    /// See [`MapError`].
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
        // Of huge pages the block size is that of the page.
        let page = u64::try_from(stat.st_blksize).unwrap_or(0).max(4096);
        let page = if page.is_power_of_two() { page } else { 4096 };
        let start = offset / page * page;
        let mapped = end.checked_next_multiple_of(page).ok_or_else(range)? - start;
        if bytes == 0 || i64::try_from(mapped).is_err() {
            return Err(range());
        }
        let mapped = usize::try_from(mapped).map_err(|_| range())?;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing. That its contents change at any time, and
        // that it can be truncated, is what this module is about.
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
        let mut region = Region {
            base,
            mapped,
            // SAFETY: `lead` is within the mapping, which ends behind `offset`.
            first: unsafe { base.add(lead) },
            bytes: bytes as usize,
            guard: None,
        };
        // If there is no place for it the mapping goes with `region`.
        region.guard = Some(Guard::new(base.addr().get(), mapped)?);
        Ok(Self(Rc::new(region)))
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Never: a mapping has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Memory was taken away under it: what is read since then is not what the guest wrote.
    pub fn is_broken(&self) -> bool {
        self.0.guard.as_ref().is_some_and(Guard::is_broken)
    }

    /// A part of it whose numbers are accessed; `None` if it is not all there, or not aligned to 8 bytes (to which pages are).
    pub fn part(&self, at: u64, bytes: usize) -> Option<Part> {
        let at = self.check(at, bytes)?;
        Some(Part {
            mapping: self.clone(),
            at,
            bytes,
        })
    }

    /// A part of it for an operation to work on; `None` if it is not all there, or has no bytes.
    pub fn slice(&self, at: u64, bytes: u32) -> Option<GuestSlice> {
        let part = self.part(at, bytes as usize)?;
        (bytes > 0).then_some(GuestSlice(part))
    }

    fn check(&self, at: u64, bytes: usize) -> Option<usize> {
        let at = usize::try_from(at).ok()?;
        (at <= self.0.bytes && bytes <= self.0.bytes - at).then_some(at)
    }

    /// The address of a byte, which must be there, or of the end.
    fn address(&self, at: usize) -> *mut u8 {
        debug_assert!(at <= self.0.bytes);
        // SAFETY: within the mapping, or right behind what was asked for of it.
        unsafe { self.0.first.add(at) }.as_ptr()
    }

    /// Copies out of it.
    fn read(&self, at: usize, into: &mut [u8]) {
        let from = self.address(at);
        assert!(into.len() <= self.0.bytes - at, "beyond the mapping");
        if into.len() <= SMALL {
            for (n, byte) in into.iter_mut().enumerate() {
                // SAFETY: the byte is in the mapping; any value is a valid one, also if the guest writes the byte meanwhile.
                *byte = unsafe { from.add(n).read_volatile() };
            }
            return;
        }
        // SAFETY: both ranges are valid for their length and cannot overlap: one is ours alone. The source may change during the
        // copy; its bytes come out as they are found, each read by this one copy (see the fence).
        unsafe { from.copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
        // What follows looks at the copy, never at the source again.
        compiler_fence(Ordering::SeqCst);
    }

    /// Copies into it.
    fn write(&self, at: usize, from: &[u8]) {
        let into = self.address(at);
        assert!(from.len() <= self.0.bytes - at, "beyond the mapping");
        // SAFETY: both ranges are valid for their length and cannot overlap: one is ours alone. A reader of the destination meanwhile
        // is another process.
        unsafe { into.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        compiler_fence(Ordering::SeqCst);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // Nobody accesses it any more; from here on its addresses may be another mapping's.
        self.guard = None;
        // SAFETY: this is the mapping made in `Mapping::new`, of that length, or what the guard has put in its place. Nothing that was
        // cut out of it is left, as that holds an `Rc` of this; and operations of a ring hold what they work on until they are over.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.mapped) };
        debug_assert!(unmapped.is_ok(), "the mapping is our own: {unmapped:?}");
    }
}

/// A part of a mapping, in which a ring lies or operations work.
#[derive(Clone, Debug)]
pub struct Part {
    mapping: Mapping,
    at: usize,
    bytes: usize,
}

impl Part {
    /// The mapping it is of.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Whether it begins at a multiple of `align`, a power of two, in this process.
    pub fn is_aligned(&self, align: usize) -> bool {
        self.mapping.address(self.at).addr().is_multiple_of(align)
    }

    /// The address of a number, which must lie in it whole and be aligned.
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

impl Shared for Part {
    fn len(&self) -> usize {
        self.bytes
    }

    fn load16(&self, at: usize, order: Load) -> u16 {
        // SAFETY: `number` gives an aligned address within a mapping that is there as long as `self`.
        let number = unsafe { AtomicU16::from_ptr(self.number(at)) };
        u16::from_le(number.load(order.into()))
    }

    fn load32(&self, at: usize, order: Load) -> u32 {
        // SAFETY: as above.
        let number = unsafe { AtomicU32::from_ptr(self.number(at)) };
        u32::from_le(number.load(order.into()))
    }

    fn store16(&self, at: usize, value: u16, order: Store) {
        // SAFETY: as above.
        let number = unsafe { AtomicU16::from_ptr(self.number(at)) };
        number.store(value.to_le(), order.into());
    }

    fn store32(&self, at: usize, value: u32, order: Store) {
        // SAFETY: as above.
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

/// A part of a guest's memory that operations read into or write from. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct GuestSlice(Part);

impl GuestSlice {
    /// Bytes, never 0.
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether it begins at a multiple of `align`, a power of two, in this process, and its length is one.
    pub fn is_aligned(&self, align: usize) -> bool {
        self.0.is_aligned(align) && self.len().is_multiple_of(align)
    }

    /// Memory was taken away under it.
    pub fn is_broken(&self) -> bool {
        self.0.mapping.is_broken()
    }

    /// The part of it from `at` on, of `bytes`, which is not 0.
    ///
    /// # Panics
    /// If it does not have them.
    pub fn slice(&self, at: usize, bytes: usize) -> Self {
        assert!(
            bytes > 0 && at <= self.len() && bytes <= self.len() - at,
            "{bytes} bytes from {at} on of a slice of {}",
            self.len()
        );
        Self(Part {
            mapping: self.0.mapping.clone(),
            at: self.0.at + at,
            bytes,
        })
    }

    /// Copies its bytes from `at` on.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn copy_to(&self, at: usize, into: &mut [u8]) {
        self.0.read(at, into);
    }

    /// Copies bytes to `at` and behind.
    ///
    /// # Panics
    /// If there is not as much room.
    pub fn copy_from(&self, at: usize, from: &[u8]) {
        self.0.write(at, from);
    }

    /// Where it begins; valid as long as it is there.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.0.mapping.address(self.0.at)
    }
}

#[cfg(test)]
mod tests;
