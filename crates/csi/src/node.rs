//! The node service: attaches volumes to this node and mounts them.

use std::path::Path;

use tonic::Status;
use weir_manage::api::Volume;

use crate::attach::vhost::SocketDisk;
use crate::attach::{self, direct, nbd};
use crate::create::unsupported;
use crate::driver::{CsiDriver, answers};
use crate::error::needed;
use crate::mount;
use crate::rpc::node_server::Node;
use crate::rpc::node_service_capability::rpc::Type as Can;
use crate::rpc::node_service_capability::{Rpc, Type};
use crate::rpc::volume_capability::AccessType;
#[allow(clippy::wildcard_imports, reason = "every message of the service")]
use crate::rpc::*;
use crate::stats::usage;
use crate::volumes::condition;

answers! {
    Node {
        node_stage_volume: NodeStageVolumeRequest => NodeStageVolumeResponse, stage;
        node_unstage_volume: NodeUnstageVolumeRequest => NodeUnstageVolumeResponse, unstage;
        node_publish_volume: NodePublishVolumeRequest => NodePublishVolumeResponse, publish;
        node_unpublish_volume: NodeUnpublishVolumeRequest => NodeUnpublishVolumeResponse, unpublish;
        node_get_volume_stats: NodeGetVolumeStatsRequest => NodeGetVolumeStatsResponse, stats;
        node_expand_volume: NodeExpandVolumeRequest => NodeExpandVolumeResponse, expand;
        node_get_capabilities: NodeGetCapabilitiesRequest => NodeGetCapabilitiesResponse, |_, _: &_| Ok(capabilities());
        node_get_info: NodeGetInfoRequest => NodeGetInfoResponse, |driver, _: &_| Ok(info(driver));
    }
    not {
    }
}

/// Returns the way in which a volume is used: as a device, or as a file system with options.
fn used(capability: Option<&VolumeCapability>) -> Result<&AccessType, Status> {
    let missing = || Status::invalid_argument("the capability of the volume is missing");
    let capability = capability.ok_or_else(missing)?;
    match unsupported(std::slice::from_ref(capability)) {
        Some(said) => Err(Status::invalid_argument(said)),
        None => capability.access_type.as_ref().ok_or_else(missing),
    }
}

/// Attaches a volume to this node as a device. If it is to be mounted, mounts it at the staging
/// path, which all its users share. A volume for virtual machines needs no device.
fn stage(
    driver: &CsiDriver,
    request: &NodeStageVolumeRequest,
) -> Result<NodeStageVolumeResponse, Status> {
    let at = Path::new(needed("the staging path", &request.staging_target_path)?);
    let used = used(request.volume_capability.as_ref())?;
    let id = driver.name(&request.volume_id)?;
    let _taken = driver.busy.take(id)?;
    let volume = driver.volumes()?.find(id)?;
    if let Some(disk) = SocketDisk::new(driver, &volume) {
        disk.stage(at, used)?;
        return Ok(NodeStageVolumeResponse {});
    }
    let device = attach::attach(driver, &volume)?;
    if let AccessType::Mount(asked) = used {
        mount::device(&device, at, &asked.fs_type, &asked.mount_flags)?;
    }
    Ok(NodeStageVolumeResponse {})
}

fn unstage(
    driver: &CsiDriver,
    request: &NodeUnstageVolumeRequest,
) -> Result<NodeUnstageVolumeResponse, Status> {
    let at = Path::new(needed("the staging path", &request.staging_target_path)?);
    let id = driver.name(&request.volume_id)?;
    let _taken = driver.busy.take(id)?;
    // The file system must be unmounted before its device disappears.
    mount::unmount(at)?;
    // A block device of the server itself lasts as long as the volume.
    nbd::detach(driver, id)?;
    Ok(NodeUnstageVolumeResponse {})
}

/// Makes the staged volume available at the path of one of its users.
fn publish(
    driver: &CsiDriver,
    request: &NodePublishVolumeRequest,
) -> Result<NodePublishVolumeResponse, Status> {
    let to = Path::new(needed("the target path", &request.target_path)?);
    let used = used(request.volume_capability.as_ref())?;
    let staged = Path::new(needed("the staging path", &request.staging_target_path)?);
    let id = driver.name(&request.volume_id)?;
    let _taken = driver.busy.take(id)?;
    let volume = driver.volumes()?.find(id)?;
    if let Some(disk) = SocketDisk::new(driver, &volume) {
        disk.publish((staged, to), used, request.readonly)?;
        return Ok(NodePublishVolumeResponse {});
    }
    let not_staged = || Status::failed_precondition(format!("{id:?} is not staged"));
    match used {
        AccessType::Block(_) => {
            let device = attach::device(driver, &volume)?.ok_or_else(not_staged)?;
            mount::bind(&device, to, request.readonly)?;
        }
        AccessType::Mount(_) => {
            if !mount::is_mounted(staged)? {
                return Err(not_staged());
            }
            mount::bind(staged, to, request.readonly)?;
        }
    }
    Ok(NodePublishVolumeResponse {})
}

fn unpublish(
    driver: &CsiDriver,
    request: &NodeUnpublishVolumeRequest,
) -> Result<NodeUnpublishVolumeResponse, Status> {
    let at = Path::new(needed("the target path", &request.target_path)?);
    let id = driver.name(&request.volume_id)?;
    let _taken = driver.busy.take(id)?;
    mount::unmount_and_remove(at)?;
    // This comes last: as long as the path is in use, no other virtual machine may mount the file
    // system.
    direct::remove(&driver.options.direct_volumes, at)?;
    Ok(NodeUnpublishVolumeResponse {})
}

fn stats(
    driver: &CsiDriver,
    request: &NodeGetVolumeStatsRequest,
) -> Result<NodeGetVolumeStatsResponse, Status> {
    let at = Path::new(needed("the volume's path", &request.volume_path)?);
    let id = driver.name(&request.volume_id)?;
    let volume = driver.volumes()?.find(id)?;
    let disk = found(driver, &volume, at)?;
    let usage = disk.map_or_else(|| usage(at), |disk| Ok(vec![disk.usage()]));
    Ok(NodeGetVolumeStatsResponse {
        usage: usage?,
        volume_condition: Some(condition(&volume)),
    })
}

/// Checks that a volume is published at a path. Returns the disk if it is for virtual machines.
fn found<'a>(
    driver: &'a CsiDriver,
    volume: &'a Volume,
    at: &Path,
) -> Result<Option<SocketDisk<'a>>, Status> {
    let disk = SocketDisk::new(driver, volume);
    let is_there = match &disk {
        Some(disk) => disk.is_at(at)?,
        None => mount::is_mounted(at)?,
    };
    if is_there {
        return Ok(disk);
    }
    let said = format!("{:?} is not published at {}", volume.name, at.display());
    Err(Status::not_found(said))
}

/// Grows the device and the file system to the size of the volume.
fn expand(
    driver: &CsiDriver,
    request: &NodeExpandVolumeRequest,
) -> Result<NodeExpandVolumeResponse, Status> {
    let at = Path::new(needed("the volume's path", &request.volume_path)?);
    let id = driver.name(&request.volume_id)?;
    let _taken = driver.busy.take(id)?;
    let volume = driver.volumes()?.find(id)?;
    if let Some(disk) = found(driver, &volume, at)? {
        disk.grow(at)?;
    } else {
        attach::grow(driver, &volume)?;
        // A block volume is published as a file, and the node knows no file system on it.
        if at.is_dir()
            && let Some(device) = attach::device(driver, &volume)?
        {
            mount::grow(&device, at)?;
        }
    }
    Ok(NodeExpandVolumeResponse {
        capacity_bytes: i64::try_from(volume.size_bytes).unwrap_or(i64::MAX),
    })
}

fn capabilities() -> NodeGetCapabilitiesResponse {
    let all = [
        Can::StageUnstageVolume,
        Can::GetVolumeStats,
        Can::ExpandVolume,
        Can::VolumeCondition,
        Can::SingleNodeMultiWriter,
    ];
    let of = |can: Can| NodeServiceCapability {
        r#type: Some(Type::Rpc(Rpc { r#type: can.into() })),
    };
    NodeGetCapabilitiesResponse {
        capabilities: all.map(of).into(),
    }
}

fn info(driver: &CsiDriver) -> NodeGetInfoResponse {
    NodeGetInfoResponse {
        node_id: driver.options.node.clone(),
        // 0 means that the number is not limited by the driver.
        max_volumes_per_node: 0,
        accessible_topology: Some(driver.topology()),
    }
}
