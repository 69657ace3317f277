//! Reading of the file for `weir apply`.

use super::{Draft, listen, named, policy, volume};
use crate::Policy;
use crate::document::{Document, KeyEntry, ShapedTable, TomlTable};
use crate::host::{Cgroup, CgroupContract, KernelDrive, Queue, UNITS};
use crate::key::{APPLY, APPLY_DRIVE, APPLY_TENANT, APPLY_VOLUME, DriveLimits, QUEUE};
use crate::measured;
use crate::profile;
use crate::server::{Server, ServerDrive as ServedDrive, Tenant, Volume};
use crate::storage::{Cache, Storage, block};
use crate::terms::{capacity, contract, knobs};
use crate::text::{path, quoted};
use crate::tunable;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A tenant or a volume with its cgroup.
struct CgroupDraft {
    /// A volume in memory with the contract, for the checks of contracts.
    volume: Volume,
    cgroup: Option<Cgroup>,
    prio_class: Option<&'static str>,
}

/// Reads the drives with their cgroups. The draft has the same contracts on volumes in memory,
/// which are checked like those of a server.
pub(crate) fn host<'a>(doc: &mut Document<'a>, map: &'a TomlTable) -> (Draft, Vec<KernelDrive>) {
    let root = ShapedTable::root(map, &APPLY);
    doc.check_keys(&root, APPLY.name, &APPLY.names());
    let mut broken = BTreeSet::new();
    let mut drives = named(doc, &root, "drive", &mut broken, drive);
    let tenants = named(doc, &root, "tenant", &mut broken, |doc, name, entry| {
        let table = entry.table(doc, &APPLY_TENANT);
        cgroup(doc, name, &entry.path, table.as_ref(), false)
    });
    let volumes = named(doc, &root, "volume", &mut broken, |doc, name, entry| {
        let table = entry.table(doc, &APPLY_VOLUME);
        cgroup(doc, name, &entry.path, table.as_ref(), true)
    });
    if drives.is_empty() && root.entry("drive").is_none() {
        let help = "add one, for example [drive.fast] with device = \"/dev/disk/by-id/...\"";
        doc.report_span(&(0..0), "drive", "the file needs at least one drive", help);
    }
    devices_differ(doc, &drives);
    cgroups_differ(doc, &tenants, &volumes);
    for drive in &mut drives {
        members(drive, &tenants, &volumes);
    }
    let server = in_memory(&drives, &tenants, &volumes);
    (Draft { server, broken }, drives)
}

fn drive<'a>(doc: &mut Document<'a>, name: &str, entry: &KeyEntry<'a>) -> KernelDrive {
    let mut drive = KernelDrive {
        name: name.to_owned(),
        device: PathBuf::new(),
        policy: Policy::none(),
        capacity: None,
        model: None,
        queue: Queue::default(),
        members: Vec::new(),
    };
    let Some(table) = entry.table_and(doc, &APPLY_DRIVE, tunable::and_tables) else {
        return drive;
    };
    let device = doc.required(&table, "device", "set device = \"/dev/disk/by-id/...\"");
    drive.device = device
        .and_then(|e| listen::absolute(doc, &e))
        .unwrap_or_default();
    let help = "set policy = \"bfq\", or another policy of Linux";
    // The default of a server, `contract`, is not a policy of the kernel, so the key is required
    // here.
    if doc.required(&table, "policy", help).is_some() {
        drive.policy = policy::policy(doc, &table);
    }
    drive.capacity = (table.entry("capacity")).and_then(|e| capacity(doc, &e));
    drive.model = (table.entry("model")).and_then(|e| profile::model(doc, &e));
    // A stated capacity takes precedence over that of the model.
    if let (None, Some(model)) = (drive.capacity, &drive.model) {
        drive.capacity = measured::worst_case_capacity(model);
    }
    if let Some(table) = table.entry("queue").and_then(|e| e.table(doc, &QUEUE)) {
        drive.queue = Queue::read(doc, &table);
    }
    drive
}

fn cgroup<'a>(
    doc: &mut Document<'a>,
    name: &str,
    at: &str,
    table: Option<&ShapedTable<'a>>,
    is_volume: bool,
) -> CgroupDraft {
    let mut read = CgroupDraft {
        volume: Volume {
            name: name.to_owned(),
            storage: Storage::Memory,
            // The size has no meaning here, but a volume in memory must have one.
            size: Some(block(&Storage::Memory, Cache::Direct)),
            ..Volume::default()
        },
        cgroup: None,
        prio_class: None,
    };
    let Some(table) = table else { return read };
    read.volume.drive = volume::drive_name(doc, table);
    let before = doc.problem_count();
    let path = table.entry("cgroup").and_then(|e| cgroup_path(doc, &e));
    let unit = table.entry("unit").and_then(|e| unit_name(doc, &e));
    read.cgroup = match (path, unit) {
        (Some(path), None) => Some(Cgroup::Path(path)),
        (None, Some(unit)) => Some(Cgroup::Unit(unit)),
        // A wrong cgroup or unit was already reported.
        (None, None) if doc.problem_count() == before => {
            let help = "set cgroup = \"/alpha\" or unit = \"alpha.service\"";
            doc.report_span(&table.span, at, "a cgroup or a unit is missing", help);
            None
        }
        (Some(_), Some(_)) => {
            let what = "cannot have both a cgroup and a unit";
            doc.report_span(&table.span, at, what, "remove one of the two");
            None
        }
        _ => None,
    };
    if is_volume {
        read.volume.tenant = volume::tenant_name(doc, table);
    }
    let classes = ["no-change", "promote-to-rt", "restrict-to-be", "idle"];
    read.prio_class = table.entry("prio_class").and_then(|e| e.word(doc, classes));
    read.volume.contract = contract(doc, table);
    read.volume.knobs = knobs(doc, table);
    read
}

/// Reads the path of a cgroup other than the root.
fn cgroup_path(doc: &mut Document<'_>, entry: &KeyEntry<'_>) -> Option<String> {
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
    entry.parsed(doc, ("a cgroup's path", "\"/alpha\""), |text| {
        let parts = text.strip_prefix('/').map(|rest| rest.split('/'));
        if parts.is_some_and(|mut parts| parts.all(is_part)) {
            return Ok(text.to_owned());
        }
        let what = format!("{} is not the path of a cgroup", quoted(text));
        let help = "write the path below the cgroup mount, for example \"/alpha/beta\"; the root cgroup cannot have a contract";
        Err((what, help))
    })
}

/// Reads the name of a systemd unit that has a cgroup.
fn unit_name(doc: &mut Document<'_>, entry: &KeyEntry<'_>) -> Option<String> {
    let permitted = |b: u8| b.is_ascii_alphanumeric() || b":-_.\\@".contains(&b);
    entry.parsed(doc, ("a unit's name", "\"alpha.service\""), |text| {
        let stem = UNITS.iter().find_map(|suffix| text.strip_suffix(suffix));
        // `-.slice` is the root slice, whose cgroup is the root.
        let named = stem.is_some_and(|stem| !stem.is_empty()) && text != "-.slice";
        if named && text.bytes().all(permitted) {
            return Ok(text.to_owned());
        }
        let what = format!("{} is not a unit with a cgroup", quoted(text));
        Err((
            what,
            "use a service, a scope or a slice, for example \"alpha.service\"",
        ))
    })
}

/// Reports two drives on one device. Different links to one device are recognised later, on the
/// host.
fn devices_differ(doc: &mut Document<'_>, drives: &[KernelDrive]) {
    for (place, drive) in drives.iter().enumerate() {
        let other = drives[..place].iter().find(|d| d.device == drive.device);
        // A missing device was already reported, and the path is then empty.
        if let Some(other) = other.filter(|_| !drive.device.as_os_str().is_empty()) {
            let at = format!("{}.device", path("drive", &drive.name));
            let what = format!("is already the device of {}", path("drive", &other.name));
            doc.report_key(&at, what, "merge the two drives; a device has one policy");
        }
    }
}

/// Reports cgroups with two contracts on a drive, and cgroups that are not inside the cgroup of
/// their tenant.
fn cgroups_differ(doc: &mut Document<'_>, tenants: &[CgroupDraft], volumes: &[CgroupDraft]) {
    let tenants = tenants.iter().map(|t| ("tenant", t));
    let all: Vec<(&str, &CgroupDraft)> = tenants
        .chain(volumes.iter().map(|v| ("volume", v)))
        .collect();
    let mut users: BTreeMap<(&str, &Cgroup), (&str, &str)> = BTreeMap::new();
    for (kind, read) in &all {
        let Some(cgroup) = &read.cgroup else { continue };
        let user = (*kind, read.volume.name.as_str());
        // A cgroup can have a contract on each of several drives.
        let first = users.entry((&read.volume.drive, cgroup)).or_insert(user);
        let first = *first;
        if first != user {
            let what = format!("has the same cgroup as {}", path(first.0, first.1));
            let help = "use a different cgroup; a cgroup has one contract on a drive";
            doc.report_key(&path(user.0, user.1), what, help);
        }
    }
    let by_name: BTreeMap<&str, &CgroupDraft> = all
        .iter()
        .filter(|(kind, _)| *kind == "tenant")
        .map(|(_, t)| (t.volume.name.as_str(), *t))
        .collect();
    for volume in volumes {
        let name = &volume.volume.name;
        let tenant = volume.volume.tenant.as_deref();
        let tenant = tenant.and_then(|t| by_name.get(t));
        let (Some(Cgroup::Path(own)), Some(Some(Cgroup::Path(above)))) =
            (&volume.cgroup, tenant.map(|t| &t.cgroup))
        else {
            continue;
        };
        // Without the slash, `/acme2` would count as inside `/acme`.
        if !own.starts_with(&format!("{above}/")) {
            let at = format!("{}.cgroup", path("volume", name));
            let what = format!("is not in {}, the cgroup of its tenant", quoted(above));
            doc.report_key(&at, what, &format!("write \"{above}/{name}\""));
        }
    }
    nested(doc, volumes);
}

/// Reports volumes whose cgroup is inside the cgroup of another volume.
fn nested(doc: &mut Document<'_>, volumes: &[CgroupDraft]) {
    fn place(volume: &CgroupDraft) -> Option<(&str, &str)> {
        match &volume.cgroup {
            Some(Cgroup::Path(path)) => Some((&volume.volume.drive, path)),
            _ => None,
        }
    }
    // In reverse order, the first of several volumes at one place is inserted last and is the one
    // that is reported.
    let placed = volumes.iter().rev();
    let placed = placed.filter_map(|v| Some((place(v)?, v.volume.name.as_str())));
    let by_place: BTreeMap<(&str, &str), &str> = placed.collect();
    for inner in volumes {
        let Some((drive, own)) = place(inner) else {
            continue;
        };
        let mut above = own.match_indices('/').map(|(end, _)| (drive, &own[..end]));
        let outer = above.find_map(|place| by_place.get(&place));
        if let Some(outer) = outer {
            let at = format!("{}.cgroup", path("volume", &inner.volume.name));
            let what = format!("is inside the cgroup of {}", path("volume", outer));
            let help = format!(
                "define the outer one as [{}], and set it as the tenant of this one",
                path("tenant", outer)
            );
            doc.report_key(&at, what, &help);
        }
    }
}

/// Adds the cgroups on a drive to the drive, tenants first.
fn members(drive: &mut KernelDrive, tenants: &[CgroupDraft], volumes: &[CgroupDraft]) {
    let mut places = BTreeMap::new();
    let own = |read: &&CgroupDraft| read.volume.drive == drive.name;
    let all = tenants.iter().map(|t| ("tenant", t));
    let all = all.chain(volumes.iter().map(|v| ("volume", v)));
    for (kind, read) in all.filter(|(_, read)| own(read)) {
        let Some(cgroup) = &read.cgroup else { continue };
        let volume = &read.volume;
        // Tenants come first, so that volumes find the indices of their tenants.
        if kind == "tenant" {
            places.insert(volume.name.as_str(), drive.members.len());
        }
        let tenant = volume.tenant.as_deref();
        drive.members.push(CgroupContract {
            key: path(kind, &volume.name),
            name: volume.name.clone(),
            cgroup: cgroup.clone(),
            parent: tenant.and_then(|t| places.get(t).copied()),
            contract: volume.contract,
            knobs: volume.knobs,
            prio_class: read.prio_class,
        });
    }
}

/// Returns a server with the same contracts on volumes in memory.
fn in_memory(drives: &[KernelDrive], tenants: &[CgroupDraft], volumes: &[CgroupDraft]) -> Server {
    let limits = DriveLimits {
        requests: 4096,
        scheduler_tags: 4096,
        // Admission allocates tables of these sizes, so they are as small as possible.
        volumes: volumes.len().max(1) as u32,
        tenants: tenants.len() as u32,
    };
    let drives = drives.iter().map(|drive| ServedDrive {
        policy: drive.policy.clone(),
        capacity: drive.capacity,
        ..ServedDrive::new(&drive.name, limits)
    });
    let tenants = tenants.iter().map(|tenant| Tenant {
        name: tenant.volume.name.clone(),
        drive: tenant.volume.drive.clone(),
        contract: tenant.volume.contract,
        knobs: tenant.volume.knobs,
    });
    Server {
        drives: drives.collect(),
        volumes: volumes.iter().map(|v| v.volume.clone()).collect(),
        tenants: tenants.collect(),
        ..Server::default()
    }
}
