//! `[volume.NAME]` and `[tenant.NAME]`.

use super::{Draft, contract, drive, gateways, knobs, listen};
use crate::document::{Document, Entry, Table};
use crate::key::{ATTACH, REMOTE, TENANT, VOLUME};
use crate::listen::Address;
use crate::notify::{CallRule, Notify, Wakes};
use crate::profile;
use crate::server::{Cache, Remote, Server, Storage, Tenant, Volume, block};
use crate::text::{path, quoted};
use std::path::PathBuf;
use weir_core::{Contract, Knobs, Span};
use weir_wire::nbd::Uri;

const STORAGE: &[&str] = &["file", "device", "nbd", "memory", "model"];
const STORAGE_HELP: &str = "set one of file = \"/path\", device = \"/dev/...\", nbd = \"nbd://...\", memory = true, model = \"...\"";
const SIZE_HELP: &str = "set size, for example size = \"1GiB\"";
const PATH_MAX: usize = 4095;

/// A volume, and what is still to be settled with its drive.
#[derive(Debug)]
pub(super) struct Unsettled<'a> {
    volume: Volume,
    path: String,
    /// The model that it names, where it does.
    model: Option<(Entry<'a>, Option<weir_model::drive::Config>)>,
    /// Where its storage is said; `None` if it is left to the drive's model.
    storage: Option<Entry<'a>>,
    /// It says where a socket of its own is, rightly or wrongly.
    socket: bool,
}

impl Unsettled<'_> {
    /// It has a socket of its own.
    pub(super) fn has_socket(&self) -> bool {
        self.socket
    }

    /// It is a block device of this machine.
    pub(super) fn is_device(&self) -> bool {
        self.volume.ublk
    }
}

/// No two sockets are at one path.
pub(super) fn check_sockets(doc: &mut Document<'_>, server: &Server) {
    let nbd = server
        .listen
        .nbd
        .iter()
        .filter_map(|address| match address {
            Address::Unix(path) => Some(("listen.nbd".to_owned(), path)),
            Address::Tcp(_) => None,
        });
    let mut taken: Vec<(String, &PathBuf)> = nbd.collect();
    for volume in &server.volumes {
        let Some(at) = &volume.vhost else { continue };
        let key = format!("{}.listen.vhost", path("volume", &volume.name));
        if let Some((other, _)) = taken.iter().find(|(_, taken)| *taken == at) {
            let what = format!(
                "{} is already used by {other}",
                quoted(&at.display().to_string())
            );
            let help = Some("use a different path for each".to_owned());
            doc.keep(doc.places.problem(&key, what, help));
        }
        taken.push((key, at));
    }
}

pub(super) fn tenant<'a>(doc: &mut Document<'a>, name: &str, entry: &Entry<'a>) -> Tenant {
    let table = entry.table(doc, &TENANT);
    let mut tenant = Tenant {
        name: name.to_owned(),
        drive: String::new(),
        contract: Contract::DEFAULT,
        knobs: Knobs::NONE,
    };
    if let Some(table) = table {
        tenant.drive = drive_name(doc, &table);
        tenant.contract = contract(doc, &table);
        tenant.knobs = knobs(doc, &table);
    }
    tenant
}

pub(super) fn volume<'a>(doc: &mut Document<'a>, name: &str, entry: &Entry<'a>) -> Unsettled<'a> {
    let mut unsettled = Unsettled {
        volume: Volume {
            name: name.to_owned(),
            drive: String::new(),
            storage: Storage::Model,
            size: None,
            read_only: false,
            cache: Cache::Direct,
            vhost: None,
            notify: Notify::default(),
            ublk: false,
            ublk_number: None,
            tenant: None,
            shared: None,
            contract: Contract::DEFAULT,
            knobs: Knobs::NONE,
        },
        path: entry.path.clone(),
        model: None,
        storage: None,
        socket: false,
    };
    let Some(table) = entry.table(doc, &VOLUME) else {
        return unsettled;
    };
    unsettled.volume.drive = drive_name(doc, &table);
    let storage_known = storage(doc, &table, &mut unsettled);
    let volume = &mut unsettled.volume;
    volume.read_only = table.flag(doc, "read_only");
    if let Some(entry) = table.entry("cache") {
        volume.cache = cache(doc, &entry, &volume.storage).unwrap_or_default();
    }
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
    volume.ublk = table.flag(doc, "ublk");
    volume.ublk_number = device_number(doc, &table, volume.ublk);
    let tenant = table.entry("tenant");
    let tenant = tenant.and_then(|e| e.text(doc, "a tenant's name", "\"acme\""));
    volume.tenant = tenant.map(str::to_owned);
    volume.shared = table.entry("shared").and_then(|e| gateways::name(doc, &e));
    volume.contract = contract(doc, &table);
    volume.knobs = knobs(doc, &table);
    unsettled
}

pub(super) fn drive_name<'a>(doc: &mut Document<'a>, table: &Table<'a>) -> String {
    let help = "set it to the name of a [drive.NAME], for example drive = \"fast\"";
    let entry = doc.required(table, "drive", help);
    let name = entry.and_then(|e| e.text(doc, "a drive's name", "\"fast\""));
    name.unwrap_or_default().to_owned()
}

/// Reads what holds the data; false if that stays unknown.
fn storage<'a>(doc: &mut Document<'a>, table: &Table<'a>, unsettled: &mut Unsettled<'a>) -> bool {
    let entries: Vec<Entry<'a>> = STORAGE.iter().filter_map(|k| table.entry(k)).collect();
    let entry = match &entries[..] {
        [] => return true,
        [entry] => entry,
        [first, second, ..] => {
            let key = |entry: &Entry<'_>| entry.path.rsplit('.').next().unwrap_or("").to_owned();
            let help = format!("remove {} or {}", key(first), key(second));
            doc.report(second, "a volume cannot have two kinds of storage", &help);
            return false;
        }
    };
    unsettled.storage = Some(entry.clone());
    if let (Some(more), None) = (table.entry("remote"), table.entry("nbd")) {
        doc.report(&more, "requires nbd as the volume's storage", "remove it");
    }
    let file = table.entry("file").is_some();
    let storage = if file || table.entry("device").is_some() {
        let kind = if file { Storage::File } else { Storage::Device };
        absolute(doc, entry).map(kind)
    } else if table.entry("nbd").is_some() {
        remote(doc, table, entry).map(Storage::Nbd)
    } else if table.entry("memory").is_some() {
        match entry.boolean(doc) {
            Some(false) => {
                doc.report(
                    entry,
                    "can only be true",
                    "remove it for another kind of storage",
                );
                None
            }
            value => value.map(|_| Storage::Memory),
        }
    } else {
        unsettled.model = Some((entry.clone(), profile::model(doc, entry)));
        Some(Storage::Model)
    };
    let known = storage.is_some();
    unsettled.volume.storage = storage.unwrap_or(Storage::Memory);
    known
}

/// The export of another server that holds the data.
fn remote<'a>(doc: &mut Document<'a>, table: &Table<'a>, entry: &Entry<'a>) -> Option<Remote> {
    let text = entry.text(doc, "an NBD URI", "\"nbd://localhost:10809/alpha\"")?;
    let uri: Uri = match text.parse() {
        Ok(uri) => uri,
        Err(error) => {
            doc.report(
                entry,
                error.to_string(),
                "write for example nbd://10.0.0.2:10809/alpha; see docs/remote.md",
            );
            return None;
        }
    };
    let more = table.entry("remote").and_then(|e| e.table(doc, &REMOTE));
    let more = more.unwrap_or_else(|| Table::absent(&REMOTE));
    Some(Remote {
        uri,
        text: text.to_owned(),
        connections: more.count(doc, "connections"),
        requests: more.count(doc, "requests"),
        wait: more.time(doc, "wait"),
        unflushed: more.size(doc, "unflushed"),
    })
}

pub(super) fn absolute(doc: &mut Document<'_>, entry: &Entry<'_>) -> Option<PathBuf> {
    let text = entry.text(doc, "a path", "\"/var/lib/weir/alpha.img\"")?;
    if !text.starts_with('/') || text.contains('\0') || text.len() > PATH_MAX {
        let what = format!("{} is not an absolute path", quoted(text));
        let help = "write the path from \"/\" on; a relative path would depend on where the server is started";
        doc.report(entry, what, help);
        return None;
    }
    Some(PathBuf::from(text))
}

/// How virtual machines and the volume wake each other.
fn notify<'a>(doc: &mut Document<'a>, table: &Table<'a>) -> Notify {
    let spin = table.time_if_any(doc, "spin");
    let sleep = table.time_if_any(doc, "sleep");
    let call_delay = table.time(doc, "call_delay");
    if let (Some(_), Some(_), Some(entry)) = (spin, sleep, table.entry("sleep")) {
        doc.report(
            &entry,
            "cannot be combined with spin",
            "remove spin or sleep",
        );
    }
    let wakes = spin.map(Wakes::Spin).or_else(|| sleep.map(Wakes::Sleep));
    let calls = table.word(doc, "calls", CallRule::WORDS.map(|w| w.1));
    if let (CallRule::Spdk, Span::ZERO, Some(entry)) = (calls, call_delay, table.entry("calls")) {
        let help = "set call_delay, for example call_delay = \"100us\", which is the base of the time between calls";
        doc.report(&entry, "\"spdk\" requires call_delay", help);
    }
    Notify {
        wakes: wakes.unwrap_or_default(),
        calls,
        call_count: table.count(doc, "call_count"),
        call_delay,
    }
}

/// Of a volume that is a block device: the number that it is to have.
fn device_number<'a>(doc: &mut Document<'a>, table: &Table<'a>, ublk: bool) -> Option<u32> {
    let entry = table.entry("ublk_number")?;
    if !ublk {
        let help = "remove it, or set ublk = true";
        doc.report(&entry, "requires ublk = true", help);
        return None;
    }
    entry.count(doc)
}

/// A path at which a socket can be.
fn vhost_path(doc: &mut Document<'_>, entry: &Entry<'_>) -> Option<PathBuf> {
    let text = entry.text(doc, "a path", "\"/run/weir/alpha.vhost.sock\"")?;
    listen::socket_path(doc, entry, text)
}

fn cache(doc: &mut Document<'_>, entry: &Entry<'_>, storage: &Storage) -> Option<Cache> {
    let cache = entry.word(doc, [Cache::Direct, Cache::Host])?;
    if !matches!(storage, Storage::File(_) | Storage::Device(_)) {
        doc.report(
            entry,
            "is supported for files and devices only",
            "remove it",
        );
        return None;
    }
    if matches!(storage, Storage::Device(_)) && cache == Cache::Host {
        let what = "\"host\" is supported for files only, because a device is always accessed past the page cache";
        doc.report(entry, what, "remove it");
        return None;
    }
    Some(cache)
}

/// The size. Whether one must be given is not known yet of a volume that leaves its storage to its drive.
fn size<'a>(
    doc: &mut Document<'a>,
    table: &Table<'a>,
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

/// Settles what each volume has to do with its drive's model. A drive is one thing: either its volumes all lie on one model, or
/// none does.
pub(super) fn settle(
    doc: &mut Document<'_>,
    draft: &mut Draft,
    unsettled: Vec<Unsettled<'_>>,
) -> Vec<Volume> {
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
        let before = doc.found();
        match &u.storage {
            None if on.model.is_some() && u.volume.size.is_none() => {
                let at = format!("{}.size", u.path);
                let what = "is missing".to_owned();
                doc.keep(doc.places.problem(&at, what, Some(SIZE_HELP.to_owned())));
            }
            None if on.model.is_none() && draft.is_sound(&path("drive", &on.name)) => {
                let what = "the volume has no storage".to_owned();
                doc.keep(
                    doc.places
                        .problem(&u.path, what, Some(STORAGE_HELP.to_owned())),
                );
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
        if doc.found() > before {
            draft.broken.insert(u.path.clone());
        }
    }
    unsettled.into_iter().map(|u| u.volume).collect()
}
