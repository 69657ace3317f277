//! Creates a volume: chooses a drive, makes the file, and handles the remains of earlier attempts.
//!
//! CSI calls must be idempotent. [`create`] therefore first looks for a volume that an earlier
//! attempt has made.

use std::path::Path;

use tonic::Status;
use weir_config::units::ByteSize;
use weir_manage::api::{Drive, Error, Volume};

use crate::driver::CsiDriver;
use crate::error::{self, needed, refused};
use crate::images;
use crate::rpc::volume_content_source::Type as Source;
use crate::rpc::{
    CapacityRange, CreateVolumeRequest, CreateVolumeResponse, VolumeCapability,
    volume_capability::AccessType, volume_capability::access_mode::Mode,
};
use crate::terms::ClassTerms;
use crate::volumes::{Volumes, volume_message};

/// The size of a volume if the request does not specify one, in bytes.
const SIZE: u64 = 1 << 30;
/// The unit of sizes, in bytes. Every file system can be made on a multiple of it.
const STEP: u64 = 1 << 20;
/// The maximum length of a name in bytes, which is the interface's limit of an id.
const NAME_MAX: usize = 128;

/// The content of a request, as far as it can be checked without the server.
struct VolumeRequest<'a> {
    name: &'a str,
    size: u64,
    range: CapacityRange,
    terms: ClassTerms,
    source: Option<&'a str>,
}

/// Handles `CreateVolume`. Returns the volume, made now or by an earlier attempt.
pub(crate) fn create(
    driver: &CsiDriver,
    request: &CreateVolumeRequest,
) -> Result<CreateVolumeResponse, Status> {
    let asked = parse_request(request)?;
    if !driver.meets(request.accessibility_requirements.as_ref()) {
        let said = format!(
            "this is node {}, but the request requires another node",
            driver.options.node
        );
        return Err(Status::resource_exhausted(said));
    }
    let _taken = driver.busy.take(asked.name)?;
    let volumes = driver.volumes()?;
    let volume = match volumes.named(asked.name)? {
        Some(volume) => matching_volume(&volumes, volume, &asked)?,
        None => make(driver, &volumes, &asked)?,
    };
    tidy(
        driver,
        &volumes,
        asked.name,
        volumes.file(&volume).as_deref(),
    )?;
    let mut volume = volume_message(driver, &volume);
    volume
        .content_source
        .clone_from(&request.volume_content_source);
    Ok(CreateVolumeResponse {
        volume: Some(volume),
    })
}

/// Checks a request, as far as that is possible without the server.
fn parse_request(request: &CreateVolumeRequest) -> Result<VolumeRequest<'_>, Status> {
    let name = needed("the volume's name", &request.name)?;
    if name.len() > NAME_MAX {
        let said = format!("the name {name:?} must have at most {NAME_MAX} bytes");
        return Err(Status::invalid_argument(said));
    }
    if let Some(said) = unsupported(&request.volume_capabilities) {
        return Err(Status::invalid_argument(said));
    }
    let range = request.capacity_range.unwrap_or_default();
    let source = match request.volume_content_source.as_ref().map(|s| &s.r#type) {
        None => None,
        Some(Some(Source::Volume(volume))) => Some(needed("the source's id", &volume.volume_id)?),
        Some(_) => {
            let said = "snapshots are not supported; use another volume as the source";
            return Err(Status::invalid_argument(said));
        }
    };
    Ok(VolumeRequest {
        name,
        size: size(range)?,
        range,
        terms: ClassTerms::read(&request.parameters, &request.mutable_parameters)?,
        source,
    })
}

/// Returns the reason if volumes cannot be used in one of these ways.
pub(crate) fn unsupported(capabilities: &[VolumeCapability]) -> Option<String> {
    if capabilities.is_empty() {
        return Some("the capability of the volume is missing".to_owned());
    }
    capabilities.iter().find_map(|capability| {
        let mode = capability.access_mode.map(|mode| mode.mode());
        let said = match (&capability.access_type, mode) {
            (None, _) => "a capability has neither block nor mount".to_owned(),
            (_, None | Some(Mode::Unknown)) => "a capability has no access mode".to_owned(),
            (
                _,
                Some(
                    mode @ (Mode::MultiNodeReaderOnly
                    | Mode::MultiNodeSingleWriter
                    | Mode::MultiNodeMultiWriter),
                ),
            ) => {
                let mode = mode.as_str_name();
                format!("access mode {mode} is not supported, because a volume can be used only on its own node")
            }
            // The name becomes part of a command (mkfs.NAME).
            (Some(AccessType::Mount(mount)), _) if !is_word(&mount.fs_type) => {
                format!("{:?} is not a file system", mount.fs_type)
            }
            _ => return None,
        };
        Some(said)
    })
}

/// Returns true if a text can be the end of a tool's name, as in `mkfs.ext4`.
fn is_word(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

/// Returns the size to choose from a range, in bytes.
pub(crate) fn size(range: CapacityRange) -> Result<u64, Status> {
    let bytes = |bytes: i64| {
        let negative = |_| Status::invalid_argument(format!("{bytes} bytes is not a valid size"));
        u64::try_from(bytes).map_err(negative)
    };
    let (least, most) = (bytes(range.required_bytes)?, bytes(range.limit_bytes)?);
    if most > 0 && least > most {
        let said = format!("{least} bytes are required, but at most {most} are permitted");
        return Err(Status::invalid_argument(said));
    }
    let size = match (least, most) {
        (0, 0) => SIZE,
        // If there is only a limit, the default applies as far as the limit permits it.
        (0, most) => SIZE.min(whole(most)),
        (least, _) => least.div_ceil(STEP) * STEP,
    };
    if size == 0 || (most > 0 && size > most) {
        let said = format!(
            "a size must be a multiple of {}, and the range contains none",
            ByteSize(STEP)
        );
        return Err(Status::out_of_range(said));
    }
    Ok(size)
}

/// Rounds a number of bytes down to a valid size.
pub(crate) fn whole(bytes: u64) -> u64 {
    bytes / STEP * STEP
}

/// Returns true if a size is in a range.
fn fits(size: u64, range: CapacityRange) -> bool {
    let within = |most: i64| most == 0 || i64::try_from(size).is_ok_and(|size| size <= most);
    within(range.limit_bytes) && u64::try_from(range.required_bytes).is_ok_and(|l| l <= size)
}

/// Returns the volume of an earlier attempt if it matches the request. Otherwise returns
/// `ALREADY_EXISTS`.
fn matching_volume(
    volumes: &Volumes<'_>,
    volume: Volume,
    asked: &VolumeRequest<'_>,
) -> Result<Volume, Status> {
    let terms = &asked.terms;
    let differs = if !volumes.is_own(&volume) {
        "that does not belong to this driver"
    } else if !fits(volume.size_bytes, asked.range) {
        "with another size"
    } else if terms
        .drive
        .as_ref()
        .is_some_and(|drive| *drive != volume.drive)
    {
        "on another drive"
    } else if terms.tenant != volume.tenant {
        "with another tenant"
    } else if terms.attach != crate::terms::AttachMethod::of(&volume.config) {
        "with another value of attach"
    } else if !volumes.has_terms(&volume.name, &terms.whole())? {
        "with another contract"
    } else {
        return Ok(volume);
    };
    let said = format!("a volume {:?} already exists {differs}", volume.name);
    Err(Status::already_exists(said))
}

/// The parameters of a volume to be made.
struct NewVolume<'a> {
    name: &'a str,
    size: u64,
    terms: ClassTerms,
    source: Option<Volume>,
}

/// Makes the volume on the first drive that accepts it. Drives with the most unpromised bandwidth
/// come first.
fn make(
    driver: &CsiDriver,
    volumes: &Volumes<'_>,
    asked: &VolumeRequest<'_>,
) -> Result<Volume, Status> {
    let source = asked.source.map(|id| volumes.find(driver.name(id)?));
    let source = source.transpose()?;
    let mut made = NewVolume {
        name: asked.name,
        size: asked.size,
        terms: asked.terms.clone(),
        source,
    };
    if let Some(source) = &made.source {
        // A clone without a requested size has that of its source.
        if asked.range == CapacityRange::default() {
            made.size = source.size_bytes;
        }
        if made.size < source.size_bytes {
            let said = format!("{:?} has {}", source.name, ByteSize(source.size_bytes));
            return Err(Status::out_of_range(said));
        }
        // A clone shares the extents of its source, which is possible only in the same file system.
        let drive = made.terms.drive.get_or_insert_with(|| source.drive.clone());
        if *drive != source.drive {
            let said = format!(
                "{:?} is on drive {:?}, so that its clones must be on the same drive",
                source.name, source.drive
            );
            return Err(Status::invalid_argument(said));
        }
    }
    let mut refusals = Vec::new();
    for drive in drives(driver, volumes, &made.terms)? {
        match make_on(driver, volumes, &made, &drive.name) {
            Err(status) if status.code() == tonic::Code::ResourceExhausted => {
                refusals.push(format!("drive {}: {}", drive.name, status.message()));
            }
            Err(status) => return Err(status),
            Ok(()) => return volumes.find(asked.name),
        }
    }
    // No attempt has made a volume, and Kubernetes may not try again here. Its files must not
    // remain.
    if volumes.named(asked.name)?.is_none() {
        tidy(driver, volumes, asked.name, None)?;
    }
    Err(Status::resource_exhausted(refusals.join("; ")))
}

/// Removes the files of all attempts for a volume, except the one that the volume has.
pub(crate) fn tidy(
    driver: &CsiDriver,
    volumes: &Volumes<'_>,
    name: &str,
    except: Option<&Path>,
) -> Result<(), Status> {
    let drives = volumes.status()?.drives;
    let drives = drives.iter().map(|drive| &drive.name[..]);
    let tidied = driver.images.tidy(drives, name, except);
    tidied.map_err(error::file("tidy", &driver.options.volumes))
}

/// Returns the drives that a volume can be made on: the requested one, or all of them in descending
/// order of their unpromised bandwidth.
pub(crate) fn drives(
    driver: &CsiDriver,
    volumes: &Volumes<'_>,
    terms: &ClassTerms,
) -> Result<Vec<Drive>, Status> {
    let mut drives = volumes.status()?.drives;
    drives.retain(|drive| {
        driver.images.has_drive(&drive.name)
            && terms.drive.as_ref().is_none_or(|name| *name == drive.name)
    });
    let left = |drive: &Drive| {
        drive
            .budget
            // A drive of unknown capacity comes last.
            .map_or(0, |budget| budget.left_bytes_per_second)
    };
    drives.sort_by_key(|drive| std::cmp::Reverse(left(drive)));
    if drives.is_empty() {
        let named = terms.drive.as_deref().unwrap_or("NAME");
        let said = format!(
            "node {} does not have this drive: a node with it has the drive in the server's configuration, and the directory {}",
            driver.options.node,
            driver.images.of_drive(named).display()
        );
        // Another node can have the drive, and Kubernetes tries it after this status.
        return Err(Status::resource_exhausted(said));
    }
    Ok(drives)
}

/// Makes the volume on a drive: first its file, then its entry in the server's configuration.
fn make_on(
    driver: &CsiDriver,
    volumes: &Volumes<'_>,
    made: &NewVolume<'_>,
    drive: &str,
) -> Result<(), Status> {
    let file = driver.images.for_attempt(drive, made.name).ok_or_else(|| {
        Status::invalid_argument(format!(
            "the name {:?} is too long for a file name",
            made.name
        ))
    })?;
    let room = driver.images.room(drive);
    let room = room.map_err(error::file("inspect", &file))?;
    // A clone initially needs space only for the part beyond its source.
    let shared = made.source.as_ref().map_or(0, |source| source.size_bytes);
    if made.size - shared > room {
        let said = format!(
            "not enough space: {} are left for the data of further volumes",
            ByteSize(room)
        );
        return Err(Status::resource_exhausted(said));
    }
    let sockets = &driver.options.sockets;
    let words = made.terms.words((made.name, drive), &file, sockets)?;
    // The server opens the file when the volume is added.
    write(volumes, made, &file)?;
    volumes
        .add(made.name, &words, false)
        .map(drop)
        .map_err(|error| {
            // Only a refusal proves that the volume was not made. After any other error it can
            // exist, and the next attempt finds it.
            if let Error::Refused { .. } = error
                && let Err(left) = images::remove(&file)
            {
                tracing::error!("cannot remove {}: {left}", file.display());
            }
            refused(&error)
        })
}

/// Makes the file of a volume.
fn write(volumes: &Volumes<'_>, made: &NewVolume<'_>, file: &Path) -> Result<(), Status> {
    let from = made.source.as_ref().and_then(|source| volumes.file(source));
    images::make(file, made.size, from.as_deref()).map_err(|error| match &from {
        Some(from) if error.kind() == std::io::ErrorKind::Unsupported => {
            Status::invalid_argument(format!(
                "cannot clone {}: its file system does not support reflinks; use XFS or btrfs",
                from.display()
            ))
        }
        _ => error::file("create", file)(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::volume_capability::{AccessMode, BlockVolume, MountVolume};

    fn range(required_bytes: i64, limit_bytes: i64) -> CapacityRange {
        CapacityRange {
            required_bytes,
            limit_bytes,
        }
    }

    #[test]
    fn a_size_is_the_smallest_in_the_requested_range() {
        assert_eq!(size(range(0, 0)).unwrap(), SIZE);
        assert_eq!(size(range(1, 0)).unwrap(), STEP);
        assert_eq!(size(range(3 << 20, 3 << 20)).unwrap(), 3 << 20);
        assert_eq!(size(range(0, (5 << 20) + 1)).unwrap(), 5 << 20);
        for (wrong, code) in [
            (range(-1, 0), tonic::Code::InvalidArgument),
            (range(2, 1), tonic::Code::InvalidArgument),
            (range(1, 2), tonic::Code::OutOfRange),
            (range(i64::MAX, i64::MAX), tonic::Code::OutOfRange),
        ] {
            assert_eq!(size(wrong).unwrap_err().code(), code, "{wrong:?}");
        }
        assert!(fits(5, range(5, 5)) && fits(5, range(0, 0)));
        assert!(!fits(5, range(6, 0)) && !fits(5, range(0, 4)));
    }

    #[test]
    fn volumes_are_used_on_one_node_as_block_or_mount() {
        let capability = |access_type, mode: Mode| VolumeCapability {
            access_mode: Some(AccessMode { mode: mode.into() }),
            access_type,
        };
        let block = || Some(AccessType::Block(BlockVolume {}));
        let mount = |fs: &str| {
            Some(AccessType::Mount(MountVolume {
                fs_type: fs.to_owned(),
                ..MountVolume::default()
            }))
        };
        let one = Mode::SingleNodeWriter;
        assert_eq!(
            unsupported(&[capability(block(), one), capability(mount("ext4"), one)]),
            None
        );
        for wrong in [
            vec![],
            vec![capability(None, one)],
            vec![capability(block(), Mode::Unknown)],
            vec![
                capability(block(), one),
                capability(block(), Mode::MultiNodeMultiWriter),
            ],
            vec![capability(mount("../x"), one)],
        ] {
            assert!(unsupported(&wrong).is_some(), "{wrong:?}");
        }
    }
}
