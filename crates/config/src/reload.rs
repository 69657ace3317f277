//! From a running server's file to the next one: what changes, or why it cannot.

use crate::document::join;
use crate::plan::{Plan, Slot, add_tenant, add_volume, config, fresh_edits};
use crate::problem::Problem;
use crate::read::path;
use crate::server::{Drive, Server, Storage, Volume};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::{Edit, GroupId, SpaceId};

/// What a new file changes: all of it is to be put in force, or nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reload {
    /// For each drive, in the order of their names.
    pub drives: Vec<DriveReload>,
}

/// What a new file changes on one drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveReload {
    /// The plan from now on; what stays keeps its slot, what comes takes slots that were free before. Its `edits` are those of a
    /// fresh start.
    pub plan: Plan,
    /// What brings the running layer there: one [`Layer::change`](weir_core::Layer::change). Empty if nothing changes. A volume
    /// that goes must have no streams left, one that comes without a written size needs its [`Edit::SetSpace`].
    pub edits: Vec<Edit>,
    /// Volumes that come, by name.
    pub added: Vec<String>,
    /// Volumes that go, by name.
    pub removed: Vec<String>,
    /// Volumes whose contract changes, by name.
    pub changed: Vec<String>,
}

/// What it takes to go from `old`, whose drives run by `plans` (one for each, in any order), to `new`.
///
/// Contracts, capacities, volumes and tenants come, go and change while the server runs. Where it listens, what connections may
/// take, drives with their policies and shapes, and everything of a volume but its contract stay as they are until a restart.
///
/// # Errors
/// Everything in `new` that cannot be put in force while the server runs. Nothing of it is to be then.
pub fn reload(old: &Server, plans: &[Plan], new: &Server) -> Result<Reload, Vec<Problem>> {
    let mut fixed = Fixed {
        new,
        problems: Vec::new(),
    };
    fixed.server(old);
    let connections = old.limits.connections == new.limits.connections;
    for drive in &old.drives {
        match new.drive(&drive.name) {
            Some(now) => fixed.drive(drive, now, connections),
            None => fixed.refuse(&path("drive", &drive.name), "cannot go", DRIVES),
        }
    }
    for drive in &new.drives {
        if old.drive(&drive.name).is_none() {
            fixed.refuse(&path("drive", &drive.name), "cannot come", DRIVES);
        }
    }
    for volume in &new.volumes {
        if let Some(was) = old.volume(&volume.name) {
            fixed.volume(was, volume);
        }
    }
    for tenant in &new.tenants {
        let was = old.tenant(&tenant.name);
        if was.is_some_and(|was| was.drive != tenant.drive) {
            fixed.key(&path("tenant", &tenant.name), "drive");
        }
    }
    let mut drives = Vec::new();
    for drive in &new.drives {
        let plan = plans.iter().find(|p| p.drive == drive.name);
        match plan.map(|plan| drive_reload(old, plan, new, drive)) {
            Some(Ok(reload)) => drives.push(reload),
            Some(Err(problem)) => fixed.problems.push(problem),
            None => {}
        }
    }
    if fixed.problems.is_empty() {
        Ok(Reload { drives })
    } else {
        Err(fixed.problems)
    }
}

const RESTART: &str = "restart the server for it, or put it back";
const DRIVES: &str = "drives come and go with a restart only";

/// Finds what must not differ.
struct Fixed<'a> {
    new: &'a Server,
    problems: Vec<Problem>,
}

impl Fixed<'_> {
    fn refuse(&mut self, key: &str, what: &str, help: &str) {
        let message = format!("{what} while the server runs");
        let places = &self.new.places;
        self.problems
            .push(places.problem(key, message, Some(help.to_owned())));
    }

    fn key(&mut self, table: &str, key: &str) {
        self.refuse(&join(table, key), "cannot change", RESTART);
    }

    /// Refuses those keys of a table whose values differ.
    fn keys<const N: usize>(&mut self, table: &str, keys: [(&str, bool); N]) {
        for (key, same) in keys {
            if !same {
                self.key(table, key);
            }
        }
    }

    fn server(&mut self, old: &Server) {
        let (was, now) = (&old.listen, &self.new.listen);
        let keys = [
            ("nbd", was.nbd == now.nbd),
            ("metrics", was.metrics == now.metrics),
            ("socket_mode", was.socket_mode == now.socket_mode),
            ("socket_owner", was.socket_owner == now.socket_owner),
        ];
        self.keys("listen", keys);
        let (was, now) = (&old.limits, &self.new.limits);
        let keys = [
            ("connections", was.connections == now.connections),
            (
                "requests_per_connection",
                was.requests_per_connection == now.requests_per_connection,
            ),
            (
                "bytes_per_connection",
                was.bytes_per_connection == now.bytes_per_connection,
            ),
            (
                "unsent_per_connection",
                was.unsent_per_connection == now.unsent_per_connection,
            ),
            ("request_size", was.request_size == now.request_size),
            (
                "handshake_timeout",
                was.handshake_timeout == now.handshake_timeout,
            ),
            ("arena", was.arena == now.arena),
        ];
        self.keys("limits", keys);
        let (was, now) = (&old.test, &self.new.test);
        let keys = [
            ("power_cut", was.power_cut == now.power_cut),
            ("seed", was.seed == now.seed),
        ];
        self.keys("test", keys);
    }

    /// Sizes that follow from the number of connections are looked at if that stays; else it was said already.
    fn drive(&mut self, was: &Drive, now: &Drive, connections: bool) {
        let at = path("drive", &now.name);
        let tunables = was.policy.name();
        if now.policy.name() != tunables {
            self.key(&at, "policy");
        } else if now.policy != was.policy {
            self.key(&at, tunables);
        }
        if now.model == was.model {
            let keys = [
                ("queues", was.queues == now.queues),
                ("tags", was.tags == now.tags),
                ("max_transfer", was.max_transfer == now.max_transfer),
                ("rotational", was.rotational == now.rotational),
            ];
            self.keys(&at, keys);
        } else {
            self.key(&at, "model");
        }
        let (was, now) = (&was.limits, &now.limits);
        let keys = [
            ("volumes", was.volumes == now.volumes),
            ("tenants", was.tenants == now.tenants),
        ];
        let limits = format!("{at}.limits");
        self.keys(&limits, keys);
        if connections {
            let keys = [
                ("requests", was.requests == now.requests),
                ("scheduler_tags", was.scheduler_tags == now.scheduler_tags),
            ];
            self.keys(&limits, keys);
        }
    }

    fn volume(&mut self, was: &Volume, now: &Volume) {
        let at = path("volume", &now.name);
        let storage = match now.storage {
            Storage::File(_) => "file",
            Storage::Device(_) => "device",
            Storage::Memory => "memory",
            Storage::Model => "model",
        };
        let keys = [
            ("drive", was.drive == now.drive),
            (storage, was.storage == now.storage),
            ("size", was.size == now.size),
            ("read_only", was.read_only == now.read_only),
            ("cache", was.cache == now.cache),
            ("tenant", was.tenant == now.tenant),
        ];
        self.keys(&at, keys);
    }
}

/// What changes on a drive that stays. That everything else stays as well is checked elsewhere.
fn drive_reload(
    old: &Server,
    was: &Plan,
    new: &Server,
    drive: &Drive,
) -> Result<DriveReload, Problem> {
    let (volumes, tenants) = slots(was, new, drive)?;
    let mut plan = Plan {
        drive: was.drive.clone(),
        config: config(new, drive),
        edits: Vec::new(),
        volumes,
        tenants,
    };
    plan.edits = fresh_edits(new, &plan);
    let gone: Vec<&String> = was
        .volumes
        .keys()
        .filter(|v| !plan.volumes.contains_key(*v))
        .collect();
    let mut edits = Vec::new();
    for name in &gone {
        let slot = was.volumes[*name];
        edits.push(Edit::SetSpace {
            id: slot.space,
            size: None,
        });
        edits.push(Edit::RemoveGroup(slot.group));
    }
    let tenants = was
        .tenants
        .iter()
        .filter(|t| !plan.tenants.contains_key(t.0));
    edits.extend(tenants.map(|t| Edit::RemoveGroup(*t.1)));
    if old
        .drive(&drive.name)
        .is_some_and(|d| d.capacity != drive.capacity)
    {
        edits.push(Edit::SetCapacity(drive.capacity));
    }
    for tenant in new.tenants.iter().filter(|t| t.drive == drive.name) {
        match old.tenant(&tenant.name) {
            _ if !was.tenants.contains_key(&tenant.name) => edits.push(add_tenant(&plan, tenant)),
            Some(before) if before.contract == tenant.contract => {}
            _ => edits.push(Edit::SetContract {
                id: plan.tenants[&tenant.name],
                contract: tenant.contract,
            }),
        }
    }
    let (mut added, mut changed) = (Vec::new(), Vec::new());
    for volume in new.volumes_of(&drive.name) {
        match old.volume(&volume.name) {
            _ if !was.volumes.contains_key(&volume.name) => {
                edits.extend(add_volume(&plan, volume));
                added.push(volume.name.clone());
            }
            Some(before) if before.contract == volume.contract => {}
            _ => {
                edits.push(Edit::SetContract {
                    id: plan.volumes[&volume.name].group,
                    contract: volume.contract,
                });
                changed.push(volume.name.clone());
            }
        }
    }
    Ok(DriveReload {
        edits,
        added,
        removed: gone.into_iter().cloned().collect(),
        changed,
        plan,
    })
}

type Slots = (BTreeMap<String, Slot>, BTreeMap<String, GroupId>);

/// The slots of what stays, and free ones for what comes. Those of what goes stay empty until the next reload.
fn slots(was: &Plan, new: &Server, drive: &Drive) -> Result<Slots, Problem> {
    let limits = &was.config.limits;
    let taken: BTreeSet<u32> = was
        .tenants
        .values()
        .copied()
        .chain(was.volumes.values().map(|s| s.group))
        .map(|g| g.0)
        .collect();
    let spaces: BTreeSet<u32> = was.volumes.values().map(|s| s.space.0).collect();
    let mut groups = (1..limits.groups)
        .filter(|g| !taken.contains(g))
        .map(GroupId);
    let mut spaces = (0..limits.spaces)
        .filter(|s| !spaces.contains(s))
        .map(SpaceId);
    let full = |key: &str| {
        let at = format!("{}.limits.{key}", path("drive", &drive.name));
        let message = "no slot is left until what goes is gone".to_owned();
        let help =
            "remove in one reload what is to go, and add in the next what is to come".to_owned();
        new.places.problem(&at, message, Some(help))
    };
    let mut tenants = BTreeMap::new();
    for tenant in new.tenants.iter().filter(|t| t.drive == drive.name) {
        let slot = was.tenants.get(&tenant.name).copied();
        let slot = slot
            .or_else(|| groups.next())
            .ok_or_else(|| full("tenants"))?;
        tenants.insert(tenant.name.clone(), slot);
    }
    let mut volumes = BTreeMap::new();
    for volume in new.volumes_of(&drive.name) {
        let mut free = || {
            Some(Slot {
                group: groups.next()?,
                space: spaces.next()?,
            })
        };
        let slot = was.volumes.get(&volume.name).copied();
        let slot = slot.or_else(&mut free).ok_or_else(|| full("volumes"))?;
        volumes.insert(volume.name.clone(), slot);
    }
    Ok((volumes, tenants))
}
