//! Converts a configuration to the setups of shards and the exports for clients, for a start or a
//! reload.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_config::{Allow, DrivePlan, DriveReload, Id, Problem, Reload, Volume, VolumeTls, plan};
use weir_core::{Instant, Layer};

use crate::acceptor::{self, VolumeExport, VolumeLocation};
use crate::access::{AccessRule, VolumeAccess};
use crate::backend::{self, OpenError, Prepare, StorageOpener};
use crate::created::Created;
use crate::error::{ReloadError, StartError};
use crate::gateway::EtcdAccess;
use crate::shard::{
    DriveChange, DriveSetup, SPACES_MAX, ShardError, TenantTerms, VolumeSetup, VolumeTerms,
};
use crate::tls::{Certificates, TlsProblem};
use weir_config::os_error;

/// All parts of a configuration that are open.
#[derive(Debug, Default)]
pub(crate) struct OpenConfiguration {
    /// The setups of the drives of each shard.
    pub(crate) shards: Vec<Vec<DriveSetup>>,
    /// The plan and the place of each drive, in the order of the configuration.
    pub(crate) plans: Vec<DrivePlan>,
    pub(crate) places: Vec<VolumeLocation>,
    /// The exports of all volumes, sorted by name.
    pub(crate) exports: Vec<VolumeExport>,
    /// The image files that were created. They are removed again unless they are kept.
    pub(crate) created: Vec<Created>,
}

/// Opens every volume, and distributes the drives among `shards` shards.
pub(crate) fn open(
    config: &weir_config::Server,
    storage: &mut dyn FnMut(&Volume) -> std::io::Result<Box<dyn Prepare>>,
    shards: usize,
) -> Result<OpenConfiguration, StartError> {
    let mut opened = OpenConfiguration {
        shards: std::iter::repeat_with(Vec::new).take(shards).collect(),
        ..OpenConfiguration::default()
    };
    for (number, drive) in config.drives.iter().enumerate() {
        // Round-robin, so that the shards have about the same number of drives.
        let shard = number % shards;
        let place = VolumeLocation {
            shard,
            drive: opened.shards[shard].len(),
            // `export` sets the space of each volume.
            space: 0,
        };
        let plan = plan(config, &drive.name).ok_or_else(|| ShardError::NoPlan {
            drive: drive.name.clone(),
        })?;
        if plan.config.sizes.spaces > SPACES_MAX {
            return Err(StartError::Config(too_many_volumes(config, &drive.name)));
        }
        let mut volumes = Vec::new();
        for volume in config.volumes_of(&drive.name) {
            let mut setup = open_volume(config, volume, storage(volume))
                .map_err(|error| StartError::Config(storage_problem(config, volume, &error)))?;
            opened.created.extend(setup.storage.created());
            let storage = setup.storage.as_ref();
            let access = Arc::new(access(config, volume).map_err(StartError::Config)?);
            opened
                .exports
                .push(export(config, volume, storage, (place, &plan), access));
            volumes.push(setup);
        }
        opened.shards[shard].push(DriveSetup {
            name: drive.name.clone(),
            plan: plan.clone(),
            model: drive.model.clone().map(|model| (model, drive.path)),
            volumes,
            tape: None,
        });
        opened.plans.push(plan);
        opened.places.push(place);
    }
    opened.exports.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(opened)
}

/// The changes of a reload.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The change of each affected drive, with the number of its shard.
    pub(crate) changes: Vec<(usize, DriveChange)>,
    /// The exports of new volumes, which clients can choose once the change is in force.
    pub(crate) exports: Vec<VolumeExport>,
    /// The rules for clients of all volumes, by the name of the volume.
    pub(crate) access: BTreeMap<String, Arc<VolumeAccess>>,
    /// The certificates for TLS, if there are any.
    pub(crate) certificates: Option<Certificates>,
    /// The image files that were created for the reload.
    pub(crate) created: Vec<Created>,
}

/// Returns the changes of each shard. This opens new volumes, creates their images if necessary,
/// and ensures that the core will not refuse the change.
pub(crate) fn changes(
    config: &weir_config::Server,
    old: &weir_config::Server,
    reload: Reload,
    storage: StorageOpener,
    places: &[VolumeLocation],
) -> Result<Changes, ReloadError> {
    let mut all = Changes {
        certificates: certificates(config).map_err(|p| ReloadError::Refused(vec![p]))?,
        ..Changes::default()
    };
    for reload in reload.drives {
        check(&reload)?;
        // A reload cannot add or remove drives, so both configurations contain the same names.
        let number = old.drives.iter().position(|d| d.name == reload.plan.drive);
        let Some(&place) = number.and_then(|n| places.get(n)) else {
            let drive = reload.plan.drive;
            return Err(ShardError::NewDrive { drive }.into());
        };
        let mut change = DriveChange {
            drive: place.drive,
            added: Vec::new(),
            terms: BTreeMap::new(),
            sizes: BTreeMap::new(),
            in_use: false,
            patience: Duration::ZERO,
            reload,
        };
        for volume in config.volumes_of(&change.reload.plan.drive) {
            let access = access(config, volume).map_err(|p| ReloadError::Refused(vec![p]))?;
            let access = Arc::new(access);
            all.access.insert(volume.name.clone(), Arc::clone(&access));
            change
                .terms
                .insert(volume.name.clone(), terms(config, volume));
            if change.reload.added.contains(&volume.name) {
                let mut setup = open_volume(config, volume, storage(volume)).map_err(|error| {
                    ReloadError::Volume(storage_problem(config, volume, &error))
                })?;
                // If a later volume cannot be opened, these are dropped, and the images are removed
                // again.
                all.created.extend(setup.storage.created());
                let storage = setup.storage.as_ref();
                let plan = &change.reload.plan;
                all.exports
                    .push(export(config, volume, storage, (place, plan), access));
                change.added.push(setup);
            } else {
                change.sizes.insert(volume.name.clone(), volume.size);
            }
        }
        all.changes.push((place.shard, change));
    }
    Ok(all)
}

/// Returns the problem of a drive that is configured for more volumes than a shard can number.
pub(crate) fn too_many_volumes(config: &weir_config::Server, drive: &str) -> Problem {
    let key = format!("drive.{drive}.limits.volumes");
    config.problem(&key, format!("must be at most {SPACES_MAX}"), None)
}

/// Returns the problem of a volume whose storage cannot be opened.
pub(crate) fn storage_problem(
    config: &weir_config::Server,
    volume: &Volume,
    error: &std::io::Error,
) -> Problem {
    // If no process holds the lock or the claim, this server itself holds it, provided that another
    // of its volumes uses the same storage.
    let inner = error.get_ref().and_then(|e| e.downcast_ref());
    let own = inner.is_some_and(OpenError::is_held_by_unknown);
    let mut others = config.volumes.iter().filter(|v| v.name != volume.name);
    if let Some(other) = others.find(|other| own && backend::shares(volume, other)) {
        return shared_problem(config, volume, other);
    }
    Problem {
        exceeds: error.kind() == std::io::ErrorKind::StorageFull,
        ..config.storage_problem(volume, os_error::message(error))
    }
}

/// Returns the problem of a volume that uses the storage of another volume.
pub(crate) fn shared_problem(
    config: &weir_config::Server,
    volume: &Volume,
    other: &Volume,
) -> Problem {
    let what = format!(
        "is already used by volume.{} under another name",
        other.name
    );
    Problem {
        help: Some(
            "use a different storage; two volumes in one would overwrite each other's data"
                .to_owned(),
        ),
        ..config.storage_problem(volume, what)
    }
}

/// Checks that a layer accepts the whole plan, on a layer of its own. A refusal is thus found
/// before anything has changed.
pub(crate) fn check(reload: &DriveReload) -> Result<(), ReloadError> {
    if reload.edits.is_empty() {
        return Ok(());
    }
    let plan = &reload.plan;
    let drive = || plan.drive.clone();
    let mut layer = Layer::new(plan.config.clone()).map_err(|error| ShardError::Core {
        drive: drive(),
        error,
    })?;
    match layer.change(Instant::ZERO, &plan.edits) {
        Ok(_) => Ok(()),
        Err(error) => Err(ReloadError::Promises {
            drive: drive(),
            error,
        }),
    }
}

fn open_volume(
    config: &weir_config::Server,
    volume: &Volume,
    storage: std::io::Result<Box<dyn Prepare>>,
) -> std::io::Result<VolumeSetup> {
    Ok(VolumeSetup {
        name: volume.name.clone(),
        terms: terms(config, volume),
        storage: storage?,
        unsynced: false,
    })
}

fn terms(config: &weir_config::Server, volume: &Volume) -> VolumeTerms {
    let tenant = volume
        .tenant
        .as_deref()
        .and_then(|name| config.tenant(name));
    VolumeTerms {
        contract: volume.contract,
        tenant: tenant.map(|tenant| TenantTerms {
            name: tenant.name.clone(),
            contract: tenant.contract,
        }),
        shared: volume.shared.is_some(),
    }
}

/// Returns the export of a volume, from which front ends answer the handshakes of clients.
fn export(
    config: &weir_config::Server,
    volume: &Volume,
    storage: &dyn Prepare,
    (place, plan): (VolumeLocation, &DrivePlan),
    access: Arc<VolumeAccess>,
) -> VolumeExport {
    let space = plan.volumes[&volume.name].space.0;
    VolumeExport {
        name: volume.name.clone(),
        size: storage.size(),
        traits: storage.traits(),
        rotational: plan.config.drive.rotational,
        request_size: config.limits.request_size,
        queues: plan.config.drive.queues,
        tags: plan.config.drive.tags,
        max_transfer: plan.config.drive.max_transfer,
        place: VolumeLocation { space, ..place },
        notify: volume.notify,
        promise: promise(config, volume),
        access,
    }
}

/// Returns the rules for clients of a volume, with the numbers of users and groups.
pub(crate) fn access(
    config: &weir_config::Server,
    volume: &Volume,
) -> Result<VolumeAccess, Problem> {
    let rule = |(at, allow): (usize, &Allow)| {
        let number = |id: &Id, kind, table| {
            acceptor::number(id, kind, table).map_err(|(what, help)| {
                let key = format!("volume.{}.allow[{at}]", volume.name);
                config.problem(&key, what, (!help.is_empty()).then_some(help))
            })
        };
        Ok(match allow {
            Allow::Certificate(name) => AccessRule::Certificate(name.clone()),
            Allow::User(id) => AccessRule::User(number(id, "user", "/etc/passwd")?),
            Allow::Group(id) => AccessRule::Group(number(id, "group", "/etc/group")?),
            Allow::Address(network) => AccessRule::Address(*network),
        })
    };
    Ok(VolumeAccess {
        tls_required: volume.tls == VolumeTls::Required,
        allow: volume
            .allow
            .iter()
            .enumerate()
            .map(rule)
            .collect::<Result<_, _>>()?,
    })
}

/// Reads the certificates for TLS, if the configuration has any.
pub(crate) fn certificates(config: &weir_config::Server) -> Result<Option<Certificates>, Problem> {
    let tls = config.listen.tls.as_ref();
    let read = tls.map(Certificates::read).transpose();
    read.map_err(|problem| tls_problem(config, problem))
}

/// Checks the certificates and the password for etcd, if the configuration has gateways.
pub(crate) fn etcd(config: &weir_config::Server) -> Result<(), Problem> {
    let access = config.gateways.as_ref().map(EtcdAccess::new);
    let checked = access.map_or(Ok(()), |access| access.check());
    checked.map_err(|(key, what)| config.problem(key, what, None))
}

/// Returns the problem of certificates that cannot be used.
pub(crate) fn tls_problem(config: &weir_config::Server, problem: TlsProblem) -> Problem {
    let help = (!problem.help.is_empty()).then_some(problem.help);
    config.problem(problem.key, problem.what, help)
}

/// Returns the key of the promise by which places for connections are reserved for a volume. This
/// is the volume's own contract if it promises something, and otherwise its tenant's.
pub(crate) fn promise(config: &weir_config::Server, volume: &Volume) -> Option<String> {
    if volume.is_promised() {
        return Some(format!("volume.{}", volume.name));
    }
    let tenant = config.tenant(volume.tenant.as_deref()?)?;
    tenant
        .is_promised()
        .then(|| format!("tenant.{}", tenant.name))
}
