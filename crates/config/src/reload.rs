//! From a running server's file to the next one: what changes, or why it cannot.

use crate::gateways::Gateways;
use crate::listen::{Limits, Listen};
use crate::manage::Manage;
use crate::notify::Wakes;
use crate::plan::{Plan, Slot, Terms, add_tenant, add_volume, config, fresh_edits};
use crate::problem::Problem;
use crate::server::{Cache, Drive, Server, Storage, Tenant, Volume};
use crate::text::{join, path, quoted};
use crate::units::{Size, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use weir_core::{Contract, Edit, GroupId, Knobs, SpaceId};

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
    /// that goes must have no streams left; one that comes without a written size, or has grown without one, needs its
    /// [`Edit::SetSpace`].
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
/// take, drives with their policies and shapes, and everything of a volume but its contract and its size, which may grow, stay as
/// they are until a restart. Whether a volume can have a larger size is for its storage to say.
///
/// # Errors
/// Everything in `new` that cannot be put in force while the server runs. Nothing of it is to be then.
pub fn reload(old: &Server, plans: &[Plan], new: &Server) -> Result<Reload, Vec<Problem>> {
    let mut fixed = Fixed {
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
        if let Some(was) = old.volume(&volume.name) {
            let at = path("volume", &volume.name);
            fixed.values(&at, &volume_values(was), &volume_values(volume));
            fixed.size(was, volume);
        } else {
            fixed.socket(volume);
        }
    }
    for tenant in &new.tenants {
        if let Some(was) = old.tenant(&tenant.name) {
            let value = |t: &Tenant| [("drive", quoted(&t.drive))];
            fixed.values(&path("tenant", &tenant.name), &value(was), &value(tenant));
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
/// The value of a key that is not in the file.
const NOT_SET: &str = "not set";
const TWO_RELOADS: &str =
    "split the change into two reloads: remove in the first, and add in the second";
const RESTART: &str = "restart the server to apply the change, or undo it";
const DRIVES: &str = "restart the server to add the drive, or remove it from the file";
const DRIVES_STAY: &str = "restart the server to remove the drive, or add it to the file again";

/// Keys, with those of the tables that they are in before them, and their values as texts.
type Value = (&'static str, String);

/// Finds what must not differ.
struct Fixed<'a> {
    old: &'a Server,
    new: &'a Server,
    problems: Vec<Problem>,
}

impl Fixed<'_> {
    fn refuse(&mut self, key: &str, what: &str, help: &str) {
        let message = format!("{what} while the server is running");
        let places = &self.new.places;
        self.problems
            .push(places.problem(key, message, Some(help.to_owned())));
    }

    /// Refuses a value that differs.
    fn changed(&mut self, key: &str, was: &str, now: &str) {
        let [from, to] = [was, now].map(|value| if value == "\"\"" { NOT_SET } else { value });
        let message = format!("cannot be changed while the server is running ({from} → {to})");
        let back = if self.old.is_written(key) {
            format!("set the value back to {from}")
        } else {
            "remove the key".to_owned()
        };
        let help = format!("restart the server to apply the change, or {back}");
        let places = &self.new.places;
        self.problems.push(places.problem(key, message, Some(help)));
    }

    /// Refuses the keys of a table whose values differ. One that is written in neither file follows from another, which is refused.
    fn values(&mut self, table: &str, was: &[Value], now: &[Value]) {
        for ((key, was), (_, now)) in was.iter().zip(now) {
            let path = key
                .split('.')
                .fold(table.to_owned(), |at, key| join(&at, key));
            let written = |server: &Server| server.places.keys.contains_key(&path);
            if was != now && (written(self.old) || written(self.new)) {
                self.changed(&path, was, now);
            }
        }
    }

    fn server(&mut self) {
        let (old, new) = (self.old, self.new);
        self.values(
            "listen",
            &listen_values(&old.listen),
            &listen_values(&new.listen),
        );
        self.values(
            "manage",
            &manage_values(&old.manage),
            &manage_values(&new.manage),
        );
        self.values(
            "gateways",
            &gateways_values(old.gateways.as_ref()),
            &gateways_values(new.gateways.as_ref()),
        );
        self.values(
            "limits",
            &limits_values(&old.limits),
            &limits_values(&new.limits),
        );
        let threads = |server: &Server| [("priority", quoted(server.priority.name()))];
        self.values("server", &threads(old), &threads(new));
    }

    /// A volume may grow: clients know of no less than what they were told.
    fn size(&mut self, was: &Volume, now: &Volume) {
        if let (Some(was), Some(size)) = (was.size, now.size)
            && size < was
        {
            let what = format!("cannot be reduced from {} to {}", Size(was), Size(size));
            self.refuse(&join(&path("volume", &now.name), "size"), &what, SHRINK);
        }
    }

    /// A socket is opened before the change is in force, so its path is free by then.
    fn socket(&mut self, comes: &Volume) {
        let others = self.old.volumes.iter();
        let mut holders = others.filter(|v| v.vhost.is_some() && v.vhost == comes.vhost);
        if let Some(holder) = holders.next() {
            let what = format!("cannot be taken over from {}", path("volume", &holder.name));
            self.refuse(&comes.vhost_key(), &what, TWO_RELOADS);
        }
    }

    fn drive(&mut self, was: &Drive, now: &Drive) {
        let at = path("drive", &now.name);
        if was.policy.word() != now.policy.word() {
            let (was, now) = (quoted(was.policy.word()), quoted(now.policy.word()));
            self.changed(&join(&at, "policy"), &was, &now);
        } else if was.policy != now.policy {
            // The tunables beside it, or what its file says.
            let tunables = join(&at, now.policy.elevator.kind().name);
            let key = if self.new.is_written(&tunables) || self.old.is_written(&tunables) {
                tunables
            } else {
                join(&at, "policy")
            };
            self.refuse(&key, "cannot be changed", RESTART);
        }
        if was.model == now.model {
            self.values(&at, &shape_values(was), &shape_values(now));
        } else {
            self.refuse(&join(&at, "model"), "cannot be changed", RESTART);
        }
        if was.path != now.path {
            self.refuse(&join(&at, "path"), "cannot be changed", RESTART);
        }
        let limits = join(&at, "limits");
        self.values(
            &limits,
            &drive_limits_values(was),
            &drive_limits_values(now),
        );
    }
}

fn text<T>(value: Option<T>, print: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NOT_SET.to_owned(), print)
}

fn listen_values(listen: &Listen) -> Vec<Value> {
    let nbd: Vec<String> = listen.nbd.iter().map(ToString::to_string).collect();
    vec![
        ("nbd", format!("{nbd:?}")),
        ("metrics", text(listen.metrics, |m| m.to_string())),
        ("socket_mode", format!("{:04o}", listen.socket_mode)),
        ("socket_owner", quoted(&listen.socket_owner.to_string())),
    ]
}

fn manage_values(manage: &Manage) -> Vec<Value> {
    let path = |path: &PathBuf| quoted(&path.display().to_string());
    vec![
        ("socket", text(manage.socket.as_ref(), path)),
        ("socket_mode", format!("{:04o}", manage.socket_mode)),
        ("socket_owner", quoted(&manage.socket_owner.to_string())),
        ("users", format!("{:?}", manage.users)),
        ("groups", format!("{:?}", manage.groups)),
        (
            "storage",
            text(manage.storage.as_ref(), |s| format!("{s:?}")),
        ),
        ("http", text(manage.http, |a| a.to_string())),
        ("token_file", text(manage.token_file.as_ref(), path)),
        ("manual", text(manage.manual.as_ref(), path)),
    ]
}

fn gateways_values(gateways: Option<&Gateways>) -> Vec<Value> {
    vec![
        ("etcd", text(gateways, |g| format!("{:?}", g.etcd))),
        ("prefix", text(gateways, |g| quoted(&g.prefix))),
        ("lease", text(gateways, |g| Time(g.lease).to_string())),
    ]
}

fn limits_values(limits: &Limits) -> Vec<Value> {
    vec![
        ("connections", limits.connections.to_string()),
        (
            "requests_per_connection",
            limits.requests_per_connection.to_string(),
        ),
        (
            "bytes_per_connection",
            Size(limits.bytes_per_connection).to_string(),
        ),
        (
            "unsent_per_connection",
            Size(limits.unsent_per_connection).to_string(),
        ),
        ("request_size", Size(limits.request_size.into()).to_string()),
        (
            "handshake_timeout",
            Time(limits.handshake_timeout).to_string(),
        ),
        ("arena", Size(limits.arena).to_string()),
    ]
}

fn shape_values(drive: &Drive) -> Vec<Value> {
    vec![
        ("queues", drive.queues.to_string()),
        ("tags", drive.tags.to_string()),
        ("max_transfer", Size(drive.max_transfer.into()).to_string()),
        ("rotational", drive.rotational.to_string()),
    ]
}

fn drive_limits_values(drive: &Drive) -> Vec<Value> {
    vec![
        ("requests", drive.limits.requests.to_string()),
        ("scheduler_tags", drive.limits.scheduler_tags.to_string()),
        ("volumes", drive.limits.volumes.to_string()),
        ("tenants", drive.limits.tenants.to_string()),
    ]
}

fn volume_values(volume: &Volume) -> Vec<Value> {
    let path = |path: &Path| quoted(&path.display().to_string());
    let (mut file, mut device, mut memory, mut model) = (None, None, None, None);
    let mut remote = None;
    match &volume.storage {
        Storage::File(at) => file = Some(path(at)),
        Storage::Device(at) => device = Some(path(at)),
        Storage::Nbd(at) => remote = Some(at),
        Storage::Memory => memory = Some("true".to_owned()),
        Storage::Model => model = Some("the drive's".to_owned()),
    }
    let same = |text| text;
    let (spin, sleep) = match volume.notify.wakes {
        Wakes::AtOnce => (None, None),
        Wakes::Spin(span) => (Some(span), None),
        Wakes::Sleep(span) => (None, Some(span)),
    };
    let cache = match volume.cache {
        Cache::Direct => "\"direct\"",
        Cache::Host => "\"host\"",
    };
    vec![
        ("drive", quoted(&volume.drive)),
        ("file", text(file, same)),
        ("device", text(device, same)),
        ("nbd", text(remote, |r| quoted(&r.text))),
        (
            "remote.connections",
            text(remote, |r| r.connections.to_string()),
        ),
        ("remote.requests", text(remote, |r| r.requests.to_string())),
        ("remote.wait", text(remote, |r| Time(r.wait).to_string())),
        (
            "remote.unflushed",
            text(remote, |r| Size(r.unflushed).to_string()),
        ),
        ("memory", text(memory, same)),
        ("model", text(model, same)),
        ("read_only", volume.read_only.to_string()),
        ("cache", cache.to_owned()),
        ("listen.vhost", text(volume.vhost.as_deref(), path)),
        ("listen.spin", text(spin, |s| Time(s).to_string())),
        ("listen.sleep", text(sleep, |s| Time(s).to_string())),
        ("listen.calls", quoted(volume.notify.calls.word())),
        ("listen.call_count", volume.notify.call_count.to_string()),
        (
            "listen.call_delay",
            Time(volume.notify.call_delay).to_string(),
        ),
        ("ublk_number", text(volume.ublk_number, |n| n.to_string())),
        ("tenant", text(volume.tenant.as_deref(), quoted)),
    ]
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
    // What follows from the contracts is worked out when the drive starts.
    plan.config.elevator = was.config.elevator.clone();
    let now = Terms::new(new, drive);
    plan.edits = fresh_edits(new, &plan, &now);
    // What is told of one contract may follow from others.
    let told = old.drive(&drive.name).map(|drive| Terms::new(old, drive));
    let (removed, mut edits) = removals(was, &plan);
    if old
        .drive(&drive.name)
        .is_some_and(|d| d.capacity != drive.capacity)
    {
        edits.push(Edit::SetCapacity(drive.capacity));
    }
    for tenant in new.tenants.iter().filter(|t| t.drive == drive.name) {
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
                if volume.size.is_some() && volume.size != was {
                    edits.push(Edit::SetSpace {
                        id: plan.volumes[&volume.name].space,
                        size: volume.size,
                    });
                }
                let written = (volume.contract, volume.knobs);
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

/// The edits that bring a group that stays from what it had to what it has now: none where nothing changed.
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

/// The volumes that go, and the edits that remove them and the tenants that go.
fn removals(was: &Plan, now: &Plan) -> (Vec<String>, Vec<Edit>) {
    let volumes = was.volumes.iter();
    let gone: Vec<_> = volumes.filter(|v| !now.volumes.contains_key(v.0)).collect();
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

type Slots = (BTreeMap<String, Slot>, BTreeMap<String, GroupId>);

/// The slots of what stays, and free ones for what comes. Those of what goes stay empty until the next reload.
fn slots(was: &Plan, new: &Server, drive: &Drive) -> Result<Slots, Problem> {
    let sizes = &was.config.sizes;
    let taken: BTreeSet<u32> = was
        .tenants
        .values()
        .copied()
        .chain(was.volumes.values().map(|s| s.group))
        .map(|g| g.0)
        .collect();
    let spaces: BTreeSet<u32> = was.volumes.values().map(|s| s.space.0).collect();
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
