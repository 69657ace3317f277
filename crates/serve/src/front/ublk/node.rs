//! The device files of ublk block devices.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use weir_wire::ublk::PATH_CONTROL;

/// The reason why there is no block device, as a text that follows the name of a key.
pub(super) type DeviceProblem = String;

/// The time limit for udev to set the owner of a device file, for a shard to accept a queue, and
/// for the driver to notice the end of a server.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The interval between two checks of a condition that the server waits for.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// Returns the path of the block device with this number.
pub(super) fn name(number: u32) -> String {
    format!("/dev/ublkb{number}")
}

/// Returns the path of the character device that the server opens.
fn server_name(number: u32) -> String {
    format!("/dev/ublkc{number}")
}

/// Returns the numbers of all existing devices.
pub(super) fn numbers() -> Vec<u32> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    let numbers = names.filter_map(|name| name.to_str()?.strip_prefix("ublkc")?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// Opens the character device with this number for its server.
pub(super) fn open_server(number: u32) -> Result<OwnedFd, DeviceProblem> {
    let mut options = File::options();
    // With O_NONBLOCK, io_uring makes copies immediately instead of on a worker thread (see
    // `Handle::driver`).
    let options = options
        .read(true)
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    open(&server_name(number), options).map(OwnedFd::from)
}

/// Checks that the block device exists and can be opened. Without access, the server could not
/// detect either that the device is held.
pub(super) fn check(number: u32) -> Result<(), DeviceProblem> {
    open(&name(number), File::options().read(true)).map(drop)
}

/// Opens a device file that has just been created. It can take a moment until the file exists, and
/// another until udev sets its owner.
fn open(path: &str, options: &OpenOptions) -> Result<File, DeviceProblem> {
    let end = Instant::now() + PATIENCE;
    loop {
        match options.open(path) {
            Err(error) if is_early(&error) && Instant::now() < end => std::thread::sleep(PAUSE),
            opened => return opened.map_err(|error| unopened(path, &error)),
        }
    }
}

/// Returns true for errors that occur until udev has processed a new device.
fn is_early(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
    )
}

/// Opens a device exclusively, which fails if it is mounted or otherwise held.
pub(super) fn open_exclusive(number: u32) -> io::Result<File> {
    let mut options = File::options();
    let options = options
        .read(true)
        .custom_flags(OFlags::EXCL.bits().cast_signed());
    options.open(name(number))
}

/// Returns true if a device that could not be opened exclusively may be held. Only an error that
/// says that it does not exist excludes that.
pub(super) fn may_be_held(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::NotFound
}

/// Returns the reason why a file of the driver cannot be opened, with advice.
pub(super) fn unopened(path: &str, error: &io::Error) -> DeviceProblem {
    let help = match error.kind() {
        io::ErrorKind::NotFound if path == PATH_CONTROL => {
            "; load the kernel module ublk_drv (Linux 6.12 or later)"
        }
        io::ErrorKind::PermissionDenied => {
            "; give the server's user access to this file (docs/ublk.md)"
        }
        _ => "",
    };
    let what = weir_config::os_error::message(error);
    format!("cannot create the block device: {path}: {what}{help}")
}
