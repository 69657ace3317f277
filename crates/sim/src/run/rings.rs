//! Clients in virtual machines: their requests go into rings, and come out of them.

use super::Run;
use crate::flights::Flight;
use crate::ring::Out;
use weir_config::scenario::Plug;
use weir_core::{Done, Instant, Op, Request};

impl Run<'_> {
    /// What a client asks for now goes into the ring of its virtual machine, in pieces that have room in it.
    pub(super) fn push(&mut self, client: u32) {
        let plugged = self.is_plugged(client);
        let Some(rings) = &mut self.rings else { return };
        let longest = rings.pieces().longest();
        for request in rings.take_asked() {
            rings.next_batch(!plugged);
            let moves = matches!(request.op, Op::Read | Op::Write);
            if request.length <= longest || !moves {
                rings.send(client, request);
                continue;
            }
            let flight = self.flights.get_mut(request.cookie);
            let flight = *flight.expect("it was sent");
            for done in (0..request.length).step_by(longest as usize) {
                let length = longest.min(request.length - done);
                let piece = Flight {
                    bytes: length,
                    ..flight
                };
                let cookie = self.flights.insert(piece);
                rings.pieces().add(cookie, request.cookie);
                let piece = Request {
                    cookie,
                    offset: request.offset + u64::from(done),
                    length,
                    ..request
                };
                rings.send(client, piece);
            }
        }
        rings.next_batch(true);
    }

    /// Whether what a client asks for at one time is kept together.
    pub(super) fn is_plugged(&self, client: u32) -> bool {
        match self.scenario.merging.plug {
            Plug::Cache => self.guests[client as usize].process.is_some(),
            Plug::All => true,
            Plug::None => false,
        }
    }

    /// When something happens in the rings.
    #[inline]
    pub(super) fn next_of_rings(&self) -> Option<Instant> {
        self.rings.as_ref()?.next(self.now)
    }

    /// What the rings and everybody at them do now.
    pub(super) fn rings(&mut self) {
        let Some(rings) = &mut self.rings else { return };
        let mut out = std::mem::take(&mut self.out);
        rings.run(self.now, &mut out);
        for out in out.drain(..) {
            match out {
                Out::Submit(request) => {
                    let client = self.by_slot[request.stream.slot() as usize];
                    self.receive(client, request);
                }
                Out::Deliver(done) => self.out_of_ring(&done),
            }
        }
        self.out = out;
    }

    /// A response has reached its guest. A request that was cut is over when its last piece is; the waits are those of that.
    fn out_of_ring(&mut self, done: &Done) {
        let Some(rings) = &mut self.rings else { return };
        let Some(whole) = rings.pieces().take_whole(done.cookie) else {
            return self.deliver(done);
        };
        let left = rings.pieces().ended(whole, done.outcome);
        let piece = self.flights.remove(done.cookie);
        let Some(outcome) = left else { return };
        if let Some(flight) = self.flights.get_mut(whole) {
            (flight.idle, flight.service) = (piece.idle, piece.service);
        }
        self.deliver(&Done {
            cookie: whole,
            outcome,
            ..*done
        });
    }
}
