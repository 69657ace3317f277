//! Volumes in images: regular files that are accessed with direct I/O, or through the page cache if
//! configured.

mod disk;
pub(super) mod error;
mod format;
mod grow;
mod medium;
mod work;

#[cfg(test)]
pub(super) mod bench;
#[cfg(test)]
mod refusals;
#[cfg(test)]
pub(super) mod tests;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, Stat, StatxFlags};
use rustix::process::{Resource, getrlimit};
use weir_config::trusted::{self, Dir};
use weir_config::units::ByteSize;
use weir_uring::Errno;

use super::found::{self, StorageInfo, StorageLocation};
use super::{Backend, Prepare, Traits, locks, usage};
use crate::created::{Created, KeptFile};

pub(super) use disk::{DiskBackend, Geometry};
pub use error::OpenError;
pub(super) use medium::{Medium, MediumKind};

/// The options for opening an image as a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageOptions {
    /// The path of the file. Its directory must exist.
    pub path: PathBuf,
    /// The size of the file in bytes, if it is known. A missing file is created with this size, and
    /// a file of another size is refused. With `None`, the file must exist.
    pub size: Option<u64>,
    /// True if the file is opened for reading only. It is never created then.
    pub read_only: bool,
    /// True for direct I/O, which bypasses the page cache (`O_DIRECT`).
    pub direct: bool,
    /// True if all space is allocated when the file is created, and never freed.
    pub preallocate: bool,
    /// The longest time to wait for another program's lock.
    pub patience: Duration,
}

/// A file or a device that is open and locked.
#[derive(Debug)]
pub struct OpenStorage {
    fd: OwnedFd,
    medium: Medium,
    size: u64,
    geometry: Geometry,
    traits: Traits,
    /// The file, if it was just created.
    made: Option<KeptFile>,
}

/// The capabilities of a storage in addition to reads and writes.
pub(super) struct StorageCapabilities {
    /// This capability and the next are used only if the storage can be written to.
    pub(super) trim: bool,
    pub(super) fast_zero: bool,
    pub(super) allocation: bool,
}

impl OpenStorage {
    /// Creates the storage from a locked file of this size and geometry.
    pub(super) fn new(
        fd: OwnedFd,
        path: &Path,
        kind: MediumKind,
        (size, geometry): (u64, Geometry),
        offers: impl FnOnce(&Medium) -> StorageCapabilities,
    ) -> Result<Self, OpenError> {
        // The workers use a descriptor of their own, because the ring takes the other one.
        let worker = fd.try_clone().map_err(|source| OpenError::System {
            path: path.to_owned(),
            call: "duplicate the descriptor of",
            source,
        })?;
        let medium = Medium {
            path: path.to_owned(),
            fd: worker,
            kind,
            behind: Vec::new(),
        };
        let offers = offers(&medium);
        let traits = Traits {
            guest: geometry.memory <= geometry.block,
            align: geometry.block,
            preferred: geometry.block.max(4096),
            read_only: geometry.read_only,
            trim: !geometry.read_only && offers.trim,
            fast_zero: !geometry.read_only && offers.fast_zero,
            allocation: offers.allocation,
        };
        Ok(Self {
            fd,
            medium,
            size,
            geometry: Geometry {
                allocation: traits.allocation,
                ..geometry
            },
            traits,
            made: None,
        })
    }

    /// Keeps the locks on files behind the device for as long as it is open.
    pub(super) fn with_behind(mut self, behind: Vec<OwnedFd>) -> Self {
        self.medium.behind = behind;
        self
    }

    /// Opens an image, after creating it if necessary, and locks it. The lock excludes every other
    /// process that would change the image, or, if the image is opened for writing, that would use
    /// it at all. May block.
    ///
    /// # Errors
    /// Returns an [`OpenError`]. An image that was created but is not served is removed. An image
    /// that existed before is not changed.
    pub fn image(options: &ImageOptions) -> Result<Self, OpenError> {
        let path = &options.path;
        // If a check below fails, dropping `made` removes the created file.
        let (fd, made) = match open_existing(options)? {
            Some(fd) => {
                if let Some(format) = format::of(&fd) {
                    tracing::warn!(image = %path.display(), "{}", format_note(format));
                }
                (fd, None)
            }
            None => create(options).map(|(fd, made)| (fd, Some(made)))?,
        };
        let stat = check_usable(&fd, options)?;
        let locked = locks::lock(&fd, !options.read_only, options.patience);
        locked.map_err(OpenError::lock(path, &stat))?;
        let opened = Self::inherit_image(options, fd)?;
        let made = made.map(Created::keep);
        Ok(Self { made, ..opened })
    }

    /// Uses an image that is open and locked.
    ///
    /// # Errors
    /// Returns an [`OpenError`].
    pub(super) fn inherit_image(options: &ImageOptions, fd: OwnedFd) -> Result<Self, OpenError> {
        let kind = MediumKind::Image {
            keep: options.preallocate,
        };
        let shape = shape(&fd, options)?;
        Self::new(fd, &options.path, kind, shape, |medium| {
            // A hole that can be punched also serves to zero quickly, because it reads as zeroes.
            let punches = medium.supports_holes(shape.0);
            StorageCapabilities {
                trim: punches,
                fast_zero: punches,
                allocation: medium.reports_holes(),
            }
        })
    }
}

impl AsFd for OpenStorage {
    /// Returns the descriptor of the open and locked file.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Prepare for OpenStorage {
    fn size(&self) -> u64 {
        self.size
    }

    fn traits(&self) -> Traits {
        self.traits
    }

    fn created(&mut self) -> Option<Created> {
        self.made.take().and_then(KeptFile::claim)
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Backend>> {
        Ok(Box::new(DiskBackend::new(
            self.fd,
            self.medium,
            self.geometry,
        )?))
    }
}

/// Inspects the image that [`OpenStorage::image`] would open or create. See
/// [`inspect`](super::inspect).
pub(super) fn inspect(options: &ImageOptions) -> Result<StorageInfo, OpenError> {
    let path = &options.path;
    let Some(fd) = open_existing(options)? else {
        return inspect_missing(options);
    };
    let stat = check_usable(&fd, options)?;
    let locked = locks::check_lock(&fd, !options.read_only);
    locked.map_err(OpenError::lock(path, &stat))?;
    // The format is read before `shape` switches to direct I/O, which needs aligned buffers.
    let note = format::of(&fd).map(format_note);
    let (size, geometry) = shape(&fd, options)?;
    let system = rustix::fs::fstatvfs(&fd).map_err(OpenError::system(path, "open"))?;
    Ok(StorageInfo {
        size,
        now: Some(size),
        place: Some(StorageLocation {
            note,
            ..StorageLocation::of(
                stat.st_dev,
                Some(found::free(&system)),
                (stat.st_ino, OsString::new()),
            )
        }),
        block: geometry.block,
    })
}

/// Returns the hint for a file in the format of another program.
fn format_note(format: &str) -> String {
    format!(
        "the file is a {format} image, but the server serves its bytes unchanged, so that clients do not see the disk in it; convert it \
         with `qemu-img convert -O raw`"
    )
}

/// Checks whether a missing image could be created, and returns its properties.
fn inspect_missing(options: &ImageOptions) -> Result<StorageInfo, OpenError> {
    let (path, size) = (&options.path, creation_size(options)?);
    let refused = |source| not_created(options, size, source);
    let system = |errno: Errno| refused(errno.into());
    let directory = found::directory(path);
    let stat = rustix::fs::stat(directory).map_err(system)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(system(Errno::NOTDIR));
    }
    let access = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::accessat(CWD, directory, access, AtFlags::EACCESS).map_err(system)?;
    permitted(size).map_err(refused)?;
    let free = found::free(&rustix::fs::statvfs(directory).map_err(system)?);
    let takes = if options.preallocate { size } else { 0 };
    if takes > free {
        return Err(OpenError::Space {
            path: path.clone(),
            size,
            free,
        });
    }
    let name = path.file_name().unwrap_or_default().to_owned();
    let mut found = StorageInfo {
        size,
        now: None,
        place: Some(StorageLocation {
            takes,
            ..StorageLocation::of(stat.st_dev, Some(free), (stat.st_ino, name))
        }),
        block: if options.direct { 512 } else { 1 },
    };
    // A file without a name shows the capabilities of the file system, and disappears when it is
    // closed. Not every file system supports it (`O_TMPFILE`).
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(fd) = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
        rustix::fs::ftruncate(&fd, size).map_err(system)?;
        found.block = geometry(&fd, options)?.block;
    }
    Ok(found)
}

/// Opens the file if it exists. A link is followed only if no other user could have created it. A
/// user who owns the directory of an image can therefore choose the image that is served, but
/// cannot redirect the server to a file elsewhere.
fn open_existing(options: &ImageOptions) -> Result<Option<OwnedFd>, OpenError> {
    let path = &options.path;
    let refused = |error: io::Error| OpenError::system(path, "open")(error);
    let (directory, name) = match Dir::of_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(refused)?,
    };
    // The kind is checked before the file is opened, because opening a special file can have
    // effects.
    match rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        found => regular(path, &found.map_err(OpenError::system(path, "open"))?)?,
    }
    let fd = open((&directory, &name), options, OFlags::empty());
    let fd = fd.map_err(OpenError::system(path, "open"))?;
    let stat = rustix::fs::fstat(&fd).map_err(OpenError::system(path, "open"))?;
    // A hard link by another user would be a second name of a file elsewhere.
    let names = directory.check_names(&name, stat.st_nlink);
    names.map_err(|untrusted| refused(untrusted.into()))?;
    Ok(Some(fd))
}

/// Checks that the file is a regular file.
fn regular(path: &Path, stat: &Stat) -> Result<(), OpenError> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind == FileType::RegularFile {
        return Ok(());
    }
    Err(OpenError::NotAnImage {
        path: path.to_path_buf(),
        found: error::name(kind),
    })
}

/// Checks that the file is a regular file and, if it will be written to, that the system does not
/// use it.
fn check_usable(fd: &OwnedFd, options: &ImageOptions) -> Result<Stat, OpenError> {
    let path = &options.path;
    let stat = rustix::fs::fstat(fd).map_err(OpenError::system(path, "open"))?;
    regular(path, &stat)?;
    if !options.read_only {
        error::unused(path, usage::of_file(stat.st_dev, stat.st_ino))?;
    }
    Ok(stat)
}

/// Returns the size and the geometry, after checking both.
fn shape(fd: &OwnedFd, options: &ImageOptions) -> Result<(u64, Geometry), OpenError> {
    let size = stat_size(fd, options)?;
    let geometry = geometry(fd, options)?;
    error::whole_blocks(&options.path, size, geometry.block)?;
    Ok((size, geometry))
}

/// Returns the size of a missing image, if it may be created.
fn creation_size(options: &ImageOptions) -> Result<u64, OpenError> {
    match options.size {
        Some(size) if !options.read_only => Ok(size),
        _ => Err(OpenError::Missing {
            path: options.path.clone(),
            read_only: options.read_only,
        }),
    }
}

fn not_created(options: &ImageOptions, size: u64, source: io::Error) -> OpenError {
    OpenError::Create {
        path: options.path.clone(),
        size,
        preallocate: options.preallocate,
        source,
    }
}

/// Checks that the process may have files of this size (setrlimit(2)). For a larger file, the
/// kernel would not only fail but also send SIGXFSZ, which ends the process.
fn permitted(size: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if limit < size => Err(Errno::FBIG.into()),
        _ => Ok(()),
    }
}

/// Opens the file through the page cache. Direct I/O is enabled later, once the file is known to be
/// an image.
fn open(
    (directory, name): (&Dir, &OsStr),
    options: &ImageOptions,
    create: OFlags,
) -> Result<OwnedFd, Errno> {
    let access = if options.read_only {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    };
    // Without `NONBLOCK`, opening a pipe would wait for its other end.
    let always = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::openat(directory, name, access | always | create, mode)
}

/// Creates the complete image and makes it durable, together with its directory entry.
fn create(options: &ImageOptions) -> Result<(OwnedFd, Created), OpenError> {
    let (path, size) = (&options.path, creation_size(options)?);
    let refused = |source| not_created(options, size, source);
    permitted(size).map_err(refused)?;
    let (parent, name) = trusted::split(path).map_err(refused)?;
    let directory = Dir::open(parent).map_err(refused)?;
    let fd = open((&directory, name), options, OFlags::CREATE | OFlags::EXCL);
    let fd = fd.map_err(|errno| refused(errno.into()))?;
    // From here on, an error removes the file again.
    let created = Created::at(path, &fd).map_err(refused)?;
    fill(&fd, size, options.preallocate).map_err(refused)?;
    directory.sync().map_err(refused)?;
    Ok((fd, created))
}

fn fill(fd: &OwnedFd, size: u64, preallocate: bool) -> io::Result<()> {
    // The lock excludes a second server that finds the file before it is complete.
    locks::lock(fd, true, Duration::ZERO)?;
    if preallocate {
        while let Err(errno) = rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, size) {
            if errno != Errno::INTR {
                return Err(errno.into());
            }
        }
    } else {
        rustix::fs::ftruncate(fd, size)?;
    }
    Ok(rustix::fs::fsync(fd)?)
}

/// Returns true if an image is larger than stated because a server has grown it and ended before
/// the configuration had the new size.
fn is_grown(fd: impl AsFd, actual: u64, stated: Option<u64>) -> bool {
    stated.is_some_and(|stated| stated < actual) && grow::is_marked(fd, actual)
}

/// Returns the image's size, if it is the stated one.
fn stat_size(fd: &OwnedFd, options: &ImageOptions) -> Result<u64, OpenError> {
    let path = &options.path;
    let stat = rustix::fs::fstat(fd).map_err(OpenError::system(path, "open"))?;
    let actual = stat.st_size.cast_unsigned();
    if let Err(error) = error::size_as_stated(path, actual, options.size) {
        if !is_grown(fd, actual, options.size) {
            return Err(error);
        }
        tracing::warn!(
            "the server serves {} with {size}, because an earlier server grew the file and ended before it saved the configuration; set size = \"{size}\"",
            path.display(),
            size = ByteSize(actual)
        );
    }
    Ok(actual)
}

/// Enables direct I/O if it is configured. Returns the geometry, with the alignment that ranges and
/// memory need.
fn geometry(fd: &OwnedFd, options: &ImageOptions) -> Result<Geometry, OpenError> {
    let geometry = Geometry {
        direct: options.direct,
        block: 1,
        memory: 1,
        read_only: options.read_only,
        allocation: false,
    };
    if !options.direct {
        return Ok(geometry);
    }
    let path = &options.path;
    let refused = |errno: Errno| OpenError::NoDirect {
        path: path.clone(),
        source: errno.into(),
    };
    let flags = rustix::fs::fcntl_getfl(fd).map_err(OpenError::system(path, "open"))?;
    rustix::fs::fcntl_setfl(fd, flags | OFlags::DIRECT).map_err(refused)?;
    // If the kernel does not report an alignment, 4096 is safe, because it is the largest that is
    // supported.
    let (block, memory) = alignment(fd).map_err(refused)?.unwrap_or((4096, 4096));
    if block > 4096 || memory > 4096 {
        return Err(OpenError::Block {
            path: path.clone(),
            block: block.max(memory),
        });
    }
    Ok(Geometry {
        block: block.max(512),
        memory,
        ..geometry
    })
}

/// Returns the alignment of direct I/O, in the file and in memory, as the kernel reports it
/// (statx(2), `STATX_DIOALIGN`), or `None` if it does not report one.
///
/// # Errors
/// Returns `EINVAL` if direct I/O is not possible, although the file could be opened for it.
pub(super) fn alignment(fd: impl AsFd) -> Result<Option<(u32, u32)>, Errno> {
    let stat = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let Ok(stat) = stat else { return Ok(None) };
    if StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN) {
        let (block, memory) = (stat.stx_dio_offset_align, stat.stx_dio_mem_align);
        if block == 0 || memory == 0 {
            return Err(Errno::INVAL);
        }
        return Ok(Some((block, memory)));
    }
    Ok(None)
}
