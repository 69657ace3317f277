//! Reload: the step from a running server's file to a changed file, or the reasons why a restart is
//! needed.

use crate::field::{Values, differences};
use crate::key::{GATEWAYS, contract_keys};
use crate::plan::{
    CoreTerms, DrivePlan, VolumeSlot, add_tenant, add_volume, config, fresh_edits, setup,
};
use crate::problem::Problem;
use crate::read::SHAPE_KEYS;
use crate::server::{Server, ServerDrive, Volume};
use crate::text::{join, path, quoted};
use crate::units::ByteSize;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::{Contract, Edit, GroupId, Knobs, SpaceId};

/// The changes of a new file. They are applied completely or not at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reload {
    /// The changes of each drive, sorted by the drive's name.
    pub drives: Vec<DriveReload>,
}

/// The changes of a new file on one drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveReload {
    /// The plan after the reload. Tenants and volumes that remain keep their slots, and new ones
    /// get slots that were free before. Its `edits` are those of a start.
    pub plan: DrivePlan,
    /// The edits that bring the running layer to the new plan with one
    /// [`Layer::change`](weir_core::Layer::change). Empty if nothing changes. A volume that is
    /// removed must have no streams left. A volume without a written size that is added or has
    /// grown still needs its [`Edit::SetSpace`].
    pub edits: Vec<Edit>,
    /// The names of the volumes that are added.
    pub added: Vec<String>,
    /// The names of the volumes that are removed.
    pub removed: Vec<String>,
    /// The names of the volumes whose contract changes.
    pub changed: Vec<String>,
}

/// Returns the changes from `old` to `new`. `plans` has the present plan of each drive of `old`, in
/// any order.
///
/// While the server runs, contracts and capacities can change, volumes and tenants can be added and
/// removed, volumes can grow, their keys `ublk`, `shared`, `tls` and `allow` can change, and so can
/// the certificates for TLS. Listeners, limits on connections, drives with their policies and
/// shapes, and all other keys of a volume need a restart. Whether a volume can grow also depends on
/// its storage, which is not checked here.
///
/// # Errors
/// Everything in `new` that needs a restart. In that case, no part of `new` may be applied.
pub fn reload(old: &Server, plans: &[DrivePlan], new: &Server) -> Result<Reload, Vec<Problem>> {
    let mut fixed = RestartChecks {
        old,
        new,
        problems: Vec::new(),
    };
    fixed.server();
    for drive in &new.drives {
        match old.drive(&drive.name) {
            Some(was) => fixed.drive(was, drive),
            None => fixed.refuse(&path("drive", &drive.name), "cannot be added", DRIVES),
        }
    }
    for drive in &old.drives {
        if new.drive(&drive.name).is_none() {
            fixed.refuse(
                &path("drive", &drive.name),
                "cannot be removed",
                DRIVES_STAY,
            );
        }
    }
    for volume in &new.volumes {
        match old.volume(&volume.name) {
            // Of thousands of volumes, most are unchanged, and this comparison skips them quickly.
            Some(was) if was == volume => {}
            Some(was) => {
                let at = path("volume", &volume.name);
                fixed.values(&at, [was.values(), volume.values()], &LIVE);
                fixed.size(was, volume);
            }
            // Of a new volume, only the path of its socket can conflict with the running server.
            None => fixed.socket(volume),
        }
    }
    for tenant in &new.tenants {
        if let Some(was) = old.tenant(&tenant.name) {
            let at = path("tenant", &tenant.name);
            fixed.values(&at, [was.values(), tenant.values()], &[]);
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
        return Ok(Reload { drives });
    }
    fixed.problems.sort_by_key(|p| (p.line, p.column));
    Err(fixed.problems)
}

const SHRINK: &str = "add a smaller volume, copy the data, and remove this one; clients may have written beyond the new end";
/// The text for the value of a key that is not in the file.
const NOT_SET: &str = "not set";
const TWO_RELOADS: &str =
    "split the change into two reloads: remove in the first, and add in the second";
const RESTART: &str = "restart the server to apply the change, or undo it";
const DRIVES: &str = "restart the server to add the drive, or remove it from the file";
const DRIVES_STAY: &str = "restart the server to remove the drive, or add it to the file again";

/// The keys of volumes that a running server can change, in addition to those of contracts. The
/// rule for sizes is checked separately.
const LIVE: [&str; 5] = ["size", "ublk", "shared", "tls", "allow"];

/// Collects the changes that need a restart.
struct RestartChecks<'a> {
    old: &'a Server,
    new: &'a Server,
    problems: Vec<Problem>,
}

impl RestartChecks<'_> {
    fn refuse(&mut self, key: &str, what: &str, help: &str) {
        let message = format!("{what} while the server is running");
        let places = &self.new.places;
        self.problems
            .push(places.problem(key, message, Some(help.to_owned())));
    }

    /// Reports a value that needs a restart.
    fn changed(&mut self, key: &str, from: &str, to: &str) {
        let message = format!("cannot be changed while the server is running ({from} → {to})");
        // If the old value was a default, removing the key restores it.
        let back = if self.old.is_written(key) {
            format!("set the value back to {from}")
        } else {
            "remove the key".to_owned()
        };
        let help = format!("restart the server to apply the change, or {back}");
        let places = &self.new.places;
        self.problems.push(places.problem(key, message, Some(help)));
    }

    /// Reports the keys of a table whose values differ. Contracts and the keys in `except` are left
    /// out, because they can change or are compared separately. A key that is in neither file has a
    /// default that follows from another key. The problem is reported for that key.
    fn values(&mut self, table: &str, [mut was, mut now]: [Values; 2], except: &[&str]) {
        for values in [&mut was, &mut now] {
            values
                .retain(|(key, _)| !except.contains(key) && !contract_keys().any(|of| of == *key));
        }
        for (key, was, now) in differences(table, was, now) {
            if self.old.is_written(&key) || self.new.is_written(&key) {
                let [was, now] =
                    [was, now].map(|value| value.map_or_else(|| NOT_SET.to_owned(), |v| v.shown()));
                self.changed(&key, &was, &now);
            }
        }
    }

    fn server(&mut self) {
        let both = [self.old, self.new];
        // `insecure` permits an address. The addresses themselves are compared. A handshake uses
        // the certificates that are in force when TLS begins.
        let live = ["insecure", "tls"];
        self.values("listen", both.map(|s| s.listen.values()), &live);
        self.values("manage", both.map(|s| s.manage.values()), &[]);
        let gateways = both.map(|s| match &s.gateways {
            Some(gateways) => gateways.values(),
            None => GATEWAYS.unset(),
        });
        self.values("gateways", gateways, &[]);
        self.values("limits", both.map(|s| s.limits.values()), &[]);
        self.values(
            "server",
            both.map(|s| s.process.values()),
            &["remove_in_use"],
        );
    }

    /// Reports a smaller size. Clients know the old size, and may have written beyond the new end.
    fn size(&mut self, was: &Volume, now: &Volume) {
        if let (Some(was), Some(size)) = (was.size, now.size)
            && size < was
        {
            let what = format!(
                "cannot be reduced from {} to {}",
                ByteSize(was),
                ByteSize(size)
            );
            self.refuse(&join(&path("volume", &now.name), "size"), &what, SHRINK);
        }
    }

    /// Reports a socket whose path another volume holds. New sockets are opened before the change
    /// is applied, so the old socket is still there.
    fn socket(&mut self, comes: &Volume) {
        let others = self.old.volumes.iter();
        let mut holders = others.filter(|v| v.vhost.is_some() && v.vhost == comes.vhost);
        if let Some(holder) = holders.next() {
            let what = format!("cannot be taken over from {}", path("volume", &holder.name));
            self.refuse(&comes.vhost_key(), &what, TWO_RELOADS);
        }
    }

    fn drive(&mut self, was: &ServerDrive, now: &ServerDrive) {
        let at = path("drive", &now.name);
        if was.policy.word() != now.policy.word() {
            let (was, now) = (quoted(was.policy.word()), quoted(now.policy.word()));
            self.changed(&join(&at, "policy"), &was, &now);
        } else if was.policy != now.policy {
            // The difference is in the tunables of the drive's table, or in the policy's file.
            let tunables = join(&at, now.policy.elevator.kind().name);
            let key = if self.new.is_written(&tunables) || self.old.is_written(&tunables) {
                tunables
            } else {
                join(&at, "policy")
            };
            self.refuse(&key, "cannot be changed", RESTART);
        }
        // These keys are compared above or below, or can be changed.
        let mut except = vec!["policy", "capacity", "model", "path"];
        if was.model != now.model {
            self.refuse(&join(&at, "model"), "cannot be changed", RESTART);
            // The shape of a model follows from the model, so it would only repeat the problem.
            except.extend(SHAPE_KEYS);
        }
        if was.path != now.path {
            self.refuse(&join(&at, "path"), "cannot be changed", RESTART);
        }
        self.values(&at, [was.values(), now.values()], &except);
    }
}

/// Returns the changes on a drive that remains. [`RestartChecks`] checks that nothing else differs.
fn drive_reload(
    old: &Server,
    was: &DrivePlan,
    new: &Server,
    drive: &ServerDrive,
) -> Result<DriveReload, Problem> {
    let (volumes, tenants) = slots(was, new, drive)?;
    let setting = setup(new, drive);
    let now = CoreTerms::of(&setting, new, drive);
    let mut plan = DrivePlan {
        drive: was.drive.clone(),
        config: config(new, drive, setting),
        edits: Vec::new(),
        volumes,
        tenants,
    };
    // The elevator's tunables that are derived from contracts are computed only when the drive
    // starts.
    plan.config.elevator = was.config.elevator.clone();
    plan.edits = fresh_edits(new, &plan, &now);
    // Under some policies, the contract for the core follows from the contracts of all groups. All
    // of them are therefore compared in the form for the core.
    let before = old.drive(&drive.name);
    let told = before.map(|drive| CoreTerms::of(&setup(old, drive), old, drive));
    let (removed, mut edits) = removals(was, &plan);
    if before.is_some_and(|d| d.capacity != drive.capacity) {
        edits.push(Edit::SetCapacity(drive.capacity));
    }
    for tenant in new.tenants_of(&drive.name) {
        if !was.tenants.contains_key(&tenant.name) {
            edits.extend(add_tenant(&plan, &now, tenant));
            continue;
        }
        let before = told.as_ref().and_then(|t| t.tenants.get(&tenant.name));
        let id = plan.tenants[&tenant.name];
        edits.extend(changed_terms(id, before, now.tenants[&tenant.name]));
    }
    let (mut added, mut changed) = (Vec::new(), Vec::new());
    for volume in new.volumes_of(&drive.name) {
        match old.volume(&volume.name) {
            _ if !was.volumes.contains_key(&volume.name) => {
                edits.extend(add_volume(&plan, &now, volume));
                added.push(volume.name.clone());
            }
            before => {
                let id = plan.volumes[&volume.name].group;
                let told = told.as_ref().and_then(|t| t.volumes.get(&volume.name));
                edits.extend(changed_terms(id, told, now.volumes[&volume.name]));
                let was = before.and_then(|b| b.size);
                // A size that the file does not state is known only to the server, which adds its
                // edit.
                if volume.size.is_some() && volume.size != was {
                    edits.push(Edit::SetSpace {
                        id: plan.volumes[&volume.name].space,
                        size: volume.size,
                    });
                }
                let written = (volume.contract, volume.knobs);
                // The list has the volumes whose own keys differ, not those whose contract for the
                // core follows from other volumes.
                if before.is_none_or(|b| (b.contract, b.knobs) != written) {
                    changed.push(volume.name.clone());
                }
            }
        }
    }
    Ok(DriveReload {
        plan,
        edits,
        added,
        removed,
        changed,
    })
}

/// Returns the edits that change the contract and knobs of a group that remains. There are none if
/// nothing changed.
fn changed_terms(
    id: GroupId,
    before: Option<&(Contract, Knobs)>,
    (contract, knobs): (Contract, Knobs),
) -> impl Iterator<Item = Edit> {
    let other_contract = before.is_none_or(|b| b.0 != contract);
    let other_knobs = before.is_none_or(|b| b.1 != knobs);
    let contract = other_contract.then_some(Edit::SetContract { id, contract });
    let knobs = other_knobs.then_some(Edit::SetKnobs { id, knobs });
    contract.into_iter().chain(knobs)
}

/// Returns the names of the volumes that are removed, and the edits that remove them and the
/// removed tenants.
fn removals(was: &DrivePlan, now: &DrivePlan) -> (Vec<String>, Vec<Edit>) {
    let volumes = was.volumes.iter();
    let gone: Vec<_> = volumes.filter(|v| !now.volumes.contains_key(v.0)).collect();
    // A tenant can be removed only when its volumes are removed.
    let mut edits = Vec::new();
    for (_, slot) in &gone {
        edits.push(Edit::SetSpace {
            id: slot.space,
            size: None,
        });
        edits.push(Edit::RemoveGroup(slot.group));
    }
    let tenants = was.tenants.iter();
    let tenants = tenants.filter(|t| !now.tenants.contains_key(t.0));
    edits.extend(tenants.map(|t| Edit::RemoveGroup(*t.1)));
    (gone.into_iter().map(|v| v.0.clone()).collect(), edits)
}

/// The slots of volumes and the groups of tenants, by name.
type Slots = (BTreeMap<String, VolumeSlot>, BTreeMap<String, GroupId>);

/// Returns the present slots of volumes and tenants that remain, and free slots for new ones. The
/// slots of removed ones stay free until the next reload, because they are still occupied while
/// this one is prepared.
fn slots(was: &DrivePlan, new: &Server, drive: &ServerDrive) -> Result<Slots, Problem> {
    let sizes = &was.config.sizes;
    let taken: BTreeSet<u32> = was
        .tenants
        .values()
        .copied()
        .chain(was.volumes.values().map(|s| s.group))
        .map(|g| g.0)
        .collect();
    let spaces: BTreeSet<u32> = was.volumes.values().map(|s| s.space.0).collect();
    // Group 0 is the root.
    let mut groups = (1..sizes.groups)
        .filter(|g| !taken.contains(g))
        .map(GroupId);
    let mut spaces = (0..sizes.spaces)
        .filter(|s| !spaces.contains(s))
        .map(SpaceId);
    let full = |key: &str| {
        let at = format!("{}.limits.{key}", path("drive", &drive.name));
        let message = format!(
            "too small for this reload: its removed {key} occupy their places until it is complete"
        );
        new.places
            .problem(&at, message, Some(TWO_RELOADS.to_owned()))
    };
    let mut tenants = BTreeMap::new();
    for tenant in new.tenants_of(&drive.name) {
        let slot = was.tenants.get(&tenant.name).copied();
        let slot = slot
            .or_else(|| groups.next())
            .ok_or_else(|| full("tenants"))?;
        tenants.insert(tenant.name.clone(), slot);
    }
    let mut volumes = BTreeMap::new();
    for volume in new.volumes_of(&drive.name) {
        let mut free = || {
            Some(VolumeSlot {
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
