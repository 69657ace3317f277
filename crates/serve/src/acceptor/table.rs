//! What clients can choose from, and what one of them is offered.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::backend::Traits;
use crate::places::{Evicted, Peer, Places, Ticket};
use weir_config::Notify;

/// Where a volume is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) shard: usize,
    /// The drive's number within its shard.
    pub(crate) drive: usize,
    pub(crate) space: u32,
}

/// A volume that can be chosen, as every front end describes it in its own way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Export {
    pub(crate) name: String,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) traits: Traits,
    /// Whether its drive rotates, as the configuration has it.
    pub(crate) rotational: bool,
    /// The longest read or write, bytes.
    pub(crate) request_size: u32,
    /// The drive's own: its queues, how many requests each takes at a time, and the longest of these, bytes.
    pub(crate) queues: u16,
    pub(crate) tags: u16,
    pub(crate) max_transfer: u32,
    pub(crate) place: Place,
    /// How virtual machines and the volume wake each other.
    pub(crate) notify: Notify,
}

/// All of them, in the order in which they are listed. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(Arc<Vec<Export>>);

impl Table {
    pub(crate) fn new(exports: Vec<Export>) -> Self {
        Self(Arc::new(exports))
    }

    pub(crate) fn exports(&self) -> &[Export] {
        &self.0
    }
}

/// What one client is offered: the table, and a place if it may begin.
pub(crate) struct Offer<'a> {
    pub(crate) table: &'a Table,
    places: &'a RefCell<Places>,
    /// Its number.
    pub(crate) connection: u64,
    peer: Peer,
    /// What to call it in the log.
    pub(crate) name: &'a str,
    /// What it was given: its place, and the connection that had to go.
    taken: Cell<Option<(Ticket, Option<Evicted>)>>,
}

impl<'a> Offer<'a> {
    pub(super) fn new(
        table: &'a Table,
        places: &'a RefCell<Places>,
        (connection, peer, name): (u64, Peer, &'a str),
    ) -> Self {
        Self {
            table,
            places,
            connection,
            peer,
            name,
            taken: Cell::new(None),
        }
    }

    /// Takes a place for the client, which may begin with a volume that there is.
    ///
    /// # Errors
    /// There is none, in words for the client.
    pub(crate) fn take_place(&self) -> Result<(), &'static str> {
        let taken = self.places.borrow_mut().take(self.connection, self.peer);
        let refused = taken.is_none();
        self.taken.set(taken);
        if refused { Err(FULL) } else { Ok(()) }
    }

    /// What it was given.
    pub(super) fn taken(&self) -> Option<(Ticket, Option<Evicted>)> {
        self.taken.take()
    }
}

/// What a client without a place is told.
pub(crate) const FULL: &str = "there are as many connections as there may be (limits.connections)";
