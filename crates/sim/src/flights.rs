//! Requests that clients wait for, from submission to answer.

use weir_core::{Cookie, Done, Instant, Outcome, Span};
use weir_measure::Breakdown;

/// A request that a client waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) client: u32,
    /// The number of bytes that the request transfers.
    pub(crate) bytes: u64,
    /// The number of requests that the client had issued before this one.
    pub(crate) number: u64,
    /// The time at which the request was due, from which its latency counts.
    pub(crate) due: Instant,
    /// The elevator's total idle time when the request was sent. From its dispatch on, the part of
    /// the idle time that passed while the request waited in the elevator.
    pub(crate) idle: Span,
    /// The time for which the drive worked on the last piece. `None` if no piece of the request was
    /// served, as for a flush that joined another one.
    pub(crate) service: Option<Span>,
    /// The whole request of which this is a part. `None` if the request was not split.
    whole: Option<Cookie>,
    /// The number of outstanding parts of a request that was split, followed by the first error.
    left: u32,
    outcome: Outcome,
}

impl Flight {
    /// Creates the entry of a request that is about to be sent.
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

    /// Divides the request's time among the places where it was spent.
    pub(crate) fn breakdown(&self, done: &Done) -> Breakdown {
        let waits = done.waits;
        Breakdown {
            waits,
            // Idling that began before the request arrived at the elevator must not count as more
            // than its own wait.
            idle: self.idle.min(waits.elevator),
            queue: (self.service).map_or(Span::ZERO, |service| waits.drive.saturating_sub(service)),
        }
    }
}

/// Requests that clients wait for, by the cookie with which they pass through the layer.
#[derive(Debug)]
pub(crate) struct Flights {
    slots: Vec<Option<Flight>>,
    free: Vec<u32>,
}

impl Flights {
    /// Creates a table with space for `capacity` requests and parts.
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            slots: vec![None; capacity as usize],
            free: (0..capacity).rev().collect(),
        }
    }

    /// Inserts a request. The table has space for the depths of all clients, which no client
    /// exceeds.
    #[inline]
    pub(crate) fn insert(&mut self, flight: Flight) -> Cookie {
        let slot = self.free.pop().expect("room for every client's depth");
        self.slots[slot as usize] = Some(flight);
        slot.into()
    }

    /// Inserts another part of a request that is longer than the layer accepts, with `bytes` bytes.
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

    /// Processes an answer. Returns the request that completes with it, if any, and its result.
    ///
    /// A request that was split completes with the answer to its last part, and gets the waits of
    /// that part.
    #[inline]
    pub(crate) fn end(&mut self, done: &Done) -> Option<(Flight, Done)> {
        let ended = self.remove(done.cookie);
        let Some(whole) = ended.whole else {
            return Some((ended, *done));
        };
        let flight = self.slots[whole as usize].as_mut();
        let flight = flight.expect("a request lasts as long as its parts");
        // The first error is the result of the whole request.
        if flight.outcome == Outcome::Ok {
            flight.outcome = done.outcome;
        }
        flight.left -= 1;
        if flight.left > 0 {
            return None;
        }
        // The last part decides the time of the whole request, so its waits explain that time.
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

    /// The request with this cookie, if it is outstanding.
    #[inline]
    pub(crate) fn get_mut(&mut self, cookie: Cookie) -> Option<&mut Flight> {
        self.slots.get_mut(cookie as usize)?.as_mut()
    }

    /// The due times of a client's outstanding requests.
    pub(crate) fn due_times(&self, client: u32) -> impl Iterator<Item = Instant> + '_ {
        let all = self.slots.iter().flatten();
        let of_client = all.filter(move |flight| flight.client == client);
        of_client.map(|flight| flight.due)
    }

    /// The cookie of a client's oldest request, or the cookies of the parts that are left of it.
    pub(crate) fn oldest_cookies(&self, client: u32) -> Vec<Cookie> {
        let of_client = |slot: &Option<Flight>| slot.filter(|flight| flight.client == client);
        let all = (0..).zip(&self.slots);
        let sent = all.filter_map(|(cookie, slot)| Some((cookie, of_client(slot)?)));
        // A request that was split is known to the layer only by its parts.
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
