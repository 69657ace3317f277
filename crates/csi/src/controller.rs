//! The controller service: creates, lists, changes and deletes volumes.

use tonic::Status;
use weir_config::units::ByteSize;
use weir_manage::api::{JsonTable, Volume};

use crate::create::{self, create, drives, tidy, unsupported};
use crate::driver::{CsiDriver, answers};
use crate::error::{self, needed, refused};
use crate::images;
use crate::rpc::controller_server::Controller;
use crate::rpc::controller_service_capability::rpc::Type as Can;
use crate::rpc::controller_service_capability::{Rpc, Type};
use crate::rpc::validate_volume_capabilities_response::Confirmed;
#[allow(clippy::wildcard_imports, reason = "every message of the service")]
use crate::rpc::*;
use crate::terms::{self, ClassTerms};
use crate::volumes::{condition, volume_message};

/// The text in front of the name in a token of a list.
const AFTER: &str = "after ";

answers! {
    Controller {
        create_volume: CreateVolumeRequest => CreateVolumeResponse, create;
        delete_volume: DeleteVolumeRequest => DeleteVolumeResponse, delete;
        validate_volume_capabilities: ValidateVolumeCapabilitiesRequest => ValidateVolumeCapabilitiesResponse, validate;
        list_volumes: ListVolumesRequest => ListVolumesResponse, list;
        get_capacity: GetCapacityRequest => GetCapacityResponse, capacity;
        controller_get_capabilities: ControllerGetCapabilitiesRequest => ControllerGetCapabilitiesResponse, capabilities;
        controller_expand_volume: ControllerExpandVolumeRequest => ControllerExpandVolumeResponse, expand;
        controller_get_volume: ControllerGetVolumeRequest => ControllerGetVolumeResponse, get;
        controller_modify_volume: ControllerModifyVolumeRequest => ControllerModifyVolumeResponse, modify;
    }
    not {
        controller_publish_volume: ControllerPublishVolumeRequest => ControllerPublishVolumeResponse;
        controller_unpublish_volume: ControllerUnpublishVolumeRequest => ControllerUnpublishVolumeResponse;
        create_snapshot: CreateSnapshotRequest => CreateSnapshotResponse;
        delete_snapshot: DeleteSnapshotRequest => DeleteSnapshotResponse;
        list_snapshots: ListSnapshotsRequest => ListSnapshotsResponse;
        get_snapshot: GetSnapshotRequest => GetSnapshotResponse;
    }
}

/// Deletes a volume with its file. Files that earlier attempts have left are deleted as well.
fn delete(
    driver: &CsiDriver,
    request: &DeleteVolumeRequest,
) -> Result<DeleteVolumeResponse, Status> {
    let name = match driver.name(&request.volume_id) {
        // A volume that does not exist counts as deleted, as the interface requires.
        Err(status) if status.code() == tonic::Code::NotFound => {
            return Ok(DeleteVolumeResponse {});
        }
        name => name?,
    };
    let _taken = driver.busy.take(name)?;
    let volumes = driver.volumes()?;
    if let Some(volume) = volumes.named(name)? {
        if !volumes.is_own(&volume) {
            // The volume does not belong to the driver, so that it does not exist as far as the
            // caller is concerned.
            return Ok(DeleteVolumeResponse {});
        }
        // The server must stop using the file before it is removed.
        volumes.forget(&volume)?;
    }
    tidy(driver, &volumes, name, None)?;
    Ok(DeleteVolumeResponse {})
}

/// Confirms the capabilities of a volume if all of them are supported.
fn validate(
    driver: &CsiDriver,
    request: &ValidateVolumeCapabilitiesRequest,
) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
    needed("the volume's id", &request.volume_id)?;
    if request.volume_capabilities.is_empty() {
        return Err(Status::invalid_argument("the capabilities are missing"));
    }
    driver.volumes()?.find(driver.name(&request.volume_id)?)?;
    let unsupported = unsupported(&request.volume_capabilities);
    Ok(ValidateVolumeCapabilitiesResponse {
        confirmed: unsupported.is_none().then(|| Confirmed {
            volume_context: request.volume_context.clone(),
            volume_capabilities: request.volume_capabilities.clone(),
            parameters: request.parameters.clone(),
            mutable_parameters: request.mutable_parameters.clone(),
        }),
        message: unsupported.unwrap_or_default(),
    })
}

/// Lists the driver's volumes page by page, by name.
fn list(driver: &CsiDriver, request: &ListVolumesRequest) -> Result<ListVolumesResponse, Status> {
    let most = usize::try_from(request.max_entries)
        .map_err(|_| Status::invalid_argument("max_entries must not be negative"))?;
    let after = match &request.starting_token[..] {
        "" => "",
        token => token
            .strip_prefix(AFTER)
            .ok_or_else(|| Status::aborted(format!("{token:?} is not a valid starting token")))?,
    };
    let all = driver.volumes()?.all()?;
    // The token has a name instead of an index, so that it stays valid when volumes are deleted.
    let mut page: Vec<_> = all.iter().filter(|v| v.name[..] > *after).collect();
    let more = most > 0 && page.len() > most;
    if more {
        page.truncate(most);
    }
    let last = page.last().filter(|_| more);
    let entry = |volume: &&Volume| list_volumes_response::Entry {
        volume: Some(volume_message(driver, volume)),
        status: Some(list_volumes_response::VolumeStatus {
            volume_condition: Some(condition(volume)),
            ..list_volumes_response::VolumeStatus::default()
        }),
    };
    Ok(ListVolumesResponse {
        next_token: last.map_or_else(String::new, |v| format!("{AFTER}{}", v.name)),
        entries: page.iter().map(entry).collect(),
    })
}

fn get(
    driver: &CsiDriver,
    request: &ControllerGetVolumeRequest,
) -> Result<ControllerGetVolumeResponse, Status> {
    let volume = driver.volumes()?.find(driver.name(&request.volume_id)?)?;
    Ok(ControllerGetVolumeResponse {
        volume: Some(volume_message(driver, &volume)),
        status: Some(controller_get_volume_response::VolumeStatus {
            volume_condition: Some(condition(&volume)),
            ..controller_get_volume_response::VolumeStatus::default()
        }),
    })
}

/// Returns the size of the largest volume of a class that is possible on this node now. It is 0 if
/// no drive can promise the contract.
fn capacity(
    driver: &CsiDriver,
    request: &GetCapacityRequest,
) -> Result<GetCapacityResponse, Status> {
    let here = request.accessible_topology.as_ref();
    // Each driver reports the capacity of its own node only.
    let here = here.is_none_or(|topology| driver.is_here(topology));
    let most = if here { most(driver, request)? } else { 0 };
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    Ok(GetCapacityResponse {
        available_capacity: most,
        maximum_volume_size: Some(most),
        minimum_volume_size: None,
    })
}

/// Returns the size of the largest possible volume, found by a dry run on each drive.
fn most(driver: &CsiDriver, request: &GetCapacityRequest) -> Result<u64, Status> {
    let capabilities = &request.volume_capabilities;
    if !capabilities.is_empty() && unsupported(capabilities).is_some() {
        return Ok(0);
    }
    let terms = ClassTerms::read(&request.parameters, &[].into())?;
    let volumes = driver.volumes()?;
    let drives = match drives(driver, &volumes, &terms) {
        Err(status) if status.code() == tonic::Code::ResourceExhausted => return Ok(0),
        drives => drives?,
    };
    let mut most = 0;
    for drive in drives.iter().map(|drive| &drive.name[..]) {
        let room = driver.images.room(drive);
        let file = driver.images.of_drive(drive);
        let room = create::whole(room.map_err(error::file("inspect", &file))?);
        if room == 0 {
            continue;
        }
        // Only checked: nothing is created.
        let name = "a further volume";
        let file = file.join(name);
        let mut words = terms.words((name, drive), &file, &driver.options.sockets)?;
        words.insert("size".to_owned(), ByteSize(room).to_string().into());
        match volumes.add(name, &words, true).map_err(|e| refused(&e)) {
            // This drive cannot promise the contract.
            Err(status) if status.code() == tonic::Code::ResourceExhausted => {}
            tried => {
                tried?;
                most = most.max(room);
            }
        }
    }
    Ok(most)
}

/// Grows the file of a volume. A size that is not larger than the present one changes nothing.
fn expand(
    driver: &CsiDriver,
    request: &ControllerExpandVolumeRequest,
) -> Result<ControllerExpandVolumeResponse, Status> {
    let range = request.capacity_range;
    let range = range.ok_or_else(|| Status::invalid_argument("the size is missing"))?;
    let size = create::size(range)?;
    let id = driver.name(&request.volume_id)?;
    let _taken = driver.busy.take(id)?;
    let volumes = driver.volumes()?;
    let volume = volumes.find(id)?;
    // A volume never shrinks.
    if size > volume.size_bytes {
        let file = volumes.file(&volume).ok_or_else(|| error::no_volume(id))?;
        let room = driver
            .images
            .room(&volume.drive)
            .map_err(error::file("inspect", &file))?;
        if size - volume.size_bytes > room {
            let said = format!(
                "not enough space: {} are left for the data of volumes",
                ByteSize(room)
            );
            return Err(Status::out_of_range(said));
        }
        // The space is allocated before the server offers it.
        images::grow(&file, size).map_err(error::file("grow", &file))?;
    }
    // The server checks the sizes of its files with every change, even an empty one. An earlier
    // attempt can have failed after it had grown the file.
    volumes.change(&volume, &JsonTable::new())?;
    let size = size.max(volume.size_bytes);
    Ok(ControllerExpandVolumeResponse {
        capacity_bytes: i64::try_from(size).unwrap_or(i64::MAX),
        // The device, or the file system on it, still has the old size.
        node_expansion_required: true,
    })
}

/// Changes the contract of a volume, which can be in use. Parameters that are not mentioned stay as
/// they are.
fn modify(
    driver: &CsiDriver,
    request: &ControllerModifyVolumeRequest,
) -> Result<ControllerModifyVolumeResponse, Status> {
    let id = driver.name(&request.volume_id)?;
    let words = terms::mutable(&request.mutable_parameters)?;
    let _taken = driver.busy.take(id)?;
    let volumes = driver.volumes()?;
    let volume = volumes.find(id)?;
    if !words.is_empty() {
        volumes.change(&volume, &words)?;
    }
    Ok(ControllerModifyVolumeResponse {})
}

fn capabilities(
    driver: &CsiDriver,
    _: &ControllerGetCapabilitiesRequest,
) -> Result<ControllerGetCapabilitiesResponse, Status> {
    let mut all = vec![
        Can::CreateDeleteVolume,
        Can::ListVolumes,
        Can::GetCapacity,
        Can::ExpandVolume,
        Can::VolumeCondition,
        Can::GetVolume,
        Can::SingleNodeMultiWriter,
        Can::ModifyVolume,
    ];
    // If the driver cannot reach its server yet, it offers no clones yet.
    let drives = driver.volumes()?.status().map(|status| status.drives);
    let mut drives = drives.unwrap_or_default().into_iter();
    if drives.any(|drive| driver.images.shares(&drive.name)) {
        all.push(Can::CloneVolume);
    }
    let of = |can: Can| ControllerServiceCapability {
        r#type: Some(Type::Rpc(Rpc { r#type: can.into() })),
    };
    Ok(ControllerGetCapabilitiesResponse {
        capabilities: all.into_iter().map(of).collect(),
    })
}
