//! What clients can choose from.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use weir_wire::nbd::{Denied, ExportInfo, Exports};

use super::Peer;
use super::places::{Evicted, Places, Ticket};

/// Where a volume is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) shard: usize,
    /// The drive's number within its shard.
    pub(crate) drive: usize,
    pub(crate) space: u32,
}

/// A volume that can be chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Export {
    pub(crate) info: ExportInfo,
    pub(crate) place: Place,
}

/// All of them, in the order in which they are listed. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(Arc<Vec<Export>>);

impl Table {
    /// A table of these exports; their keys are set here.
    pub(crate) fn new(mut exports: Vec<Export>) -> Self {
        for (key, export) in (0..).zip(&mut exports) {
            export.info.key = key;
        }
        Self(Arc::new(exports))
    }

    /// Where the export of a key is.
    pub(crate) fn place(&self, key: u64) -> Option<Place> {
        self.0.get(key as usize).map(|export| export.place)
    }
}

impl Exports for Table {
    fn list(&self, each: &mut dyn FnMut(&str, &str)) {
        for Export { info, .. } in self.0.iter() {
            each(&info.name, &info.description);
        }
    }

    /// The empty name is the only volume, where there is but one.
    fn find(&self, name: &str) -> Option<ExportInfo> {
        let found = match &self.0[..] {
            [only] if name.is_empty() => Some(only),
            all => all.iter().find(|export| export.info.name == name),
        };
        found.map(|export| export.info.clone())
    }
}

/// What one client is offered: the table, and a place if it may begin.
pub(crate) struct Offer<'a> {
    pub(crate) table: &'a Table,
    pub(crate) places: &'a RefCell<Places>,
    pub(crate) connection: u64,
    pub(crate) peer: Peer,
    /// What to call it in the log.
    pub(crate) name: &'a str,
    /// What it was given: its place, and who had to go.
    pub(crate) taken: Cell<Option<(Ticket, Option<Evicted>)>>,
}

impl Exports for Offer<'_> {
    fn list(&self, each: &mut dyn FnMut(&str, &str)) {
        self.table.list(each);
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        self.table.find(name)
    }

    fn refuses(&self) -> Option<&'static str> {
        let taken = self.places.borrow_mut().take(self.connection, self.peer);
        let refused = taken.is_none().then_some(FULL);
        self.taken.set(taken);
        refused
    }

    fn denied(&self, what: Denied<'_>) {
        if !crate::log::allowed() {
            return;
        }
        let (connection, peer) = (self.connection, self.name);
        if let Denied::Export(export) = what {
            tracing::warn!(connection, peer, export, "there is no such export");
        } else {
            tracing::warn!(
                connection,
                peer,
                "the client asked for TLS, which is not offered: use a Unix socket or a tunnel"
            );
        }
    }
}

/// What a client is told for whom there is no place.
pub(crate) const FULL: &str = "there are as many connections as there may be (limits.connections)";
