//! Files that a program opens with more rights than those of the users around it.
//!
//! A path is not enough to name such a file. Between two system calls, the owner of a directory on
//! the way can put a link in the place of a file. [`Dir`] holds a directory open and opens files by
//! their name in it. It follows no link that another user could have made, and it opens regular
//! files of the expected owner only.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

/// Links that the kernel follows on one path (`MAXSYMLINKS`), and so does [`Dir`].
const LINKS_MAX: usize = 40;
/// Permission bits that let the group or everyone write.
const SHARED: u32 = 0o022;
/// Permission bit of a directory in which users remove only their own files, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// The reason why a file or directory is not used although the system permits it. It is the inner
/// error of an [`io::Error`] of the kind `PermissionDenied`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Untrusted {
    /// Another user owns the path, and decides about its content.
    #[error(
        "{} belongs to {}, not to {}; name a path that other users cannot change", path.display(), user(*owner), user(*expected)
    )]
    Owner {
        /// The file or directory that was refused.
        path: PathBuf,
        /// The owner of the path.
        owner: u32,
        /// The expected owner. Root is also accepted where this is the program's own user.
        expected: u32,
    },
    /// The group or everyone may write to the path.
    #[error("other users can write to {}; name another path, or remove their permission with chmod go-w", .0.display())]
    Shared(PathBuf),
    /// A symbolic link in the place of a file, or one that another user could have made.
    #[error("{} is a symbolic link; name the path to which it leads, or remove the link", .0.display())]
    Link(PathBuf),
    /// A file with several names (hard links).
    #[error("{} has a second name (a hard link); remove one of them, or name another path", .0.display())]
    Names(PathBuf),
    /// A path that is not a regular file, with the noun for its kind.
    #[error("{} is {}, not a regular file; name another path", .0.display(), .1)]
    Kind(PathBuf, &'static str),
}

impl From<Untrusted> for io::Error {
    fn from(untrusted: Untrusted) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, untrusted)
    }
}

fn user(id: u32) -> String {
    match id {
        0 => "root".to_owned(),
        id => format!("user {id}"),
    }
}

/// An open directory, whose files are opened by name. A name is one component: one with a slash, or
/// `..`, is refused (`EINVAL`).
#[derive(Debug)]
pub struct Dir {
    /// The file descriptor, for look-ups only (`O_PATH`).
    fd: OwnedFd,
    path: PathBuf,
    owner: u32,
    group: u32,
    /// True if only root and the program's own user can change this directory and those above it,
    /// except in sticky directories.
    is_trusted: bool,
}

/// The rule for directories of other users on a path.
#[derive(Clone, Copy)]
enum Trust {
    /// Root or the program's own user owns every directory, and no other user may write there,
    /// except in sticky directories.
    Whole,
    /// Directories may belong to anyone, but a link behind such a directory is refused.
    Links,
}

impl Dir {
    /// Opens a directory that no other user can change: root or the program's own user owns it and
    /// every directory above it, and others may not write there. Above it, a sticky directory such
    /// as `/tmp` is permitted.
    ///
    /// # Errors
    /// [`Untrusted`], or the system's error.
    pub fn trusted(path: &Path) -> io::Result<Self> {
        // `walk` permits sticky directories on the path, but the directory itself must not be one.
        walk(path, Trust::Whole, None)?.require_exclusive()
    }

    /// Opens a directory in the same way as [`Self::trusted`], and creates missing directories with
    /// these permissions.
    ///
    /// # Errors
    /// The errors of [`Self::trusted`].
    pub fn create_trusted(path: &Path, mode: u32) -> io::Result<Self> {
        walk(path, Trust::Whole, Some(mode))?.require_exclusive()
    }

    /// Opens a directory that may belong to any user. Symbolic links lead to it only where no other
    /// user could have made them.
    ///
    /// # Errors
    /// [`Untrusted`], or the system's error.
    pub fn open(path: &Path) -> io::Result<Self> {
        walk(path, Trust::Links, None)
    }

    /// Opens the directory of a file and returns the name of the file in it. The directory can
    /// belong to any user. If the path names a symbolic link, the link is followed if no other user
    /// could have made it. The file need not exist.
    ///
    /// # Errors
    /// [`Untrusted`], `EINVAL` if the path does not end with a name, or the system's error.
    pub fn of_file(path: &Path) -> io::Result<(Self, OsString)> {
        let mut path = std::path::absolute(path)?;
        for _ in 0..LINKS_MAX {
            let (parent, name) = split(&path)?;
            let dir = Self::open(parent)?;
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = match rustix::fs::openat(&dir.fd, name, flags, Mode::empty()) {
                // The caller may want to create the file.
                Err(Errno::NOENT) => return Ok((dir, name.to_owned())),
                found => File::from(found?),
            };
            let metadata = found.metadata()?;
            if !metadata.is_symlink() {
                return Ok((dir, name.to_owned()));
            }
            let link = dir.path.join(name);
            if !dir.is_trusted || check_owner(&metadata, || link.clone()).is_err() {
                return Err(Untrusted::Link(link).into());
            }
            let target = rustix::fs::readlinkat(&found, "", Vec::new())?;
            path = dir.path.join(OsString::from_vec(target.into_bytes()));
        }
        Err(Errno::LOOP.into())
    }

    /// Returns true if only root and the program's own user can replace the files of the directory.
    /// In a sticky directory such as `/tmp`, other users can still add files of their own.
    pub fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Checks an open file of this directory, regardless of its owner. If other users can change
    /// the directory, the file must have only one name, because another user can give a second name
    /// to a file of root.
    ///
    /// # Errors
    /// [`Untrusted::Names`].
    pub fn check_names(&self, name: &OsStr, links: u64) -> Result<(), Untrusted> {
        if self.is_trusted || links == 1 {
            return Ok(());
        }
        Err(Untrusted::Names(self.path.join(name)))
    }

    /// Returns the path of the directory, with all links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the user and the group of the directory.
    pub fn owner(&self) -> (u32, u32) {
        (self.owner, self.group)
    }

    /// Opens a file to read it.
    ///
    /// # Errors
    /// [`Untrusted`] if the file is not a regular file with one name. In a trusted directory, root
    /// or the program's own user must own the file, and others may not write to it. In another
    /// directory, the file's owner must be that of the directory. Or the system's error.
    pub fn read(&self, name: &OsStr) -> io::Result<File> {
        self.file(name, OFlags::RDONLY)
    }

    /// Opens a file that exists, to read and write it.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    pub fn write(&self, name: &OsStr) -> io::Result<File> {
        self.file(name, OFlags::RDWR)
    }

    /// Opens a file to read and write it. A file that is missing is created with these permissions.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    pub fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        match self.create_new(name, mode) {
            // An existing file is checked, while a file that `O_EXCL` created is certainly this
            // program's own.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.write(name),
            created => created,
        }
    }

    /// Creates a file with these permissions, and opens it for reading and writing.
    ///
    /// # Errors
    /// `AlreadyExists` if the name exists, even as a link, or the system's error.
    pub fn create_new(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        self.open_at(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode)
    }

    /// Replaces the content of a file atomically: after a crash, the file has either the old or the
    /// new content. If the name is a link, the link itself is replaced.
    ///
    /// # Errors
    /// The system's error. The file is unchanged in that case, unless only the sync of the
    /// directory failed after the replacement.
    pub fn replace(&self, name: &OsStr, content: &[u8], mode: u32) -> io::Result<()> {
        let mut fresh = OsString::from(".");
        fresh.push(name);
        fresh.push(".weir-new");
        // A process that was killed during an earlier call can have left this file behind.
        self.remove(&fresh)?;
        let written = self.create_new(&fresh, mode).and_then(|mut file| {
            file.write_all(content)?;
            // The content must be durable before the name refers to it.
            file.sync_all()?;
            rustix::fs::renameat(&self.fd, &fresh, &self.fd, component(name)?)?;
            // The new name must become durable too.
            self.sync()
        });
        if written.is_err() {
            // The error of the write is more useful to the caller than that of the cleanup.
            let _ = self.remove(&fresh);
        }
        written
    }

    /// Removes a file or a link. It is not an error if the name does not exist.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.fd, component(name)?, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Returns the metadata of a name. For a link, it is that of the link itself, not of its
    /// target.
    ///
    /// # Errors
    /// The system's error.
    pub fn metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        self.open_at(name, OFlags::PATH, 0)?.metadata()
    }

    /// Returns the names in the directory in no particular order.
    ///
    /// # Errors
    /// The system's error.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(self.reopen()?)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            // This leaves out `.` and `..`.
            if component(&name).is_ok() {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Makes the names in the directory durable.
    ///
    /// # Errors
    /// The system's error.
    pub fn sync(&self) -> io::Result<()> {
        // A descriptor with `O_PATH` permits neither `fsync` nor reading (open(2)).
        Ok(rustix::fs::fsync(self.reopen()?)?)
    }

    fn reopen(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.fd, ".", flags, Mode::empty())?)
    }

    fn file(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        // This check comes before the file is opened, because opening a device can have effects.
        self.check_file(name, &self.metadata(name)?)?;
        // The name can lead to another file since the first check, so the open file is checked
        // again.
        let file = self.open_at(name, flags, 0)?;
        self.check_file(name, &file.metadata()?)?;
        Ok(file)
    }

    fn check_file(&self, name: &OsStr, found: &Metadata) -> io::Result<()> {
        let path = || self.path.join(name);
        let kind = found.file_type();
        if kind.is_symlink() {
            return Err(Untrusted::Link(path()).into());
        }
        if !kind.is_file() {
            return Err(Untrusted::Kind(path(), file_kind_noun(kind)).into());
        }
        if self.is_trusted {
            check_owner(found, path)?;
            if found.mode() & SHARED != 0 {
                return Err(Untrusted::Shared(path()).into());
            }
        } else if found.uid() != self.owner {
            let untrusted = Untrusted::Owner {
                path: path(),
                owner: found.uid(),
                expected: self.owner,
            };
            return Err(untrusted.into());
        }
        // A second name can be in a directory that another user controls.
        if found.nlink() > 1 {
            return Err(Untrusted::Names(path()).into());
        }
        Ok(())
    }

    /// Opens a name without following a link, and without waiting for the other end of a pipe.
    fn open_at(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<File> {
        // Opening a terminal must not make it the controlling terminal (`NOCTTY`).
        let always = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        let opened = rustix::fs::openat(&self.fd, component(name)?, flags | always, mode)?;
        Ok(opened.into())
    }

    /// Returns the directory if other users cannot even add files to it.
    fn require_exclusive(self) -> io::Result<Self> {
        let found = File::from(self.fd.try_clone()?).metadata()?;
        if found.mode() & SHARED != 0 {
            return Err(Untrusted::Shared(self.path).into());
        }
        Ok(self)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Splits the path of a file into its directory and its name.
///
/// # Errors
/// `EINVAL` if the path does not end with a name.
pub fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let directory = path.parent().filter(|above| !above.as_os_str().is_empty());
    Ok((directory.unwrap_or_else(|| Path::new(".")), name))
}

/// Returns a name if it is a single component of a path.
fn component(name: &OsStr) -> io::Result<&OsStr> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        // `components` drops the slash of `file/`, so the component is compared with the name.
        (Some(Component::Normal(part)), None) if part == name => Ok(name),
        _ => Err(Errno::INVAL.into()),
    }
}

/// Checks that root or the program's own user owns a path.
fn check_owner(found: &Metadata, path: impl Fn() -> PathBuf) -> Result<(), Untrusted> {
    let (owner, expected) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner == 0 || owner == expected {
        return Ok(());
    }
    Err(Untrusted::Owner {
        path: path(),
        owner,
        expected,
    })
}

/// Opens the directories of a path one after the other, so that no other user can exchange one in
/// between. `missing` has the permissions for directories that must be created.
fn walk(path: &Path, trust: Trust, missing: Option<u32>) -> io::Result<Dir> {
    let path = std::path::absolute(path)?;
    let mut left: Vec<OsString> = parts(&path).rev().collect();
    let mut at = root(trust)?;
    let mut links = 0;
    while let Some(part) = left.pop() {
        if let Some(mode) = missing {
            make(&at, &part, mode)?;
        }
        // `O_PATH` with `O_NOFOLLOW` opens a link itself, so that its owner can be checked before
        // it is followed (open(2)).
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = rustix::fs::openat(&at.fd, &part, flags, Mode::empty())?;
        let found = File::from(next.try_clone()?).metadata()?;
        let path = match at.path.parent() {
            // `at.path` has no links, so its parent is the directory that the kernel finds for
            // `..`.
            Some(above) if part == ".." => above.to_owned(),
            _ => at.path.join(&part),
        };
        if found.is_symlink() {
            links += 1;
            if !at.is_trusted || check_owner(&found, || path.clone()).is_err() {
                return Err(Untrusted::Link(path).into());
            }
            // Links that form a loop would never end. The kernel returns the same error for them.
            if links > LINKS_MAX {
                return Err(Errno::LOOP.into());
            }
            let target = rustix::fs::readlinkat(&next, "", Vec::new())?;
            let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
            // The components of a relative target are resolved from the directory that contains the
            // link.
            if target.is_absolute() {
                at = root(trust)?;
            }
            left.extend(parts(&target).rev());
        } else {
            at = enter((next, &found), path, trust, at.is_trusted)?;
        }
    }
    Ok(at)
}

/// Creates a directory with these permissions, unless the name exists.
fn make(at: &Dir, part: &OsStr, mode: u32) -> io::Result<()> {
    match rustix::fs::statat(&at.fd, part, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => {}
        found => return Ok(found.map(drop)?),
    }
    match rustix::fs::mkdirat(&at.fd, part, Mode::from_raw_mode(mode)) {
        // Another process can have created it since the check. `walk` checks the owner afterwards.
        Err(Errno::EXIST) => Ok(()),
        made => Ok(made?),
    }
}

/// Iterates over the components of a path below the root. `..` is kept, because the directory above
/// a link's target is not the one above the link.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    let parts = path.components();
    parts.filter_map(|part| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

fn root(trust: Trust) -> io::Result<Dir> {
    // `O_PATH` needs no permission to read the directory (open(2)).
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/", flags, Mode::empty())?;
    let found = File::from(fd.try_clone()?).metadata()?;
    enter((fd, &found), PathBuf::from("/"), trust, true)
}

/// Checks a directory on the path. `is_trusted` is true if those above it are trusted.
fn enter(
    (fd, found): (OwnedFd, &Metadata),
    path: PathBuf,
    trust: Trust,
    is_trusted: bool,
) -> io::Result<Dir> {
    if !found.is_dir() {
        return Err(Errno::NOTDIR.into());
    }
    let mut checked = check_owner(found, || path.clone());
    // In a sticky directory such as `/tmp`, other users cannot rename or remove entries that belong
    // to root or to this user.
    if found.mode() & SHARED != 0 && found.mode() & STICKY == 0 {
        checked = checked.and_then(|()| Err(Untrusted::Shared(path.clone())));
    }
    // With `Trust::Links`, directories of other users are permitted, but links in them are refused.
    if let (Trust::Whole, Err(untrusted)) = (trust, &checked) {
        return Err(untrusted.clone().into());
    }
    Ok(Dir {
        fd,
        owner: found.uid(),
        group: found.gid(),
        is_trusted: is_trusted && checked.is_ok(),
        path,
    })
}

/// Returns the noun for a file that is not a regular one.
pub(crate) fn file_kind_noun(kind: std::fs::FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_block_device() => "a block device",
        _ => "a character device",
    }
}

#[cfg(test)]
mod tests;
