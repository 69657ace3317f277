//! From the core's outcomes to clients' answers, and what is given back with them.

use weir_core::{Done, Op, Outcome};

use super::Shard;
use super::client::State;
use super::count::Counts;
use super::front::Pending;
use super::front::{Answer, Found, Load};
use crate::errno::{EIO, ESHUTDOWN};

impl Shard {
    /// A request is over: its answer joins the others of its client.
    pub(super) fn done(&mut self, number: usize, done: &Done) {
        let drive = &mut self.drives[number];
        let Some(pending) = drive.requests.remove(done.cookie as u32) else {
            return;
        };
        let Pending {
            client: slot,
            ask,
            cost,
            mut payload,
            alone,
            untaken,
        } = pending;
        let client = &mut self.clients[slot].client;
        let counted = Counts {
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
        let sends = client.state != State::Gone;
        let mut kept = 0;
        if sends {
            let result = match (done.outcome, ask.op) {
                (Outcome::Ok, Op::Read) => Ok(Found::Data(&mut payload)),
                (Outcome::Ok, Op::Extents) => payload.extents().map(Found::Extents).ok_or(EIO),
                (Outcome::Ok, _) => Ok(Found::Done),
                (Outcome::Error(errno), _) => Err(errno),
                (Outcome::Cancelled, _) => Err(ESHUTDOWN),
            };
            let answer = Answer {
                ask: &ask,
                cost,
                result,
            };
            kept = self.with_front(slot, |front, cx| front.answer(answer, cx));
            self.clients[slot].client.unsent += kept;
        }
        self.spare.put(payload);
        self.answered(slot, cost - kept, sends);
    }

    /// The rest of what there is to do when a request was answered, or would have been (`sends` is false then). `bytes` bytes of its
    /// reservation are not needed any more.
    pub(super) fn answered(&mut self, slot: u32, bytes: u64, sends: bool) {
        if sends {
            self.mark_for_send(slot);
            self.give(slot, bytes);
        } else {
            self.release(slot, 1, bytes);
        }
        self.close_if_done(slot);
    }

    /// Remembers that there is something to send, and puts the stream on hold if too much of it is not taken.
    pub(super) fn mark_for_send(&mut self, slot: u32) {
        let client = &mut self.clients[slot].client;
        if !client.marked {
            client.marked = true;
            self.marked.push(slot);
        }
        if !client.held && client.unsent > self.limits.unsent_per_connection {
            self.set_held(slot, true);
        }
    }

    /// Answers have left, or never will.
    pub(super) fn left(&mut self, slot: u32, load: Load) {
        if load != Load::default() {
            self.clients[slot].client.unsent -= load.bytes;
            self.release(slot, load.requests, load.bytes);
        }
    }

    /// Takes the stream off its hold once half of what it held it for has been taken.
    pub(super) fn unhold(&mut self, slot: u32) {
        let client = &self.clients[slot].client;
        if client.held && client.unsent <= self.limits.unsent_per_connection / 2 {
            self.set_held(slot, false);
        }
    }

    /// The client does not take its answers, or does so again.
    fn set_held(&mut self, slot: u32, held: bool) {
        let client = &mut self.clients[slot].client;
        client.held = held;
        let drive = &mut self.drives[client.drive];
        drive.layer.hold(self.now, client.stream, held);
        drive.suspend(self.now, client.space, client.non_flush, held);
        drive.touched = true;
    }

    /// Takes back what requests had taken of the client's bounds and of memory.
    pub(super) fn release(&mut self, slot: u32, requests: u32, bytes: u64) {
        let client = &mut self.clients[slot].client;
        client.outstanding -= requests;
        self.give(slot, bytes);
        if self.clients[slot].client.blocked {
            self.mark_ready(slot);
        }
    }

    fn give(&mut self, slot: u32, bytes: u64) {
        if bytes > 0 {
            let client = &mut self.clients[slot].client;
            self.pool.give(&mut client.used, bytes);
            if client.blocked {
                self.mark_ready(slot);
            }
        }
    }

    /// Lets the answers of this turn leave.
    pub(super) fn send_all(&mut self) {
        while let Some(slot) = self.marked.pop() {
            let Some(attached) = self.clients.get_mut(slot) else {
                continue;
            };
            attached.client.marked = false;
            match self.with_front(slot, |front, cx| front.send(cx)) {
                Ok(load) => {
                    self.left(slot, load);
                    self.unhold(slot);
                }
                Err(reason) => self.disconnect(slot, Some(reason)),
            }
        }
    }
}
