//! Reading of the server's tables, one at a time. [`crate::check`] checks the relations between
//! tables.

mod apply;
mod drive;
mod gateways;
mod listen;
mod manage;
mod policy;
mod volume;

use crate::document::{Document, KeyEntry, ShapedTable, TomlTable};
use crate::key::{ProcessSettings, ROOT, SERVER};
use crate::server::Server;
use crate::text::quoted;
use std::collections::BTreeSet;

pub(crate) use apply::host;
pub(crate) use drive::SHAPE_KEYS;
pub(crate) use listen::is_local;

/// A server whose file was read completely or in part.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) server: Server,
    /// The paths of drives, tenants and volumes with problems. Further findings about them may be
    /// consequences, so they are not reported.
    pub(crate) broken: BTreeSet<String>,
}

impl Draft {
    /// Returns true if the table at this path was read without problems.
    pub(crate) fn is_sound(&self, path: &str) -> bool {
        !self.broken.contains(path)
    }
}

/// Reads all tables of the server's file. Problems are kept in the document.
pub(crate) fn server<'a>(doc: &mut Document<'a>, map: &'a TomlTable) -> Draft {
    let root = ShapedTable::root(map, &ROOT);
    doc.check_keys(&root, ROOT.name, &ROOT.names());
    let mut broken = BTreeSet::new();
    // The limits come first, because the sizes of drives follow from them.
    let limits = listen::limits(doc, &root);
    let drives = named(doc, &root, "drive", &mut broken, |doc, name, entry| {
        drive::drive(doc, name, entry, &limits)
    });
    let tenants = named(doc, &root, "tenant", &mut broken, volume::tenant);
    let volumes = named(doc, &root, "volume", &mut broken, volume::volume);
    // The volumes were read first, because `[listen]` is optional if clients can reach one of them
    // directly.
    let sockets = volumes.iter().any(volume::UnsettledVolume::has_socket);
    let found = sockets || volumes.iter().any(volume::UnsettledVolume::is_device);
    let listen = listen::listen(doc, &root, (sockets, found));
    let server = Server {
        drives,
        manage: manage::manage(doc, &root, &listen),
        gateways: gateways::gateways(doc, &root),
        listen,
        limits,
        tenants,
        process: match root.entry("server").and_then(|e| e.table(doc, &SERVER)) {
            Some(table) => ProcessSettings::read(doc, &table),
            None => ProcessSettings::default(),
        },
        ..Server::default()
    };
    let mut draft = Draft { server, broken };
    draft.server.volumes = volume::settle(doc, &mut draft, volumes);
    volume::check_sockets(doc, &draft.server);
    // A key that is set but wrong was already reported.
    if draft.server.drives.is_empty() && root.entry("drive").is_none() {
        let what = "a server needs at least one drive";
        doc.report_span(&(0..0), "drive", what, "add one, for example [drive.fast]");
    }
    draft
}

/// Reads each table `[key.NAME]`. The paths of those with problems are added to `broken`.
fn named<'a, T>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    key: &str,
    broken: &mut BTreeSet<String>,
    mut read: impl FnMut(&mut Document<'a>, &str, &KeyEntry<'a>) -> T,
) -> Vec<T> {
    let table = root.entry(key).and_then(|e| e.names(doc, key));
    let mut all = Vec::new();
    for (name, entry) in table.iter().flat_map(ShapedTable::entries) {
        let before = doc.problem_count();
        doc.record_place(&entry);
        let name = name.get_ref();
        if name.is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control) {
            let what = format!("{} is not a valid name", quoted(name));
            let help = "use 1 to 255 bytes without control characters";
            doc.report(&entry, what, help);
        }
        all.push(read(doc, name, &entry));
        // Further findings about a table with problems could be consequences of them.
        if doc.problem_count() > before {
            broken.insert(entry.path);
        }
    }
    all
}

/// The maximum length of a name in bytes. NBD permits 4096, which is too long for logs and metrics.
const NAME_MAX: usize = 255;
