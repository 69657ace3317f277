//! Requests that clients wait for.

use weir_core::{Cookie, Instant};

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

    /// The oldest request of a client.
    pub(crate) fn oldest(&self, client: u32) -> Option<Cookie> {
        let of_client = |slot: &Option<Flight>| slot.filter(|flight| flight.client == client);
        let all = self.slots.iter().enumerate();
        all.filter_map(|(cookie, slot)| Some((of_client(slot)?.number, cookie as Cookie)))
            .min()
            .map(|(_, cookie)| cookie)
    }
}
