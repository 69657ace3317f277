//! A recorded host: a directory with copies of files. It needs neither devices nor root.

use crate::files::{FileTree, HostFiles};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The maximum number of symbolic links on the way to a file, as in Linux (MAXSYMLINKS).
const LINKS_MAX: usize = 40;

/// The files of a host as copies below a directory, which are only read.
///
/// An absolute link is resolved below the directory, as in a chroot. The path of a block device
/// need not be a device. A link that ends in the device's name, or a file of that name, is enough,
/// because the number is read from `/sys/block/NAME/dev`. `/sys/dev/block` need not exist.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedHost {
    root: PathBuf,
}

impl RecordedHost {
    /// Opens the recording below `root`.
    ///
    /// # Errors
    /// Returns an error if `root` is not a directory.
    pub fn new(root: &Path) -> io::Result<Self> {
        if !fs::metadata(root)?.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        Ok(Self {
            root: root.to_owned(),
        })
    }

    /// Returns the path below the directory with all links resolved. Parts that do not exist stay
    /// as they are.
    fn resolve(&self, path: &str) -> PathBuf {
        let parts = |path: &Path| -> Vec<OsString> {
            let parts = path.components().rev();
            let named =
                parts.filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
            named.map(|part| part.as_os_str().to_owned()).collect()
        };
        let mut left = parts(Path::new(path));
        let mut whole = PathBuf::new();
        let mut links = 0;
        while let Some(part) = left.pop() {
            if part == ".." {
                // At the top, `..` stays there, so that no link leads out of the recording.
                whole.pop();
                continue;
            }
            whole.push(part);
            let Ok(target) = fs::read_link(self.root.join(&whole)) else {
                continue;
            };
            links += 1;
            // A loop of links ends here, at a path that does not exist.
            if links > LINKS_MAX {
                break;
            }
            whole.pop();
            if target.is_absolute() {
                whole.clear();
            }
            left.extend(parts(&target));
        }
        whole
    }

    /// Returns the tree and a path in it that contains no links.
    fn at(&self, path: &str) -> (FileTree, String) {
        let path = self.resolve(path);
        (
            FileTree::new(&self.root),
            path.to_string_lossy().into_owned(),
        )
    }

    /// Returns the directory in `/sys/block` of the device or partition with this name.
    fn block(&self, name: &str) -> Option<String> {
        let whole = format!("/sys/block/{name}");
        if self.exists(&format!("{whole}/dev")) {
            return Some(whole);
        }
        let disks = self.list("/sys/block").ok()?.into_iter();
        let mut parts = disks.map(|disk| format!("/sys/block/{disk}/{name}"));
        parts.find(|part| self.exists(&format!("{part}/dev")))
    }

    /// Returns the directory in `/sys/block` of the device or partition with this number.
    fn numbered(&self, number: &str) -> Option<String> {
        let is = |directory: &str| {
            let text = self.read(&format!("{directory}/dev"));
            text.is_ok_and(|text| text.trim() == number)
        };
        let disks = self.list("/sys/block").ok()?.into_iter();
        let mut all = disks.flat_map(|disk| {
            let disk = format!("/sys/block/{disk}");
            let parts = self.list(&disk).unwrap_or_default().into_iter();
            let parts: Vec<_> = parts.map(|part| format!("{disk}/{part}")).collect();
            [vec![disk], parts].concat()
        });
        all.find(|directory| is(directory))
    }
}

/// Returns the error of all writes: a recording is read-only.
fn read_only() -> io::Error {
    Errno::ROFS.into()
}

impl HostFiles for RecordedHost {
    fn read(&self, path: &str) -> io::Result<String> {
        let (tree, path) = self.at(path);
        tree.read(&path)
    }

    fn write(&mut self, _: &str, _: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let (tree, path) = self.at(path);
        tree.list(&path)
    }

    fn link(&self, path: &str) -> io::Result<String> {
        // A recording need not have these links. The directory takes the place of the target,
        // because callers use only the last two names of the path.
        if let Some(number) = path.strip_prefix("/sys/dev/block/") {
            return self.numbered(number).ok_or_else(|| Errno::NOENT.into());
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let (tree, folder) = self.at(folder);
        tree.link(&format!("{folder}/{name}"))
    }

    fn number(&self, path: &str) -> io::Result<String> {
        // A path that does not exist stays as it is, and its name is enough.
        let device = self.resolve(path);
        let name = device.file_name().unwrap_or_default().to_string_lossy();
        let directory = self.block(&name).ok_or(Errno::NOENT)?;
        Ok(self.read(&format!("{directory}/dev"))?.trim().to_owned())
    }

    fn exists(&self, path: &str) -> bool {
        if let Some(below) = path.strip_prefix("/sys/dev/block/") {
            let (number, file) = below.split_once('/').unwrap_or((below, ""));
            let directory = self.numbered(number);
            return directory.is_some_and(|directory| self.exists(&format!("{directory}/{file}")));
        }
        let (tree, path) = self.at(path);
        tree.exists(&path)
    }

    fn attribute(&self, path: &str, name: &str) -> Option<String> {
        let (tree, path) = self.at(path);
        tree.attribute(&path, name)
    }

    fn make(&mut self, _: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn remove(&mut self, _: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn replace(&mut self, _: &str, _: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn unlink(&mut self, _: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn reload_units(&mut self) -> io::Result<()> {
        Err(read_only())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{HostDevice, NoDevice};
    use std::os::unix::fs::symlink;

    #[test]
    fn devices_of_a_recording_need_no_device_and_no_link_leaves_it() {
        let root = std::env::temp_dir().join(format!("weir-recorded-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("sys/block/sda/dev", "8:0\n");
        put("sys/block/sda/queue/rotational", "1\n");
        put("sys/block/sda/sda1/dev", "8:1\n");
        put("sys/block/sda/sda1/partition", "1\n");
        put("outside", "inside");
        fs::create_dir_all(root.join("dev/disk/by-id")).unwrap();
        symlink("../../sda", root.join("dev/disk/by-id/ata-disk")).unwrap();
        symlink("/dev/sda1", root.join("dev/disk/by-id/ata-disk-part1")).unwrap();
        symlink("/../outside", root.join("up")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let mut host = RecordedHost::new(&root).unwrap();
        let disk = HostDevice::find(&host, "/dev/disk/by-id/ata-disk").unwrap();
        assert_eq!(
            (&*disk.name, &*disk.number, disk.rotational),
            ("sda", "8:0", true)
        );
        let part = HostDevice::find(&host, "/dev/disk/by-id/ata-disk-part1");
        assert_eq!(part, Err(NoDevice::Partition("sda".into())));
        assert!(matches!(
            HostDevice::find(&host, "/dev/sdb"),
            Err(NoDevice::Missing(_))
        ));
        assert_eq!(host.read("/../up").unwrap(), "inside");
        assert!(host.read("/loop").is_err() && !host.exists("/loop"));
        assert!(host.write("/outside", "x").is_err());
        assert!(RecordedHost::new(&root.join("outside")).is_err());
        fs::remove_dir_all(&root).unwrap();
    }
}
