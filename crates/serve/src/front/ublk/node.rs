//! The files of devices.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use weir_wire::ublk::PATH_CONTROL;

/// Why there can be no block device, in words that go behind the name of a key.
pub(super) type Why = String;

/// How long udev may take to give a device to its user, a shard to let a queue in, and the driver to notice that a server has ended.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How often what is not there yet is asked for again.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// The block device of a number.
pub(super) fn name(number: u32) -> String {
    format!("/dev/ublkb{number}")
}

/// The device of a number that its server opens.
fn server_name(number: u32) -> String {
    format!("/dev/ublkc{number}")
}

/// The numbers of all devices that there are.
pub(super) fn numbers() -> Vec<u32> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    let numbers = names.filter_map(|name| name.to_str()?.strip_prefix("ublkc")?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// Opens the device of a number for its server.
pub(super) fn open_server(number: u32) -> Result<OwnedFd, Why> {
    let mut options = File::options();
    // Copies are then made at once, see `Handle::driver`.
    let options = options
        .read(true)
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    open(&server_name(number), options).map(OwnedFd::from)
}

/// Whether the block device of a number is there and can be opened: a server that cannot does not see either whether it is held.
pub(super) fn check(number: u32) -> Result<(), Why> {
    open(&name(number), File::options().read(true)).map(drop)
}

/// Opens a device that has just been made: it may take a moment to be there, and another until udev gives it to the server's user.
fn open(path: &str, options: &OpenOptions) -> Result<File, Why> {
    let end = Instant::now() + PATIENCE;
    loop {
        match options.open(path) {
            Err(error) if is_early(&error) && Instant::now() < end => std::thread::sleep(PAUSE),
            opened => return opened.map_err(|error| unopened(path, &error)),
        }
    }
}

fn is_early(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
    )
}

/// Opens a device for nobody else, which a process that has mounted it forbids.
pub(super) fn hold(number: u32) -> io::Result<File> {
    let mut options = File::options();
    let options = options
        .read(true)
        .custom_flags(OFlags::EXCL.bits().cast_signed());
    options.open(name(number))
}

/// Whether somebody may have a device that could not be had for nobody else: all that says that nobody has is that it is not there.
pub(super) fn may_be_held(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::NotFound
}

/// Why one of the driver's files cannot be opened.
pub(super) fn unopened(path: &str, error: &io::Error) -> Why {
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
