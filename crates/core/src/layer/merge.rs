//! Merging in the layer: joins requests into commands, separates them again, ends the members of a
//! command, and keeps the piece that was taken ahead.

use super::{Layer, Output};
use crate::elevator::{AnyElevator, DispatchDecision};
use crate::event::Event;
use crate::merge::{Join, Side};
use crate::table::{Piece, Stage};
use crate::{Cookie, Instant, StreamId, Tag, Wake};
use alloc::vec::Vec;

/// The part of a command that belongs to one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The stream that sent the request.
    pub stream: StreamId,
    /// The driver's name for the request.
    pub cookie: Cookie,
    /// The first byte of the request in the command's space.
    pub offset: u64,
    /// The length of the request in bytes.
    pub length: u32,
}

/// A piece that was taken from the elevator and waits for a tag of the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    request: u32,
    within: u32,
    bytes: u32,
}

impl Layer {
    /// Returns the requests for which the command in flight with this tag stands, ordered by
    /// offset. A split request is listed with its whole range.
    ///
    /// There is more than one only if requests are merged. Flushes that share a command are not
    /// listed. The iterator is empty if the tag is not in flight.
    pub fn parts(&self, tag: Tag) -> impl Iterator<Item = Part> + '_ {
        let table = &self.cx.table;
        let leader = table.pieces.get(tag).map(|piece| piece.request);
        // Without merging, the table of commands is empty and must not be accessed.
        let (alone, leader) = if self.merging {
            (None, leader)
        } else {
            (leader, None)
        };
        let part = |id: u32, offset, length| {
            let request = &table.requests[id].request;
            Part {
                stream: request.stream,
                cookie: request.cookie,
                offset,
                length,
            }
        };
        let alone = alone.map(|id| {
            let request = &table.requests[id].request;
            part(id, request.offset, request.length)
        });
        let first = leader.map(|leader| table.merges.first(leader));
        let command = core::iter::successors(first, |&id| table.merges.next(id));
        let parts = command.map(move |id| {
            let (offset, length) = table.merges.own(id);
            part(id, offset, length)
        });
        alone.into_iter().chain(parts)
    }

    /// Moves the requests of the plug into the elevator, in order (Linux:
    /// `blk_mq_flush_plug_list`).
    pub(super) fn unplug(&mut self) {
        if !self.plug.requests.is_empty() {
            let requests = core::mem::take(&mut self.plug.requests);
            for &request in &requests {
                self.insert(request);
            }
            self.plug.requests = requests;
        }
        self.plug.clear();
    }

    /// Ends a batch and empties the plug.
    pub(super) fn close_plug(&mut self) {
        self.unplug();
        self.plug.set_open(false);
        // Requests that were merged in the plug freed their tags. With `ahead`, these tags are
        // given out after all completions were reported.
        if self.config.merge.ahead {
            self.front.defer_fill();
        } else {
            self.fill_fronts();
        }
    }

    /// Puts a request with a scheduler tag into the plug if a batch is open, and otherwise into the
    /// elevator.
    pub(super) fn plug_or_insert(&mut self, request: u32) {
        // A request of which a piece was dispatched cannot be merged, so the plug would only delay
        // it.
        if !self.plug.is_open() || self.cx.table.requests[request].issued > 0 {
            return self.insert(request);
        }
        let last = self.plug.requests.last();
        let last = last.map_or(0, |&last| self.cx.table.requests[last].request.length);
        // The same limits as in `blk_add_rq_to_plug`.
        if self.plug.is_full(last) {
            self.unplug();
        }
        self.cx.table.requests[request].stage = Stage::Plug;
        self.plug.push(request);
    }

    /// Puts a request with a scheduler tag into the elevator, unless it joins a command there.
    pub(super) fn insert(&mut self, request: u32) {
        self.cx.table.requests[request].stage = Stage::Elevator;
        // As in `bfq_insert_request`, the elevator sees the request before it is merged.
        if let Some(elevator) = self.elevator.other_mut() {
            elevator.arrive(&mut self.cx, request);
        }
        if self.sorts && self.merge_inserted(request) {
            return;
        }
        self.elevator.insert(&mut self.cx, request);
        if self.sorts {
            self.cx.table.add_end(request);
        }
        self.notify_tagged(request, true);
    }

    /// Joins a request that has passed the limits to a command in the plug or the elevator, if
    /// possible (Linux: `blk_mq_attempt_bio_merge`). Returns true if it did.
    pub(super) fn merge_arrived(&mut self, request: u32) -> bool {
        let table = &mut self.cx.table;
        if table.merges.is_closed(request) {
            return false;
        }
        if let Some(leader) = self.plug.last()
            && let Some(side) = table.side(leader, request)
            // A request that waited for a tag may have entered the elevator since.
            && matches!(table.requests[leader].stage, Stage::Plug | Stage::Front)
            && table.is_compatible(leader, request)
        {
            if table.join(leader, request, side) {
                self.arrived_in(request, leader);
                return true;
            }
            // The command has reached its maximum length or number of segments (Linux:
            // `req_set_nomerge`).
            self.cx.table.merges.close(leader);
        }
        let found = (self.elevator).find_join(&mut self.cx, request);
        let Some(Join { leader, side }) = found else {
            return false;
        };
        if !self.cx.table.join(leader, request, side) {
            self.cx.table.merges.close(leader);
            return false;
        }
        self.arrived_in(request, leader);
        // A command that has grown may touch its neighbour now.
        self.notify_grown(leader, side);
        self.close_gap(leader, side);
        true
    }

    /// Accounts for a new request that became part of a command.
    fn arrived_in(&mut self, request: u32, leader: u32) {
        let now = self.cx.now;
        let live = &mut self.cx.table.requests[request];
        // The time until now was spent in the chain, and counts as throttled.
        if !live.is_dispatched() {
            live.cleared += now.since(live.since);
        }
        // `io.cost` charges a merged request for its bytes only (Linux: `rq_qos_merge`).
        self.chain.merged(&mut self.cx, request, leader);
        self.absorb(request, leader, false);
        let stream = self.cx.table.requests[request].request.stream.index;
        self.reconsider_pause(stream);
    }

    /// Joins a command that is about to enter the elevator to one that is there, and the result to
    /// the next one, as long as possible (Linux: `elv_attempt_insert_merge`). Returns true if it
    /// was joined.
    fn merge_inserted(&mut self, request: u32) -> bool {
        let mut at = request;
        while let Some(leader) = self.cx.table.find_join(at) {
            let inside = at != request;
            let elevator = self.elevator.other();
            if !elevator.is_none_or(|e| e.may_join(&self.cx, leader, at, inside))
                || !self.cx.table.join(leader, at, Side::Back)
            {
                break;
            }
            if inside {
                self.notify_absorbed(leader, at);
            }
            self.absorb(at, leader, inside);
            self.notify_grown(leader, Side::Back);
            at = leader;
        }
        at != request
    }

    /// Joins a command that has grown with its neighbour if they touch now (Linux:
    /// `attempt_back_merge`, `attempt_front_merge`).
    fn close_gap(&mut self, leader: u32, side: Side) {
        let elevator = self.elevator.other_mut();
        let Some(other) = elevator.and_then(|e| e.neighbour(leader, side)) else {
            return;
        };
        let (by, gone) = match side {
            Side::Back => (leader, other),
            Side::Front => (other, leader),
        };
        let table = &mut self.cx.table;
        let meet = table.is_compatible(by, gone) && table.side(by, gone) == Some(Side::Back);
        if meet && table.join(by, gone, Side::Back) {
            self.notify_absorbed(by, gone);
            self.absorb(gone, by, true);
            self.notify_grown(by, Side::Back);
        }
    }

    /// Notifies the elevator that a command has grown on this side.
    fn notify_grown(&mut self, leader: u32, side: Side) {
        if let Some(elevator) = self.elevator.other_mut() {
            self.cx.table.move_end(leader);
            elevator.on_growth(&mut self.cx, leader, side);
        }
    }

    /// Notifies the elevator that a command became part of another.
    fn notify_absorbed(&mut self, by: u32, request: u32) {
        if let Some(elevator) = self.elevator.other_mut() {
            elevator.on_absorption(&mut self.cx, by, request);
        }
        self.cx.table.merges.remove_end(request);
    }

    /// Marks a request, or the command that it led, as part of another command. `inside` is true if
    /// it was a command in the elevator.
    fn absorb(&mut self, request: u32, leader: u32, inside: bool) {
        let now = self.cx.now;
        let live = &mut self.cx.table.requests[request];
        live.stage = Stage::Merged;
        live.since = now;
        if core::mem::take(&mut live.tagged) {
            self.tags.release(self.cx.table.queue_of(request));
        }
        if inside {
            self.notify_tagged(request, false);
        }
        self.counters.merged += 1;
        let name = |id: u32| {
            let request = &self.cx.table.requests[id].request;
            (request.stream, request.cookie)
        };
        let ((stream, cookie), (leader, command)) = (name(request), name(leader));
        self.cx.publish(|| Event::Merged {
            stream,
            cookie,
            leader,
            command,
        });
    }

    /// Separates the command of a request, because something happens to one request alone. Nothing
    /// happens if the command is in the drive already. The requests wait on their own again and are
    /// not merged any more.
    pub(super) fn dissolve_command(&mut self, now: Instant, request: u32) {
        if !self.merging {
            return;
        }
        let merges = &self.cx.table.merges;
        let leader = merges.leader(request);
        let stage = self.cx.table.requests[leader].stage;
        if !merges.is_shared(leader) || matches!(stage, Stage::Drive | Stage::Finished) {
            return;
        }
        // Nothing of it was dispatched, so each request can have its own range again.
        debug_assert!(self.cx.table.requests[leader].issued == 0);
        let live = &self.cx.table.requests[leader].request;
        let (stream, cookie) = (live.stream, live.cookie);
        self.cx.publish(|| Event::Parted { stream, cookie });
        if stage == Stage::Elevator {
            // The elevator may put it into another of its queues afterwards, and its tag must count
            // for that queue.
            self.notify_tagged(leader, false);
            self.elevator.remove(&mut self.cx, leader);
            self.cx.table.merges.remove_end(leader);
        }
        let mut next = Some(self.cx.table.merges.first(leader));
        self.cx.table.restore(leader);
        while let Some(id) = next {
            next = self.cx.table.merges.next(id);
            self.cx.table.merges.separate_member(id);
            if id != leader {
                self.cx.table.requests[id].since = now;
                // A request that had a tag of its own before it was merged was counted by the
                // chain. It will be counted again on its way.
                self.chain.ended(&mut self.cx, id, None);
                self.climb(now, id, self.chain.gate());
            } else if stage == Stage::Elevator {
                self.elevator.insert(&mut self.cx, id);
                self.notify_tagged(id, true);
            }
        }
    }

    /// Ends the members of a command with the outcome of the command.
    pub(super) fn end_members(&mut self, now: Instant, leader: u32) {
        self.cx.table.merges.remove_end(leader);
        if !self.cx.table.merges.is_shared(leader) {
            return;
        }
        self.cx.table.restore(leader);
        let command = self.cx.table.requests[leader];
        let took = command.is_dispatched();
        let mut next = Some(self.cx.table.merges.first(leader));
        while let Some(id) = next {
            next = self.cx.table.merges.next(id);
            self.cx.table.merges.separate_member(id);
            if id == leader {
                continue;
            }
            let live = &mut self.cx.table.requests[id];
            // Members had no pieces of their own. Their time in the drive is that of the command.
            live.dispatched = command.dispatched;
            live.outcome = command.outcome;
            live.finish(now);
            let took = took.then(|| now.since(live.submitted));
            self.finished.push(id);
            self.chain.ended(&mut self.cx, id, took);
        }
    }

    /// Takes one more piece from the elevator although the drive has no free tag. The piece waits
    /// in front of the drive (Linux: `hctx->dispatch`).
    #[cold]
    #[inline(never)]
    pub(super) fn take_ahead(&mut self) -> Option<Wake> {
        if self.ahead.is_some() {
            return None;
        }
        let AnyElevator::Other(elevator) = &mut self.elevator else {
            return None;
        };
        match elevator.next(&mut self.cx) {
            DispatchDecision::Take { request, bytes } => {
                let live = &mut self.cx.table.requests[request];
                let within = live.issued;
                // From here on, the request is treated as dispatched, except that its time in the
                // drive begins only when it is sent.
                live.issued += bytes;
                live.pieces += 1;
                if live.issued == live.request.length {
                    live.stage = Stage::Drive;
                }
                self.ahead = Some(Ahead {
                    request,
                    within,
                    bytes,
                });
                let (stream, cookie) = (live.request.stream, live.request.cookie);
                self.cx.publish(|| Event::Taken {
                    stream,
                    cookie,
                    bytes,
                });
                None
            }
            DispatchDecision::Wait(wake) => Some(wake),
            DispatchDecision::Nothing => None,
        }
    }

    /// Sends the piece that waits in front of the drive, if there is one. A tag must be free.
    #[cold]
    #[inline(never)]
    pub(super) fn send_ahead(&mut self, now: Instant, out: &mut Vec<Output>) {
        let Some(Ahead {
            request,
            within,
            bytes,
        }) = self.ahead.take()
        else {
            return;
        };
        let live = &mut self.cx.table.requests[request];
        if within == 0 {
            live.dispatched = now;
        }
        let piece = Piece::of(live, request, within, bytes, now);
        self.send_piece(piece, out);
    }
}
