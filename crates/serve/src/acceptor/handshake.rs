//! How a front end lets a client in, and what the acceptor has of one that has not chosen its volume.

use std::cell::RefCell;
use std::fmt;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::PollFd;

use super::Greet;
use super::table::{Offer, Place, Table};
use crate::clock::Clock;
use crate::places::{Evicted, Peer, Places, Ticket};
use crate::shard::Attach;

/// What a client and its front end say to each other before the client has chosen its volume, on the acceptor's thread.
pub(crate) trait Handshake: Send + fmt::Debug {
    /// What it waits for.
    fn interest(&self) -> PollFd<'_>;

    /// Sends and receives as far as it goes without waiting.
    fn advance(&mut self, offer: &Offer<'_>) -> Next;

    /// The client has said nothing yet.
    fn is_silent(&self) -> bool;

    /// The front end, for a client that has chosen ([`Next::Chosen`]).
    fn attach(self: Box<Self>) -> Option<Box<dyn Attach>>;
}

/// What is to be done with a handshake.
#[derive(Debug)]
pub(crate) enum Next {
    Wait,
    /// It is over; with a reason if that is the client's fault.
    Over(Option<String>),
    /// The client has chosen the volume of this name there.
    Chosen(Place, String),
}

/// A client that has not chosen its volume.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) id: u64,
    pub(super) peer: Peer,
    pub(super) name: String,
    /// Its place, once it has chosen its volume.
    pub(super) ticket: Option<Ticket>,
    pub(super) since: Instant,
    pub(super) deadline: Instant,
    pub(super) handshake: Box<dyn Handshake>,
}

impl Opening {
    pub(super) fn new(
        id: u64,
        (socket, peer, name): (OwnedFd, Peer, String),
        greet: &Greet,
        timeout: Duration,
    ) -> Self {
        let since = Instant::now();
        Self {
            id,
            peer,
            name,
            ticket: None,
            since,
            deadline: since + timeout,
            handshake: greet(socket),
        }
    }

    /// It had a place, has not taken the last answer of its handshake, and its place has gone to
    /// another.
    pub(super) fn is_lost(&self) -> bool {
        self.ticket.as_ref().is_some_and(Ticket::is_lost)
    }

    /// Sends and receives as far as it goes without waiting. A connection that has to go for it is put into `evicted`.
    pub(super) fn advance(
        &mut self,
        table: &Table,
        places: (&RefCell<Places>, Clock),
        evicted: &mut Vec<Evicted>,
    ) -> Next {
        let offer = Offer::new(table, places, (self.id, self.peer, &self.name));
        let next = self.handshake.advance(&offer);
        if let Some((ticket, gone)) = offer.taken() {
            self.ticket = Some(ticket);
            evicted.extend(gone);
        }
        next
    }
}
