//! The handshake of a front end with a client that has not chosen a volume yet, as the acceptor
//! sees it.

use std::cell::RefCell;
use std::fmt;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::PollFd;

use super::Greet;
use super::table::{AcceptedClient, ExportTable, PlaceOffer, VolumeLocation};
use crate::access::{ClientCredentials, Origin, Refusals};
use crate::clock::ServerClock;
use crate::places::{Evicted, Places, Ticket};
use crate::shard::Attach;

/// The exchange of a client and its front end before the client has chosen its volume. It runs on
/// the acceptor's thread.
pub(crate) trait ClientHandshake: Send + fmt::Debug {
    /// Returns the descriptor and the awaited events.
    fn interest(&self) -> PollFd<'_>;

    /// Sends and receives as much as is possible without waiting.
    fn advance(&mut self, offer: &PlaceOffer<'_>) -> HandshakeProgress;

    /// Returns true if the client has not sent anything yet.
    fn is_silent(&self) -> bool;

    /// Returns the identity of a client that has chosen a volume.
    fn credentials(&self, origin: Origin) -> ClientCredentials;

    /// Returns the front end of a client that has chosen a volume ([`HandshakeProgress::Chosen`]).
    fn attach(self: Box<Self>) -> Option<Box<dyn Attach>>;
}

/// The next step of a handshake.
#[derive(Debug)]
pub(crate) enum HandshakeProgress {
    Wait,
    /// The handshake has ended. Contains the reason if the client caused a failure.
    Over(Option<String>),
    /// The client has chosen the volume with this place and this name.
    Chosen(VolumeLocation, String),
}

/// A connection whose client has not chosen its volume yet.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) id: u64,
    pub(super) client: AcceptedClient,
    /// The connection's place, once the client has chosen its volume.
    pub(super) ticket: Option<Ticket>,
    pub(super) since: Instant,
    pub(super) deadline: Instant,
    pub(super) handshake: Box<dyn ClientHandshake>,
}

impl Opening {
    pub(super) fn new(
        id: u64,
        (socket, client): (OwnedFd, AcceptedClient),
        greet: &Greet,
        timeout: Duration,
    ) -> Self {
        let since = Instant::now();
        Self {
            id,
            client,
            ticket: None,
            since,
            deadline: since + timeout,
            handshake: greet(socket),
        }
    }

    /// Returns true if the connection had a place and has lost it to another one. This is possible
    /// between the choice of the volume and the end of the handshake.
    pub(super) fn is_lost(&self) -> bool {
        self.ticket.as_ref().is_some_and(Ticket::is_lost)
    }

    /// Sends and receives as much as is possible without waiting. If another connection has to end
    /// for this one, it is added to `evicted`.
    pub(super) fn advance(
        &mut self,
        table: &ExportTable,
        places: (&RefCell<Places>, ServerClock),
        refusals: &Refusals,
        evicted: &mut Vec<Evicted>,
    ) -> HandshakeProgress {
        let offer = PlaceOffer::new(table, places, (self.id, &self.client), refusals);
        let next = self.handshake.advance(&offer);
        if let Some((ticket, gone)) = offer.taken() {
            self.ticket = Some(ticket);
            evicted.extend(gone);
        }
        next
    }
}
