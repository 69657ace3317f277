//! Reading of `[volume.NAME]` and `[tenant.NAME]`.

use super::listen::absolute;
use super::{Draft, drive, gateways, listen};
use crate::allow::Allow;
use crate::document::{Document, KeyEntry, ShapedTable, refuse};
use crate::field::Mirror;
use crate::key::{ATTACH, REMOTE, TENANT, VOLUME};
use crate::listen::ListenAddress;
use crate::notify::{CallRule, NotifyRules, WakeRule};
use crate::profile;
use crate::server::{Server, Tenant, Volume};
use crate::storage::{Cache, Remote, Storage, block};
use crate::terms::{contract, knobs};
use crate::text::{path, quoted};
use std::path::PathBuf;
use weir_core::Span;
use weir_wire::nbd::{Uri, UriError};

const STORAGE: &[&str] = &["file", "device", "nbd", "memory", "model"];
const STORAGE_HELP: &str = "set one of file = \"/path\", device = \"/dev/...\", nbd = \"nbd://...\", memory = true, model = \"...\"";
const SIZE_HELP: &str = "set size, for example size = \"1GiB\"";

/// A volume whose relation to its drive's model is not settled yet.
#[derive(Debug)]
pub(super) struct UnsettledVolume<'a> {
    volume: Volume,
    path: String,
    /// The entry of the volume's model, and the model if it could be read.
    model: Option<(KeyEntry<'a>, Option<weir_model::drive::DriveConfig>)>,
    /// The entry of the storage. `None` if the storage is left to the drive's model.
    storage: Option<KeyEntry<'a>>,
    /// True if the volume states a socket of its own, valid or not.
    socket: bool,
}

impl UnsettledVolume<'_> {
    /// Returns true if the volume has a socket of its own.
    pub(super) fn has_socket(&self) -> bool {
        self.socket
    }

    /// Returns true if the volume is a block device of this machine.
    pub(super) fn is_device(&self) -> bool {
        self.volume.ublk
    }
}

/// Reports two sockets at the same path.
pub(super) fn check_sockets(doc: &mut Document<'_>, server: &Server) {
    let nbd = server
        .listen
        .nbd
        .iter()
        .filter_map(|address| match address {
            ListenAddress::Unix(path) => Some(("listen.nbd".to_owned(), path)),
            ListenAddress::Tcp(_) => None,
        });
    let mut taken: Vec<(String, &PathBuf)> = nbd.collect();
    for volume in &server.volumes {
        let Some(at) = &volume.vhost else { continue };
        let key = format!("{}.listen.vhost", path("volume", &volume.name));
        if let Some((other, _)) = taken.iter().find(|(_, taken)| *taken == at) {
            let at = quoted(&at.display().to_string());
            let what = format!("{at} is already used by {other}");
            doc.report_key(&key, what, "use a different path for each");
        }
        taken.push((key, at));
    }
}

pub(super) fn tenant<'a>(doc: &mut Document<'a>, name: &str, entry: &KeyEntry<'a>) -> Tenant {
    let table = entry.table(doc, &TENANT);
    let name = name.to_owned();
    table.map_or_else(
        || Tenant {
            name: name.clone(),
            ..Tenant::default()
        },
        |table| Tenant {
            name: name.clone(),
            drive: drive_name(doc, &table),
            contract: contract(doc, &table),
            knobs: knobs(doc, &table),
        },
    )
}

pub(super) fn volume<'a>(
    doc: &mut Document<'a>,
    name: &str,
    entry: &KeyEntry<'a>,
) -> UnsettledVolume<'a> {
    let mut unsettled = UnsettledVolume {
        volume: Volume::default(),
        path: entry.path.clone(),
        model: None,
        storage: None,
        socket: false,
    };
    name.clone_into(&mut unsettled.volume.name);
    let Some(table) = entry.table(doc, &VOLUME) else {
        return unsettled;
    };
    unsettled.volume = Volume {
        name: name.to_owned(),
        drive: drive_name(doc, &table),
        contract: contract(doc, &table),
        knobs: knobs(doc, &table),
        ..Volume::read(doc, &table)
    };
    let storage_known = storage(doc, &table, &mut unsettled);
    let volume = &mut unsettled.volume;
    if let Some(entry) = table.entry("cache") {
        volume.cache = cache(doc, &entry, &volume.storage).unwrap_or_default();
    }
    // The rules for the size depend on the storage.
    if storage_known {
        let left_to_model = unsettled.storage.is_none();
        volume.size = size(doc, &table, volume, left_to_model);
    }
    let attach = table.entry("listen").and_then(|e| e.table(doc, &ATTACH));
    if let Some(attach) = &attach {
        let help = "set vhost = \"/run/weir/alpha.vhost.sock\"";
        let path = doc.required(attach, "vhost", help);
        unsettled.socket = path.is_some();
        volume.vhost = path.and_then(|e| vhost_path(doc, &e));
        volume.notify = notify(doc, attach);
    }
    volume.ublk_number = device_number(doc, &table, volume.ublk);
    volume.allow = table
        .entry("allow")
        .map_or_else(Vec::new, |e| allowed(doc, &e));
    volume.tenant = tenant_name(doc, &table);
    volume.shared = table.entry("shared").and_then(|e| gateways::name(doc, &e));
    unsettled
}

/// The maximum number of entries of `allow`.
const ALLOW_MAX: usize = 1024;

/// Reads the clients that can use a volume.
fn allowed<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Vec<Allow> {
    let example = "\"certificate:alice.example\"";
    let Some(elements) = entry.array(doc, &format!("[{example}]")) else {
        return Vec::new();
    };
    if elements.is_empty() || elements.len() > ALLOW_MAX {
        let what = format!(
            "has {} entries; it must have 1 to {ALLOW_MAX}",
            elements.len()
        );
        doc.report(
            entry,
            what,
            "add an entry, or remove allow to admit every client",
        );
    }
    let elements = elements.iter().take(ALLOW_MAX);
    let read = |element: &KeyEntry<'a>| {
        // A user or group that does not exist is found later.
        doc.record_place(element);
        element.parsed(doc, ("an entry", example), str::parse)
    };
    elements.filter_map(read).collect()
}

pub(super) fn drive_name<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> String {
    let help = "set it to the name of a [drive.NAME], for example drive = \"fast\"";
    let entry = doc.required(table, "drive", help);
    let name = entry.and_then(|e| e.text(doc, "a drive's name", "\"fast\""));
    name.unwrap_or_default().to_owned()
}

pub(super) fn tenant_name<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Option<String> {
    let name = table.entry("tenant")?;
    let name = name.text(doc, "a tenant's name", "\"acme\"")?;
    Some(name.to_owned())
}

/// Reads the storage of a volume. Returns false if it remains unknown.
fn storage<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    unsettled: &mut UnsettledVolume<'a>,
) -> bool {
    let entries: Vec<KeyEntry<'a>> = STORAGE.iter().filter_map(|k| table.entry(k)).collect();
    let entry = match &entries[..] {
        [] => return true,
        [entry] => entry,
        [first, second, ..] => {
            let key = |entry: &KeyEntry<'_>| entry.path.rsplit('.').next().unwrap_or("").to_owned();
            let help = format!("remove {} or {}", key(first), key(second));
            doc.report(second, "a volume cannot have two kinds of storage", &help);
            return false;
        }
    };
    unsettled.storage = Some(entry.clone());
    refuse!(doc, table;
        "remote", table.entry("nbd").is_none(), "requires nbd as the volume's storage", "remove it";
    );
    let file = table.entry("file").is_some();
    let storage = if file || table.entry("device").is_some() {
        let kind = if file { Storage::File } else { Storage::Device };
        absolute(doc, entry).map(kind)
    } else if table.entry("nbd").is_some() {
        remote(doc, table, entry).map(Storage::Nbd)
    } else if table.entry("memory").is_some() {
        match entry.boolean(doc) {
            Some(false) => {
                let help = "remove it for another kind of storage";
                doc.report(entry, "can only be true", help);
                None
            }
            value => value.map(|_| Storage::Memory),
        }
    } else {
        unsettled.model = Some((entry.clone(), profile::model(doc, entry)));
        Some(Storage::Model)
    };
    let known = storage.is_some();
    // If the storage is wrong, any other one serves to check the remaining keys.
    unsettled.volume.storage = storage.unwrap_or(Storage::Memory);
    known
}

/// Reads the remote export that stores the data, with the settings of its connections.
fn remote<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    entry: &KeyEntry<'a>,
) -> Option<Remote> {
    const HELP: &str = "write for example nbd://10.0.0.2:10809/alpha; see docs/remote.md";
    let wanted = ("an NBD URI", "\"nbd://localhost:10809/alpha\"");
    let remote = entry.parsed(doc, wanted, |text| {
        let uri: Uri = text.parse().map_err(|error| (error, HELP))?;
        Ok::<_, (UriError, &str)>(Remote::new(uri, text))
    })?;
    let more = table.entry("remote").and_then(|e| e.table(doc, &REMOTE));
    // The settings of `[volume.NAME.remote]` have defaults, so the table is optional.
    let more = more.unwrap_or_else(|| ShapedTable::absent(&REMOTE));
    Some(remote.filled(doc, &more))
}

/// Reads the rules for notifications between guests and the volume.
fn notify<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> NotifyRules {
    let spin: Option<Span> = table.field(doc, "spin");
    let sleep: Option<Span> = table.field(doc, "sleep");
    let wakes = spin
        .map(WakeRule::Spin)
        .or_else(|| sleep.map(WakeRule::Sleep));
    let notify = NotifyRules {
        wakes: wakes.unwrap_or_default(),
        ..NotifyRules::default().filled(doc, table)
    };
    // The rule computes the time between calls from this delay.
    let at_once = notify.calls == CallRule::Spdk && notify.call_delay == Span::ZERO;
    refuse!(doc, table;
        "sleep", spin.is_some() && sleep.is_some(), "cannot be combined with spin", "remove spin or sleep";
        "calls", at_once, "\"spdk\" requires call_delay",
            "set call_delay, for example call_delay = \"100us\", which is the base of the time between calls";
    );
    notify
}

/// Reads the number of the block device, if the volume is one.
fn device_number<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, ublk: bool) -> Option<u32> {
    refuse!(doc, table;
        "ublk_number", !ublk, "requires ublk = true", "remove it, or set ublk = true";
    );
    table.entry("ublk_number").filter(|_| ublk)?.count(doc)
}

/// Reads the path of a vhost-user-blk socket.
fn vhost_path(doc: &mut Document<'_>, entry: &KeyEntry<'_>) -> Option<PathBuf> {
    let text = entry.text(doc, "a path", "\"/run/weir/alpha.vhost.sock\"")?;
    listen::socket_path(doc, entry, text)
}

fn cache(doc: &mut Document<'_>, entry: &KeyEntry<'_>, storage: &Storage) -> Option<Cache> {
    let cache = entry.word(doc, [Cache::Direct, Cache::Host])?;
    let what = match (storage, cache) {
        (Storage::File(_), _) | (Storage::Device(_), Cache::Direct) => return Some(cache),
        (Storage::Device(_), Cache::Host) => {
            "\"host\" is supported for files only, because a device is always accessed past the page cache"
        }
        _ => "is supported for files and devices only",
    };
    doc.report(entry, what, "remove it");
    None
}

/// Reads the size. If the volume leaves its storage to the drive, it is not known yet whether a
/// size is required.
fn size<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    volume: &Volume,
    left_to_model: bool,
) -> Option<u64> {
    let unit = block(&volume.storage, volume.cache);
    match volume.storage {
        Storage::File(_) | Storage::Device(_) | Storage::Nbd(_) => table.entry("size"),
        Storage::Model if left_to_model => table.entry("size"),
        Storage::Memory | Storage::Model => doc.required(table, "size", SIZE_HELP),
    }?
    .size_from(doc, unit, unit)
}

/// Settles the relation of each volume to its drive's model. Either all volumes of a drive are on
/// the same model, or none is.
pub(super) fn settle(
    doc: &mut Document<'_>,
    draft: &mut Draft,
    unsettled: Vec<UnsettledVolume<'_>>,
) -> Vec<Volume> {
    // First, models that volumes state are set on their drives. Only then is it known which drives
    // are modelled.
    for u in &unsettled {
        let Some((entry, Some(model))) = &u.model else {
            continue;
        };
        let drives = &mut draft.server.drives;
        let Some(on) = drives.iter_mut().find(|d| d.name == u.volume.drive) else {
            continue;
        };
        match &on.model {
            None => drive::set_model(doc, on, model.clone()),
            // A drive has a single timing, so its volumes cannot have different models.
            Some(other) if other != model => {
                let what = format!("drive.{} already has another model", on.name);
                doc.report(entry, what, "use the same model for all volumes of a drive");
                draft.broken.insert(u.path.clone());
            }
            Some(_) => {}
        }
    }
    for u in &unsettled {
        let on = draft.server.drive(&u.volume.drive);
        let Some(on) = on.filter(|_| draft.is_sound(&u.path)) else {
            continue;
        };
        let before = doc.problem_count();
        match &u.storage {
            None if on.model.is_some() && u.volume.size.is_none() => {
                doc.report_key(&format!("{}.size", u.path), "is missing", SIZE_HELP);
            }
            None if on.model.is_none() && draft.is_sound(&path("drive", &on.name)) => {
                doc.report_key(&u.path, "the volume has no storage", STORAGE_HELP);
            }
            Some(entry) if on.model.is_some() && u.model.is_none() => {
                let what = format!(
                    "cannot be combined with a modelled drive: volumes of drive.{} hold their data in memory",
                    on.name
                );
                doc.report(entry, what, "remove it, or use another drive");
            }
            _ => {}
        }
        if doc.problem_count() > before {
            draft.broken.insert(u.path.clone());
        }
    }
    unsettled.into_iter().map(|u| u.volume).collect()
}
