//! Properties of block devices that the kernel shows in /sys.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, major, minor};

/// The mount point of sysfs.
pub(super) const SYS: &str = "/sys";

/// Returns the directory of a block device, if there is one.
pub(super) fn directory(sys: &Path, dev: Dev) -> Option<PathBuf> {
    let link = sys.join(format!("dev/block/{}:{}", major(dev), minor(dev)));
    fs::canonicalize(link).ok()
}

/// Returns true if the directory belongs to a partition.
pub(super) fn is_partition(directory: &Path) -> bool {
    directory.join("partition").exists()
}

/// Returns the number in a file of the device's `queue` directory. A partition uses the queue of
/// its whole device.
pub(super) fn queue(sys: &Path, dev: Dev, name: &str) -> Option<u64> {
    let mut directory = directory(sys, dev)?;
    if is_partition(&directory) {
        // The directory of a partition is within that of its disk.
        directory.pop();
    }
    let text = fs::read_to_string(directory.join("queue").join(name)).ok()?;
    text.trim().parse().ok()
}

/// Returns true if the device with this number rotates, according to the kernel, or `None` if the
/// number does not belong to a block device.
pub(super) fn rotational(dev: Dev) -> Option<bool> {
    queue(Path::new(SYS), dev, "rotational").map(|flag| flag == 1)
}

/// Returns true if the kernel treats the device as read-only.
pub(super) fn read_only(dev: Dev) -> bool {
    let flag = directory(Path::new(SYS), dev).map(|d| fs::read_to_string(d.join("ro")));
    flag.is_some_and(|text| text.is_ok_and(|text| text.trim() == "1"))
}

/// Returns the file of the loop device with this directory, or `None` for another device.
pub(super) fn backing(directory: &Path) -> Option<PathBuf> {
    let mut file = fs::read(directory.join("loop/backing_file")).ok()?;
    // Only the final line end belongs to sysfs. The path itself can contain line ends.
    file.pop_if(|last| *last == b'\n');
    Some(OsString::from_vec(file).into())
}

/// Returns the device number in a directory's file `dev`.
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

/// Returns the names in a directory in ascending order, or none if it cannot be read.
pub(super) fn names(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    names
}

/// Returns the files and devices behind a block device, by the paths that the kernel shows. A loop
/// device has its file, a partition has those of its disk, and a device that is made from others
/// (device mapper, md) has those of the others, recursively. Most devices have none.
pub(super) fn files_behind(sys: &Path, dev: Dev) -> Vec<PathBuf> {
    walk(sys, dev).1
}

/// Returns true if a block device is `other`, or is made from it.
pub(super) fn is_on(sys: &Path, dev: Dev, other: Dev) -> bool {
    walk(sys, dev).0.contains(&other)
}

/// Returns the devices from which a device is made, including the device itself, and the files and
/// devices behind them.
fn walk(sys: &Path, dev: Dev) -> (BTreeSet<Dev>, Vec<PathBuf>) {
    let (mut seen, mut files, mut left) = (BTreeSet::new(), Vec::new(), vec![dev]);
    // `seen` ends the walk if a device is made from itself by mistake.
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
        // A mapped device over a partition of the first loop device and the whole second one, and
        // another device on top of it, which is a part of itself by mistake.
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
