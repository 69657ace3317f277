//! Locks on images, so that no two programs change one at a time.
//!
//! The bytes locked are those that qemu locks too (`block/file-posix.c`: for each permission that is used a shared lock on byte
//! 100 plus its number, for each that nobody else may use one on byte 200 plus its number, and then a look whether somebody has
//! the counterpart). A writer here locks everything there is, exclusively. A reader locks in shared mode what says "I read, and
//! nobody may write or resize", so that other readers, qemu's among them, may read too.

use std::ops::Range;
use std::os::fd::AsFd;

use weir_uring::Errno;
use weir_uring::lock::{Lock, is_locked, try_lock};

const ALL: Range<u64> = 0..u64::MAX;

/// Bytes that only programs like this one lock.
const OWN: Range<u64> = 0..100;
/// First byte that says what is used.
const USED: u64 = 100;
/// First byte that says what nobody else may use.
const UNSHARED: u64 = 200;
/// Numbers of qemu's permissions.
const CONSISTENT_READ: u64 = 0;
const WRITE: u64 = 1;
const RESIZE: u64 = 3;

/// Locks a file that is open for reading and, with `writable`, for writing; the lock stays until the last descriptor of this open
/// file is closed.
///
/// # Errors
/// `EAGAIN` if another program uses the file in a way that forbids it; what fcntl(2) answers otherwise.
pub(super) fn lock(file: impl AsFd, writable: bool) -> Result<(), Errno> {
    let file = file.as_fd();
    if writable {
        return try_lock(file, Lock::Exclusive, ALL);
    }
    let one = |first: u64, number: u64| first + number..first + number + 1;
    for bytes in [
        OWN,
        one(USED, CONSISTENT_READ),
        one(UNSHARED, WRITE),
        one(UNSHARED, RESIZE),
    ] {
        try_lock(file, Lock::Shared, bytes)?;
    }
    // After taking the locks: of two who come at the same time, at least one sees the other.
    for bytes in [
        one(USED, WRITE),
        one(USED, RESIZE),
        one(UNSHARED, CONSISTENT_READ),
    ] {
        if is_locked(file, Lock::Exclusive, bytes)? {
            return Err(Errno::AGAIN);
        }
    }
    Ok(())
}
