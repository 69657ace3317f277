//! The result of inspecting a volume's storage without changing it.

use std::ffi::OsString;
use std::path::Path;

use rustix::fs::{Dev, StatVfs};

use super::{sysfs, usage};

/// The properties of a volume's storage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorageInfo {
    /// The size of the volume in bytes, once it is served.
    pub size: u64,
    /// The present size in bytes, or `None` if the storage does not exist and a start would create
    /// it.
    pub now: Option<u64>,
    /// The location of the storage, if it is a file or a device.
    pub place: Option<StorageLocation>,
    /// The block size in bytes, of which reads and writes are multiples. It is 1 through the page
    /// cache and in memory.
    pub block: u32,
}

/// The location of a file or device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorageLocation {
    /// The name of the device, such as `/dev/sda1`, or the type of the file system if it has no
    /// device, such as `tmpfs`.
    pub device: String,
    /// The free space of the file system in bytes, or `None` for a device.
    pub free: Option<u64>,
    /// The number of bytes of the free space that a start allocates.
    pub takes: u64,
    /// True if the device rotates, according to the kernel. `None` if there is no such device.
    pub rotational: Option<bool>,
    /// A hint for the user.
    pub note: Option<String>,
    pub(crate) number: Dev,
    /// The identity that two volumes cannot share, whatever their paths are. For an existing file
    /// it is its inode. For another one it is the inode of its directory and its name.
    pub(crate) identity: (u64, OsString),
}

impl StorageLocation {
    pub(super) fn of(number: Dev, free: Option<u64>, identity: (u64, OsString)) -> Self {
        Self {
            device: usage::name(number),
            free,
            takes: 0,
            rotational: sysfs::rotational(number),
            note: None,
            number,
            identity,
        }
    }
}

/// Returns the free space in bytes that this process can use.
pub(super) fn free(of: &StatVfs) -> u64 {
    // File systems reserve some blocks for root (statvfs(3): `f_bavail` is without them).
    let blocks = if rustix::process::geteuid().is_root() {
        of.f_bfree
    } else {
        of.f_bavail
    };
    blocks.saturating_mul(of.f_frsize)
}

/// Returns the directory of a file.
pub(super) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
