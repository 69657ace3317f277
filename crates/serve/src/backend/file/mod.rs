//! A volume in an image: a regular file that is read and written past the page cache, or through it where that was asked for.

mod disk;
pub(super) mod error;
mod medium;
mod work;

#[cfg(test)]
pub(super) mod bench;
#[cfg(test)]
mod refusals;
#[cfg(test)]
pub(super) mod tests;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags, StatxFlags};
use weir_uring::Errno;

use super::device::{sysfs, usage};
use super::{Backend, Prepare, Traits, locks};

pub(super) use disk::{Disk, Geometry};
pub use error::OpenError;
pub(super) use medium::{Kind, Medium};

/// What to open as a volume, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageOptions {
    /// The file. Its directory must exist.
    pub path: PathBuf,
    /// Its size in bytes, if it is known: it is created so large if absent, and refused if it is not so large. `None`: it must
    /// exist.
    pub size: Option<u64>,
    /// It is opened for reading only, and never created.
    pub read_only: bool,
    /// Past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// All its space is allocated when it is created, and none is ever given back.
    pub preallocate: bool,
    /// How long another program's lock is waited for.
    pub patience: Duration,
}

/// An image that is open and locked.
#[derive(Debug)]
pub struct Image {
    fd: OwnedFd,
    medium: Medium,
    size: u64,
    geometry: Geometry,
    traits: Traits,
}

impl Image {
    /// Opens an image, creates it first if need be, and locks it against everyone else who would change it (or, if it is to be
    /// changed, use it at all). May block.
    ///
    /// # Errors
    /// See [`OpenError`]. An image that could not be made whole is removed; one that was there is not touched.
    pub fn open(options: &ImageOptions) -> Result<Self, OpenError> {
        let path = &options.path;
        let fd = match open(options, OFlags::empty()) {
            Err(Errno::NOENT) => create(options)?,
            outcome => outcome.map_err(OpenError::system(path, "open"))?,
        };
        let stat = rustix::fs::fstat(&fd).map_err(OpenError::system(path, "look at"))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind != FileType::RegularFile {
            return Err(OpenError::NotAnImage {
                path: path.clone(),
                found: error::name(kind),
            });
        }
        if !options.read_only {
            let uses = usage::of_file(stat.st_dev, stat.st_ino);
            error::unused(path, uses)?;
        }
        locks::lock(&fd, !options.read_only, options.patience).map_err(OpenError::lock(path))?;
        let size = stat_size(&fd, options)?;
        let geometry = geometry(&fd, options)?;
        error::whole_blocks(path, size, geometry.block)?;
        let worker = fd.try_clone().map_err(|source| OpenError::System {
            path: path.clone(),
            call: "duplicate the descriptor of",
            source,
        })?;
        let medium = Medium {
            fd: worker,
            kind: Kind::Image {
                keep: options.preallocate,
            },
        };
        let trim = !options.read_only && medium.punches(size);
        let traits = Traits {
            align: geometry.block,
            preferred: geometry.block.max(4096),
            read_only: options.read_only,
            rotational: sysfs::rotational(stat.st_dev),
            trim,
            fast_zero: trim,
            allocation: medium.tells_holes(),
            multi_connection: true,
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
        })
    }
}

impl Prepare for Image {
    fn size(&self) -> u64 {
        self.size
    }

    fn traits(&self) -> Traits {
        self.traits
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Backend>> {
        Ok(Box::new(Disk::new(self.fd, self.medium, self.geometry)?))
    }
}

/// Opens the file through the page cache; it is changed to go past it when it is known to be one.
fn open(options: &ImageOptions, create: OFlags) -> Result<OwnedFd, Errno> {
    let access = if options.read_only {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    };
    // Without NONBLOCK opening a pipe would wait for its other end.
    let flags = access | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK | create;
    rustix::fs::open(&options.path, flags, Mode::RUSR | Mode::WUSR)
}

/// Makes the image, whole and on stable storage, directory entry included.
fn create(options: &ImageOptions) -> Result<OwnedFd, OpenError> {
    let path = &options.path;
    let (Some(size), false) = (options.size, options.read_only) else {
        return Err(OpenError::Missing {
            path: path.clone(),
            read_only: options.read_only,
        });
    };
    let fd = open(options, OFlags::CREATE | OFlags::EXCL);
    let fd = fd.map_err(OpenError::system(path, "create"))?;
    let made = fill(&fd, size, options.preallocate).and_then(|()| sync_directory(path));
    made.map_err(|source| {
        // It is ours and nothing is in it.
        let _ = std::fs::remove_file(path);
        OpenError::Create {
            path: path.clone(),
            size,
            preallocate: options.preallocate,
            source,
        }
    })?;
    Ok(fd)
}

fn fill(fd: &OwnedFd, size: u64, preallocate: bool) -> io::Result<()> {
    // Against a second server that finds it before it is whole.
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

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

/// The image's size, if it is the one it should have.
fn stat_size(fd: &OwnedFd, options: &ImageOptions) -> Result<u64, OpenError> {
    let path = &options.path;
    let stat = rustix::fs::fstat(fd).map_err(OpenError::system(path, "look at"))?;
    let actual = stat.st_size.cast_unsigned();
    error::size_as_stated(path, actual, options.size)?;
    Ok(actual)
}

/// Switches the page cache off where that was asked for; says what ranges and addresses must be multiples of then.
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
    let flags = rustix::fs::fcntl_getfl(fd).map_err(OpenError::system(path, "look at"))?;
    rustix::fs::fcntl_setfl(fd, flags | OFlags::DIRECT).map_err(refused)?;
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

/// What the system says (statx(2), `STATX_DIOALIGN`) direct reads and writes must be multiples of, in the file and in memory;
/// `None` where it does not say.
///
/// # Errors
/// `EINVAL` if there are no direct reads and writes of this file, although it could be opened for them.
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
