//! What happens when memory is taken away under a mapping.
//!
//! The owner of a mapping's file can truncate the file, and the next access to what is gone raises SIGBUS, whose default ends the
//! process and with it everybody's volumes. So a handler looks the address up among the mappings that are *guarded*: if it is one
//! of these, fresh memory is put in the place of the whole mapping, the mapping is marked as broken, and the access goes on, with
//! zeroes. Its owner sees the mark and ends that connection. Any other address is left to the handler that the signal had before.
//!
//! The handler uses what a handler may: atomics and mmap(2). Mappings are looked up in a table of fixed size; one that finds no
//! place is refused. Accesses by the kernel raise no signal: the operation fails with `EFAULT`.

use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// Mappings that can be guarded at a time, in the whole process.
pub(crate) const GUARDS: usize = 16_384;

struct Slot {
    /// First address; 0 where the slot is free, 1 while it is being filled.
    start: AtomicUsize,
    /// The address behind the last.
    end: AtomicUsize,
    broken: AtomicBool,
}

static SLOTS: [Slot; GUARDS] = [const {
    Slot {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        broken: AtomicBool::new(false),
    }
}; GUARDS];

/// Slots that were ever in use: the handler looks at no more.
static USED: AtomicUsize = AtomicUsize::new(0);

const FILLING: usize = 1;

/// The handler that the signal had before.
static PREVIOUS: OnceLock<Previous> = OnceLock::new();

struct Previous(libc::sigaction);

// SAFETY: it is a value that is only read; the pointers in it are addresses of functions.
unsafe impl Send for Previous {}
// SAFETY: as above.
unsafe impl Sync for Previous {}

/// A mapping is guarded as long as this is there.
#[derive(Debug)]
pub(super) struct Guard(usize);

impl Guard {
    /// Guards the addresses from `start` on, which are a mapping of the caller's and stay so until the guard is gone.
    pub(super) fn new(start: usize, bytes: usize) -> io::Result<Self> {
        install()?;
        for (at, slot) in SLOTS.iter().enumerate() {
            let free = slot
                .start
                .compare_exchange(0, FILLING, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
            if free {
                USED.fetch_max(at + 1, Ordering::AcqRel);
                // Pairs with the fence in `find`: who reads the new end sees that the slot was being filled.
                fence(Ordering::Release);
                slot.broken.store(false, Ordering::Relaxed);
                slot.end.store(start + bytes, Ordering::Relaxed);
                slot.start.store(start, Ordering::Release);
                return Ok(Self(at));
            }
        }
        Err(io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!("all {GUARDS} mappings of guests' memory are in use"),
        ))
    }

    /// Memory was taken away under the mapping: it reads as zeroes since.
    pub(super) fn is_broken(&self) -> bool {
        SLOTS[self.0].broken.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let slot = &SLOTS[self.0];
        slot.end.store(0, Ordering::Relaxed);
        slot.start.store(0, Ordering::Release);
    }
}

/// Installs the handler, once.
fn install() -> io::Result<()> {
    static DONE: OnceLock<Result<(), i32>> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        // SAFETY: all zeroes is a valid `sigaction`: the default action, no flags, an empty mask.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: a query; `before` is a valid place for the answer.
        let asked = unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) };
        if asked != 0 {
            return Err(last_errno());
        }
        // Before the handler can run, which reads it.
        let _ = PREVIOUS.set(Previous(before));
        // SAFETY: as above.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as usize;
        // On the alternate stack, where there is one: another mapping's fault may be the stack's.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler has the signature that SA_SIGINFO asks for and keeps to what a handler may do.
        let set = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
        if set == 0 { Ok(()) } else { Err(last_errno()) }
    });
    done.map_err(io::Error::from_raw_os_error)
}

fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

extern "C" fn handle(_signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`, and that of SIGBUS has an address.
    let address = unsafe { (*info).si_addr() }.addr();
    // SAFETY: the location of the thread's errno, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    if !replace(address)
        && let Some(Previous(before)) = PREVIOUS.get()
    {
        // The access is made again, and its signal is theirs.
        // SAFETY: the action that was in force before.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const *before, ptr::null_mut()) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Returns the guarded mapping that has the address, and its slot.
fn find(address: usize) -> Option<(&'static Slot, Range<usize>)> {
    let used = USED.load(Ordering::Acquire).min(GUARDS);
    SLOTS[..used].iter().find_map(|slot| {
        let start = slot.start.load(Ordering::Acquire);
        let end = slot.end.load(Ordering::Relaxed);
        // Another thread may have given the slot to another mapping between the two loads. A start of the one and an end of the other
        // would be a range that belongs to nobody here, and everything in it would be replaced.
        fence(Ordering::Acquire);
        let is_torn = slot.start.load(Ordering::Relaxed) != start;
        let found = start > FILLING && !is_torn && (start..end).contains(&address);
        found.then_some((slot, start..end))
    })
}

/// Replaces the guarded mapping that has the address by fresh memory. Returns false if there is none, or no memory.
fn replace(address: usize) -> bool {
    let Some((slot, range)) = find(address) else {
        return false;
    };
    slot.broken.store(true, Ordering::Release);
    // SAFETY: these addresses are a mapping that is the guard's as long as it is in the table, which it is, since the access
    // that faulted is by its owner. What is in its place has the same size and may be read and written; code that accesses it
    // knows that its contents change at any time.
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

    /// Below everything that the system maps, so that no mapping of another test has these addresses.
    const LOW: usize = 0x1_0000;
    const HIGH: usize = 0x3_0000;

    #[test]
    fn a_slot_that_is_given_on_is_never_read_as_one_large_mapping() {
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
