//! The elevator `mq-deadline`: requests in the order of position, one direction at a time, with a
//! deadline for each (Linux: `block/mq-deadline.c` of 6.1).
//!
//! Reads and writes are queued separately, at each of three priorities. The elevator dispatches a
//! *batch* of one direction in the order of position. Then it chooses the direction again: reads
//! come first, but writes follow after reads have come first `writes_starved` times. A batch begins
//! where the previous one ended, or with the oldest request if that request is overdue. A lower
//! priority is served only while no request of a higher one is queued or in flight, except for
//! requests that have waited for `prio_aging_expire`.
//!
//! The rules are in `choice`, and the queues in `queue`. `docs/mq-deadline.md` explains them.

mod choice;
mod config;
mod queue;
#[cfg(test)]
mod tests;

pub use config::Config;

use super::common::depth::TagLimit;
use super::common::seek::SeekPosition;
use super::{DispatchDecision, Schedule};
use crate::cx::Cx;
use crate::id::Tag;
use crate::merge::Side;
use crate::request::{Op, Request};
use crate::stream::PriorityClass;
use crate::table::Table;
use queue::{Direction, MqDeadlineQueue, MqDeadlineRequests};

/// Number of priorities, of which the first is the highest (Linux: `enum dd_prio`).
const PRIORITIES: usize = 3;

/// The state of the elevator for one drive (Linux: `struct deadline_data`).
#[derive(Debug)]
pub(crate) struct MqDeadline {
    config: Config,
    waiting: MqDeadlineRequests,
    /// The queued requests of each priority.
    queues: [MqDeadlineQueue; PRIORITIES],
    /// Number of pieces in flight of each priority.
    in_drive: [u32; PRIORITIES],
    /// The direction of the current batch.
    direction: Direction,
    /// Number of pieces of this batch that have been dispatched.
    sent: u32,
    /// Number of times that reads came first while writes were queued.
    starved: u32,
    depth: TagLimit,
}

impl MqDeadline {
    pub(super) fn new(config: &Config, table: &Table) -> Self {
        Self {
            waiting: MqDeadlineRequests::new(table.requests.capacity(), PRIORITIES),
            queues: core::array::from_fn(MqDeadlineQueue::new),
            in_drive: [0; PRIORITIES],
            direction: Direction::Read,
            sent: 0,
            starved: 0,
            depth: TagLimit::new(table, async_depth(config, table)),
            config: *config,
        }
    }

    /// Returns true if a request of this priority is queued or in flight (Linux: `dd_queued`).
    fn is_busy(&self, priority: usize) -> bool {
        self.in_drive[priority] > 0 || !self.queues[priority].is_empty()
    }
}

/// Returns true for requests that may take any tag: reads, because their issuers wait for them.
fn is_free(request: &Request) -> bool {
    request.op.is_read()
}

/// Returns the number of tags that all other requests may hold (Linux: `dd_depth_updated`).
fn async_depth(config: &Config, table: &Table) -> u32 {
    match config.async_depth {
        // The default of Linux is three quarters of all tags.
        0 => (u64::from(table.tags) * 3 / 4) as u32,
        stated => stated,
    }
}

/// Returns the priority of a request (Linux: `ioprio_class_to_prio`).
fn priority_of(request: u32, table: &Table) -> usize {
    let stream = table.requests[request].request.stream.index;
    match table.streams[stream].spec.priority.class {
        PriorityClass::Realtime => 0,
        PriorityClass::BestEffort => 1,
        PriorityClass::Idle => 2,
    }
}

impl Schedule for MqDeadline {
    /// Adds a request to the queue of its priority (Linux: `dd_insert_request`).
    fn insert(&mut self, cx: &mut Cx, request: u32) {
        let live = &cx.table.requests[request];
        let priority = priority_of(request, &cx.table);
        let queue = &mut self.queues[priority];
        (self.waiting).insert(queue, cx.now, request, priority as u8, live);
    }

    fn remove(&mut self, _cx: &mut Cx, request: u32) {
        let priority = self.waiting.priority(request);
        (self.waiting).remove(&mut self.queues[priority], request);
    }

    /// Chooses a request and dispatches its next piece (Linux: `dd_dispatch_request`).
    fn next(&mut self, cx: &mut Cx) -> DispatchDecision {
        let Some(request) = self.choose(cx.now) else {
            return DispatchDecision::Nothing;
        };
        // A new batch begins.
        if self.sent == 0 {
            self.look_ahead(&cx.table, request);
        }
        let (bytes, last) = cx.table.piece(request);
        self.send(request, last);
        DispatchDecision::Take { request, bytes }
    }

    fn limits_tags(&self) -> bool {
        self.depth.is_limited()
    }

    /// Limits all requests except reads (Linux: `dd_limit_depth`).
    fn may_tag(&self, cx: &Cx, request: u32) -> bool {
        is_free(&cx.table.requests[request].request) || self.depth.allows()
    }

    fn on_tag_taken(&mut self, cx: &mut Cx, request: u32) {
        if !is_free(&cx.table.requests[request].request) {
            self.depth.take_tag();
        }
    }

    fn on_tag_returned(&mut self, cx: &mut Cx, request: u32) {
        if !is_free(&cx.table.requests[request].request) {
            self.depth.return_tag();
        }
    }

    /// Accounts for each piece as if it were a request of its own (Linux: `dd_finish_request`).
    fn complete(&mut self, cx: &mut Cx, tag: Tag) {
        let piece = cx.table.pieces.last(tag);
        // Flushes do not pass the elevator, so they were not counted.
        if piece.op != Op::Flush {
            self.in_drive[self.waiting.priority(piece.request)] -= 1;
        }
    }

    /// Searches for a front merge, if those are enabled (Linux: `dd_request_merge`).
    fn beginning_at(&mut self, table: &Table, request: u32, place: SeekPosition) -> Option<u32> {
        if !self.config.front_merges {
            return None;
        }
        let queue = &self.queues[priority_of(request, table)];
        let direction = Direction::of(table.requests[request].request.op);
        self.waiting.at(queue, direction, place)
    }

    /// Moves a command whose beginning has changed (Linux: `dd_request_merged`).
    fn on_growth(&mut self, cx: &mut Cx, leader: u32, side: Side) {
        if side == Side::Front {
            let queue = &self.queues[self.waiting.priority(leader)];
            (self.waiting).update_position(queue, leader, &cx.table.requests[leader]);
        }
    }

    fn neighbour(&mut self, leader: u32, side: Side) -> Option<u32> {
        let queue = &self.queues[self.waiting.priority(leader)];
        self.waiting.neighbour(queue, leader, side)
    }

    /// Removes an absorbed request after it has passed on its age (Linux: `dd_merged_requests`).
    fn on_absorption(&mut self, _cx: &mut Cx, by: u32, request: u32) {
        let queue = &mut self.queues[self.waiting.priority(request)];
        self.waiting.inherit_age(queue, by, request);
        self.waiting.remove(queue, request);
    }
}
