//! What a volume's storage is, found out without changing anything.

use std::ffi::OsString;
use std::path::Path;

use rustix::fs::{Dev, StatVfs};

use super::{sysfs, usage};

/// What a volume's storage is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its size in bytes once it is served.
    pub size: u64,
    /// Bytes it has now; `None`: it is not there, and a start makes it.
    pub now: Option<u64>,
    /// Where it lies, for files and devices.
    pub place: Option<Place>,
    /// What reads and writes of it are multiples of, bytes: 1 through the page cache and in memory.
    pub block: u32,
}

/// Where a file or device lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The device's name, as `/dev/sda1`, or the file system's kind where it has none, as `tmpfs`.
    pub device: String,
    /// Bytes free on its file system; `None` of a device.
    pub free: Option<u64>,
    /// Bytes of these that a start takes.
    pub takes: u64,
    /// Whether the device rotates, as the kernel has it; `None` where it has no such device.
    pub rotational: Option<bool>,
    /// What its user should know of it.
    pub note: Option<String>,
    pub(crate) number: Dev,
    /// What two volumes may not share, under whatever names: of a file that is there, its inode; of another, its directory's and its name.
    pub(crate) identity: (u64, OsString),
}

impl Place {
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

/// Bytes that are free for this process.
pub(super) fn free(of: &StatVfs) -> u64 {
    let blocks = if rustix::process::geteuid().is_root() {
        of.f_bfree
    } else {
        of.f_bavail
    };
    blocks.saturating_mul(of.f_frsize)
}

/// The directory of a file.
pub(super) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
