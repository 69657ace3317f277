//! Requests that clients wait for.

use crate::parts::Parts;
use weir_core::{Cookie, Done, Instant, Span};

/// A request that a client waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) client: u32,
    /// Bytes it moves.
    pub(crate) bytes: u32,
    /// How many requests its client had issued before.
    pub(crate) number: u64,
    /// When it was due: its latency counts from here.
    pub(crate) due: Instant,
    /// For how long the elevator has idled: at first when it was sent, then in all while it waited in the elevator.
    pub(crate) idle: Span,
    /// For how long the drive worked on its last piece; `None` if it worked on none of its own (a flush that joined another).
    pub(crate) service: Option<Span>,
}

impl Flight {
    /// Where its time went.
    pub(crate) fn parts(&self, done: &Done) -> Parts {
        let waits = done.waits;
        Parts {
            waits,
            idle: self.idle.min(waits.elevator),
            queue: (self.service).map_or(Span::ZERO, |service| waits.drive.saturating_sub(service)),
        }
    }
}

/// Requests that clients wait for, by the cookie they carry through the layer.
#[derive(Debug)]
pub(crate) struct Flights {
    slots: Vec<Option<Flight>>,
    free: Vec<u32>,
}

impl Flights {
    /// Room for `capacity`.
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            slots: vec![None; capacity as usize],
            free: (0..capacity).rev().collect(),
        }
    }

    /// A client never has more outstanding than the depth that the room was made for.
    #[inline]
    pub(crate) fn insert(&mut self, flight: Flight) -> Cookie {
        let slot = self.free.pop().expect("room for every client's depth");
        self.slots[slot as usize] = Some(flight);
        slot.into()
    }

    #[inline]
    pub(crate) fn remove(&mut self, cookie: Cookie) -> Flight {
        let flight = self.slots[cookie as usize].take();
        self.free.push(cookie as u32);
        flight.expect("a cookie is answered once")
    }

    /// The request with this cookie, if there is one.
    #[inline]
    pub(crate) fn get_mut(&mut self, cookie: Cookie) -> Option<&mut Flight> {
        self.slots.get_mut(cookie as usize)?.as_mut()
    }

    /// When each request of a client was due.
    pub(crate) fn of(&self, client: u32) -> impl Iterator<Item = Instant> + '_ {
        let all = self.slots.iter().flatten();
        let of_client = all.filter(move |flight| flight.client == client);
        of_client.map(|flight| flight.due)
    }

    /// The oldest request of a client.
    pub(crate) fn oldest(&self, client: u32) -> Option<Cookie> {
        let of_client = |slot: &Option<Flight>| slot.filter(|flight| flight.client == client);
        let all = self.slots.iter().enumerate();
        all.filter_map(|(cookie, slot)| Some((of_client(slot)?.number, cookie as Cookie)))
            .min()
            .map(|(_, cookie)| cookie)
    }
}
