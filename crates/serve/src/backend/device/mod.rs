//! A volume on a block device of its own.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, Dev, FileType, Mode, OFlags, SeekFrom};
use weir_config::trusted::Dir;
use weir_uring::{Errno, device};

use super::file::{Geometry, Kind, Offers, OpenError, Opened, alignment, error};
use super::found::{Found, Place};
use super::{behind, locks, sysfs, usage};

/// Which device to open as a volume, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceOptions {
    /// The device.
    pub path: PathBuf,
    /// Its size in bytes, if that is known: it is refused if it is another.
    pub size: Option<u64>,
    /// It is opened for reading only. Then it may be in use, mounted for example, and what is read may be changing.
    pub read_only: bool,
    /// How long another program's lock, or its claim, is waited for.
    pub patience: Duration,
}

impl Opened {
    /// Opens a device past the page cache. One that is to be written to and that the system uses (mounted, swap, a part of another
    /// device; it or a partition of it) is refused before it is opened, and the kernel is asked to refuse it too (`O_EXCL`). One
    /// in use that is only to be read is opened, with a warning in the log. May block.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn device(options: &DeviceOptions) -> Result<Self, OpenError> {
        let path = &options.path;
        let place = place(options)?;
        let (dev, uses) = unused(options, &place)?;
        if !uses.is_empty() {
            let uses = uses.join("; ");
            tracing::warn!(device = %path.display(), uses, "the device is in use by the system; clients may read data while it changes");
        }
        let access = if options.read_only {
            OFlags::RDONLY
        } else {
            OFlags::RDWR
        };
        let fd = open(options, &place, access)?;
        let opened = rustix::fs::fstat(&fd).map_err(OpenError::system(path, "open"))?;
        if opened.st_rdev != dev {
            return Err(OpenError::InUse {
                path: path.clone(),
                uses: vec!["the path now leads to another device".into()],
            });
        }
        let locked = locks::lock(&fd, !options.read_only, options.patience);
        locked.map_err(OpenError::lock(path, &opened))?;
        let behind = behind::lock(path, dev, !options.read_only, options.patience)?;
        let queue = |name| sysfs::queue(Path::new(sysfs::SYS), dev, name).unwrap_or(0);
        let zeroes = queue("write_zeroes_max_bytes") > 0;
        let kind = Kind::Device { zeroes };
        let shape = shape(&fd, options)?;
        let opened = Self::new(fd, path, kind, shape, |_| Offers {
            trim: queue("discard_max_bytes") > 0,
            fast_zero: zeroes,
            allocation: false,
        });
        Ok(opened?.with_behind(behind))
    }
}

/// Looks at what [`Opened::device`] would open; see [`look`](super::look).
pub(super) fn look(options: &DeviceOptions) -> Result<Found, OpenError> {
    let path = &options.path;
    let place = place(options)?;
    let (dev, _) = unused(options, &place)?;
    if !options.read_only {
        let access = rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS);
        access.map_err(OpenError::system(path, "write to"))?;
        if sysfs::read_only(dev) {
            return Err(OpenError::system(path, "write to")(Errno::ROFS));
        }
    }
    // Not for writing: when such a descriptor is closed, other programs look what is new on the device.
    let fd = open(options, &place, OFlags::RDONLY)?;
    let stat = rustix::fs::fstat(&fd).map_err(OpenError::system(path, "open"))?;
    let locked = locks::look(&fd, !options.read_only);
    locked.map_err(OpenError::lock(path, &stat))?;
    behind::look(path, dev, !options.read_only)?;
    let (size, geometry) = shape(&fd, options)?;
    let mut place = Place::of(dev, None, (0, OsString::new()));
    let behind = sysfs::files_behind(Path::new(sysfs::SYS), dev);
    if let Some(file) = behind.first().and_then(|file| std::fs::metadata(file).ok()) {
        (place.number, place.identity.0) = (file.dev(), file.ino());
    }
    Ok(Found {
        size,
        now: Some(size),
        place: Some(place),
        block: geometry.block,
    })
}

/// The device's directory and its name there. The links of `/dev/disk` lead to it, and no link that another user could have made.
fn place(options: &DeviceOptions) -> Result<(Dir, OsString), OpenError> {
    let path = &options.path;
    Dir::of_file(path).map_err(OpenError::system(path, "open"))
}

/// The device's number, and its user: none, if the device is to be written to.
fn unused(
    options: &DeviceOptions,
    (directory, name): &(Dir, OsString),
) -> Result<(Dev, Vec<String>), OpenError> {
    let path = &options.path;
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    let stat = stat.map_err(OpenError::system(path, "open"))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind != FileType::BlockDevice {
        return Err(OpenError::NotADevice {
            path: path.clone(),
            found: error::name(kind),
        });
    }
    let mut uses = usage::of_device(stat.st_rdev);
    let behind = sysfs::files_behind(Path::new(sysfs::SYS), stat.st_rdev);
    if !behind.is_empty() {
        uses.extend(usage::of_other_loops(stat.st_rdev, &behind));
    }
    if !options.read_only {
        error::unused(path, uses)?;
        return Ok((stat.st_rdev, Vec::new()));
    }
    Ok((stat.st_rdev, uses))
}

/// Size and geometry, if they are what they should be.
fn shape(fd: &OwnedFd, options: &DeviceOptions) -> Result<(u64, Geometry), OpenError> {
    let path = &options.path;
    let size = rustix::fs::seek(fd, SeekFrom::End(0));
    let size = size.map_err(OpenError::system(path, "find the size of"))?;
    error::size_as_stated(path, size, options.size)?;
    let geometry = geometry(fd, options)?;
    error::whole_blocks(path, size, geometry.block)?;
    Ok((size, geometry))
}

/// Opens it, and claims it if it is to be written to.
fn open(
    options: &DeviceOptions,
    (directory, name): &(Dir, OsString),
    access: OFlags,
) -> Result<OwnedFd, OpenError> {
    let path = &options.path;
    let claim = if options.read_only {
        OFlags::empty()
    } else {
        OFlags::EXCL
    };
    let always = OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let flags = access | claim | always;
    let opened = locks::patiently(options.patience, Errno::BUSY, || {
        rustix::fs::openat(directory, name, flags, Mode::empty())
    });
    opened.map_err(|errno| match errno {
        Errno::BUSY => OpenError::InUse {
            path: path.clone(),
            uses: vec![error::CLAIMED.into()],
        },
        errno => OpenError::system(path, "open")(errno),
    })
}

fn geometry(fd: &OwnedFd, options: &DeviceOptions) -> Result<Geometry, OpenError> {
    let path = &options.path;
    let logical = device::logical_block(fd);
    let logical = logical.map_err(OpenError::system(path, "query the block size of"))?;
    let stated = alignment(fd).map_err(OpenError::system(path, "open"))?;
    let (block, memory) = stated.map_or((logical, logical), |(b, m)| (b.max(logical), m));
    if block > 4096 || memory > 4096 {
        return Err(OpenError::Block {
            path: path.clone(),
            block: block.max(memory),
        });
    }
    Ok(Geometry {
        direct: true,
        block,
        memory,
        read_only: options.read_only,
        allocation: false,
    })
}
