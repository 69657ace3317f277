//! A volume as a block device of its node, or as a disk of virtual machines there.
//!
//! [`attach`], [`device`] and [`grow`] choose the module by the way in which the volume is
//! attached: [`nbd`] through the kernel's client, ublk through the server alone, and [`vhost`]
//! through a socket.

pub(crate) mod direct;
pub(crate) mod nbd;
mod netlink;
pub(crate) mod vhost;

use std::path::PathBuf;

use tonic::Status;
use weir_manage::api::Volume;

use crate::driver::Driver;
use crate::terms::Attach;

/// Returns the device of a volume, and makes it if it does not exist.
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

/// Returns the device of a volume, if it exists.
pub(crate) fn device(driver: &Driver, volume: &Volume) -> Result<Option<PathBuf>, Status> {
    match Attach::of(&volume.config) {
        Attach::Nbd => nbd::device(driver, &volume.name),
        Attach::Ublk => Ok(volume.block_device.as_ref().map(PathBuf::from)),
        Attach::Vhost => Ok(None),
    }
}

/// Makes a device as large as its volume.
pub(crate) fn grow(driver: &Driver, volume: &Volume) -> Result<(), Status> {
    match Attach::of(&volume.config) {
        Attach::Nbd => nbd::grow(driver, volume),
        // The server has done so itself, if Linux can (6.16).
        Attach::Ublk | Attach::Vhost => Ok(()),
    }
}
