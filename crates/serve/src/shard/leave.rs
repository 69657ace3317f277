//! How connections end, and the shard.

use std::time::Duration;

use weir_core::{Instant, Op, Span};
use weir_uring::Ring;

use super::Shard;
use super::client::{Client, State};
use super::front::Attached;

/// How long a client that holds memory others wait for may do nothing.
const PATIENCE: Span = Span::from_secs(5);
/// How long a connection that has lost its place waits for its client to take the last answers.
const LAST_ANSWERS: Span = Span::from_secs(1);
/// Number of such connections at a time.
const LAST_ANSWERED: usize = 16;
/// Number of clients that are ended at a time.
const EVICTIONS: usize = 16;

/// The shard is ending.
#[derive(Debug)]
pub(super) struct Drain {
    within: Span,
    deadline: Instant,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// What was taken is being answered.
    Answering,
    /// No client is left; the storage is to end what it has begun and make everything durable.
    Settling,
}

/// Whether a shard may end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drained {
    /// There is something to do still.
    No,
    /// Every client has its answers and everything is durable, as far as the storage says so.
    Yes,
    /// The storage did not answer in time.
    GivenUp,
}

impl Drain {
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Shard {
    /// The client is not there any more, or (with a reason) is to go at once.
    pub(super) fn disconnect(&mut self, slot: u32, reason: Option<&str>) {
        let Attached { client, front } = &mut self.clients[slot];
        if client.state == State::Gone {
            return self.close_if_done(slot);
        }
        if let Some(reason) = reason.filter(|_| crate::log::allowed()) {
            let Client { id, peer, .. } = client;
            tracing::warn!(connection = id, %peer, reason, "the server closed a connection");
        }
        client.state = State::Gone;
        let unsent = front.close(&mut self.ring);
        let drive = &mut self.drives[client.drive];
        drive.layer.close(self.now, client.stream);
        drive.touched = true;
        let (mut requests, mut bytes) = (0, 0);
        for id in std::mem::take(&mut client.queue) {
            client.live -= 1;
            if let Some(pending) = drive.requests.remove(id) {
                requests += 1;
                bytes += pending.cost;
                let op = pending.ask.op;
                client.non_flush -= u32::from(op != Op::Flush);
                drive.withdraw(self.now, client.space, op, client.held);
            }
        }
        self.left(slot, unsent);
        self.release(slot, requests, bytes);
        self.close_if_done(slot);
    }

    /// A connection has lost its place to another: no further request is taken from it. Its memory,
    /// stream and descriptors are those of the newcomer as soon as what it has under way is
    /// answered, so few such connections are waited for, and not for long.
    pub(super) fn evict(&mut self, id: u64) {
        let Some(slot) = self.slot_of(id) else {
            return;
        };
        let client = &mut self.clients[slot].client;
        if client.state != State::Open {
            return;
        }
        client.state = State::Leaving;
        if crate::log::allowed() {
            let Client { id, peer, .. } = client;
            tracing::warn!(connection = id, %peer, "the server closes a connection to make room for another (limits.connections)");
        }
        self.mark_ready(slot);
        self.evicted.push_back((self.now + LAST_ANSWERS, id));
        if self.evicted.len() > LAST_ANSWERED {
            self.end_evicted();
        }
    }

    /// Ends the connection that lost its place first, if it still waits for its client to take the
    /// last answers.
    fn end_evicted(&mut self) {
        let Some((_, id)) = self.evicted.pop_front() else {
            return;
        };
        if let Some(slot) = self.slot_of(id) {
            self.disconnect(
                slot,
                Some("it had to make room for another connection, and the client read no reply"),
            );
        }
    }

    fn slot_of(&self, id: u64) -> Option<u32> {
        let slots = self.clients.slots();
        slots.into_iter().find(|s| self.clients[*s].client.id == id)
    }

    /// Ends a connection that is leaving once everything is answered, and forgets one of which nothing is left.
    pub(super) fn close_if_done(&mut self, slot: u32) {
        let Some(attached) = self.clients.get(slot) else {
            return;
        };
        match attached.client.state {
            // A payload that is still to come is not waited for.
            State::Leaving if attached.client.live == 0 && attached.front.is_idle() => {
                self.disconnect(slot, None);
            }
            State::Gone if attached.is_over() => self.forget(slot),
            State::Open | State::Leaving | State::Gone => {}
        }
    }

    /// While somebody waits for memory: ends those clients, largest first, that hold more than what is guaranteed and have neither taken
    /// answers nor sent anything for a while. Nobody else's request would ever be served otherwise.
    pub(super) fn evict_idle(&mut self) {
        while self.evicted.front().is_some_and(|(at, _)| *at <= self.now) {
            self.end_evicted();
        }
        if self.waiting.is_empty() {
            self.evict_at = None;
            return;
        }
        let at = *self.evict_at.get_or_insert(self.now + PATIENCE);
        if self.now < at {
            return;
        }
        self.evict_at = Some(self.now + PATIENCE);
        let mut idle = self.clients.slots();
        idle.retain(|&slot| {
            let Attached { client, front } = &self.clients[slot];
            client.state != State::Gone
                && !front.is_kernel()
                && self.pool.is_shared(client.used)
                && client.last_activity + PATIENCE <= self.now
        });
        idle.sort_unstable_by_key(|&slot| std::cmp::Reverse(self.clients[slot].client.used));
        for slot in idle.into_iter().take(EVICTIONS) {
            let reason = "it held memory for which others wait, and the client read no reply for five seconds";
            self.disconnect(slot, Some(reason));
        }
    }

    fn forget(&mut self, slot: u32) {
        let Some(Attached { mut client, front }) = self.clients.remove(slot) else {
            return;
        };
        self.schedule.leave(client.flow, slot);
        self.shared.retain(|shared| *shared != slot);
        let used = client.used;
        self.pool.give(&mut client.used, used);
        let drive = &mut self.drives[client.drive];
        if client.held {
            drive.suspend(self.now, client.space, client.non_flush, false);
        }
        let index = client.stream.slot() as usize;
        if drive.streams[index].is_some_and(|open| open.client == slot) {
            drive.streams[index] = None;
        }
        if let Some(volume) = &mut drive.volumes[client.space as usize] {
            volume.connections -= 1;
            volume.kernel -= u32::from(front.is_kernel());
        }
        if crate::log::passing() {
            tracing::info!(connection = client.id, peer = %client.peer, "client disconnected");
        }
    }

    /// From now on nothing new is taken: what clients have sent beyond that is not answered, so that clients that connect again send
    /// it again.
    pub(super) fn begin_drain(&mut self, within: Duration) {
        if self.drain.is_some() {
            return;
        }
        let within = Span::from_nanos(within.as_nanos() as u64);
        self.drain = Some(Drain {
            within,
            deadline: self.now + within,
            stage: Stage::Answering,
        });
        for slot in self.clients.slots() {
            let client = &mut self.clients[slot].client;
            if client.state == State::Open {
                client.state = State::Leaving;
            }
            self.mark_ready(slot);
        }
    }

    /// Whether the shard may end. Nothing holds that up for longer than the drain's time for the answers and as much again for the
    /// storage.
    pub(super) fn drained(&mut self) -> Drained {
        let Some(drain) = &mut self.drain else {
            return Drained::No;
        };
        let (stage, over) = (drain.stage, drain.deadline <= self.now);
        if stage == Stage::Answering {
            if over {
                for slot in self.clients.slots() {
                    self.disconnect(
                        slot,
                        Some("its requests were not completed before the server's deadline"),
                    );
                }
                self.work();
            }
            if !over && self.clients.len() > 0 {
                return Drained::No;
            }
            if let Some(drain) = &mut self.drain {
                drain.stage = Stage::Settling;
                drain.deadline = self.now + drain.within;
            }
        }
        let mut durable = self.clients.len() == 0;
        for drive in &mut self.drives {
            durable &= drive.is_idle() && drive.sync(&mut self.ring, self.now, |_| true);
        }
        if durable && self.ring.in_flight() == 0 && self.returned.is_empty() {
            return Drained::Yes;
        }
        if stage == Stage::Settling && over {
            return Drained::GivenUp;
        }
        Drained::No
    }
}
