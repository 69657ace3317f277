//! Backends: the storage of volumes, and the interface that a shard has to it.
//!
//! A backend is opened in two steps. Everything that can fail or block must happen before a shard
//! runs, and a ring's operations cannot change threads. The thread that starts the server or
//! reloads its configuration therefore creates a [`Prepare`], which holds descriptors and locks.
//! [`Prepare::start`] converts it into a [`Backend`] on the shard's thread.
//!
//! The shard calls [`Backend::submit`] for each piece that the core dispatches. The backend carries
//! out the piece at once, or queues operations on the ring. It must call [`Context::finish`] or
//! [`Context::busy`] exactly once for each job, in the same call or in a later one. It must never
//! block. Operations that can block (fallocate(2) with data to move, `SEEK_DATA`, opening) run on a
//! thread of the backend, which wakes the shard with a [`Caller`].

mod behind;
mod device;
mod extents;
mod file;
mod found;
mod interface;
mod locks;
mod memory;
mod nbd;
mod rmw;
mod sysfs;
mod usage;
mod workers;

use std::fs::Metadata;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use weir_config::{Cache, Storage, Volume};

pub use device::DeviceOptions;
pub use extents::{Allocation, EXTENTS_MAX, Extent, Extents};
pub use file::{ImageOptions, OpenError, OpenStorage};
pub use found::{StorageInfo, StorageLocation};
pub use interface::{
    Backend, BackendJob, Caller, Context, Data, Grow, Growth, Prepare, RemoteState, Traits,
};
pub(crate) use interface::{Finished, News};
pub use memory::Memory;
pub use usage::of_path as uses;

/// A function that opens the storage of a volume.
pub type StorageOpener = fn(&Volume) -> io::Result<Box<dyn Prepare>>;

/// Opens the storage of a volume. May block.
///
/// # Errors
/// Returns the system's error, or the reason why the storage must not be used. This is an
/// [`OpenError`] if the storage is a file or a device.
pub fn open(volume: &Volume) -> io::Result<Box<dyn Prepare>> {
    let (size, read_only) = (volume.size, volume.read_only);
    Ok(match &volume.storage {
        Storage::Memory | Storage::Model => {
            let size = size.ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a volume in memory requires size",
                )
            })?;
            memory::check_size(size)?;
            Box::new(Memory::new(size, read_only))
        }
        Storage::File(path) => Box::new(OpenStorage::image(&image_options(volume, path))?),
        Storage::Device(path) => Box::new(OpenStorage::device(&device_options(volume, path))?),
        Storage::Nbd(remote) => Box::new(nbd::RemoteExport::open(volume, remote)?),
    })
}

/// Continues to use the storage of a volume that another process has handed over, which holds its
/// locks ([`Backend::descriptors`]).
///
/// # Errors
/// Returns the system's error, or an [`OpenError`].
pub fn inherit(volume: &Volume, descriptors: Vec<OwnedFd>) -> io::Result<Box<dyn Prepare>> {
    let mut descriptors = descriptors.into_iter();
    let first = descriptors.next().ok_or(io::ErrorKind::InvalidInput)?;
    let behind = descriptors.collect();
    Ok(match &volume.storage {
        Storage::File(path) => Box::new(OpenStorage::inherit_image(
            &image_options(volume, path),
            first,
        )?),
        Storage::Device(path) => {
            let options = device_options(volume, path);
            Box::new(OpenStorage::inherit_device(&options, first, behind)?)
        }
        Storage::Memory | Storage::Model | Storage::Nbd(_) => {
            return Err(io::ErrorKind::InvalidInput.into());
        }
    })
}

/// Inspects the storage that [`open`] would open, with the same checks in the same order. Nothing
/// is created or changed, with one exception: to find out the capabilities of a file system, an
/// unnamed file is created and removed at once.
///
/// # Errors
/// Returns the error that [`open`] would return.
pub fn inspect(volume: &Volume) -> io::Result<StorageInfo> {
    Ok(match &volume.storage {
        Storage::Memory | Storage::Model => {
            let size = volume.size.unwrap_or(0);
            memory::check_size(size)?;
            StorageInfo {
                size,
                now: None,
                place: None,
                block: 1,
            }
        }
        Storage::File(path) => file::inspect(&image_options(volume, path))?,
        Storage::Device(path) => device::inspect(&device_options(volume, path))?,
        Storage::Nbd(remote) => nbd::inspect(volume, remote)?,
    })
}

/// Returns true if two volumes use the same file or device, possibly through different paths, links
/// or loop devices.
pub(crate) fn shares(one: &Volume, other: &Volume) -> bool {
    let (one, other) = (places(one), places(other));
    one.iter().any(|place| other.contains(place))
}

/// Returns the files and devices that a volume uses. A file is represented by its device and inode,
/// a device by zero and its number.
fn places(volume: &Volume) -> Vec<(u64, u64)> {
    let (Storage::File(path) | Storage::Device(path)) = &volume.storage else {
        return Vec::new();
    };
    let Ok(found) = std::fs::metadata(path) else {
        return Vec::new();
    };
    let place = |found: &Metadata| {
        let is_device = found.file_type().is_block_device();
        if is_device {
            (0, found.rdev())
        } else {
            (found.dev(), found.ino())
        }
    };
    let mut places = vec![place(&found)];
    if found.file_type().is_block_device() {
        let behind = sysfs::files_behind(Path::new(sysfs::SYS), found.rdev());
        let behind = behind
            .iter()
            .filter_map(|path| std::fs::metadata(path).ok());
        places.extend(behind.map(|found| place(&found)));
    }
    places
}

fn image_options(volume: &Volume, path: &Path) -> ImageOptions {
    ImageOptions {
        path: path.to_owned(),
        size: volume.size,
        read_only: volume.read_only,
        direct: volume.cache == Cache::Direct,
        preallocate: volume.is_promised(),
        // The locks of a killed server last until its writes have ended (docs/durability.md), so a
        // start waits for them.
        patience: locks::PATIENCE,
    }
}

fn device_options(volume: &Volume, path: &Path) -> DeviceOptions {
    DeviceOptions {
        path: path.to_owned(),
        size: volume.size,
        read_only: volume.read_only,
        patience: locks::PATIENCE,
    }
}
