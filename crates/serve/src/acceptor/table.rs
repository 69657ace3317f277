//! The exports from which clients can choose, and the offer to one client.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::access::{ClientCredentials, ClientIdentity, Origin, Refusals, VolumeAccess};
use crate::backend::Traits;
use crate::clock::ServerClock;
use crate::places::{Claim, Evicted, Peer, Places, Reservations, Ticket};
use weir_config::NotifyRules;

/// The location of a volume: its shard, its drive and its address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VolumeLocation {
    pub(crate) shard: usize,
    /// The index of the drive within its shard.
    pub(crate) drive: usize,
    pub(crate) space: u32,
}

/// A volume that clients can choose. Each front end describes it in the terms of its protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct VolumeExport {
    pub(crate) name: String,
    /// The size of the volume in bytes.
    pub(crate) size: u64,
    pub(crate) traits: Traits,
    /// True if the drive rotates, according to the configuration.
    pub(crate) rotational: bool,
    /// The maximum length of a read or write, in bytes.
    pub(crate) request_size: u32,
    /// Properties of the drive: the number of queues, the requests that each of them holds, and the
    /// maximum length of a command in bytes.
    pub(crate) queues: u16,
    pub(crate) tags: u16,
    pub(crate) max_transfer: u32,
    pub(crate) place: VolumeLocation,
    /// The way that virtual machines and the volume notify each other.
    pub(crate) notify: NotifyRules,
    /// The key of the contract that promises something to the volume. It is the volume's own or its
    /// tenant's.
    pub(crate) promise: Option<String>,
    /// The rules for clients of the volume.
    pub(crate) access: Arc<VolumeAccess>,
}

/// All exports, in the order of the list, with the reservations of places. It is cheap
/// to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExportTable(Arc<(Vec<VolumeExport>, Reservations)>);

impl ExportTable {
    pub(crate) fn new(exports: Vec<VolumeExport>) -> Self {
        let promised = exports.iter();
        let promised = promised.filter_map(|e| Some((&*e.name, e.promise.as_deref()?)));
        let reservations = Reservations::new(promised);
        Self(Arc::new((exports, reservations)))
    }

    pub(crate) fn exports(&self) -> &[VolumeExport] {
        &self.0.0
    }

    /// Returns true unless a volume does not permit a client. A volume that does not exist ends its
    /// connections itself.
    pub(super) fn permits(&self, volume: &str, client: &ClientCredentials) -> bool {
        let export = self.exports().iter().find(|export| *export.name == *volume);
        export.is_none_or(|export| client.suffice(&export.access))
    }

    /// Returns the reservations of places for volumes with a promise.
    fn reservations(&self) -> &Reservations {
        &self.0.1
    }
}

/// A client that was accepted.
#[derive(Debug)]
pub(crate) struct AcceptedClient {
    pub(crate) peer: Peer,
    pub(crate) origin: Origin,
    /// The name for the log.
    pub(crate) name: String,
}

/// The offer to one client: the table, and a place if the client may start.
pub(crate) struct PlaceOffer<'a> {
    pub(crate) table: &'a ExportTable,
    places: &'a RefCell<Places>,
    clock: ServerClock,
    /// The number of the connection.
    pub(crate) connection: u64,
    peer: Peer,
    pub(crate) origin: Origin,
    /// The name of the client in the log.
    pub(crate) name: &'a str,
    pub(crate) refusals: &'a Refusals,
    /// The place that was taken for the connection, and the connection that has to end for it.
    taken: Cell<Option<(Ticket, Option<Evicted>)>>,
}

impl<'a> PlaceOffer<'a> {
    pub(super) fn new(
        table: &'a ExportTable,
        (places, clock): (&'a RefCell<Places>, ServerClock),
        (connection, client): (u64, &'a AcceptedClient),
        refusals: &'a Refusals,
    ) -> Self {
        Self {
            table,
            places,
            clock,
            connection,
            peer: client.peer,
            origin: client.origin,
            name: &client.name,
            refusals,
            taken: Cell::new(None),
        }
    }

    /// Takes one of the server's places for connections ([`Places`]) for the client, which is about
    /// to use an existing volume. The place is freed when its ticket is dropped, also if the
    /// handshake fails later.
    ///
    /// # Errors
    /// Returns a message for the client if it gets no place.
    pub(crate) fn take_place(&self, volume: &str) -> Result<(), &'static str> {
        let claim = Claim {
            peer: self.peer,
            volume: volume.into(),
        };
        let mut places = self.places.borrow_mut();
        let (now, reservations) = (self.clock.now(), self.table.reservations());
        let taken = places.take(self.connection, claim, now, reservations);
        let refused = taken.is_none();
        // The acceptor takes this value after the step of the handshake, and notifies the shard of
        // an evicted connection.
        self.taken.set(taken);
        if refused { Err(FULL) } else { Ok(()) }
    }

    /// Logs that `allow` of a volume does not permit the client.
    pub(crate) fn log_not_permitted(&self, volume: &str, client: ClientIdentity<'_>) {
        tracing::warn!(
            connection = self.connection,
            peer = self.name,
            volume,
            client = %client,
            "a client is not permitted to use the volume; to permit it, add one of its properties to allow of the volume"
        );
    }

    /// Removes and returns the place that was taken, and the connection that has to end for it.
    pub(super) fn taken(&self) -> Option<(Ticket, Option<Evicted>)> {
        self.taken.take()
    }
}

/// The message for a client that gets no place.
pub(crate) const FULL: &str = "all connections are in use (limits.connections)";
