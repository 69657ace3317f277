//! Files and sockets that a start or a reload has created. A start that is refused removes them,
//! and restores files that it had moved.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

/// A name in a directory that is held open. A user who puts another directory at the path can
/// therefore not redirect the server to other files.
#[derive(Debug)]
pub(crate) struct DirectoryEntry {
    path: PathBuf,
    directory: OwnedFd,
    name: OsString,
}

impl DirectoryEntry {
    /// Opens the parent directory of a path.
    ///
    /// # Errors
    /// Returns the system's error for the directory, or `InvalidInput` if the path does not end in
    /// a name.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
        // `PATH` needs no permission to list the directory. A descriptor of this kind can only be
        // the base of further calls (open(2)).
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = parent.unwrap_or_else(|| Path::new("."));
        let directory = rustix::fs::open(parent, flags, Mode::empty())?;
        Ok(Self {
            path: path.to_owned(),
            directory,
            name: name.to_owned(),
        })
    }

    /// Returns the path that the entry was created from.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the entry itself (not the target of a link), with a descriptor that can neither read
    /// nor write.
    ///
    /// # Errors
    /// Returns the error of openat(2), which is `ENOENT` if the entry does not exist.
    pub(crate) fn open(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty())
    }

    /// Renames the entry to the first free name of `NAME.SUFFIX`, `NAME.SUFFIX.1` and so on. If the
    /// renamed file is not the one that `expected` identifies, the file is moved back.
    ///
    /// # Errors
    /// Returns the error of renameat2(2), or `ESTALE` if the entry is another file.
    pub(crate) fn set_aside(&self, suffix: u32, expected: Identity) -> Result<FileSetAside, Errno> {
        let mut first = self.name.clone();
        first.push(format!(".{suffix}"));
        let (mut name, mut number) = (first.clone(), 0);
        while let Err(errno) = self.rename(&self.name, &name) {
            if errno != Errno::EXIST {
                return Err(errno);
            }
            number += 1;
            name.clone_from(&first);
            name.push(format!(".{number}"));
        }
        // The identity is checked after the rename, because the entry can be replaced between a
        // check and the rename.
        let (is_it, aside) = (
            self.has(&name, expected),
            FileSetAside { name, is: expected },
        );
        // Another process replaced the file after the caller had checked it.
        if !is_it {
            self.put_back(&aside);
            return Err(Errno::STALE);
        }
        Ok(aside)
    }

    /// Moves a file back that was set aside, if its original name is free.
    pub(crate) fn put_back(&self, aside: &FileSetAside) {
        // If the name is taken by now, the file stays under the other name. Overwriting the newer
        // file would be worse.
        let _ = self.rename(&aside.name, &self.name);
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        let directory = &self.directory;
        // `NOREPLACE` never overwrites a file that has appeared in the meantime.
        rustix::fs::renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE)
    }

    fn has(&self, name: &OsStr, expected: Identity) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statat(&self.directory, name, flags);
        stat.is_ok_and(|stat| Identity::of(&stat) == expected)
    }

    /// Removes the file with this name in the directory if it is the expected one. Returns true if
    /// it was the expected one.
    fn remove(&self, name: &OsStr, expected: Identity) -> bool {
        let is_it = self.has(name, expected);
        if is_it {
            // A failure means that the file has already gone or has to stay. No caller could act on
            // it.
            let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
        }
        is_it
    }
}

/// The name to which a file was moved within its directory, and the identity of the file.
#[derive(Debug)]
pub(crate) struct FileSetAside {
    name: OsString,
    is: Identity,
}

/// The device and the inode number of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self(stat.st_dev, stat.st_ino)
    }

    /// Returns the identity that [`Self::numbers`] has returned in another process.
    pub(crate) fn from_numbers((device, inode): (u64, u64)) -> Self {
        Self(device, inode)
    }

    /// Returns the device and the inode number.
    pub(crate) fn numbers(self) -> (u64, u64) {
        (self.0, self.1)
    }
}

/// A file or a socket that was just created. Dropping this value removes the file, unless
/// `keep` was called before. Only the created file is removed. A file that has replaced
/// it since stays.
#[derive(Debug)]
#[must_use = "what was made goes when this is dropped"]
pub struct Created {
    entry: DirectoryEntry,
    /// The identity of the file, or `None` once it is kept.
    made: Option<Identity>,
    /// The file that was at this path before and was set aside.
    aside: Option<FileSetAside>,
    /// True while the file still belongs to another process, so that it must not be removed.
    is_foreign: bool,
}

impl Created {
    /// Registers the file that is open as `made` and was just created at the path.
    ///
    /// # Errors
    /// Returns the system's error for the file or its directory.
    pub(crate) fn at(path: &Path, made: impl AsFd) -> io::Result<Self> {
        let made = Identity::of(&rustix::fs::fstat(made)?);
        Ok(Self::new(DirectoryEntry::of(path)?, made, None))
    }

    /// Registers a file that was just created at this entry. If a file was set aside for it, that
    /// file is restored when this value is dropped.
    pub(crate) fn new(entry: DirectoryEntry, made: Identity, aside: Option<FileSetAside>) -> Self {
        Self {
            entry,
            made: Some(made),
            aside,
            is_foreign: false,
        }
    }

    /// Registers a file that another process has created. It belongs to that process until
    /// [`Self::settle`].
    pub(crate) fn inherit(entry: DirectoryEntry, made: Identity) -> Self {
        let mut created = Self::new(entry, made, None);
        created.is_foreign = true;
        created
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        self.entry.path()
    }

    /// Returns the identity of the file, or `None` if it was kept.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.made
    }

    /// Removes the file that was set aside, and owns an inherited file, once the start cannot be
    /// refused any more.
    pub(crate) fn settle(&mut self) {
        self.is_foreign = false;
        if let Some(aside) = self.aside.take() {
            // Only sockets without a listener are set aside, so nobody needs the file any more.
            self.entry.remove(&aside.name, aside.is);
        }
    }

    /// Keeps the file. The returned value can still remove it.
    pub(crate) fn keep(mut self) -> KeptFile {
        self.settle();
        KeptFile {
            path: self.entry.path.clone(),
            made: self.made.take(),
        }
    }
}

/// A file that was created and is kept.
#[derive(Debug)]
pub(crate) struct KeptFile {
    path: PathBuf,
    made: Option<Identity>,
}

impl KeptFile {
    /// Returns a value that removes the file when it is dropped, unless it is kept again. Returns
    /// `None` if the directory does not exist any more.
    pub(crate) fn claim(self) -> Option<Created> {
        let entry = DirectoryEntry::of(&self.path).ok()?;
        Some(Created {
            entry,
            made: self.made,
            aside: None,
            is_foreign: false,
        })
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        // The process that has created the file goes on using it, because this one did not take
        // over.
        if self.is_foreign {
            return;
        }
        let entry = &self.entry;
        let ours = self
            .made
            .is_some_and(|made| entry.remove(&entry.name, made));
        // The file that was set aside is restored if its name is free: either the created file
        // was removed just now, or another process had removed it before. It is not restored
        // over a file that has replaced the created one.
        if let Some(aside) = self.aside.take()
            && (ours || entry.open().is_err())
        {
            entry.put_back(&aside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    #[test]
    fn only_created_files_are_removed_and_set_aside_ones_return() {
        let base = std::env::temp_dir().join(format!("weir-created-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let path = base.join("file");
        let make = |text: &str| {
            let entry = DirectoryEntry::of(&path).unwrap();
            let there = entry.open().map(|fd| identity(&fd));
            let aside = there.ok().map(|is| entry.set_aside(7, is).unwrap());
            fs::write(&path, text).unwrap();
            let made = identity(entry.open().unwrap());
            Created::new(entry, made, aside)
        };
        let there = || {
            let entries = fs::read_dir(&base).unwrap();
            let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names
        };
        drop(make("gone"));
        assert!(there().is_empty());
        // A file that is kept once can be claimed and kept again.
        drop(make("kept").keep().claim().unwrap().keep());
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        // A server that was killed has left its socket aside, so the next free name is used.
        fs::write(base.join("file.7"), "older").unwrap();
        let new = make("new");
        assert_eq!(there(), ["file", "file.7", "file.7.1"]);
        drop(new);
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        assert_eq!(there(), ["file", "file.7"]);
        // After `settle`, the older file of this server is removed.
        let mut settled = make("new");
        settled.settle();
        assert_eq!(there(), ["file", "file.7"]);
        // Another user replaces the file, which then stays.
        fs::write(base.join("other"), "other").unwrap();
        fs::rename(base.join("other"), &path).unwrap();
        drop(settled);
        assert_eq!(fs::read(&path).unwrap(), b"other");
        // A file other than the expected one is not set aside.
        let entry = DirectoryEntry::of(&path).unwrap();
        let older = identity(
            DirectoryEntry::of(&base.join("file.7"))
                .unwrap()
                .open()
                .unwrap(),
        );
        assert_eq!(entry.set_aside(8, older).unwrap_err(), Errno::STALE);
        assert_eq!(fs::read(&path).unwrap(), b"other");
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_created_file_is_removed_from_its_original_directory() {
        let base = std::env::temp_dir().join(format!("weir-entry-{}", std::process::id()));
        let (inside, elsewhere) = (base.join("inside"), base.join("elsewhere"));
        fs::create_dir_all(&inside).unwrap();
        fs::write(inside.join("file"), "made").unwrap();
        let made = fs::File::open(inside.join("file")).unwrap();
        let created = Created::at(&inside.join("file"), &made).unwrap();
        fs::rename(&inside, &elsewhere).unwrap();
        // The same file is at the same path, but in a directory of another user. Only the link in
        // the original directory is removed.
        fs::create_dir(&inside).unwrap();
        fs::hard_link(elsewhere.join("file"), inside.join("file")).unwrap();
        drop(created);
        assert!(inside.join("file").exists() && !elsewhere.join("file").exists());
        fs::remove_dir_all(base).unwrap();
    }

    fn identity(fd: impl AsFd) -> Identity {
        Identity::of(&rustix::fs::fstat(fd).unwrap())
    }
}
