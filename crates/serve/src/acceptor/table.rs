//! What clients can choose from, and what one of them is offered.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::backend::Traits;
use crate::clock::Clock;
use crate::places::{Claim, Evicted, Peer, Places, Reservations, Ticket};
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
    /// The key of the contract that promises it something, its own or its tenant's.
    pub(crate) promise: Option<String>,
}

/// All of them, in the order in which they are listed. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(Arc<(Vec<Export>, Reservations)>);

impl Table {
    pub(crate) fn new(exports: Vec<Export>) -> Self {
        let promised = exports.iter();
        let promised = promised.filter_map(|e| Some((&*e.name, e.promise.as_deref()?)));
        let reservations = Reservations::new(promised);
        Self(Arc::new((exports, reservations)))
    }

    pub(crate) fn exports(&self) -> &[Export] {
        &self.0.0
    }

    /// The volumes among them that have places of their own.
    fn reservations(&self) -> &Reservations {
        &self.0.1
    }
}

/// What one client is offered: the table, and a place if it may begin.
pub(crate) struct Offer<'a> {
    pub(crate) table: &'a Table,
    places: &'a RefCell<Places>,
    clock: Clock,
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
        (places, clock): (&'a RefCell<Places>, Clock),
        (connection, peer, name): (u64, Peer, &'a str),
    ) -> Self {
        Self {
            table,
            places,
            clock,
            connection,
            peer,
            name,
            taken: Cell::new(None),
        }
    }

    /// Takes a place for the client, which is about to begin with a volume that there is.
    ///
    /// # Errors
    /// There is none, in words for the client.
    pub(crate) fn take_place(&self, volume: &str) -> Result<(), &'static str> {
        let claim = Claim {
            peer: self.peer,
            volume: volume.into(),
        };
        let mut places = self.places.borrow_mut();
        let (now, reservations) = (self.clock.now(), self.table.reservations());
        let taken = places.take(self.connection, claim, now, reservations);
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
pub(crate) const FULL: &str = "all connections are in use (limits.connections)";
