//! Handler for SIGBUS, for the case that memory is truncated while it is mapped.
//!
//! The owner of a mapped file can truncate the file. The next access to the missing part raises
//! SIGBUS, which by default ends the process and with it the volumes of all clients. Therefore, a
//! handler looks the address up among the *guarded* mappings. If it finds the mapping, it puts
//! fresh memory in the place of the whole mapping and marks the mapping as broken. The access then
//! continues and reads zeroes. The owner of the mapping finds the mark and ends the connection. For
//! any other address, the handler restores the previous handler.
//!
//! The handler uses only atomics, sigaction(2) and mmap(2). signal-safety(7) does not list mmap(2),
//! but glibc only makes the system call. The table of mappings has a fixed size, and a mapping that
//! finds no slot is refused. Accesses by the kernel raise no signal. The operation fails with
//! `EFAULT` instead.

use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// The maximum number of guarded mappings in the whole process.
pub(crate) const GUARDS: usize = 16_384;

struct GuardSlot {
    /// The first address of the mapping, or 0 while the slot is free, or 1 while it is being
    /// filled.
    start: AtomicUsize,
    /// The address after the last byte of the mapping.
    end: AtomicUsize,
    broken: AtomicBool,
}

static SLOTS: [GuardSlot; GUARDS] = [const {
    GuardSlot {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        broken: AtomicBool::new(false),
    }
}; GUARDS];

/// The number of slots that were ever in use, beyond which the handler does not look.
static USED: AtomicUsize = AtomicUsize::new(0);

// An address of 1 cannot be the start of a mapping, which is aligned to pages.
const FILLING: usize = 1;

/// The action that the signal had before.
static PREVIOUS: OnceLock<Previous> = OnceLock::new();

struct Previous(libc::sigaction);

// SAFETY: the value is only read, and the pointers in it are addresses of functions.
unsafe impl Send for Previous {}
// SAFETY: the value is only read, and the pointers in it are addresses of functions.
unsafe impl Sync for Previous {}

/// The guard of a mapping, which protects it for as long as the guard exists.
#[derive(Debug)]
pub(super) struct Guard(usize);

impl Guard {
    /// Guards `bytes` from `start` on. They must be a mapping of the caller until the guard is
    /// dropped.
    pub(super) fn new(start: usize, bytes: usize) -> io::Result<Self> {
        install()?;
        for (at, slot) in SLOTS.iter().enumerate() {
            let free = slot
                .start
                .compare_exchange(0, FILLING, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
            if free {
                USED.fetch_max(at + 1, Ordering::AcqRel);
                // Pairs with the fence in `find`. A reader of the new end also sees that the slot
                // was being filled.
                fence(Ordering::Release);
                slot.broken.store(false, Ordering::Relaxed);
                slot.end.store(start + bytes, Ordering::Relaxed);
                // Release: a handler that sees the start also sees the end and the cleared mark.
                slot.start.store(start, Ordering::Release);
                return Ok(Self(at));
            }
        }
        Err(io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!("all {GUARDS} mappings of guests' memory are in use"),
        ))
    }

    /// Returns true if the memory was truncated while it was mapped. It has read as zeroes since
    /// then.
    pub(super) fn is_broken(&self) -> bool {
        SLOTS[self.0].broken.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let slot = &SLOTS[self.0];
        // The end comes first, so that a handler that still sees the start finds an empty range.
        slot.end.store(0, Ordering::Relaxed);
        slot.start.store(0, Ordering::Release);
    }
}

/// Installs the handler once for the process.
fn install() -> io::Result<()> {
    static DONE: OnceLock<Result<(), i32>> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        // SAFETY: all zeroes is a valid `sigaction`: the default action, no flags, an empty mask.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: this is a query, and `before` is valid memory for the result.
        let asked = unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) };
        if asked != 0 {
            return Err(last_errno());
        }
        // The previous action is stored before the handler is installed, because the handler reads
        // it. It cannot be set already.
        let _ = PREVIOUS.set(Previous(before));
        // SAFETY: all zeroes is a valid `sigaction`: the default action, no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as usize;
        // The handler runs on the alternate stack if there is one, because the stack itself may
        // have caused the fault.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler has the signature that SA_SIGINFO requires, and uses only the
        // functions that the head of this file names.
        let set = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
        if set == 0 { Ok(()) } else { Err(last_errno()) }
    });
    done.map_err(io::Error::from_raw_os_error)
}

fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

extern "C" fn handle(_signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`, which contains an address for SIGBUS.
    let address = unsafe { (*info).si_addr() }.addr();
    // SAFETY: this is the thread's own errno, which is saved because the interrupted code may be
    // about to read it.
    let errno = unsafe { *libc::__errno_location() };
    if !replace(address)
        && let Some(Previous(before)) = PREVIOUS.get()
    {
        // The access is repeated when the handler returns, and its signal then goes to the previous
        // action.
        // SAFETY: this is the action that was in force before.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const *before, ptr::null_mut()) };
    }
    // SAFETY: this is the thread's own errno, which is restored for the interrupted code.
    unsafe { *libc::__errno_location() = errno };
}

/// Returns the guarded mapping that has the address, and its slot.
fn find(address: usize) -> Option<(&'static GuardSlot, Range<usize>)> {
    let used = USED.load(Ordering::Acquire).min(GUARDS);
    SLOTS[..used].iter().find_map(|slot| {
        let start = slot.start.load(Ordering::Acquire);
        let end = slot.end.load(Ordering::Relaxed);
        // Another thread may have given the slot to another mapping between the two loads. The
        // start of one mapping and the end of the other would be a range with other mappings in
        // between, and the handler would replace all of them.
        fence(Ordering::Acquire);
        let is_torn = slot.start.load(Ordering::Relaxed) != start;
        let found = start > FILLING && !is_torn && (start..end).contains(&address);
        found.then_some((slot, start..end))
    })
}

/// Replaces the guarded mapping that contains the address by fresh memory. Returns false if there
/// is no such mapping, or no memory.
fn replace(address: usize) -> bool {
    let Some((slot, range)) = find(address) else {
        return false;
    };
    slot.broken.store(true, Ordering::Release);
    // SAFETY: these addresses are a mapping that belongs to the guard for as long as it is in the
    // table. The guard is still there, because the faulting access is by its owner. The replacement
    // has the same size and can be read and written. Code that accesses it expects its contents to
    // change at any time.
    let fresh = unsafe {
        libc::mmap(
            ptr::without_provenance_mut(range.start),
            range.len(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    fresh != libc::MAP_FAILED
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses below everything that the system maps, so that no mapping of another test has
    /// them.
    const LOW: usize = 0x1_0000;
    const HIGH: usize = 0x3_0000;

    #[test]
    fn a_reused_slot_is_never_read_as_one_large_mapping() {
        let between = 0x2_0000;
        std::thread::scope(|scope| {
            let giver = scope.spawn(|| {
                for _ in 0..10_000_000 {
                    drop(Guard::new(LOW, 4096).unwrap());
                    drop(Guard::new(HIGH, 4096).unwrap());
                }
            });
            while !giver.is_finished() {
                assert!(find(between).is_none());
            }
        });
    }
}
