//! The way from outcomes of the core to the answers of clients, and the resources that are released
//! with them.

use weir_core::{Done, Op, Outcome};

use super::Shard;
use super::client::ClientState;
use super::count::RequestFacts;
use super::front::QueuedRequest;
use super::front::{AnswerLoad, RequestAnswer, RequestResult};
use crate::errno::{EIO, ESHUTDOWN};

impl Shard {
    /// Processes a completed request. The front end prepares its answer, which is sent at the end
    /// of the turn.
    pub(super) fn on_done(&mut self, number: usize, done: &Done) {
        let drive = &mut self.drives[number];
        let Some(pending) = drive.requests.remove(done.cookie as u32) else {
            return;
        };
        let QueuedRequest {
            client: slot,
            ask,
            cost,
            mut payload,
            alone,
            untaken,
        } = pending;
        let client = &mut self.clients[slot].client;
        let counted = RequestFacts {
            held: client.held,
            alone,
            untaken,
        };
        drive.count(self.now, client.space, done, counted);
        client.live -= 1;
        client.non_flush -= u32::from(done.op != Op::Flush);
        if done.outcome == Outcome::Ok {
            client.transferred += done.op.transfer(done.length.into());
        }
        if client.state == ClientState::Detached && done.outcome == Outcome::Cancelled {
            let pending = QueuedRequest {
                client: slot,
                ask,
                cost,
                payload,
                alone,
                untaken,
            };
            return self.take_back(slot, pending);
        }
        let sends = client.state != ClientState::Gone;
        let mut kept = 0;
        if sends {
            let result = match (done.outcome, ask.op) {
                (Outcome::Ok, Op::Read) => Ok(RequestResult::Data(&mut payload)),
                (Outcome::Ok, Op::Extents) => {
                    payload.extents().map(RequestResult::Extents).ok_or(EIO)
                }
                (Outcome::Ok, _) => Ok(RequestResult::Done),
                (Outcome::Error(errno), _) => Err(errno),
                (Outcome::Cancelled, _) => Err(ESHUTDOWN),
            };
            let answer = RequestAnswer {
                ask: &ask,
                cost,
                result,
            };
            kept = self.with_front(slot, |front, cx| front.answer(answer, cx));
            self.clients[slot].client.unsent += kept;
        }
        self.spare.put(payload);
        self.finish_answer(slot, cost - kept, sends);
    }

    /// Does the remaining work for a completed request. `bytes` of its reservation are no longer
    /// needed. `sends` is false if the client is gone and gets no answer.
    pub(super) fn finish_answer(&mut self, slot: u32, bytes: u64, sends: bool) {
        if sends {
            self.mark_for_send(slot);
            self.release_bytes(slot, bytes);
        } else {
            self.release(slot, 1, bytes);
        }
        self.close_if_done(slot);
    }

    /// Marks a client as having answers to send. Holds the stream if too many answers wait to be
    /// taken.
    pub(super) fn mark_for_send(&mut self, slot: u32) {
        let client = &mut self.clients[slot].client;
        if !client.marked {
            client.marked = true;
            self.marked.push(slot);
        }
        // The stream of a detached client is closed.
        let is_open = client.state != ClientState::Detached;
        if is_open && !client.held && client.unsent > self.limits.unsent_per_connection {
            self.set_held(slot, true);
        }
    }

    /// Releases the resources of answers that have left or never will.
    pub(super) fn on_answers_left(&mut self, slot: u32, load: AnswerLoad) {
        if load != AnswerLoad::default() {
            self.clients[slot].client.unsent -= load.bytes;
            self.release(slot, load.requests, load.bytes);
        }
    }

    /// Ends the hold of a stream once its unsent answers are down to half of the limit. The
    /// difference keeps the stream from alternating between the two states.
    pub(super) fn unhold(&mut self, slot: u32) {
        let client = &self.clients[slot].client;
        if client.held && client.unsent <= self.limits.unsent_per_connection / 2 {
            self.set_held(slot, false);
        }
    }

    /// Holds a stream because its client does not take answers, or ends the hold.
    pub(super) fn set_held(&mut self, slot: u32, held: bool) {
        let client = &mut self.clients[slot].client;
        client.held = held;
        let drive = &mut self.drives[client.drive];
        drive.layer.hold(self.now, client.stream, held);
        drive.suspend(self.now, client.space, client.non_flush, held);
        drive.touched = true;
    }

    /// Releases requests and bytes from the client's bounds, and makes the client ready if it
    /// waited for that.
    pub(super) fn release(&mut self, slot: u32, requests: u32, bytes: u64) {
        let client = &mut self.clients[slot].client;
        client.outstanding -= requests;
        self.release_bytes(slot, bytes);
        if self.clients[slot].client.blocked {
            self.mark_ready(slot);
        }
    }

    /// Releases reserved bytes, and makes the client ready if it waited for them.
    fn release_bytes(&mut self, slot: u32, bytes: u64) {
        if bytes > 0 {
            let client = &mut self.clients[slot].client;
            self.pool.unreserve(&mut client.used, bytes);
            if client.blocked {
                self.mark_ready(slot);
            }
        }
    }

    /// Sends the answers of this turn.
    pub(super) fn send_all(&mut self) {
        while let Some(slot) = self.marked.pop() {
            let Some(attached) = self.clients.get_mut(slot) else {
                continue;
            };
            attached.client.marked = false;
            match self.with_front(slot, |front, cx| front.send(cx)) {
                Ok(load) => {
                    self.on_answers_left(slot, load);
                    self.unhold(slot);
                }
                Err(reason) => self.disconnect(slot, Some(reason)),
            }
        }
    }
}
