//! The target of a measurement: a file, a device or an export. It is opened with the same checks as
//! in a server.

use super::disk::RingDisk;
use super::export::ExportTarget;
use crate::failure::Failure;
use rustix::fs::{Dev, FileType, SeekFrom, major, minor};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{self, Path};
use std::time::Duration;
use weir_config::os_error;
use weir_config::units::ByteSize;
use weir_lab::calibrate::{BLOCK, CalibrationTarget};
use weir_model::client::Uri;
use weir_model::load::RequestSource;
use weir_serve::backend::{DeviceOptions, ImageOptions, OpenError, OpenStorage, Prepare};
use weir_wire::nbd::TransmissionFlags;

/// The largest number of requests in flight on flash.
const DEPTH: u32 = 256;
/// The largest number of requests in flight on a rotating disk, whose own queue has 32 places.
const DEPTH_DISK: u32 = 32;
/// The smallest size of a target in bytes. A smaller target could fit into the cache of the drive.
const LEAST: u64 = 64 << 20;
/// The longest wait for the lock of another program.
const PATIENCE: Duration = Duration::from_secs(2);

/// A target that is open.
pub(super) enum TargetMedium {
    /// A file or a device of this host.
    Disk(Box<RingDisk>),
    /// An export of an NBD server.
    Export(ExportTarget),
}

/// The planned use of the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetAccess {
    /// True if the target is written to.
    pub(super) write: bool,
    /// The size of a file that is created if it does not exist.
    pub(super) size: Option<u64>,
}

impl TargetMedium {
    /// Opens the target that a path or a URI names.
    pub(super) fn open(
        text: &str,
        access: TargetAccess,
    ) -> Result<(Self, CalibrationTarget), Failure> {
        let (medium, target) = if Uri::has_nbd_scheme(text) {
            export(text, access)?
        } else {
            disk(Path::new(text), access)?
        };
        large_enough(&target.path, target.size)?;
        Ok((medium, target))
    }

    /// Plays the requests of a source until it has finished.
    pub(super) fn run<S: RequestSource>(&mut self, source: &mut S) -> Result<(), Failure> {
        match self {
            Self::Disk(disk) => disk.run(source),
            Self::Export(export) => export.run(source),
        }
    }

    /// Returns the ranges that can contain data: the parts of a file that are not holes, or the
    /// whole target.
    pub(super) fn data(&self, size: u64) -> Result<Vec<Range<u64>>, Failure> {
        match self {
            Self::Disk(disk) => {
                let found = data(disk.opened(), size);
                found.map_err(|e| {
                    Failure::Run(format!("cannot look for data: {}", os_error::message(&e)))
                })
            }
            Self::Export(_) => {
                let whole = 0..size;
                Ok(vec![whole])
            }
        }
    }
}

/// Returns the ranges of a file that are not holes, or the whole range of a device.
fn data(opened: &OpenStorage, size: u64) -> io::Result<Vec<Range<u64>>> {
    let stat = rustix::fs::fstat(opened)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        let whole = 0..size;
        return Ok(vec![whole]);
    }
    let mut ranges = Vec::new();
    let mut end = 0;
    while end < size {
        let start = match rustix::fs::seek(opened, SeekFrom::Data(end)) {
            // `ENXIO`: there is no data after this offset (lseek(2)).
            Err(Errno::NXIO) => break,
            start => start?,
        };
        end = rustix::fs::seek(opened, SeekFrom::Hole(start))?;
        ranges.push(start..end);
    }
    Ok(ranges)
}

/// Opens an export, and refuses one that cannot be measured.
fn export(text: &str, access: TargetAccess) -> Result<(TargetMedium, CalibrationTarget), Failure> {
    if access.size.is_some() {
        let reason = "--size requires a new file; an export has its own size";
        return Err(Failure::Usage(reason.into()));
    }
    let uri: Uri = text.parse().map_err(|e| Failure::Usage(format!("{e}")))?;
    if uri.tls.is_some() {
        let reason = "TLS is not supported here, because it would be measured as well; use nbd://";
        return Err(Failure::Usage(reason.into()));
    }
    let (export, session) = ExportTarget::open(uri)?;
    let has = |flag| session.flags.contains(flag);
    if access.write && has(TransmissionFlags::READ_ONLY) {
        return Err(Failure::Run(format!("{text} is read-only")));
    }
    if let Some(sizes) = session.block_sizes
        && u64::from(sizes.minimum) > BLOCK
    {
        let reason = format!(
            "{text} requires requests of at least {}; requests of 4 KiB are needed for the measurement",
            ByteSize(sizes.minimum.into())
        );
        return Err(Failure::Run(reason));
    }
    let rotational = has(TransmissionFlags::ROTATIONAL);
    let target = CalibrationTarget {
        flush: has(TransmissionFlags::SEND_FLUSH),
        ..target(text.to_owned(), session.size, rotational, access.write)
    };
    Ok((TargetMedium::Export(export), target))
}

/// Opens a file or a device, and finds the properties of its drive.
fn disk(path: &Path, access: TargetAccess) -> Result<(TargetMedium, CalibrationTarget), Failure> {
    let whole = path::absolute(path).map_err(|e| Failure::file("open", path, &e))?;
    let opened = open(&whole, access)?;
    let stat = rustix::fs::fstat(&opened).map_err(|e| Failure::file("inspect", path, &e.into()))?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    // A device has its own number. A file is on the device of its file system.
    let number = if is_device { stat.st_rdev } else { stat.st_dev };
    let size = opened.size();
    if !is_device && !access.write {
        without_holes(&opened, path, size)?;
    }
    let (device, rotational) = kernel(number);
    let name = whole.display().to_string();
    let target = CalibrationTarget {
        device,
        // A new file is empty, whatever drive it is on.
        sparse: access.write && (!rotational || !is_device),
        ..target(name, size, rotational, access.write)
    };
    Ok((TargetMedium::Disk(Box::new(RingDisk::new(opened)?)), target))
}

/// Opens a file or device like a server: with a lock, without the page cache, and not for writing
/// if the system uses it.
fn open(path: &Path, access: TargetAccess) -> Result<OpenStorage, Failure> {
    let read_only = !access.write;
    let there = fs::metadata(path);
    let opened = match &there {
        Ok(data) if data.file_type().is_block_device() => {
            if access.size.is_some() {
                let reason = "--size requires a new file; a device has its own size";
                return Err(Failure::Usage(reason.into()));
            }
            OpenStorage::device(&DeviceOptions {
                path: path.to_owned(),
                size: None,
                read_only,
                patience: PATIENCE,
            })
        }
        Err(error) if access.size.is_none() => return Err(missing(path, error, access.write)),
        _ => {
            if let Ok(data) = &there
                && data.is_file()
            {
                // A small file is refused before its lock is taken.
                large_enough(&path.display().to_string(), data.len())?;
            }
            OpenStorage::image(&ImageOptions {
                path: path.to_owned(),
                size: access.size,
                read_only,
                // The page cache would complete requests without the drive.
                direct: true,
                preallocate: true,
                patience: PATIENCE,
            })
        }
    };
    opened.map_err(refused)
}

/// Returns the failure for a file that does not exist, with the option that would create it.
fn missing(path: &Path, error: &io::Error, write: bool) -> Failure {
    let (path, why) = (path.display(), os_error::message(error));
    let write = if write { "" } else { "--write " };
    Failure::Run(format!(
        "cannot open {path}: {why}; use {write}--size 8GiB to create a file of that size for the measurement"
    ))
}

/// Returns the error of a server in the terms of this command, because the error refers to keys of
/// a configuration.
fn refused(error: OpenError) -> Failure {
    let said = |path: &Path, what: String| Failure::Run(format!("{} {what}", path.display()));
    match error {
        OpenError::Create {
            path, size, source, ..
        } => {
            let why = os_error::message(&source);
            said(
                &path,
                format!("cannot be created with {}: {why}", ByteSize(size)),
            )
        }
        OpenError::Space {
            path, size, free, ..
        } => {
            let (size, free) = (ByteSize(size), ByteSize(free));
            said(
                &path,
                format!("cannot be created with {size}: the file system has {free} free"),
            )
        }
        OpenError::Size {
            path,
            actual,
            stated,
        } => {
            let (actual, stated) = (ByteSize(actual), ByteSize(stated));
            said(
                &path,
                format!("exists with {actual}, not {stated}; remove --size to measure it"),
            )
        }
        OpenError::NoDirect { path, source } => {
            let why = os_error::message(&source);
            let what = "cannot be opened past the page cache, which would distort the measurement";
            said(&path, format!("{what}: {why}"))
        }
        OpenError::Partial { path, actual, .. } => {
            let what = "does not end at a block boundary";
            said(&path, format!("{what}: {}", ByteSize(actual)))
        }
        other => Failure::run(other),
    }
}

fn large_enough(path: &str, size: u64) -> Result<(), Failure> {
    if size >= LEAST {
        return Ok(());
    }
    Err(Failure::Run(format!(
        "{path} is too small ({}): use at least {}, since a smaller file may fit in the drive's cache",
        ByteSize(size),
        ByteSize(LEAST)
    )))
}

/// Refuses a file with holes, because reads of a hole do not reach the drive.
fn without_holes(file: impl AsFd, path: &Path, size: u64) -> Result<(), Failure> {
    // A file system that does not support `SEEK_HOLE` reports no hole before the end (lseek(2)).
    let hole = rustix::fs::seek(file, SeekFrom::Hole(0)).unwrap_or(size);
    if hole >= size {
        return Ok(());
    }
    Err(Failure::Run(format!(
        "cannot measure {}: it is sparse (hole at offset {hole}), and reading a hole does not reach the drive\n  help: use a file without holes, \
         or create one with --write --size 8GiB",
        path.display()
    )))
}

/// Returns the description of a target without the properties that only some targets have.
fn target(path: String, size: u64, rotational: bool, write: bool) -> CalibrationTarget {
    CalibrationTarget {
        path,
        size,
        device: None,
        depth: if rotational { DEPTH_DISK } else { DEPTH },
        rotational,
        write,
        flush: true,
        // A rotating disk reads blocks that were never written like all others.
        sparse: write && !rotational,
    }
}

/// Returns the number of the whole device, and true if the kernel reports it as rotational.
fn kernel(number: Dev) -> (Option<String>, bool) {
    let link = format!("/sys/dev/block/{}:{}", major(number), minor(number));
    let Ok(mut directory) = fs::canonicalize(link) else {
        return (None, false);
    };
    // A partition has no queue of its own, so the device above it in sysfs is used.
    if directory.join("partition").exists() {
        directory.pop();
    }
    let text = |name| fs::read_to_string(directory.join(name)).ok();
    let device = text("dev").map(|text| text.trim().to_owned());
    let rotational = text("queue/rotational").is_some_and(|text| text.trim() == "1");
    (device, rotational)
}
