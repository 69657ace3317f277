//! What is behind a block device: the file of a loop device, or of one that the device is made from. A lock on the device says nothing
//! to programs that use the file, or that use the file through another loop device.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Dev, FileType, Mode, OFlags, Stat};
use weir_config::trusted::Dir;

use super::file::OpenError;
use super::{locks, sysfs};

/// The files and devices behind a block device, as the kernel names them: that of a loop device; of a partition, those of its
/// disk; of a device that is made from others (device mapper, md), those of the others; and so on. None of most devices.
pub(super) fn of_device(sys: &Path, dev: Dev) -> Vec<PathBuf> {
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
        let Some(directory) = sysfs::directory(sys, dev).filter(|_| seen.insert(dev)) else {
            continue;
        };
        if sysfs::is_partition(&directory) {
            left.extend(directory.parent().and_then(sysfs::number));
        }
        if let Some(file) = sysfs::backing(&directory) {
            left.extend(device(&file));
            files.push(file);
        }
        let slaves = directory.join("slaves");
        let below = sysfs::names(&slaves).into_iter();
        left.extend(below.filter_map(|name| sysfs::number(&slaves.join(name))));
    }
    (seen, files)
}

/// The number of a block device.
fn device(path: &Path) -> Option<Dev> {
    let stat = rustix::fs::stat(path).ok()?;
    is(&stat, FileType::BlockDevice).then_some(stat.st_rdev)
}

fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

/// Locks everything behind a device, as the device is locked. The locks stay while what is returned does. What this process may not
/// open is not locked, with a warning in the log.
///
/// # Errors
/// [`OpenError::Locked`] if another program uses it.
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

/// Whether [`lock`] would find nothing in its way. Takes no lock.
///
/// # Errors
/// As [`lock`].
pub(super) fn look(device: &Path, dev: Dev, writable: bool) -> Result<(), OpenError> {
    visit(device, dev, OFlags::RDONLY, |fd| locks::look(fd, writable)).map(drop)
}

fn visit(
    device: &Path,
    dev: Dev,
    access: OFlags,
    lock: impl Fn(&OwnedFd) -> Result<(), weir_uring::Errno>,
) -> Result<Vec<OwnedFd>, OpenError> {
    let mut locked = Vec::new();
    for file in of_device(Path::new(sysfs::SYS), dev) {
        let (fd, stat) = match open(&file, access) {
            Ok(open) => open,
            Err(error) => {
                let (device, file) = (device.display(), file.display());
                tracing::warn!("cannot lock {file}, which is behind {device}: {error}");
                continue;
            }
        };
        lock(&fd).map_err(OpenError::lock(&file, &stat))?;
        locked.push(fd);
    }
    Ok(locked)
}

/// Opens what is behind a device. Its path may lead to something else by now.
fn open(path: &Path, access: OFlags) -> io::Result<(OwnedFd, Stat)> {
    let (directory, name) = Dir::of_file(path)?;
    let stat = rustix::fs::statat(&directory, &name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    if !is(&stat, FileType::RegularFile) && !is(&stat, FileType::BlockDevice) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let always = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&directory, &name, access | always, Mode::empty())?;
    Ok((fd, stat))
}

#[cfg(test)]
mod tests {
    use std::fs;
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
            let mut files = of_device(&sys, makedev(major, minor));
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
