//! Requests that clients wait for.

use weir_core::{Cookie, Done, Instant, Outcome, Span};
use weir_measure::Breakdown;

/// A request that a client waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) client: u32,
    /// Bytes it moves.
    pub(crate) bytes: u64,
    /// How many requests its client had issued before.
    pub(crate) number: u64,
    /// When it was due: its latency counts from here.
    pub(crate) due: Instant,
    /// For how long the elevator has idled: at first when it was sent, then in all while it waited in the elevator.
    pub(crate) idle: Span,
    /// For how long the drive worked on its last piece; `None` if it worked on none of its own (a flush that joined another).
    pub(crate) service: Option<Span>,
    /// The request that it is a part of; `None`: it is whole.
    whole: Option<Cookie>,
    /// Of a request that was cut: parts that are not over, and the first error.
    left: u32,
    outcome: Outcome,
}

impl Flight {
    /// A request that is about to be sent.
    pub(crate) fn new(client: u32, bytes: u64, number: u64, due: Instant) -> Self {
        Self {
            client,
            bytes,
            number,
            due,
            idle: Span::ZERO,
            service: None,
            whole: None,
            left: 0,
            outcome: Outcome::Ok,
        }
    }

    /// Where its time went.
    pub(crate) fn parts(&self, done: &Done) -> Breakdown {
        let waits = done.waits;
        Breakdown {
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

    /// Another part of a request that is too long for what it comes to, `bytes` long.
    pub(crate) fn insert_part(&mut self, whole: Cookie, bytes: u64) -> Cookie {
        let flight = self.slots[whole as usize].as_mut();
        let flight = flight.expect("a request is there while it is cut");
        flight.left += 1;
        let part = Flight {
            bytes,
            whole: Some(whole),
            left: 0,
            ..*flight
        };
        self.insert(part)
    }

    /// An answer has come. The request that is over with it, if one is, and how: of one that was cut, with the answer to its last part.
    /// The waits are those of that part.
    #[inline]
    pub(crate) fn end(&mut self, done: &Done) -> Option<(Flight, Done)> {
        let ended = self.remove(done.cookie);
        let Some(whole) = ended.whole else {
            return Some((ended, *done));
        };
        let flight = self.slots[whole as usize].as_mut();
        let flight = flight.expect("a request lasts as long as its parts");
        if flight.outcome == Outcome::Ok {
            flight.outcome = done.outcome;
        }
        flight.left -= 1;
        if flight.left > 0 {
            return None;
        }
        (flight.idle, flight.service) = (ended.idle, ended.service);
        let outcome = flight.outcome;
        Some((self.remove(whole), Done { outcome, ..*done }))
    }

    #[inline]
    fn remove(&mut self, cookie: Cookie) -> Flight {
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

    /// The oldest request of a client, or what is left of its parts.
    pub(crate) fn oldest(&self, client: u32) -> Vec<Cookie> {
        let of_client = |slot: &Option<Flight>| slot.filter(|flight| flight.client == client);
        let all = (0..).zip(&self.slots);
        let sent = all.filter_map(|(cookie, slot)| Some((cookie, of_client(slot)?)));
        let sent = sent.filter(|(_, flight)| flight.left == 0);
        let sent = sent.map(|(cookie, flight)| {
            let whole = flight.whole.unwrap_or(cookie);
            ((flight.number, whole), cookie)
        });
        let oldest = sent.clone().map(|(request, _)| request).min();
        let parts = sent.filter(|(request, _)| Some(*request) == oldest);
        parts.map(|(_, cookie)| cookie).collect()
    }
}
