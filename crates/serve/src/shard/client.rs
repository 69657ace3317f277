//! What a shard has of a client, whatever protocol it speaks.

use std::collections::VecDeque;

use weir_core::{Instant, StreamId};

use crate::places::Ticket;

/// Where a client stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Requests come and go.
    Open,
    /// No further request is taken; what was taken is answered, then the connection ends.
    Leaving,
    /// The client is not there any more, or broke the protocol: nothing is sent, what has not reached the drive is given up.
    Gone,
}

/// When something arrived. The shard notices it at the beginning of a turn; it arrived during the turns before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arrived {
    /// The earliest time: promises count from it, so that no time for which a client waits is left out.
    pub(crate) earliest: Instant,
    /// The most likely time: latencies count from it.
    pub(crate) likely: Instant,
}

impl Arrived {
    /// It arrived just now.
    pub(crate) fn at(now: Instant) -> Self {
        Self {
            earliest: now,
            likely: now,
        }
    }
}

/// A client and what it has under way.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) peer: String,
    /// Its volume: the number of the drive within the shard, and the space.
    pub(crate) drive: usize,
    pub(crate) space: u32,
    /// What reads of the volume are rounded to ([`crate::backend::Traits::align`]).
    pub(crate) align: u32,
    pub(crate) stream: StreamId,
    pub(crate) state: State,
    /// Requests the core had no room for, in their order.
    pub(crate) queue: VecDeque<u32>,
    /// The core said so.
    pub(crate) paused: bool,
    /// The core was told that the answers are not read.
    pub(crate) held: bool,
    /// It stopped at a bound; whatever frees something looks at it again.
    pub(crate) blocked: bool,
    /// It is in the shard's list of clients to take requests from.
    pub(crate) ready: bool,
    /// It is in the shard's list of clients with answers to send.
    pub(crate) marked: bool,
    /// It waits for memory in the shard's list.
    pub(crate) waiting: bool,
    /// Its flow in the shard's schedule.
    pub(crate) flow: u32,
    /// When bytes or descriptors arrived from which no request was taken yet.
    pub(crate) arrived: Option<Arrived>,
    /// When the first part of a request arrived, and the turn that found the rest missing.
    pub(crate) partial: Option<(Arrived, u64)>,
    /// When it last took answers or sent something.
    pub(crate) last_activity: Instant,
    /// Requests taken whose answer has not left.
    pub(crate) outstanding: u32,
    /// Of these, those that are not over: in the core, in its queue, or with the backend.
    pub(crate) live: u32,
    /// Of these, those that count for promises: all but flushes.
    pub(crate) non_flush: u32,
    /// Bytes that requests transferred whose answers have not begun to leave.
    pub(crate) transferred: u64,
    /// Bytes reserved.
    pub(crate) used: u64,
    /// Of these, those that answers keep until they have left.
    pub(crate) unsent: u64,
    pub(crate) ticket: Ticket,
}

impl Client {
    /// Requests come and go.
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Its requests are taken as they come. A client at a bound is looked at when that changes.
    pub(crate) fn takes(&self) -> bool {
        self.is_open() && !self.paused && !self.blocked && !self.waiting
    }

    /// It has sent or taken something.
    pub(crate) fn note_activity(&mut self, now: Instant) {
        self.last_activity = now;
        self.ticket.note_activity(now);
    }
}
