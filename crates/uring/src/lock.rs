//! Locks on ranges of files that belong to an open file description (fcntl(2), `F_OFD_SETLK`).
//!
//! Such a lock belongs to the open file description, whatever the number of descriptors is that
//! refer to it. It is released with the last of them. Other programs that serve disk images use
//! this kind of lock as well.

use std::mem;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// The kind of a lock, which determines the locks that others may hold on the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Other shared locks are permitted. The file must be open for reading.
    Shared,
    /// No other lock is permitted. The file must be open for writing.
    Exclusive,
}

/// Locks `bytes` without waiting. The range `0..u64::MAX` stands for the whole file, including
/// later growth. Bytes that the description has already locked change to the new kind.
///
/// # Errors
///
/// Returns `EAGAIN` if another description holds a conflicting lock, `EINVAL` if the range is empty
/// or begins at 2^63 or beyond, `EBADF` if the file is not open as the kind requires, and `ENOLCK`
/// or `EOPNOTSUPP` if the file system has no locks.
pub fn try_lock(file: impl AsFd, lock: Lock, bytes: Range<u64>) -> Result<(), Errno> {
    let mut request = request(lock, bytes)?;
    match fcntl(file, libc::F_OFD_SETLK, &mut request) {
        // POSIX permits both errors for a conflict (fcntl(2)).
        Err(Errno::ACCESS) => Err(Errno::AGAIN),
        outcome => outcome,
    }
}

/// Returns true if another description holds a lock on `bytes` that conflicts with `lock`. Does not
/// lock anything.
///
/// # Errors
///
/// Returns the same errors as [`try_lock`], except `EAGAIN`.
pub fn is_locked(file: impl AsFd, lock: Lock, bytes: Range<u64>) -> Result<bool, Errno> {
    let mut request = request(lock, bytes)?;
    fcntl(file, libc::F_OFD_GETLK, &mut request)?;
    Ok(request.l_type != libc::F_UNLCK as libc::c_short)
}

fn request(lock: Lock, bytes: Range<u64>) -> Result<libc::flock, Errno> {
    let start = libc::off_t::try_from(bytes.start).map_err(|_| Errno::INVAL)?;
    let length = bytes.end.checked_sub(bytes.start).filter(|n| *n > 0);
    // A length of zero stands for all bytes up to the largest offset of a file.
    let length = libc::off_t::try_from(length.ok_or(Errno::INVAL)?).unwrap_or(0);
    // SAFETY: `flock` consists of integers only, for which zero is a valid value.
    let mut request: libc::flock = unsafe { mem::zeroed() };
    request.l_type = match lock {
        Lock::Shared => libc::F_RDLCK as libc::c_short,
        Lock::Exclusive => libc::F_WRLCK as libc::c_short,
    };
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_start = start;
    request.l_len = length;
    Ok(request)
}

fn fcntl(file: impl AsFd, command: libc::c_int, request: &mut libc::flock) -> Result<(), Errno> {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: both commands take a pointer to a `flock`, which they read and may write. It lives
    // until the call returns. The descriptor is open because `file` is borrowed.
    let outcome = unsafe { libc::fcntl(fd, command, &raw mut *request) };
    if outcome == -1 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const ALL: Range<u64> = 0..u64::MAX;

    /// Two open file descriptions of one file.
    fn pair() -> (File, File) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-lock-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let open = || {
            File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
        };
        let pair = (open().unwrap(), open().unwrap());
        std::fs::remove_file(&path).unwrap();
        pair
    }

    #[test]
    fn an_exclusive_lock_keeps_others_out_until_its_description_is_gone() {
        let (one, two) = pair();
        try_lock(&one, Lock::Exclusive, ALL).unwrap();
        try_lock(&one, Lock::Exclusive, ALL).unwrap();
        assert_eq!(try_lock(&two, Lock::Shared, 100..101), Err(Errno::AGAIN));
        assert_eq!(is_locked(&two, Lock::Shared, 1 << 40..1 << 41), Ok(true));
        assert_eq!(is_locked(&one, Lock::Exclusive, ALL), Ok(false));
        // The copy refers to the same description, which therefore keeps the lock until the copy is
        // dropped.
        let copy = one.try_clone().unwrap();
        drop(one);
        assert_eq!(try_lock(&two, Lock::Shared, ALL), Err(Errno::AGAIN));
        drop(copy);
        assert_eq!(try_lock(&two, Lock::Exclusive, ALL), Ok(()));
    }

    #[test]
    fn shared_locks_forbid_only_exclusive_ones_on_their_bytes() {
        let (one, two) = pair();
        try_lock(&one, Lock::Shared, 10..20).unwrap();
        try_lock(&two, Lock::Shared, ALL).unwrap();
        assert_eq!(is_locked(&one, Lock::Exclusive, 30..31), Ok(true));
        // Byte 19 is locked by the other description, and byte 20 is not.
        assert_eq!(try_lock(&two, Lock::Exclusive, 19..21), Err(Errno::AGAIN));
        assert_eq!(try_lock(&two, Lock::Exclusive, 20..30), Ok(()));
    }

    #[test]
    fn ranges_have_bounds() {
        let (one, _) = pair();
        // An empty range, and one that begins beyond the largest offset.
        assert_eq!(try_lock(&one, Lock::Shared, 7..7), Err(Errno::INVAL));
        assert_eq!(
            try_lock(&one, Lock::Shared, 1 << 63..u64::MAX),
            Err(Errno::INVAL)
        );
    }
}
