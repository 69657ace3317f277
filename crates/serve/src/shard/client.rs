//! The state of a client that does not depend on its protocol.

use std::collections::VecDeque;

use weir_core::{Instant, StreamId};

use crate::places::Ticket;

/// The state of a client's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClientState {
    /// The client sends requests and receives answers.
    Open,
    /// The client is being handed over to another process, or was. No request is taken, and
    /// requests that have not reached the drive are taken back.
    Detached,
    /// No further request is taken. When all taken requests are answered, the connection ends.
    Leaving,
    /// The client has disconnected or has violated the protocol. Nothing is sent to it, and
    /// requests that have not reached the drive are given up.
    Gone,
}

/// The arrival time of bytes or requests, as a range. The shard notices an arrival only at the
/// beginning of the turn that follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ArrivalTime {
    /// The earliest possible time. Promises count from it, so that they include all of the time for
    /// which a client waits.
    pub(crate) earliest: Instant,
    /// The most likely time. Latencies count from it.
    pub(crate) likely: Instant,
}

impl ArrivalTime {
    /// Returns the arrival of something that arrived exactly at `now`.
    pub(crate) fn at(now: Instant) -> Self {
        Self {
            earliest: now,
            likely: now,
        }
    }
}

/// A client and its counters of requests and memory.
#[derive(Debug)]
pub(crate) struct ShardClient {
    pub(crate) id: u64,
    pub(crate) peer: String,
    /// The client's volume, as the number of the drive within the shard and the space on that
    /// drive.
    pub(crate) drive: usize,
    pub(crate) space: u32,
    /// The alignment of reads of the volume, in bytes ([`crate::backend::Traits::align`]).
    pub(crate) align: u32,
    pub(crate) stream: StreamId,
    pub(crate) state: ClientState,
    /// Requests that the core had no room for, in their order.
    pub(crate) queue: VecDeque<u32>,
    /// True if the core has asked the shard to pause the client's stream.
    pub(crate) paused: bool,
    /// True if the core has been notified that the client does not read its answers.
    pub(crate) held: bool,
    /// True if the client stopped at a bound. An event that frees resources makes the client ready
    /// again.
    pub(crate) blocked: bool,
    /// True if the client is in the shard's list of clients to take requests from.
    pub(crate) ready: bool,
    /// True if the client is in the shard's list of clients with answers to send.
    pub(crate) marked: bool,
    /// True if the client is in the shard's list of clients that wait for memory.
    pub(crate) waiting: bool,
    /// The client's flow in the shard's schedule.
    pub(crate) flow: u32,
    /// The arrival of bytes or descriptors that no request has been taken from yet.
    pub(crate) arrived: Option<ArrivalTime>,
    /// The arrival of the first part of a request, and the number of the turn that found the rest
    /// missing.
    pub(crate) partial: Option<(ArrivalTime, u64)>,
    /// The time of the client's last message or of its last receipt of answers.
    pub(crate) last_activity: Instant,
    /// The number of requests that were taken and whose answers have not left.
    pub(crate) outstanding: u32,
    /// The number of outstanding requests that are in the core, in `queue`, or with the backend.
    pub(crate) live: u32,
    /// The number of outstanding requests that count for promises, which is all except flushes.
    pub(crate) non_flush: u32,
    /// Bytes transferred by requests whose answers have not begun to leave.
    pub(crate) transferred: u64,
    /// Bytes of the shard's memory that are reserved for the client.
    pub(crate) used: u64,
    /// Those of the reserved bytes that answers keep until they have left.
    pub(crate) unsent: u64,
    pub(crate) ticket: Ticket,
}

impl ShardClient {
    /// Returns true if the client is neither leaving nor gone.
    pub(crate) fn is_open(&self) -> bool {
        self.state == ClientState::Open
    }

    /// Returns true if the client's requests can be taken. A client that stopped at a bound is made
    /// ready when the bound may have changed.
    pub(crate) fn can_take(&self) -> bool {
        self.is_open() && !self.paused && !self.blocked && !self.waiting
    }

    /// Records that the client has sent or taken something.
    pub(crate) fn note_activity(&mut self, now: Instant) {
        self.last_activity = now;
        self.ticket.note_activity(now);
    }
}
