//! The initial file system of a guest, as a cpio archive.

use crate::guest::error::GuestError;
use crate::guest::kernel::{Kernel, command_output};
use cpio::NewcBuilder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The script that is the guest's first process.
const INIT: &str = include_str!("init");

/// The directories that exist from the beginning.
const DIRECTORIES: [&str; 9] = [
    "bin", "dev", "files", "modules", "out", "proc", "run", "sys", "tmp",
];

/// The modules that every guest has, if its kernel has them.
const MODULES: [&str; 16] = [
    "bfq",
    "dm_delay",
    "dm_mod",
    "ext4",
    "kyber_iosched",
    "linear",
    "mq_deadline",
    "nbd",
    "null_blk",
    "raid0",
    "raid1",
    "scsi_debug",
    "sd_mod",
    "ublk_drv",
    "virtio_blk",
    "virtio_pci",
];

/// The mode and the content of a file in the guest.
type ArchiveFile = (u32, Vec<u8>);

/// The files of a guest by their paths relative to the root, without a leading slash.
#[derive(Default)]
pub(crate) struct Initrd {
    files: BTreeMap<String, ArchiveFile>,
}

impl Initrd {
    /// Collects busybox, the standard and further modules of a kernel, and a script. The first
    /// process sources the script.
    pub(crate) fn new(kernel: &Kernel, modules: &[&str], script: &str) -> Result<Self, GuestError> {
        let mut initrd = Self::default();
        let busybox = ["/usr/bin/busybox", "/bin/busybox"].map(Path::new);
        let busybox = busybox.into_iter().find(|p| p.exists());
        // If neither path exists, the error names the usual one.
        let busybox = busybox.unwrap_or_else(|| Path::new("/bin/busybox"));
        initrd.put(busybox, "bin/busybox")?;
        initrd.files.insert("init".into(), (0o755, INIT.into()));
        initrd.add("files/script", script.as_bytes())?;
        initrd.modules(&kernel.modules(), modules)?;
        // The script's `has` needs to tell a module that is built in from one that is missing.
        let builtin = kernel.builtin().join("\n") + "\n";
        initrd.add("modules/builtin", builtin.as_bytes())?;
        Ok(initrd)
    }

    /// Adds a file with this content.
    pub(crate) fn add(&mut self, path: &str, bytes: &[u8]) -> Result<(), GuestError> {
        match self.files.insert(path.to_owned(), (0o644, bytes.to_vec())) {
            Some(_) => Err(GuestError::Twice(path.to_owned())),
            None => Ok(()),
        }
    }

    /// Adds a program of this machine to `/bin`, with the shared libraries that it is linked to.
    pub(crate) fn program(&mut self, program: &Path) -> Result<(), GuestError> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let to = format!("bin/{name}");
        if self.files.contains_key(&to) {
            return Err(GuestError::Twice(to));
        }
        self.put(program, &to)?;
        // `ldd` fails for a static program, which needs no libraries.
        let Ok(libraries) = command_output("ldd", "libc-bin", Command::new("ldd").arg(program))
        else {
            return Ok(());
        };
        let words = libraries.split_whitespace();
        for library in words.filter(|word| word.starts_with('/')) {
            let to = library.trim_start_matches('/');
            if !self.files.contains_key(to) {
                self.put(Path::new(library), to)?;
            }
        }
        Ok(())
    }

    /// Adds a file of this machine with its permissions.
    fn put(&mut self, from: &Path, to: &str) -> Result<(), GuestError> {
        let bytes = fs::read(from).map_err(GuestError::file(from))?;
        let mode = fs::metadata(from)
            .map_err(GuestError::file(from))?
            .permissions()
            .mode()
            & 0o777;
        self.files.insert(to.to_owned(), (mode, bytes));
        Ok(())
    }

    /// Adds the modules, and for each of them a file with the order in which to load it and its
    /// dependencies.
    fn modules(&mut self, directory: &Path, further: &[&str]) -> Result<(), GuestError> {
        let mut paths: BTreeMap<String, PathBuf> = BTreeMap::new();
        for entry in fs::read_dir(directory)
            .map_err(GuestError::file(directory))?
            .flatten()
        {
            let file = entry.file_name().to_string_lossy().into_owned();
            if let Some(name) = file.strip_suffix(".ko") {
                // The kernel treats `-` and `_` in names of modules as equal, and prints `_`.
                paths.insert(name.replace('-', "_"), entry.path());
            }
        }
        let all = MODULES.iter().chain(further);
        for module in all.filter(|m| paths.contains_key(**m)) {
            let mut order = Vec::new();
            self.module(&paths, module, &mut order, &mut BTreeSet::new())?;
            let text = order.join("\n") + "\n";
            self.add(&format!("modules/{module}.order"), text.as_bytes())?;
        }
        Ok(())
    }

    /// Adds a module and its dependencies, in the order in which they must be loaded. Dependencies
    /// that are built into the kernel have no file.
    fn module(
        &mut self,
        paths: &BTreeMap<String, PathBuf>,
        name: &str,
        order: &mut Vec<String>,
        seen: &mut BTreeSet<String>,
    ) -> Result<(), GuestError> {
        // A module without a file is built into the kernel.
        let Some(path) = paths.get(name).filter(|_| seen.insert(name.to_owned())) else {
            return Ok(());
        };
        let bytes = fs::read(path).map_err(GuestError::file(path))?;
        for needed in needs(&bytes) {
            self.module(paths, &needed, order, seen)?;
        }
        order.push(name.to_owned());
        self.files
            .insert(format!("modules/{name}.ko"), (0o644, bytes));
        Ok(())
    }

    /// Writes the archive. Its bytes depend on the files only, not on the time or place at which it
    /// is made.
    pub(crate) fn write(&self, to: impl Write) -> std::io::Result<()> {
        let mut directories: BTreeSet<&str> = DIRECTORIES.into();
        for path in self.files.keys() {
            let parents = path.match_indices('/').map(|(at, _)| &path[..at]);
            directories.extend(parents);
        }
        let (mut to, mut inode) = (to, 1);
        let mut write = |path: &str, mode: u32, bytes: &[u8]| {
            // The time of modification stays 0, so that the archive is repeatable.
            let entry = NewcBuilder::new(path).ino(inode).mode(mode).nlink(1);
            inode += 1;
            // The size field of the format has 32 bits. No file of a guest is near 4 GiB.
            let mut writer = entry.write(&mut to, bytes.len() as u32);
            writer.write_all(bytes)?;
            writer.finish().map(drop)
        };
        // The kernel unpacks the entries in order and does not make missing directories.
        for directory in directories {
            write(directory, 0o040_755, &[])?;
        }
        for (path, (mode, bytes)) in &self.files {
            write(path, 0o100_000 | mode, bytes)?;
        }
        cpio::newc::trailer(to).map(drop)
    }
}

/// Returns the names of the modules that a module needs, from the text `depends=` in its `.modinfo`
/// section.
fn needs(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|w| w == KEY) else {
        return Vec::new();
    };
    let text = module[at + KEY.len()..].split(|b| *b == 0).next();
    let text = String::from_utf8_lossy(text.unwrap_or_default()).replace('-', "_");
    let names = text.split(',').filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_the_module() {
        assert_eq!(
            needs(b"x\0depends=scsi_mod,crc-t10dif\0name=sd"),
            ["scsi_mod", "crc_t10dif"]
        );
        assert!(needs(b"x\0depends=\0name=sd").is_empty());
        assert!(needs(b"nothing").is_empty());
    }

    #[test]
    fn a_name_is_given_once_and_the_archive_is_the_same_whenever_it_is_made() {
        let mut initrd = Initrd::default();
        initrd.add("files/a", b"one").unwrap();
        assert!(matches!(
            initrd.add("files/a", b"two"),
            Err(GuestError::Twice(_))
        ));
        initrd.add("files/b/c", b"three").unwrap();
        let archive = |initrd: &Initrd| {
            let mut bytes = Vec::new();
            initrd.write(&mut bytes).unwrap();
            bytes
        };
        assert_eq!(archive(&initrd), archive(&initrd));
        let text = String::from_utf8_lossy(&archive(&initrd)).into_owned();
        assert!(text.find("files/b\0").unwrap() < text.find("files/b/c\0").unwrap());
    }
}
