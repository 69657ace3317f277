//! The end of connections, and the end of a shard.

use std::time::Duration;

use weir_core::{Instant, Op, Span};
use weir_uring::Ring;

use super::Shard;
use super::client::{ClientState, ShardClient};
use super::front::Attached;

/// The permitted inactivity of a client that holds memory while others wait for memory.
const PATIENCE: Span = Span::from_secs(5);
/// The permitted wait of a connection that has lost its place until its client takes the last
/// answers.
const LAST_ANSWERS: Span = Span::from_secs(1);
/// The largest number of connections that have lost their place and wait in this way.
const LAST_ANSWERED: usize = 16;
/// The largest number of idle clients that are disconnected at once.
const EVICTIONS: usize = 16;

/// The progress of a shard that is ending.
#[derive(Debug)]
pub(super) struct Drain {
    within: Span,
    deadline: Instant,
    stage: DrainStage,
}

/// The stage of a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DrainStage {
    /// The requests that were taken are being answered.
    Answering,
    /// No client is left. The storage completes its operations and makes everything durable.
    Settling,
}

/// The result of a drain, or its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DrainState {
    /// The shard still has something to do.
    No,
    /// Every client has its answers, and everything is durable according to the storage.
    Yes,
    /// The storage did not respond in time.
    GivenUp,
}

impl Drain {
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Shard {
    /// Disconnects a client. `reason` is logged if the server closes the connection, and is `None`
    /// if the client has disconnected by itself.
    pub(super) fn disconnect(&mut self, slot: u32, reason: Option<&str>) {
        let Attached { client, front } = &mut self.clients[slot];
        if client.state == ClientState::Gone {
            return self.close_if_done(slot);
        }
        if let Some(reason) = reason.filter(|_| crate::log::allowed()) {
            let ShardClient { id, peer, .. } = client;
            tracing::warn!(connection = id, %peer, reason, "the server closed a connection");
        }
        // From here on no answer is prepared, so the front end can be closed.
        client.state = ClientState::Gone;
        let unsent = front.close(&mut self.ring);
        let drive = &mut self.drives[client.drive];
        // The core cancels the requests that are not in the drive. The others complete normally.
        drive.layer.close(self.now, client.stream);
        drive.touched = true;
        let (mut requests, mut bytes) = (0, 0);
        // The core never got these requests, so it will not report their end.
        for id in std::mem::take(&mut client.queue) {
            client.live -= 1;
            if let Some(pending) = drive.requests.remove(id) {
                requests += 1;
                bytes += pending.cost;
                let op = pending.ask.op;
                client.non_flush -= u32::from(op != Op::Flush);
                drive.uncount_request(self.now, client.space, op, client.held);
            }
        }
        self.on_answers_left(slot, unsent);
        self.release(slot, requests, bytes);
        self.close_if_done(slot);
    }

    /// Ends a connection, for example because it has lost its place to another, and logs a line. No
    /// further request is taken from it. The newcomer gets its memory, stream and descriptors when
    /// its requests are answered. Therefore only a few such connections are waited for, and only
    /// for a short time.
    pub(super) fn evict(&mut self, id: u64, line: &str) {
        let Some(slot) = self.slot_of(id) else {
            return;
        };
        let client = &mut self.clients[slot].client;
        if client.state != ClientState::Open {
            return;
        }
        client.state = ClientState::Leaving;
        if crate::log::allowed() {
            let ShardClient { id, peer, .. } = client;
            tracing::warn!(connection = id, %peer, "{line}");
        }
        self.mark_ready(slot);
        // The client is not trusted to read its last answers, so the connection has a deadline.
        self.evicted.push_back((self.now + LAST_ANSWERS, id));
        if self.evicted.len() > LAST_ANSWERED {
            self.end_evicted();
        }
    }

    /// Disconnects the connection that lost its place first, if its client has not taken the last
    /// answers yet.
    fn end_evicted(&mut self) {
        let Some((_, id)) = self.evicted.pop_front() else {
            return;
        };
        if let Some(slot) = self.slot_of(id) {
            self.disconnect(
                slot,
                Some("it had to end, and the client read no reply in time"),
            );
        }
    }

    /// Returns the slot of the client with this connection id.
    fn slot_of(&self, id: u64) -> Option<u32> {
        let slots = self.clients.slots();
        slots.into_iter().find(|s| self.clients[*s].client.id == id)
    }

    /// Ends a connection that is leaving once all its requests are answered, and removes one of
    /// which nothing is left.
    pub(super) fn close_if_done(&mut self, slot: u32) {
        let Some(attached) = self.clients.get(slot) else {
            return;
        };
        match attached.client.state {
            // The rest of a write's payload is not waited for, because that request was never
            // taken.
            ClientState::Leaving if attached.client.live == 0 && attached.front.is_idle() => {
                self.disconnect(slot, None);
            }
            ClientState::Gone if attached.is_over() => self.remove_client(slot),
            ClientState::Open
            | ClientState::Detached
            | ClientState::Leaving
            | ClientState::Gone => {}
        }
    }

    /// Disconnects idle clients while others wait for memory, those with the most memory first.
    /// Idle are clients that hold more than the guaranteed amount and have neither taken answers
    /// nor sent anything for [`PATIENCE`]. Otherwise they could block the requests of all others
    /// for ever.
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
        // Those that are disconnected now need some time to release their memory.
        self.evict_at = Some(self.now + PATIENCE);
        let mut idle = self.clients.slots();
        idle.retain(|&slot| {
            let Attached { client, front } = &self.clients[slot];
            !matches!(client.state, ClientState::Gone | ClientState::Detached)
                // The kernel cannot reconnect, so its queues are spared.
                && !front.is_kernel()
                && self.pool.exceeds_guarantee(client.used)
                && client.last_activity + PATIENCE <= self.now
        });
        idle.sort_unstable_by_key(|&slot| std::cmp::Reverse(self.clients[slot].client.used));
        for slot in idle.into_iter().take(EVICTIONS) {
            let reason = "it held memory for which others wait, and the client read no reply for five seconds";
            self.disconnect(slot, Some(reason));
        }
    }

    /// Removes a client of which nothing is left, and everything that refers to it.
    fn remove_client(&mut self, slot: u32) {
        let Some(Attached { mut client, front }) = self.clients.remove(slot) else {
            return;
        };
        self.schedule.leave(client.flow, slot);
        self.shared.retain(|shared| *shared != slot);
        let used = client.used;
        self.pool.unreserve(&mut client.used, used);
        let drive = &mut self.drives[client.drive];
        if client.held {
            drive.suspend(self.now, client.space, client.non_flush, false);
        }
        let index = client.stream.slot() as usize;
        // The core may have given the slot of the stream to a new client already.
        if drive.streams[index].is_some_and(|open| open.client == slot) {
            drive.streams[index] = None;
        }
        if let Some(volume) = &mut drive.volumes[client.space as usize] {
            volume.connections -= 1;
            volume.kernel -= u32::from(front.is_kernel());
        }
        if crate::log::connection_line_allowed() {
            tracing::info!(connection = client.id, peer = %client.peer, "client disconnected");
        }
    }

    /// Begins to drain the shard. No new requests are taken. Requests that clients have sent beyond
    /// that stay unanswered, so that clients send them again when they reconnect.
    pub(super) fn begin_drain(&mut self, within: Duration) {
        if self.drain.is_some() {
            return;
        }
        let within = Span::from_nanos(within.as_nanos() as u64);
        self.drain = Some(Drain {
            within,
            deadline: self.now + within,
            stage: DrainStage::Answering,
        });
        for slot in self.clients.slots() {
            let client = &mut self.clients[slot].client;
            if client.state == ClientState::Open {
                client.state = ClientState::Leaving;
            }
            self.mark_ready(slot);
        }
    }

    /// Advances the drain and returns its state. The answers may take the drain's time limit, and
    /// the storage may take the same time again.
    pub(super) fn drained(&mut self) -> DrainState {
        let Some(drain) = &mut self.drain else {
            return DrainState::No;
        };
        let (stage, over) = (drain.stage, drain.deadline <= self.now);
        if stage == DrainStage::Answering {
            if over {
                for slot in self.clients.slots() {
                    self.disconnect(
                        slot,
                        Some("its requests were not completed before the server's deadline"),
                    );
                }
                // The core has to process the closed streams before the drives are idle.
                self.serve_clients();
            }
            if !over && self.clients.len() > 0 {
                return DrainState::No;
            }
            if let Some(drain) = &mut self.drain {
                drain.stage = DrainStage::Settling;
                drain.deadline = self.now + drain.within;
            }
        }
        let mut durable = self.clients.len() == 0;
        for drive in &mut self.drives {
            durable &= drive.is_idle() && drive.sync(&mut self.ring, self.now, |_| true);
        }
        if durable && self.ring.in_flight() == 0 && self.returned.is_empty() {
            return DrainState::Yes;
        }
        if stage == DrainStage::Settling && over {
            return DrainState::GivenUp;
        }
        DrainState::No
    }
}
