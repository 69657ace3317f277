//! Checks of the relations between tables: references to names, volumes in the same file, and the
//! sum of promises.

use crate::admission;
use crate::allow::{Allow, ClientCertificates, VolumeTls};
use crate::document::Document;
use crate::listen::ListenAddress;
use crate::nearest;
use crate::plan::{PER_STREAM_RESERVED, streams};
use crate::policy::UnkeptPart;
use crate::problem::Problem;
use crate::read::{Draft, is_local};
use crate::server::{
    ContractHolder, Server, ServerDrive, Tenant, Volume, is_promised, promise_key,
};
use crate::storage::{Cache, Storage};
use crate::text::{join, path, quoted};
use crate::units::ByteSize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The maximum number of drives of one server.
const DRIVES_MAX: usize = 1024;

/// Checks everything that a single table does not show. Problems are kept in the document. `before`
/// is the running server, if there is one.
pub(crate) fn check(doc: &mut Document<'_>, draft: &mut Draft, before: Option<&Server>) {
    // The set is taken out, because the server is part of the same draft and is borrowed at the
    // same time.
    let mut broken = std::mem::take(&mut draft.broken);
    references(doc, &draft.server, &mut broken);
    draft.broken = broken;
    if draft.server.drives.len() > DRIVES_MAX {
        let what = format!(
            "the file has {} drives; a server can have at most {DRIVES_MAX}",
            draft.server.drives.len()
        );
        return doc.report_key("drive", what, "");
    }
    check_storage_conflicts(doc, &draft.server);
    check_shared_minimums(doc, draft);
    check_tls(doc, draft);
    check_open_addresses(doc, draft);
    let server = &draft.server;
    let tenants = tenants(server);
    for volume in &server.volumes {
        // The cache of a volume is known only if its table has no problem.
        if draft.is_sound(&path("volume", &volume.name)) && volume.cache == Cache::Host {
            let tenant = volume.tenant.as_deref();
            check_cached_volume(doc, volume, tenant.and_then(|t| tenants.get(t)).copied());
        }
    }
    for drive in &server.drives {
        let drive_path = path("drive", &drive.name);
        if !draft.is_sound(&drive_path) {
            // The sums of a drive with problems would only cause further problems.
            continue;
        }
        if tables_have_room(doc, server, drive) && volumes_fit(doc, draft, drive) {
            admission::check(doc, draft, drive, before);
        }
    }
}

/// Reports volumes whose rules for clients require TLS that the server does not offer.
fn check_tls(doc: &mut Document<'_>, draft: &Draft) {
    let server = &draft.server;
    let tls = server.listen.tls.as_ref();
    // A wrong table was already reported.
    let is_missing = tls.is_none() && !doc.is_written("listen.tls");
    let has_ca = tls.is_some_and(|tls| tls.client_ca.is_some());
    for volume in &server.volumes {
        let at = path("volume", &volume.name);
        if !draft.is_sound(&at) {
            continue;
        }
        if volume.tls == VolumeTls::Required && is_missing {
            let help = "add [listen.tls] with certificate and key, or remove it";
            doc.report_key(
                &join(&at, "tls"),
                "\"required\" requires [listen.tls]",
                help,
            );
        }
        let by_certificate = |allow: &&Allow| matches!(allow, Allow::Certificate(_));
        if let Some(entry) = volume.allow.iter().find(by_certificate)
            && (is_missing || tls.is_some() && !has_ca)
        {
            let what = format!(
                "{} requires client_ca in [listen.tls]",
                quoted(&entry.to_string())
            );
            let help = "set client_ca = \"/etc/weir/tls/ca-cert.pem\" in [listen.tls], or remove the entry";
            doc.report_key(&join(&at, "allow"), what, help);
        }
    }
}

/// Reports addresses that other machines can reach if a volume admits every client.
fn check_open_addresses(doc: &mut Document<'_>, draft: &Draft) {
    let server = &draft.server;
    let listen = &server.listen;
    if listen.insecure {
        return;
    }
    let identifies = listen.tls.as_ref().is_some_and(|tls| {
        tls.client_ca.is_some() && tls.client_certificates == ClientCertificates::Required
    });
    // TLS alone encrypts, but it does not identify the client.
    let mut open = server.volumes.iter().filter(|volume| {
        let secured = identifies && volume.tls == VolumeTls::Required;
        volume.allow.is_empty() && !secured && draft.is_sound(&path("volume", &volume.name))
    });
    let Some(first) = open.next() else { return };
    let others = match open.count() {
        0 => String::new(),
        1 => " and 1 other volume".to_owned(),
        n => format!(" and {n} other volumes"),
    };
    for (number, address) in listen.nbd.iter().enumerate() {
        let ListenAddress::Tcp(address) = address else {
            continue;
        };
        if !is_local(*address) {
            let what = format!(
                "\"{address}\" can be reached from other machines, but {}{others} would admit every client",
                path("volume", &first.name)
            );
            doc.report_key(&format!("listen.nbd[{number}]"), what, OPEN_HELP);
        }
    }
}

const OPEN_HELP: &str = "use \"127.0.0.1\" or a Unix socket, or set allow in each volume, for example allow = [\"address:192.0.2.0/24\"], or set tls = \"required\" in each volume and client_ca in [listen.tls]";

/// Returns true if the volumes of a modelled drive, which are placed one after the other, fit on
/// it.
fn volumes_fit(doc: &mut Document<'_>, draft: &Draft, drive: &ServerDrive) -> bool {
    let Some(size) = drive
        .model
        .as_ref()
        .and_then(weir_model::drive::DriveConfig::size)
    else {
        return true;
    };
    let volumes = draft.server.volumes_of(&drive.name);
    let mut end = 0u64;
    for volume in volumes.filter(|v| draft.is_sound(&path("volume", &v.name))) {
        // A volume of a modelled drive without a size was already reported.
        end = end.saturating_add(volume.size.unwrap_or(0));
        if end > size {
            let what = format!(
                "does not fit: the volumes of drive.{} would add up to {}, and its model holds {}",
                drive.name,
                ByteSize(end),
                ByteSize(size)
            );
            let at = join(&path("volume", &volume.name), "size");
            doc.report_key(&at, what, "");
            return false;
        }
    }
    true
}

/// Returns warnings about an accepted file: the parts of contracts that the policy of their drive
/// does not keep.
pub fn warnings(server: &Server) -> Vec<Problem> {
    unkept(server, |part| part.help)
}

/// Returns the warnings with another help for each part.
pub(crate) fn unkept(server: &Server, help: impl Fn(UnkeptPart) -> String) -> Vec<Problem> {
    let mut all = Vec::new();
    for owner in server.contracted() {
        let Some(ServerDrive { policy, .. }) = server.drive(owner.drive) else {
            continue;
        };
        for part in policy.unkept(owner.contract, owner.knobs) {
            let (name, does) = (quoted(&policy.name), part.does);
            let what = format!("is not enforced under policy {name}, which {does}");
            all.push(server.problem(&join(&owner.path, part.key), what, Some(help(part))));
        }
    }
    all
}

/// Reports unknown drives and tenants, and volumes whose tenant is on another drive. Adds the paths
/// of such tables to `broken`.
fn references(doc: &mut Document<'_>, server: &Server, broken: &mut BTreeSet<String>) {
    let drives: BTreeSet<&str> = server.drives.iter().map(|d| d.name.as_str()).collect();
    let tenants = tenants(server);
    for ContractHolder {
        path: at, drive, ..
    } in server.contracted()
    {
        // A missing drive was already reported when the table was read.
        if drives.contains(drive) || drive.is_empty() || !doc.is_collecting() {
            continue;
        }
        let what = format!("unknown drive {}", quoted(drive));
        let help = nearest::help(drive, drives.iter().copied());
        doc.report_key(&join(&at, "drive"), what, &help);
        broken.insert(at);
    }
    for volume in &server.volumes {
        let Some(name) = volume.tenant.as_deref() else {
            continue;
        };
        let at = path("volume", &volume.name);
        let (what, help) = match tenants.get(name) {
            Some(tenant) if tenant.drive == volume.drive => continue,
            Some(tenant) if !tenant.drive.is_empty() && !broken.contains(&at) => (
                format!(
                    "{} is a tenant of drive {}, not of {}",
                    quoted(name),
                    quoted(&tenant.drive),
                    quoted(&volume.drive)
                ),
                "create one tenant for each drive; the volumes of a tenant must be on one drive"
                    .to_owned(),
            ),
            Some(_) => {
                // The tenant has a problem of its own. A further problem would be a consequence of
                // it.
                broken.insert(at);
                continue;
            }
            None if !doc.is_collecting() => continue,
            None => (
                format!("unknown tenant {}", quoted(name)),
                undefined(name, &tenants),
            ),
        };
        doc.report_key(&join(&at, "tenant"), what, &help);
        broken.insert(at);
    }
}

/// Returns the help for an unknown tenant: the most similar name, or how to define it.
fn undefined(name: &str, tenants: &BTreeMap<&str, &Tenant>) -> String {
    let define = format!("define [{}] first", path("tenant", name));
    match nearest::name(name, tenants.keys().copied()) {
        Some(near) => format!("did you mean {}? Otherwise {define}", quoted(near)),
        None => define,
    }
}

/// Returns the tenants by name.
fn tenants(server: &Server) -> BTreeMap<&str, &Tenant> {
    server
        .tenants
        .iter()
        .map(|t| (t.name.as_str(), t))
        .collect()
}

/// Reports two volumes on one file, device or export. Different links to one file are recognised
/// when the server opens the files.
fn check_storage_conflicts(doc: &mut Document<'_>, server: &Server) {
    // The paths are compared by components, so that `/a//b` and `/a/b` are equal.
    let mut users: BTreeMap<(&Path, String), &str> = BTreeMap::new();
    for volume in &server.volumes {
        let shown = |path: &Path| quoted(&path.display().to_string());
        let (key, place, shown) = match &volume.storage {
            Storage::File(file) => ("file", (file.as_path(), String::new()), shown(file)),
            Storage::Device(device) => ("device", (device.as_path(), String::new()), shown(device)),
            Storage::Nbd(remote) => {
                let uri = remote.uri.to_string();
                ("nbd", (Path::new(""), uri.clone()), uri)
            }
            Storage::Memory | Storage::Model => continue,
        };
        // The first volume of a file is its owner, and each further one is reported.
        let Some(other) = users.get(&place) else {
            users.insert(place, &volume.name);
            continue;
        };
        let at = join(&path("volume", &volume.name), key);
        let what = format!("{shown} is already used by {}", path("volume", other));
        let thing = if key == "nbd" { "export" } else { key };
        let help = format!(
            "use a different {thing}; two volumes in one {thing} would overwrite each other's data"
        );
        doc.report_key(&at, what, &help);
    }
}

/// Checks shared minimums: each needs a min, `[gateways]`, and a policy that keeps the min.
fn check_shared_minimums(doc: &mut Document<'_>, draft: &Draft) {
    let server = &draft.server;
    let mut users: BTreeMap<&str, &str> = BTreeMap::new();
    for volume in &server.volumes {
        let at = path("volume", &volume.name);
        let Some(name) = volume.shared.as_deref().filter(|_| draft.is_sound(&at)) else {
            continue;
        };
        let policy = server.drive(&volume.drive).map(|drive| &drive.policy);
        let contract = &volume.contract;
        let at = join(&at, "shared");
        if contract.min == 0 && contract.min_iops == 0 {
            let help =
                "set min = \"10MB/s\" or min_iops = 100, which all servers guarantee together";
            doc.report_key(&at, "requires a min, which the servers share", help);
        } else if server.gateways.is_none() && !doc.places.keys.contains_key("gateways") {
            let what = "requires [gateways], through which the servers coordinate";
            let help = "add [gateways] with etcd = [\"http://127.0.0.1:2379\"]";
            doc.report_key(&at, what, help);
        } else if let Some(policy) = policy.filter(|policy| !policy.keeps_min()) {
            let what = format!(
                "requires a policy that guarantees min; policy {} does not",
                quoted(&policy.name)
            );
            doc.report_key(&at, what, "set policy = \"contract\", or remove shared");
        } else if let Some(other) = users.insert(name, &volume.name) {
            let other = path("volume", other);
            let what = format!("{} is already used by {other}", quoted(name));
            let help = "use a different name for each volume; volumes of one server cannot share a minimum";
            doc.report_key(&at, what, help);
        }
    }
}

/// Reports a promise to a volume that uses the host's page cache, or to its tenant.
fn check_cached_volume(doc: &mut Document<'_>, volume: &Volume, tenant: Option<&Tenant>) {
    let at = path("volume", &volume.name);
    let (key, what, promise) = if is_promised(&volume.contract) {
        let promise = promise_key(&volume.contract);
        (
            join(&at, promise),
            "cannot be guaranteed with cache = \"host\", because requests are served by the page cache and not by the drive"
                .to_owned(),
            promise.to_owned(),
        )
    } else if let Some(tenant) = tenant.filter(|t| is_promised(&t.contract)) {
        let tenant = path("tenant", &tenant.name);
        let what = format!(
            "cannot be \"host\", because {tenant} has a promise and the page cache would serve the requests instead of the drive"
        );
        (join(&at, "cache"), what, format!("the promise of {tenant}"))
    } else {
        return;
    };
    let help = format!("set cache = \"direct\", or remove {promise}");
    doc.report_key(&key, what, &help);
}

/// Returns true if the drive's tables have room for its volumes, tenants and connections.
fn tables_have_room(doc: &mut Document<'_>, server: &Server, drive: &ServerDrive) -> bool {
    let at = path("drive", &drive.name);
    let limits = &drive.limits;
    let volumes = server.volumes_of(&drive.name).count();
    let tenants = server.tenants_of(&drive.name).count();
    let counts = [
        ("volumes", volumes, limits.volumes),
        ("tenants", tenants, limits.tenants),
    ];
    let before = doc.problem_count();
    for (limits_key, count, limit) in counts {
        if count > limit as usize {
            let one = limits_key.trim_end_matches('s');
            let key = if count == 1 { one } else { limits_key };
            let what = format!("the drive has {count} {key}, and its table has room for {limit}");
            let help = format!("raise {limits_key} in [{at}.limits]");
            let at = format!("{at}.limits.{limits_key}");
            doc.report_key(&at, what, &help);
        }
    }
    let reserved = PER_STREAM_RESERVED.min(server.limits.requests_per_connection);
    // Reserved requests must fit into the table for all streams at once.
    let least = streams(&server.limits) * reserved;
    if limits.requests < least {
        let what = format!(
            "{} is too small for {} connections, because {reserved} requests are reserved for each",
            limits.requests, server.limits.connections
        );
        let help = format!("set at least {least}, or reduce limits.connections");
        doc.report_key(&format!("{at}.limits.requests"), what, &help);
    }
    doc.problem_count() == before
}
