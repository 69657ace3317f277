//! Volumes on block devices.

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

use super::file::{
    Geometry, MediumKind, OpenError, OpenStorage, StorageCapabilities, alignment, error,
};
use super::found::{StorageInfo, StorageLocation};
use super::{behind, locks, sysfs, usage};

/// The options for opening a device as a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceOptions {
    /// The path of the device.
    pub path: PathBuf,
    /// The size of the device in bytes, if it is known. A device of another size is refused.
    pub size: Option<u64>,
    /// True if the device is opened for reading only. It may be in use then, for example mounted,
    /// and the data may change while clients read.
    pub read_only: bool,
    /// The longest time to wait for another program's lock or claim.
    pub patience: Duration,
}

impl OpenStorage {
    /// Opens a device with direct I/O. May block.
    ///
    /// A device that will be written to must not be in use by the system (mounted, as swap space or
    /// as a part of another device, including its partitions). This is checked before the device is
    /// opened, and the kernel checks it as well (`O_EXCL`). A device that will only be read may be
    /// in use, with a warning in the log.
    ///
    /// # Errors
    /// Returns an [`OpenError`].
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
        // The device file can be replaced between the check and open(2).
        if opened.st_rdev != dev {
            return Err(OpenError::InUse {
                path: path.clone(),
                uses: vec!["the path now leads to another device".into()],
            });
        }
        let locked = locks::lock(&fd, !options.read_only, options.patience);
        locked.map_err(OpenError::lock(path, &opened))?;
        let behind = behind::lock(path, dev, !options.read_only, options.patience)?;
        Self::inherit_device(options, fd, behind)
    }

    /// Uses a device that is open, claimed and locked, together with the files behind it.
    ///
    /// # Errors
    /// Returns an [`OpenError`].
    pub(super) fn inherit_device(
        options: &DeviceOptions,
        fd: OwnedFd,
        behind: Vec<OwnedFd>,
    ) -> Result<Self, OpenError> {
        let path = &options.path;
        let dev = rustix::fs::fstat(&fd)
            .map_err(OpenError::system(path, "open"))?
            .st_rdev;
        let queue = |name| sysfs::queue(Path::new(sysfs::SYS), dev, name).unwrap_or(0);
        let zeroes = queue("write_zeroes_max_bytes") > 0;
        let kind = MediumKind::Device { zeroes };
        let shape = shape(&fd, options)?;
        let opened = Self::new(fd, path, kind, shape, |_| StorageCapabilities {
            trim: queue("discard_max_bytes") > 0,
            fast_zero: zeroes,
            allocation: false,
        });
        Ok(opened?.with_behind(behind))
    }
}

/// Inspects the device that [`OpenStorage::device`] would open. See [`inspect`](super::inspect).
pub(super) fn inspect(options: &DeviceOptions) -> Result<StorageInfo, OpenError> {
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
    // The device is not opened for writing. When such a descriptor is closed, other programs (such
    // as udev) examine the device again.
    let fd = open(options, &place, OFlags::RDONLY)?;
    let stat = rustix::fs::fstat(&fd).map_err(OpenError::system(path, "open"))?;
    let locked = locks::check_lock(&fd, !options.read_only);
    locked.map_err(OpenError::lock(path, &stat))?;
    behind::check_locks(path, dev, !options.read_only)?;
    let (size, geometry) = shape(&fd, options)?;
    let mut place = StorageLocation::of(dev, None, (0, OsString::new()));
    // Two loop devices over the same file are the same storage, so the first file behind the device
    // identifies it.
    let behind = sysfs::files_behind(Path::new(sysfs::SYS), dev);
    if let Some(file) = behind.first().and_then(|file| std::fs::metadata(file).ok()) {
        (place.number, place.identity.0) = (file.dev(), file.ino());
    }
    Ok(StorageInfo {
        size,
        now: Some(size),
        place: Some(place),
        block: geometry.block,
    })
}

/// Opens the directory of the device and returns its name. The links of `/dev/disk` are followed,
/// but no link that another user could have created.
fn place(options: &DeviceOptions) -> Result<(Dir, OsString), OpenError> {
    let path = &options.path;
    Dir::of_file(path).map_err(OpenError::system(path, "open"))
}

/// Returns the number of the device, and its uses. Fails if the device will be written to and is in
/// use.
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
    let uses = usage::of_device(stat.st_rdev);
    if !options.read_only {
        error::unused(path, uses)?;
        return Ok((stat.st_rdev, Vec::new()));
    }
    Ok((stat.st_rdev, uses))
}

/// Returns the size and the geometry, after checking both.
fn shape(fd: &OwnedFd, options: &DeviceOptions) -> Result<(u64, Geometry), OpenError> {
    let path = &options.path;
    let size = rustix::fs::seek(fd, SeekFrom::End(0));
    let size = size.map_err(OpenError::system(path, "find the size of"))?;
    error::size_as_stated(path, size, options.size)?;
    let geometry = geometry(fd, options)?;
    error::whole_blocks(path, size, geometry.block)?;
    Ok((size, geometry))
}

/// Opens the device, and claims it if it will be written to.
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
    // As with locks, the claim of a killed server can outlast its process for a moment (see
    // `locks::PATIENCE`).
    let opened = locks::retry_while_busy(options.patience, Errno::BUSY, || {
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
