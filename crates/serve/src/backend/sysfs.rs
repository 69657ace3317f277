//! What the kernel says of block devices under /sys.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, major, minor};

/// Where the kernel's file system of devices is mounted.
pub(super) const SYS: &str = "/sys";

/// A block device's directory, if the kernel shows one.
pub(super) fn directory(sys: &Path, dev: Dev) -> Option<PathBuf> {
    let link = sys.join(format!("dev/block/{}:{}", major(dev), minor(dev)));
    fs::canonicalize(link).ok()
}

/// True for a partition.
pub(super) fn is_partition(directory: &Path) -> bool {
    directory.join("partition").exists()
}

/// The number in a file of the directory of the queue: a partition has its whole device's.
pub(super) fn queue(sys: &Path, dev: Dev, name: &str) -> Option<u64> {
    let mut directory = directory(sys, dev)?;
    if is_partition(&directory) {
        directory.pop();
    }
    let text = fs::read_to_string(directory.join("queue").join(name)).ok()?;
    text.trim().parse().ok()
}

/// Whether what is behind a device number rotates, as the kernel has it; `None` for what is no block device of its own.
pub(super) fn rotational(dev: Dev) -> Option<bool> {
    queue(Path::new(SYS), dev, "rotational").map(|flag| flag == 1)
}

/// Whether a block device can only be read.
pub(super) fn read_only(dev: Dev) -> bool {
    let flag = directory(Path::new(SYS), dev).map(|d| fs::read_to_string(d.join("ro")));
    flag.is_some_and(|text| text.is_ok_and(|text| text.trim() == "1"))
}

/// The file of the loop device that has this directory.
pub(super) fn backing(directory: &Path) -> Option<PathBuf> {
    let mut file = fs::read(directory.join("loop/backing_file")).ok()?;
    file.pop_if(|last| *last == b'\n');
    Some(OsString::from_vec(file).into())
}

/// The device number in a directory's file `dev`.
pub(super) fn number(directory: &Path) -> Option<Dev> {
    let text = fs::read_to_string(directory.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(
        major.parse().ok()?,
        minor.parse().ok()?,
    ))
}

/// The names in a directory, in order; none if it cannot be read.
pub(super) fn names(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    names
}
