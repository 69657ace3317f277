//! From a configuration to what shards and clients are given.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_config::{DriveReload, Plan, Problem, Reload, Volume, plan};
use weir_core::{Instant, Layer};
use weir_wire::nbd::{BlockSizes, ExportInfo, TransmissionFlags};

use crate::acceptor::{Export, Place};
use crate::backend::{self, Prepare, Traits};
use crate::created::Created;
use crate::log::said;
use crate::reload::ReloadError;
use crate::server::StartError;
use crate::shard::{Change, DriveSetup, SPACES_MAX, Sold, SoldTenant, VolumeSetup};

/// Everything of a configuration that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The drives of each shard.
    pub(crate) shards: Vec<Vec<DriveSetup>>,
    /// Plan and place of each drive, in the order of the configuration.
    pub(crate) plans: Vec<Plan>,
    pub(crate) places: Vec<Place>,
    /// By name.
    pub(crate) exports: Vec<Export>,
    /// Files that were made.
    pub(crate) created: Vec<Created>,
}

/// Opens every volume, and deals the drives out to so many shards.
pub(crate) fn open(config: &weir_config::Server, shards: usize) -> Result<Opened, StartError> {
    let mut opened = Opened {
        shards: std::iter::repeat_with(Vec::new).take(shards).collect(),
        plans: Vec::new(),
        places: Vec::new(),
        exports: Vec::new(),
        created: Vec::new(),
    };
    for (number, drive) in config.drives.iter().enumerate() {
        let shard = number % shards;
        let place = Place {
            shard,
            drive: opened.shards[shard].len(),
            space: 0,
        };
        let plan = plan(config, &drive.name)
            .ok_or_else(|| StartError::Shard(format!("drive {} has no plan", drive.name)))?;
        if plan.config.limits.spaces > SPACES_MAX {
            return Err(StartError::Config(too_many_volumes(config, &drive.name)));
        }
        let mut volumes = Vec::new();
        for volume in config.volumes_of(&drive.name) {
            let mut setup = open_volume(config, volume)
                .map_err(|error| StartError::Config(storage_problem(config, volume, &error)))?;
            opened.created.extend(setup.storage.created());
            let storage = setup.storage.as_ref();
            opened
                .exports
                .push(export(config, volume, storage, place, &plan));
            volumes.push(setup);
        }
        opened.shards[shard].push(DriveSetup {
            name: drive.name.clone(),
            plan: plan.clone(),
            model: drive.model.clone(),
            volumes,
            tape: None,
        });
        opened.plans.push(plan);
        opened.places.push(place);
    }
    opened.exports.sort_by(|a, b| a.info.name.cmp(&b.info.name));
    Ok(opened)
}

/// A change for each drive, with the number of its shard, and the files that were made for them.
pub(crate) type Changes = (Vec<(usize, Change)>, Vec<Created>);

/// What each shard is to change. Opens the volumes that come, with what was made for them, and makes sure that the core will not refuse.
pub(crate) fn changes(
    config: &weir_config::Server,
    old: &weir_config::Server,
    reload: Reload,
    places: &[Place],
) -> Result<Changes, ReloadError> {
    let (mut changes, mut created) = (Vec::new(), Vec::new());
    for reload in reload.drives {
        check(&reload)?;
        // Drives neither come nor go, and both configurations have them by name.
        let number = old.drives.iter().position(|d| d.name == reload.plan.drive);
        let Some(&place) = number.and_then(|n| places.get(n)) else {
            return Err(ReloadError::Shard(format!(
                "drive {} is new",
                reload.plan.drive
            )));
        };
        let mut change = Change {
            drive: place.drive,
            added: Vec::new(),
            exports: Vec::new(),
            sold: BTreeMap::new(),
            patience: Duration::ZERO,
            reload,
        };
        for volume in config.volumes_of(&change.reload.plan.drive) {
            change
                .sold
                .insert(volume.name.clone(), sold(config, volume));
            if change.reload.added.contains(&volume.name) {
                let mut setup = open_volume(config, volume).map_err(|error| {
                    ReloadError::Volume(storage_problem(config, volume, &error))
                })?;
                created.extend(setup.storage.created());
                let storage = setup.storage.as_ref();
                let plan = &change.reload.plan;
                change
                    .exports
                    .push(export(config, volume, storage, place, plan));
                change.added.push(setup);
            }
        }
        changes.push((place.shard, change));
    }
    Ok((changes, created))
}

/// What is wrong with a drive that is to have more volumes than a shard can name.
pub(crate) fn too_many_volumes(config: &weir_config::Server, drive: &str) -> Problem {
    let key = format!("drive.{drive}.limits.volumes");
    config.problem(&key, format!("must be at most {SPACES_MAX}"), None)
}

/// What is wrong with a volume's storage.
pub(crate) fn storage_problem(
    config: &weir_config::Server,
    volume: &Volume,
    error: &std::io::Error,
) -> Problem {
    config.storage_problem(volume, said(error))
}

/// Whether a layer takes the whole plan: what it would refuse is refused here, before anything has changed.
fn check(reload: &DriveReload) -> Result<(), ReloadError> {
    if reload.edits.is_empty() {
        return Ok(());
    }
    let plan = &reload.plan;
    let refused =
        |why: &dyn std::fmt::Display| ReloadError::Promises(format!("drive {}: {why}", plan.drive));
    let mut layer = Layer::new(plan.config.clone()).map_err(|error| refused(&error))?;
    let changed = layer.change(Instant::ZERO, &plan.edits);
    changed.map(drop).map_err(|refusal| refused(&refusal))
}

fn open_volume(config: &weir_config::Server, volume: &Volume) -> std::io::Result<VolumeSetup> {
    Ok(VolumeSetup {
        name: volume.name.clone(),
        sold: sold(config, volume),
        storage: backend::open(volume, &config.test)?,
    })
}

fn sold(config: &weir_config::Server, volume: &Volume) -> Sold {
    let tenant = volume
        .tenant
        .as_deref()
        .and_then(|name| config.tenant(name));
    Sold {
        contract: volume.contract,
        tenant: tenant.map(|tenant| SoldTenant {
            name: tenant.name.clone(),
            contract: tenant.contract,
        }),
    }
}

/// What clients are told of a volume.
fn export(
    config: &weir_config::Server,
    volume: &Volume,
    storage: &dyn Prepare,
    place: Place,
    plan: &Plan,
) -> Export {
    let traits = storage.traits();
    let info = ExportInfo {
        name: volume.name.clone(),
        description: String::new(),
        key: 0,
        size: storage.size(),
        flags: flags(&traits),
        block_sizes: BlockSizes {
            minimum: 1,
            preferred: traits.preferred,
            maximum: config.limits.request_size,
        },
        allocation: traits.allocation,
    };
    let space = plan.volumes[&volume.name].space.0;
    Export {
        info,
        place: Place { space, ..place },
    }
}

fn flags(traits: &Traits) -> TransmissionFlags {
    let writable = !traits.read_only;
    let mut flags =
        TransmissionFlags::SEND_FLUSH | TransmissionFlags::SEND_DF | TransmissionFlags::SEND_CACHE;
    for (set, flag) in [
        (traits.read_only, TransmissionFlags::READ_ONLY),
        (traits.rotational, TransmissionFlags::ROTATIONAL),
        (traits.multi_connection, TransmissionFlags::CAN_MULTI_CONN),
        (writable, TransmissionFlags::SEND_FUA),
        (writable && traits.trim, TransmissionFlags::SEND_TRIM),
        (writable, TransmissionFlags::SEND_WRITE_ZEROES),
        (
            writable && traits.fast_zero,
            TransmissionFlags::SEND_FAST_ZERO,
        ),
    ] {
        if set {
            flags |= flag;
        }
    }
    flags
}
