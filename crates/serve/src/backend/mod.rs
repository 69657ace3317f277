//! Where a volume's bytes are: what the shard asks of storage, and the storages there are.
//!
//! A backend is opened in two steps, because what can fail or block must do so before a shard runs, and because what a ring
//! works on cannot change threads: [`Prepare`] is made by the thread that starts the server or reloads its configuration and
//! holds descriptors and locks; [`Prepare::start`] turns it into a [`Backend`] on the shard's thread.
//!
//! The shard calls [`Backend::submit`] for each piece the core dispatches. The backend carries it out at once or queues
//! operations on the ring, and calls [`Context::finish`] exactly once for each job, then or from a later call. It must never
//! block: what can (fallocate(2) with data to move, `SEEK_DATA`, opening) belongs on a thread of its own that wakes the shard.

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
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use weir_config::{Cache, Storage, Volume};

pub use device::DeviceOptions;
pub use extents::{Allocation, EXTENTS_MAX, Extent, Extents};
pub use file::{ImageOptions, OpenError, Opened};
pub use found::{Found, Place};
pub use interface::{
    Backend, Caller, Context, Data, Grow, Growth, Job, Prepare, RemoteState, Traits,
};
pub(crate) use interface::{Finished, News};
pub use memory::Memory;
pub use usage::of_path as uses;

/// What opens a volume's storage.
pub type Open = fn(&Volume) -> io::Result<Box<dyn Prepare>>;

/// Opens what a volume of the configuration says, on a thread that may block.
///
/// # Errors
/// What the system answers, or why the storage must not be used: an [`OpenError`] where it is a file or a device.
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
            memory::look(size)?;
            Box::new(Memory::new(size, read_only))
        }
        Storage::File(path) => Box::new(Opened::image(&image_options(volume, path))?),
        Storage::Device(path) => Box::new(Opened::device(&device_options(volume, path))?),
        Storage::Nbd(remote) => Box::new(nbd::Export::open(volume, remote)?),
    })
}

/// Looks at what [`open`] would open, with the same questions in the same order. Nothing is changed and nothing is made, but
/// for a file without a name that is gone again, where the kernel is to say what a file system can do.
///
/// # Errors
/// As [`open`].
pub fn look(volume: &Volume) -> io::Result<Found> {
    Ok(match &volume.storage {
        Storage::Memory | Storage::Model => {
            let size = volume.size.unwrap_or(0);
            memory::look(size)?;
            Found {
                size,
                now: None,
                place: None,
                block: 1,
            }
        }
        Storage::File(path) => file::look(&image_options(volume, path))?,
        Storage::Device(path) => device::look(&device_options(volume, path))?,
        Storage::Nbd(remote) => nbd::look(volume, remote)?,
    })
}

/// Whether two volumes lie on the same file or device, whatever their paths are: through links, and through loop devices.
pub(crate) fn shares(one: &Volume, other: &Volume) -> bool {
    let (one, other) = (places(one), places(other));
    one.iter().any(|place| other.contains(place))
}

/// The files and devices on which a volume lies: device and inode of a file, zero and the number of a device.
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
