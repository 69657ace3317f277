//! The files that a guest begins with.

use crate::guest::error::Error;
use crate::guest::kernel::{Kernel, said};
use cpio::NewcBuilder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the first process does.
const INIT: &str = include_str!("init");

/// Directories that are there from the beginning.
const DIRECTORIES: [&str; 9] = [
    "bin", "dev", "files", "modules", "out", "proc", "run", "sys", "tmp",
];

/// Modules that are in every guest, where the kernel has them.
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

/// A file in the guest: its mode and bytes.
type Entry = (u32, Vec<u8>);

/// The files of a guest by their paths, which say where they are from the root, without a slash before.
#[derive(Default)]
pub(crate) struct Initrd {
    files: BTreeMap<String, Entry>,
}

impl Initrd {
    /// Busybox, the modules of a kernel that every guest has and further ones, and a script, which is sourced by the first process.
    pub(crate) fn new(kernel: &Kernel, modules: &[&str], script: &str) -> Result<Self, Error> {
        let mut initrd = Self::default();
        let busybox = ["/usr/bin/busybox", "/bin/busybox"].map(Path::new);
        let busybox = busybox.into_iter().find(|p| p.exists());
        let busybox = busybox.unwrap_or_else(|| Path::new("/bin/busybox"));
        initrd.put(busybox, "bin/busybox")?;
        initrd.files.insert("init".into(), (0o755, INIT.into()));
        initrd.add("files/script", script.as_bytes())?;
        initrd.modules(&kernel.modules(), modules)?;
        let builtin = kernel.builtin().join("\n") + "\n";
        initrd.add("modules/builtin", builtin.as_bytes())?;
        Ok(initrd)
    }

    /// A file with these bytes.
    pub(crate) fn add(&mut self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        match self.files.insert(path.to_owned(), (0o644, bytes.to_vec())) {
            Some(_) => Err(Error::Twice(path.to_owned())),
            None => Ok(()),
        }
    }

    /// A program of this machine, in `/bin`, with the libraries that it is linked to.
    pub(crate) fn program(&mut self, program: &Path) -> Result<(), Error> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let to = format!("bin/{name}");
        if self.files.contains_key(&to) {
            return Err(Error::Twice(to));
        }
        self.put(program, &to)?;
        // Of a program that is linked to none it says so, and fails.
        let Ok(libraries) = said("ldd", "libc-bin", Command::new("ldd").arg(program)) else {
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

    fn put(&mut self, from: &Path, to: &str) -> Result<(), Error> {
        let bytes = fs::read(from).map_err(Error::file(from))?;
        let mode = fs::metadata(from)
            .map_err(Error::file(from))?
            .permissions()
            .mode()
            & 0o777;
        self.files.insert(to.to_owned(), (mode, bytes));
        Ok(())
    }

    /// The modules, and for each a file with those that are loaded before it.
    fn modules(&mut self, directory: &Path, further: &[&str]) -> Result<(), Error> {
        let mut paths: BTreeMap<String, PathBuf> = BTreeMap::new();
        for entry in fs::read_dir(directory)
            .map_err(Error::file(directory))?
            .flatten()
        {
            let file = entry.file_name().to_string_lossy().into_owned();
            if let Some(name) = file.strip_suffix(".ko") {
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

    /// A module behind those that it needs, unless the kernel has these built in.
    fn module(
        &mut self,
        paths: &BTreeMap<String, PathBuf>,
        name: &str,
        order: &mut Vec<String>,
        seen: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        let Some(path) = paths.get(name).filter(|_| seen.insert(name.to_owned())) else {
            return Ok(());
        };
        let bytes = fs::read(path).map_err(Error::file(path))?;
        for needed in needs(&bytes) {
            self.module(paths, &needed, order, seen)?;
        }
        order.push(name.to_owned());
        self.files
            .insert(format!("modules/{name}.ko"), (0o644, bytes));
        Ok(())
    }

    /// Writes the archive, in which nothing depends on when or where it is made.
    pub(crate) fn write(&self, to: impl Write) -> std::io::Result<()> {
        let mut directories: BTreeSet<&str> = DIRECTORIES.into();
        for path in self.files.keys() {
            let parents = path.match_indices('/').map(|(at, _)| &path[..at]);
            directories.extend(parents);
        }
        let (mut to, mut inode) = (to, 1);
        let mut write = |path: &str, mode: u32, bytes: &[u8]| {
            let entry = NewcBuilder::new(path).ino(inode).mode(mode).nlink(1);
            inode += 1;
            let mut writer = entry.write(&mut to, bytes.len() as u32);
            writer.write_all(bytes)?;
            writer.finish().map(drop)
        };
        for directory in directories {
            write(directory, 0o040_755, &[])?;
        }
        for (path, (mode, bytes)) in &self.files {
            write(path, 0o100_000 | mode, bytes)?;
        }
        cpio::newc::trailer(to).map(drop)
    }
}

/// The modules that one needs, from the text `depends=` in it.
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
    fn what_a_module_needs_is_read_from_it() {
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
            Err(Error::Twice(_))
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
