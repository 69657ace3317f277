//! A volume as a block device of its node, or as a disk of virtual machines there.

pub(crate) mod direct;
pub(crate) mod nbd;
mod netlink;
pub(crate) mod vhost;

use std::path::PathBuf;

use tonic::Status;
use weir_manage::api::Volume;

use crate::driver::Driver;
use crate::terms::Attach;

/// The device of a volume, made if it is not there.
pub(crate) fn attach(driver: &Driver, volume: &Volume) -> Result<PathBuf, Status> {
    match Attach::of(&volume.config) {
        Attach::Nbd => nbd::attach(driver, volume),
        Attach::Ublk | Attach::Vhost => device(driver, volume)?.ok_or_else(|| {
            Status::unavailable(format!(
                "the server has not created the block device of {:?} yet",
                volume.name
            ))
        }),
    }
}

/// The device of a volume, if it is there.
pub(crate) fn device(driver: &Driver, volume: &Volume) -> Result<Option<PathBuf>, Status> {
    match Attach::of(&volume.config) {
        Attach::Nbd => nbd::device(driver, &volume.name),
        Attach::Ublk => Ok(volume.block_device.as_ref().map(PathBuf::from)),
        Attach::Vhost => Ok(None),
    }
}

/// Has a device become as large as its volume.
pub(crate) fn grow(driver: &Driver, volume: &Volume) -> Result<(), Status> {
    match Attach::of(&volume.config) {
        Attach::Nbd => nbd::grow(driver, volume),
        // The server has done it, where Linux can (6.16).
        Attach::Ublk | Attach::Vhost => Ok(()),
    }
}
