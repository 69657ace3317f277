//! How connections end, and the shard.

use std::time::Duration;

use weir_core::{Instant, Span};
use weir_uring::Ring;

use super::Shard;
use super::connection::{Connection, State};

/// How long a client that holds memory others wait for may do nothing.
const PATIENCE: Span = Span::from_secs(5);
/// So many of them are ended at a time.
const EVICTIONS: usize = 16;

/// The shard is ending.
#[derive(Debug)]
pub(super) struct Drain {
    /// What is not answered by then is given up; `None` once that was done.
    deadline: Option<Instant>,
}

impl Drain {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl Shard {
    /// The client is not there any more, or (with a reason) is to go at once.
    pub(super) fn gone(&mut self, slot: u32, reason: Option<&str>) {
        let connection = &mut self.connections[slot];
        if connection.state == State::Gone {
            return self.ended(slot);
        }
        if let Some(reason) = reason.filter(|_| crate::log::allowed()) {
            let Connection { id, peer, .. } = connection;
            tracing::warn!(connection = id, %peer, reason, "connection ended");
        }
        connection.state = State::Gone;
        // A pending receive ends with this, and a pending send. It fails when the peer was faster.
        let _ = connection.socket.shutdown();
        connection.output.next.clear();
        let mut load = std::mem::take(&mut connection.output.next_load);
        let drive = &mut self.drives[connection.drive];
        drive.layer.close(self.now, connection.stream);
        drive.touched = true;
        for id in std::mem::take(&mut connection.queue) {
            connection.live -= 1;
            if let Some(pending) = drive.requests.remove(id) {
                load.requests += 1;
                load.bytes += pending.cost;
                drive.withdraw(self.now, connection.space);
            }
        }
        self.release(slot, load);
        self.ended(slot);
    }

    /// A connection has lost its place to another peer's: no further request is taken from it.
    pub(super) fn evict(&mut self, id: u64) {
        let slots = self.connections.slots();
        let Some(slot) = slots.into_iter().find(|s| self.connections[*s].id == id) else {
            return;
        };
        let connection = &mut self.connections[slot];
        if connection.state != State::Open {
            return;
        }
        connection.state = State::Leaving;
        if crate::log::allowed() {
            let Connection { id, peer, .. } = connection;
            tracing::warn!(connection = id, %peer, "the connection was at rest and makes room for another peer's (limits.connections)");
        }
        self.look_at(slot);
    }

    /// Ends a connection that is leaving once everything is answered, and forgets one of which nothing is left.
    pub(super) fn ended(&mut self, slot: u32) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        match connection.state {
            // A payload that is still to come when the server drains is not waited for.
            State::Leaving if connection.live == 0 && connection.output.is_idle() => {
                self.gone(slot, None);
            }
            State::Gone if connection.is_over() => self.forget(slot),
            State::Open | State::Leaving | State::Gone => {}
        }
    }

    /// While somebody waits for memory: ends those, largest first, who hold more than what is guaranteed and have neither taken
    /// answers nor sent anything for a while. Nobody else's request would ever be served otherwise.
    pub(super) fn press(&mut self) {
        if self.waiting.is_empty() {
            self.pressed = None;
            return;
        }
        let at = *self.pressed.get_or_insert(self.now + PATIENCE);
        if self.now < at {
            return;
        }
        self.pressed = Some(self.now + PATIENCE);
        let mut idle = self.connections.slots();
        idle.retain(|&slot| {
            let connection = &self.connections[slot];
            connection.state != State::Gone
                && self.pool.is_shared(connection.used)
                && connection.moved + PATIENCE <= self.now
        });
        idle.sort_unstable_by_key(|&slot| std::cmp::Reverse(self.connections[slot].used));
        for slot in idle.into_iter().take(EVICTIONS) {
            let reason = "it held memory that others wait for and took no answer for five seconds";
            self.gone(slot, Some(reason));
        }
    }

    fn forget(&mut self, slot: u32) {
        let Some(mut connection) = self.connections.remove(slot) else {
            return;
        };
        let used = connection.used;
        self.pool.give(&mut connection.used, used);
        let drive = &mut self.drives[connection.drive];
        let index = connection.stream.slot() as usize;
        if drive.streams[index].is_some_and(|open| open.connection == slot) {
            drive.streams[index] = None;
        }
        if let Some(volume) = &mut drive.volumes[connection.space as usize] {
            volume.connections -= 1;
        }
        if crate::log::passing() {
            tracing::info!(connection = connection.id, peer = %connection.peer, "disconnected");
        }
    }

    /// From now on nothing new is taken.
    pub(super) fn begin_drain(&mut self, within: Duration) {
        if self.drain.is_some() {
            return;
        }
        let within = Span::from_nanos(within.as_nanos() as u64);
        self.drain = Some(Drain {
            deadline: Some(self.now + within),
        });
        for slot in self.connections.slots() {
            let connection = &mut self.connections[slot];
            if connection.state == State::Open {
                connection.state = State::Leaving;
            }
            self.look_at(slot);
        }
    }

    /// Whether the shard may end: no client is left and everything is durable, as far as the storage says so.
    pub(super) fn drained(&mut self) -> bool {
        let Some(drain) = &mut self.drain else {
            return false;
        };
        if self.connections.len() > 0 {
            if drain.deadline.is_some_and(|at| at <= self.now) {
                drain.deadline = None;
                for slot in self.connections.slots() {
                    self.gone(slot, Some("not answered before the server's deadline"));
                }
                self.work();
            }
            return false;
        }
        drain.deadline = None;
        let mut durable = true;
        for drive in &mut self.drives {
            durable &= drive.is_idle() && drive.sync(&mut self.ring, self.now, |_| true);
        }
        durable && self.ring.in_flight() == 0
    }
}
