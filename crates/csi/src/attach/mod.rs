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

use crate::driver::CsiDriver;
use crate::terms::AttachMethod;

/// Returns the device of a volume, and makes it if it does not exist.
pub(crate) fn attach(driver: &CsiDriver, volume: &Volume) -> Result<PathBuf, Status> {
    match AttachMethod::of(&volume.config) {
        AttachMethod::Nbd => nbd::attach(driver, volume),
        AttachMethod::Ublk | AttachMethod::Vhost => device(driver, volume)?.ok_or_else(|| {
            Status::unavailable(format!(
                "the server has not created the block device of {:?} yet",
                volume.name
            ))
        }),
    }
}

/// Returns the device of a volume, if it exists.
pub(crate) fn device(driver: &CsiDriver, volume: &Volume) -> Result<Option<PathBuf>, Status> {
    match AttachMethod::of(&volume.config) {
        AttachMethod::Nbd => nbd::device(driver, &volume.name),
        AttachMethod::Ublk => Ok(volume.block_device.as_ref().map(PathBuf::from)),
        AttachMethod::Vhost => Ok(None),
    }
}

/// Makes a device as large as its volume.
pub(crate) fn grow(driver: &CsiDriver, volume: &Volume) -> Result<(), Status> {
    match AttachMethod::of(&volume.config) {
        AttachMethod::Nbd => nbd::grow(driver, volume),
        // The server has done so itself, if Linux can (6.16).
        AttachMethod::Ublk | AttachMethod::Vhost => Ok(()),
    }
}
