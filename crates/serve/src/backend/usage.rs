//! Detects that the system uses a device or a file already: mounted, as swap space, or as a part of
//! another device.
//!
//! The kernel itself refuses a second claim on a device (`O_EXCL`). This module determines the
//! reason, finds uses before anything is opened, and also detects uses of files.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, makedev};

use super::sysfs::{self, SYS, device_number};

/// The sources of information, which tests replace.
#[derive(Clone, Debug)]
struct Sources {
    sys: PathBuf,
    mounts: String,
    swaps: String,
}

impl Sources {
    fn of_system() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            sys: SYS.into(),
            mounts: read("/proc/self/mountinfo"),
            swaps: read("/proc/swaps"),
        }
    }
}

/// Returns the uses of a block device (including its partitions and devices made from them) or of a
/// regular file, each in the form "is mounted on /srv (ext4)". Opens nothing.
///
/// # Errors
/// Returns the system's error for the path.
pub fn of_path(path: &Path) -> io::Result<Vec<String>> {
    let found = fs::metadata(path)?;
    if found.file_type().is_block_device() {
        return Ok(of_device(found.rdev()));
    }
    Ok(of_file(found.dev(), found.ino()))
}

/// Returns the uses of a block device, of its partitions, of the whole device that it is a
/// partition of, of devices made from these, and of other devices over the same data: the devices
/// behind a loop device, and the loop devices over this device or over a file or device behind it,
/// in any number of layers. Each has the form "is mounted on /srv (ext4)". Opens nothing.
pub(super) fn of_device(dev: Dev) -> Vec<String> {
    let sources = Sources::of_system();
    let loops = loops(&sources);
    let mut found = uses(&sources, dev);
    let family = family(&sources.sys, dev).0;
    let above = loops
        .iter()
        .filter(|l| l.is_over(&family, &BTreeSet::new()));
    found.extend(above.map(LoopDevice::as_use));
    for other in relatives(&sources, dev, &loops) {
        let uses = uses(&sources, other).into_iter();
        found.extend(uses.map(|used| format!("another device uses its data: {used}")));
    }
    found
}

/// Returns the other devices over the data of a device that can be in use although the kernel
/// permits a claim on `dev`: the devices behind its loop devices, and the loop devices over the
/// data. Devices on the way from `dev` to its data are not included, because `dev` itself uses
/// them, except if they are behind a loop device, which does not claim them.
fn relatives(sources: &Sources, dev: Dev, loops: &[LoopDevice]) -> BTreeSet<Dev> {
    let behind = sysfs::files_behind(&sources.sys, dev);
    let files: BTreeSet<_> = behind.iter().filter_map(|file| identity(file)).collect();
    let mut found: BTreeSet<_> = behind.iter().filter_map(|f| device_number(f)).collect();
    let mut within: BTreeSet<_> = found.iter().chain([&dev]).copied().collect();
    loop {
        within = (within.iter())
            .flat_map(|member| family(&sources.sys, *member).0)
            .collect();
        let before = found.len();
        let over = loops.iter().filter(|l| l.is_over(&within, &files));
        let over = over.filter_map(|l| l.number);
        found.extend(over.filter(|number| !sysfs::is_on(&sources.sys, dev, *number)));
        if found.len() == before {
            return found;
        }
        within.extend(&found);
    }
}

/// Returns the name of a device number: the path of a block device, or the type of a file system
/// that has a number of its own.
pub(super) fn name(dev: Dev) -> String {
    let sources = Sources::of_system();
    if let Some(directory) = sysfs::directory(&sources.sys, dev)
        && let Some(name) = directory.file_name()
    {
        return format!("/dev/{}", name.display());
    }
    let mounts = sources.mounts.lines().filter_map(Mount::parse);
    // If several file systems are mounted in the same place, the last one is visible.
    let kind = mounts.filter(|m| m.dev == dev).map(|m| m.kind).next_back();
    kind.unwrap_or_else(|| "unknown".to_owned())
}

/// Returns the uses of a regular file by the system: as swap space, or by a loop device.
pub(super) fn of_file(dev: Dev, inode: u64) -> Vec<String> {
    let sources = Sources::of_system();
    let is_it = |path: &Path| identity(path) == Some((dev, inode));
    let mut uses = Vec::new();
    if swaps(&sources.swaps).any(|path| is_it(&path)) {
        uses.push("it is swap space".into());
    }
    let behind = loops(&sources).into_iter().filter(|l| is_it(&l.file));
    uses.extend(behind.map(|l| l.as_use()));
    uses
}

/// A loop device with its file.
struct LoopDevice {
    name: OsString,
    number: Option<Dev>,
    file: PathBuf,
}

impl LoopDevice {
    /// Returns true if the file of the loop device is one of these devices or files.
    fn is_over(&self, devices: &BTreeSet<Dev>, files: &BTreeSet<(Dev, u64)>) -> bool {
        device_number(&self.file).is_some_and(|number| devices.contains(&number))
            || identity(&self.file).is_some_and(|file| files.contains(&file))
    }

    /// Returns the loop device as a use of its file.
    fn as_use(&self) -> String {
        format!("it is the file of /dev/{}", self.name.display())
    }
}

/// Returns the device and the number of the inode of a file.
fn identity(path: &Path) -> Option<(Dev, u64)> {
    fs::metadata(path).map(|m| (m.dev(), m.ino())).ok()
}

fn loops(sources: &Sources) -> Vec<LoopDevice> {
    let devices = sources.sys.join("class/block");
    let names = sysfs::names(&devices).into_iter();
    let all = names.filter_map(|name| {
        let directory = devices.join(&name);
        Some(LoopDevice {
            file: sysfs::backing(&directory)?,
            number: sysfs::number(&directory),
            name,
        })
    });
    all.collect()
}

fn uses(sources: &Sources, dev: Dev) -> Vec<String> {
    let (family, mut uses) = family(&sources.sys, dev);
    let within = |number: Dev| family.contains(&number);
    for mount in sources.mounts.lines().filter_map(Mount::parse) {
        // A file system over several devices (such as btrfs) has its own device number. In that
        // case, the source of the mount identifies the device.
        let source = || device_number(&mount.source).is_some_and(within);
        if within(mount.dev) || source() {
            uses.push(format!(
                "{} is mounted on {} ({})",
                mount.source.display(),
                mount.place,
                mount.kind
            ));
        }
    }
    for path in swaps(&sources.swaps) {
        if device_number(&path).is_some_and(within) {
            uses.push(format!("{} is swap space", path.display()));
        }
    }
    uses
}

/// Returns the device with its partitions or with the whole device that it is a partition of. Also
/// returns, as uses, the devices that are made from one of these.
fn family(sys: &Path, dev: Dev) -> (BTreeSet<Dev>, Vec<String>) {
    let mut family = BTreeSet::from([dev]);
    let mut uses = Vec::new();
    let Some(directory) = sysfs::directory(sys, dev) else {
        return (family, uses);
    };
    let mut members = vec![directory.clone()];
    if sysfs::is_partition(&directory) {
        members.extend(directory.parent().map(Path::to_path_buf));
    } else {
        let children = sysfs::names(&directory);
        let children = children.iter().map(|name| directory.join(name));
        members.extend(children.filter(|child| sysfs::is_partition(child)));
    }
    for member in members {
        family.extend(sysfs::number(&member));
        let name = member.file_name().unwrap_or_default();
        for holder in sysfs::names(&member.join("holders")) {
            uses.push(format!(
                "/dev/{} is a part of /dev/{}",
                name.display(),
                holder.display()
            ));
        }
    }
    (family, uses)
}

/// A line of /proc/self/mountinfo (proc(5)).
#[derive(PartialEq, Eq, Debug)]
struct Mount {
    dev: Dev,
    place: String,
    kind: String,
    source: PathBuf,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        // Optional fields end with a hyphen. Behind it are the type of the file system and the
        // source.
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(2);
        let (major, minor) = front.next()?.split_once(':')?;
        let place = front.nth(1)?;
        let mut back = back.split(' ');
        Some(Self {
            dev: makedev(major.parse().ok()?, minor.parse().ok()?),
            place: unescape(place),
            kind: back.next()?.into(),
            source: unescape(back.next()?).into(),
        })
    }
}

/// Returns the paths in /proc/swaps.
fn swaps(text: &str) -> impl Iterator<Item = PathBuf> + '_ {
    // The first line has the names of the columns.
    let lines = text.lines().skip(1);
    lines.filter_map(|line| Some(unescape(line.split_ascii_whitespace().next()?).into()))
}

/// Replaces the octal escapes of the kernel for blanks, tabs, line ends and backslashes
/// (`mangle_path` in `fs/seq_file.c`).
fn unescape(text: &str) -> String {
    let mut plain = text.to_string();
    for (code, character) in [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        // The backslash comes last, so that a decoded one does not begin another escape.
        ("\\134", "\\"),
    ] {
        plain = plain.replace(code, character);
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::file::tests::Directory;
    use super::*;

    /// A machine with three disks: sda with two partitions, of which the second is half of a
    /// mirror, sdb, which is mounted as a whole, and sdc with an unused partition.
    fn machine() -> (Directory, Sources) {
        let directory = Directory::new();
        let sys = directory.0.join("sys");
        let make = |path: &str, number: &str, partition: bool| {
            let at = sys.join("devices").join(path);
            fs::create_dir_all(at.join("holders")).unwrap();
            fs::write(at.join("dev"), format!("{number}\n")).unwrap();
            if partition {
                fs::write(at.join("partition"), "1\n").unwrap();
            }
            fs::create_dir_all(sys.join("dev/block")).unwrap();
            symlink(&at, sys.join("dev/block").join(number)).unwrap();
            at
        };
        let sda = make("sda", "8:0", false);
        fs::create_dir_all(sda.join("queue")).unwrap();
        fs::write(sda.join("queue/rotational"), "1\n").unwrap();
        make("sda/sda1", "8:1", true);
        fs::create_dir(make("sda/sda2", "8:2", true).join("holders/md0")).unwrap();
        make("sdb", "8:16", false);
        make("sdc", "8:32", false);
        make("sdc/sdc1", "8:33", true);
        let mounts = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
            30 1 8:16 / /srv/a\\040b rw,noatime shared:1 - ext4 /dev/sdb rw\n\
            31 1 8:1 /sub /boot rw - vfat /dev/sda1 rw\n\
            a line of a later kernel\n";
        let sources = Sources {
            sys,
            mounts: mounts.into(),
            swaps: "Filename Type Size Used Priority\n".into(),
        };
        (directory, sources)
    }

    #[test]
    fn a_device_is_in_use_if_any_partition_is_in_use() {
        let (_directory, sources) = machine();
        let uses = |major, minor| uses(&sources, makedev(major, minor));
        let boot = "/dev/sda1 is mounted on /boot (vfat)";
        assert_eq!(uses(8, 0), ["/dev/sda2 is a part of /dev/md0", boot]);
        assert_eq!(uses(8, 1), [boot]);
        assert_eq!(uses(8, 2), ["/dev/sda2 is a part of /dev/md0"]);
        assert_eq!(uses(8, 16), ["/dev/sdb is mounted on /srv/a b (ext4)"]);
        assert!(uses(8, 32).is_empty() && uses(8, 33).is_empty());
        assert!(uses(99, 99).is_empty(), "what the kernel does not show");
    }

    #[test]
    fn a_partition_has_the_queue_of_its_disk() {
        let (_directory, sources) = machine();
        let rotational = |minor| sysfs::queue(&sources.sys, makedev(8, minor), "rotational");
        assert_eq!((rotational(0), rotational(2)), (Some(1), Some(1)));
        assert_eq!((rotational(16), rotational(77)), (None, None));
    }

    #[test]
    fn a_file_without_a_loop_device_is_not_in_use() {
        let directory = Directory::new();
        let path = directory.0.join("file");
        fs::write(&path, "").unwrap();
        let stat = fs::metadata(&path).unwrap();
        assert!(of_file(stat.dev(), stat.ino()).is_empty());
    }
}
