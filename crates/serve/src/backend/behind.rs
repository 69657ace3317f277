//! Locks on the files behind a block device: the file of a loop device, or of a loop device from
//! which the device is made. A lock on the device itself does not exclude programs that use the
//! file directly or through another loop device.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Dev, FileType, Mode, OFlags, Stat};
use weir_config::trusted::Dir;

use super::file::OpenError;
use super::{locks, sysfs};

fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

/// Locks all files and devices behind a device in the same mode as the device. The locks last as
/// long as the returned descriptors. A file that this process may not open is not locked, with a
/// warning in the log.
///
/// # Errors
/// Returns [`OpenError::Locked`] if another program uses one of them.
pub(super) fn lock(
    device: &Path,
    dev: Dev,
    writable: bool,
    patience: Duration,
) -> Result<Vec<OwnedFd>, OpenError> {
    let access = if writable {
        OFlags::RDWR
    } else {
        OFlags::RDONLY
    };
    visit(device, dev, access, |fd| {
        locks::lock(fd, writable, patience)
    })
}

/// Checks whether [`lock`] would succeed, without taking a lock.
///
/// # Errors
/// Returns the error that [`lock`] would return.
pub(super) fn check_locks(device: &Path, dev: Dev, writable: bool) -> Result<(), OpenError> {
    visit(device, dev, OFlags::RDONLY, |fd| {
        locks::check_lock(fd, writable)
    })
    .map(drop)
}

fn visit(
    device: &Path,
    dev: Dev,
    access: OFlags,
    lock: impl Fn(&OwnedFd) -> Result<(), weir_uring::Errno>,
) -> Result<Vec<OwnedFd>, OpenError> {
    let mut locked = Vec::new();
    for file in sysfs::files_behind(Path::new(sysfs::SYS), dev) {
        let (fd, stat) = match open(&file, access) {
            Ok(open) => open,
            Err(error) => {
                let (device, file) = (device.display(), file.display());
                tracing::warn!(
                    "the server cannot lock {file}, the file of {device}, and continues without this lock: {error}"
                );
                continue;
            }
        };
        lock(&fd).map_err(OpenError::lock(&file, &stat))?;
        locked.push(fd);
    }
    Ok(locked)
}

/// Opens a file or device behind a device. Its path is the one that the kernel remembers, and can
/// lead to another file by now.
fn open(path: &Path, access: OFlags) -> io::Result<(OwnedFd, Stat)> {
    let (directory, name) = Dir::of_file(path)?;
    let stat = rustix::fs::statat(&directory, &name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    if !is(&stat, FileType::RegularFile) && !is(&stat, FileType::BlockDevice) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // `NONBLOCK` prevents open(2) from waiting, for example for the other end of a pipe that has
    // taken the file's place.
    let always = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&directory, &name, access | always, Mode::empty())?;
    Ok((fd, stat))
}
