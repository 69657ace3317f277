//! Arena of buffers: a mapping of fixed size, and the buffers allocated from it.

use std::cell::RefCell;
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::{self, NonNull};
use std::rc::Rc;

use rustix::mm::{MapFlags, ProtFlags};

use crate::buddy::Buddy;

/// The size of the smallest buffer in bytes.
const UNIT: usize = 512;
/// The granularity of the mapping's size in bytes.
const PAGE: usize = 4096;

/// A bounded supply of buffers in one private mapping of fixed size.
///
/// The capacity of a buffer is a power of two of at least 512 bytes. Buffers of 4096 bytes and more
/// are aligned to at least 4096. Allocating and freeing a buffer needs no system call and no heap
/// allocation. Clones are handles to the same arena. The mapping is removed when the last handle
/// and the last buffer have been dropped.
#[derive(Clone)]
pub struct Arena(Rc<ArenaMapping>);

struct ArenaMapping {
    base: NonNull<u8>,
    bytes: usize,
    buddy: RefCell<Buddy>,
}

impl Arena {
    /// The size in bytes of the largest buffer that an arena can provide.
    pub const MAX_BUF: usize = UNIT << Buddy::MAX_ORDER;

    /// Maps an arena of `bytes`, rounded up to whole pages. The pages are not touched.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` for 0 or more than 1 TiB, and otherwise the error of mmap(2).
    pub fn new(bytes: usize) -> io::Result<Self> {
        if bytes == 0 || bytes > 1 << 40 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("an arena must have 1 byte to 1 TiB, not {bytes} bytes"),
            ));
        }
        let bytes = bytes.next_multiple_of(PAGE);
        // SAFETY: a new private mapping at an address that the kernel chooses overlaps nothing.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                // The kernel need not reserve memory for pages that are never touched.
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        Ok(Self(Rc::new(ArenaMapping {
            base: NonNull::new(base.cast()).expect("mmap maps nothing at address 0"),
            bytes,
            buddy: RefCell::new(Buddy::new((bytes / UNIT) as u32)),
        })))
    }

    /// Allocates a buffer whose window is its first `len` bytes. Its capacity is the next power of
    /// two, at least 512.
    ///
    /// The content of a buffer is left over from its last use, or zero at first. Returns `None` if
    /// no free block is large enough, or if `len` is 0 or more than [`Arena::MAX_BUF`].
    pub fn alloc(&self, len: usize) -> Option<Buf> {
        if len == 0 || len > Self::MAX_BUF {
            return None;
        }
        let order = len.next_power_of_two().max(UNIT).trailing_zeros() - UNIT.trailing_zeros();
        let unit = self.0.buddy.borrow_mut().take(order)?;
        Some(Buf(View {
            region: Rc::clone(&self.0),
            unit,
            order: order as u8,
            start: 0,
            len: len as u32,
        }))
    }

    /// Returns the total size in bytes.
    pub fn capacity(&self) -> usize {
        self.0.bytes
    }

    /// Returns the number of unused bytes. A single buffer of that size may not be available,
    /// because of fragmentation.
    pub fn available(&self) -> usize {
        self.0.buddy.borrow().free() as usize * UNIT
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.0.base
    }
}

impl Drop for ArenaMapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `Arena::new`, of that length. No `Arena` and no
        // buffer is left, because each holds an `Rc` of this region. The kernel has no operation on
        // it either, because the ring holds the buffers of operations in flight until they
        // complete, and leaks the ones that it cannot wait for.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "the mapping is our own: {unmapped:?}");
    }
}

/// A buffer with exclusive access, for reading and writing.
///
/// It dereferences to its *window*, which is a range of its capacity. Operations read into the
/// window or write from it. The buffer returns to its arena when it is dropped. A buffer that is
/// forgotten is lost to the arena, without any other harm.
pub struct Buf(View);

/// A buffer with shared access, for reading. Each reference has a window of its own, so that parts
/// of a large payload can be written concurrently without a copy.
pub struct SharedBuf(View);

/// A reference to a block of the arena, with a window into it.
struct View {
    region: Rc<ArenaMapping>,
    unit: u32,
    order: u8,
    start: u32,
    len: u32,
}

impl Buf {
    /// Returns the maximum length of the window in bytes.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Returns the window as a range of the capacity, in bytes.
    pub fn window(&self) -> Range<usize> {
        self.0.window()
    }

    /// Moves the window to `range`, a range of the capacity in bytes.
    ///
    /// # Panics
    ///
    /// If the range is outside of the capacity.
    pub fn set_window(&mut self, range: Range<usize>) {
        self.0.set_window(range);
    }

    /// Converts exclusive access to shared access.
    pub fn into_shared(self) -> SharedBuf {
        SharedBuf(self.0)
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `set_window` keeps the window inside the block, and the block is inside the
        // mapping, which is initialised and lives as long as `region`. Nothing else writes to the
        // block: a `Buf` is its only reference, and while the kernel uses the block, the `Buf` is
        // inside the ring and out of the caller's reach.
        unsafe { std::slice::from_raw_parts_mut(self.0.start_ptr().as_ptr(), self.0.len as usize) }
    }
}

impl SharedBuf {
    /// Returns another reference, whose window is `range` of *this window*.
    ///
    /// # Panics
    ///
    /// If the range is outside of this window.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "range {range:?} is outside of a window of {} bytes",
            self.len()
        );
        let mut shared = self.clone();
        shared.0.start += range.start as u32;
        shared.0.len = (range.end - range.start) as u32;
        shared
    }
}

impl Clone for SharedBuf {
    fn clone(&self) -> Self {
        self.0.region.buddy.borrow_mut().share(self.0.unit);
        Self(View {
            region: Rc::clone(&self.0.region),
            ..self.0
        })
    }
}

impl Deref for SharedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl From<Buf> for SharedBuf {
    fn from(buf: Buf) -> Self {
        buf.into_shared()
    }
}

impl View {
    fn capacity(&self) -> usize {
        UNIT << self.order
    }

    fn window(&self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }

    fn set_window(&mut self, range: Range<usize>) {
        assert!(
            range.start <= range.end && range.end <= self.capacity(),
            "window {range:?} is outside of a buffer of {} bytes",
            self.capacity()
        );
        self.start = range.start as u32;
        self.len = (range.end - range.start) as u32;
    }

    /// Returns a pointer to the window's first byte.
    fn start_ptr(&self) -> NonNull<u8> {
        // SAFETY: the unit and the window are inside the mapping that starts at `base`.
        unsafe {
            self.region
                .base
                .add(self.unit as usize * UNIT + self.start as usize)
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the window is inside the block and the block inside the mapping, which is
        // initialised and lives as long as `region`. Nothing writes to it in the meantime: a `Buf`
        // requires `&mut` for that, a `SharedBuf` cannot be written through, and the kernel writes
        // only while the `Buf` is inside the ring.
        unsafe { std::slice::from_raw_parts(self.start_ptr().as_ptr(), self.len as usize) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.region.buddy.borrow_mut().release(self.unit);
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena")
            .field("capacity", &self.capacity())
            .field("available", &self.available())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.describe("Buf", f)
    }
}

impl std::fmt::Debug for SharedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.describe("SharedBuf", f)
    }
}

impl View {
    /// Formats the buffer without its contents, which are a client's data and must not appear in
    /// logs.
    fn describe(&self, name: &str, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(name)
            .field("capacity", &self.capacity())
            .field("window", &self.window())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_powers_of_two_and_aligned() {
        let arena = Arena::new(1 << 20).unwrap();
        for (len, capacity) in [
            (1, 512),
            (512, 512),
            // Capacities are rounded up to a power of two.
            (513, 1024),
            (4096, 4096),
            (5000, 8192),
        ] {
            let buf = arena.alloc(len).unwrap();
            assert_eq!((buf.len(), buf.capacity()), (len, capacity));
            assert_eq!(buf.as_ptr().addr() % capacity.min(4096), 0);
        }
        // Each buffer was dropped at the end of its iteration.
        assert_eq!(arena.available(), arena.capacity());
    }

    #[test]
    fn sizes_have_bounds() {
        assert_eq!(
            Arena::new(0).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        assert_eq!(
            Arena::new(usize::MAX).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        let arena = Arena::new(5000).unwrap();
        // 5000 bytes are rounded up to two pages.
        assert_eq!(arena.capacity(), 8192);
        for len in [0, 8193, Arena::MAX_BUF, Arena::MAX_BUF + 1, usize::MAX] {
            assert!(arena.alloc(len).is_none());
        }
        assert!(arena.alloc(8192).is_some());
    }

    #[test]
    fn a_buffer_shows_only_its_window() {
        let arena = Arena::new(1 << 16).unwrap();
        let mut buf = arena.alloc(1000).unwrap();
        buf.set_window(0..1024);
        for (at, byte) in buf.iter_mut().enumerate() {
            *byte = (at / 4) as u8;
        }
        buf.set_window(400..800);
        // Every four bytes have the same value, so byte 400 is 100 and byte 799 is 199.
        assert_eq!((buf.len(), buf[0], buf[399]), (400, 100, 199));
        let outer = buf.into_shared().slice(40..200);
        let inner = outer.slice(40..80);
        // Slices are relative to the window: 400 + 40 = 440 and 440 + 40 = 480, divided by 4.
        assert_eq!((inner.len(), inner[0], outer[0]), (40, 120, 110));
        assert_eq!(inner.slice(40..40).len(), 0);
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn a_window_beyond_the_capacity_panics() {
        Arena::new(4096)
            .unwrap()
            .alloc(512)
            .unwrap()
            .set_window(0..513);
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn a_slice_beyond_the_window_panics() {
        let mut buf = Arena::new(4096).unwrap().alloc(512).unwrap();
        buf.set_window(0..100);
        buf.into_shared().slice(0..101);
    }

    #[test]
    fn the_last_holder_frees_the_memory() {
        let arena = Arena::new(4096).unwrap();
        let first = arena.alloc(512).unwrap().into_shared();
        let second = first.slice(0..100);
        drop(first);
        assert_eq!(arena.available(), 4096 - 512);
        drop(second);
        assert_eq!(arena.available(), 4096);
    }

    #[test]
    fn memory_outlives_its_arena() {
        // The arena itself is dropped at once. The buffer keeps the mapping.
        let mut buf = Arena::new(1 << 20).unwrap().alloc(1 << 20).unwrap();
        buf.fill(7);
        assert_eq!(buf[(1 << 20) - 1], 7);
    }
}
