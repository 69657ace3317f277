//! What the kernel says of block devices under /sys.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
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

/// Returns the number of the block device at a path, or `None` for another file.
pub(super) fn device_number(path: &Path) -> Option<Dev> {
    let metadata = fs::metadata(path).ok()?;
    let is_device = metadata.file_type().is_block_device();
    is_device.then(|| metadata.rdev())
}

/// The names in a directory, in order; none if it cannot be read.
pub(super) fn names(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    names
}

/// The files and devices behind a block device, as the kernel names them: that of a loop device; of a partition, those of its
/// disk; of a device that is made from others (device mapper, md), those of the others; and so on. None of most devices.
pub(super) fn files_behind(sys: &Path, dev: Dev) -> Vec<PathBuf> {
    walk(sys, dev).1
}

/// Whether a block device is another one, or is made from it.
pub(super) fn is_on(sys: &Path, dev: Dev, other: Dev) -> bool {
    walk(sys, dev).0.contains(&other)
}

/// The devices that a device is made from, itself among them, and the files and devices behind these.
fn walk(sys: &Path, dev: Dev) -> (BTreeSet<Dev>, Vec<PathBuf>) {
    let (mut seen, mut files, mut left) = (BTreeSet::new(), Vec::new(), vec![dev]);
    while let Some(dev) = left.pop() {
        let Some(directory) = directory(sys, dev).filter(|_| seen.insert(dev)) else {
            continue;
        };
        if is_partition(&directory) {
            left.extend(directory.parent().and_then(number));
        }
        if let Some(file) = backing(&directory) {
            left.extend(device_number(&file));
            files.push(file);
        }
        let slaves = directory.join("slaves");
        let below = names(&slaves).into_iter();
        left.extend(below.filter_map(|name| number(&slaves.join(name))));
    }
    (seen, files)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::makedev;

    use super::super::file::tests::Directory;
    use super::*;

    #[test]
    fn files_are_found_through_partitions_and_devices_made_of_others() {
        let directory = Directory::new();
        let sys = directory.0.join("sys");
        let make = |path: &str, number: &str, file: Option<&str>| {
            let at = sys.join("devices").join(path);
            fs::create_dir_all(at.join("slaves")).unwrap();
            fs::write(at.join("dev"), format!("{number}\n")).unwrap();
            fs::create_dir_all(sys.join("dev/block")).unwrap();
            symlink(&at, sys.join("dev/block").join(number)).unwrap();
            if let Some(file) = file {
                fs::create_dir(at.join("loop")).unwrap();
                fs::write(at.join("loop/backing_file"), format!("{file}\n")).unwrap();
            }
            at
        };
        let of = |major, minor| {
            let mut files = files_behind(&sys, makedev(major, minor));
            files.sort();
            files
        };
        let first = make("loop0", "7:0", Some("/srv/a b.img"));
        let part = make("loop0/loop0p1", "259:0", None);
        fs::write(part.join("partition"), "1\n").unwrap();
        let second = make("loop1", "7:1", Some("/srv/b.img (deleted)"));
        let (a, b) = (Path::new("/srv/a b.img"), Path::new("/srv/b.img (deleted)"));
        assert_eq!(of(7, 0), [a]);
        assert_eq!(of(259, 0), [a]);
        // A volume over a partition of the one and the whole of the other, and one on top of it, which is its own part by mistake.
        let mapped = make("dm-0", "253:0", None);
        symlink(&part, mapped.join("slaves/loop0p1")).unwrap();
        symlink(&second, mapped.join("slaves/loop1")).unwrap();
        let upper = make("dm-1", "253:1", None);
        symlink(&mapped, upper.join("slaves/dm-0")).unwrap();
        symlink(&upper, upper.join("slaves/dm-1")).unwrap();
        assert_eq!(of(253, 1), [a, b]);
        assert!(is_on(&sys, makedev(253, 1), makedev(7, 1)));
        assert!(!is_on(&sys, makedev(259, 0), makedev(7, 1)));
        let disk = make("sda", "8:0", None);
        assert!(of(8, 0).is_empty() && of(99, 9).is_empty());
        drop((first, disk));
    }
}
