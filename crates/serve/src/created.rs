//! What a start or a reload has made: one that is refused leaves nothing that was not there before.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

/// A name in a directory that is held open: a user that puts another directory at its path cannot lead the server to files elsewhere.
#[derive(Debug)]
pub(crate) struct Entry {
    path: PathBuf,
    directory: OwnedFd,
    name: OsString,
}

impl Entry {
    /// The name at the end of a path.
    ///
    /// # Errors
    /// What the system says of the directory; `InvalidInput` if the path ends in no name.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = parent.unwrap_or_else(|| Path::new("."));
        let directory = rustix::fs::open(parent, flags, Mode::empty())?;
        Ok(Self {
            path: path.to_owned(),
            directory,
            name: name.to_owned(),
        })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is there, a link itself and not what it names, by a descriptor that neither reads nor writes.
    ///
    /// # Errors
    /// What openat(2) says; `ENOENT` if nothing is there.
    pub(crate) fn open(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty())
    }

    /// Moves what is there to the first name of its own that is free: `NAME.SUFFIX`, `NAME.SUFFIX.1` and so on. If it is not what
    /// `expected` identifies, it comes back.
    ///
    /// # Errors
    /// What renameat2(2) says; `ESTALE` if it is something else.
    pub(crate) fn set_aside(&self, suffix: u32, expected: Identity) -> Result<Aside, Errno> {
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
        let (is_it, aside) = (self.has(&name, expected), Aside { name, is: expected });
        if !is_it {
            self.put_back(&aside);
            return Err(Errno::STALE);
        }
        Ok(aside)
    }

    /// Moves back what was set aside, if its place is free.
    pub(crate) fn put_back(&self, aside: &Aside) {
        let _ = self.rename(&aside.name, &self.name);
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        let directory = &self.directory;
        rustix::fs::renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE)
    }

    fn has(&self, name: &OsStr, expected: Identity) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statat(&self.directory, name, flags);
        stat.is_ok_and(|stat| Identity::of(&stat) == expected)
    }

    /// Removes what has this name in the directory, if it is what is expected; whether it was.
    fn remove(&self, name: &OsStr, expected: Identity) -> bool {
        let is_it = self.has(name, expected);
        if is_it {
            // What cannot be removed has gone, or stays: there is nobody to be told.
            let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
        }
        is_it
    }
}

/// What was moved to another name of its directory, and which file that is.
#[derive(Debug)]
pub(crate) struct Aside {
    name: OsString,
    is: Identity,
}

/// The device and the inode of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self(stat.st_dev, stat.st_ino)
    }
}

/// A file that was made just now, or a socket. It goes when this is dropped, unless it is kept; only what was made goes, and what has
/// come to its place since stays.
#[derive(Debug)]
#[must_use = "what was made goes when this is dropped"]
pub struct Created {
    entry: Entry,
    /// Nothing once it is kept.
    made: Option<Identity>,
    /// What was in its place before.
    aside: Option<Aside>,
}

impl Created {
    /// The file that is open as `made` was made at the path just now.
    ///
    /// # Errors
    /// What the system says of the file or its directory.
    pub(crate) fn at(path: &Path, made: impl AsFd) -> io::Result<Self> {
        let made = Identity::of(&rustix::fs::fstat(made)?);
        Ok(Self::new(Entry::of(path)?, made, None))
    }

    /// This file was made at this entry just now. What was there before was set aside, if anything was, and comes back with a refusal.
    pub(crate) fn new(entry: Entry, made: Identity, aside: Option<Aside>) -> Self {
        let made = Some(made);
        Self { entry, made, aside }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.entry.path()
    }

    /// Nothing can be refused any more: what was moved aside goes.
    pub(crate) fn settle(&mut self) {
        if let Some(aside) = self.aside.take() {
            // It is a socket that nobody listens on.
            self.entry.remove(&aside.name, aside.is);
        }
    }

    /// It stays. What is returned can make it go after all.
    pub(crate) fn keep(mut self) -> Kept {
        self.settle();
        Kept {
            path: self.entry.path.clone(),
            made: self.made.take(),
        }
    }
}

/// A file that was made and stays.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    made: Option<Identity>,
}

impl Kept {
    /// It goes with what is returned, unless that is kept; nothing if its directory has gone.
    pub(crate) fn claim(self) -> Option<Created> {
        let entry = Entry::of(&self.path).ok()?;
        Some(Created {
            entry,
            made: self.made,
            aside: None,
        })
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        let entry = &self.entry;
        let ours = self
            .made
            .is_some_and(|made| entry.remove(&entry.name, made));
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
    fn only_what_was_made_goes_and_what_was_aside_comes_back() {
        let base = std::env::temp_dir().join(format!("weir-created-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let path = base.join("file");
        let make = |text: &str| {
            let entry = Entry::of(&path).unwrap();
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
        drop(make("kept").keep().claim().unwrap().keep());
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        // A server that was killed has left its own.
        fs::write(base.join("file.7"), "older").unwrap();
        let new = make("new");
        assert_eq!(there(), ["file", "file.7", "file.7.1"]);
        drop(new);
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        assert_eq!(there(), ["file", "file.7"]);
        let mut settled = make("new");
        settled.settle();
        assert_eq!(there(), ["file", "file.7"]);
        // Somebody puts another file in its place.
        fs::write(base.join("other"), "other").unwrap();
        fs::rename(base.join("other"), &path).unwrap();
        drop(settled);
        assert_eq!(fs::read(&path).unwrap(), b"other");
        // Nothing else is set aside than what was looked at.
        let entry = Entry::of(&path).unwrap();
        let older = identity(Entry::of(&base.join("file.7")).unwrap().open().unwrap());
        assert_eq!(entry.set_aside(8, older).unwrap_err(), Errno::STALE);
        assert_eq!(fs::read(&path).unwrap(), b"other");
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn what_is_made_goes_from_its_own_directory() {
        let base = std::env::temp_dir().join(format!("weir-entry-{}", std::process::id()));
        let (inside, elsewhere) = (base.join("inside"), base.join("elsewhere"));
        fs::create_dir_all(&inside).unwrap();
        fs::write(inside.join("file"), "made").unwrap();
        let made = fs::File::open(inside.join("file")).unwrap();
        let created = Created::at(&inside.join("file"), &made).unwrap();
        fs::rename(&inside, &elsewhere).unwrap();
        // The same file under the same path, in a directory of another.
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
