//! Polling: reports of ended requests, commands for the drive, and the time of the next call.

use super::{Layer, Output};
use crate::elevator::{AnyElevator, DispatchDecision};
use crate::stream::State;
use crate::table::{Live, Piece, Stage};
use crate::{Dispatch, Done, Instant, Op, QueueId, Reason, Request, Span, Tag, Waits, Wake};
use alloc::vec::Vec;

impl Layer {
    /// Decides: appends the actions to carry out now to `out`, in order, and returns the time of
    /// the next call if nothing happens before.
    ///
    /// One call appends at most one output for each live request, each tag and each stream. The
    /// wake-up is in the future, with one exception: [`Reason::Answers`] is due now, and is
    /// returned only by a call that reported the end of a request and dispatched nothing.
    pub fn poll(&mut self, now: Instant, out: &mut Vec<Output>) -> Option<Wake> {
        let now = self.advance(now);
        self.run_timers(now);
        let wake = self.decide(now, out);
        #[cfg(debug_assertions)]
        self.check();
        wake
    }

    #[inline]
    fn decide(&mut self, now: Instant, out: &mut Vec<Output>) -> Option<Wake> {
        let answers_first = self.config.merge.ahead && !self.finished.is_empty();
        self.report(out);
        // Nothing may be dispatched in this call, see
        // `merge::Config::ahead`.
        if answers_first {
            // In Linux, a process that is woken by a completion runs before the queue does, so its
            // next requests take part in the choice.
            return Some(Wake {
                at: now,
                reason: Reason::Answers,
            });
        }
        if self.front.take_deferred_fill() {
            self.fill_fronts();
        }
        let elevator = self.dispatch(now, out);
        if self.chain.due() == Instant::MAX {
            return elevator;
        }
        Wake::earlier(self.chain.wake(), elevator)
    }

    /// Reports ended requests, and notifies streams.
    fn report(&mut self, out: &mut Vec<Output>) {
        self.counters.done += self.finished.len() as u64;
        // The common case: no stream waits for the end of a request, so that reporting is a plain
        // loop.
        if self.paused_or_closing == 0 && self.starved.is_empty() {
            let (table, shared) = (&mut self.cx.table, &mut self.shared);
            let reserved = self.config.sizes.reserved;
            out.extend(self.finished.iter().map(|&request| {
                // The reply is made before the slot is freed.
                let answer = done_output(&table.requests[request]);
                *shared -= u32::from(table.forget(request) >= reserved);
                answer
            }));
        } else {
            self.report_slow(out);
        }
        self.finished.clear();
        self.notify(out);
    }

    /// Reports ended requests while their ends may have consequences for streams.
    #[inline(never)]
    fn report_slow(&mut self, out: &mut Vec<Output>) {
        let finished = core::mem::take(&mut self.finished);
        for &request in &finished {
            self.end_paused_or_closing(request, out);
        }
        self.finished = finished;
    }

    /// Reports an ended request, and resumes or frees its stream if necessary.
    fn end_paused_or_closing(&mut self, request: u32, out: &mut Vec<Output>) {
        let live = &self.cx.table.requests[request];
        let index = live.request.stream.index;
        out.push(done_output(live));
        self.shared -= u32::from(self.cx.table.forget(request) >= self.config.sizes.reserved);
        if self.cx.table.streams[index].paused {
            self.reconsider_pause(index);
        }
        if !self.starved.is_empty() {
            self.on_capacity_freed(index);
        }
        if self.cx.table.streams[index].state == State::Closing {
            self.close_if_drained(index);
        }
    }

    /// Fills the drive: first with pieces that it returned as busy, then with the piece that was
    /// taken ahead, then with flushes, then with the elevator's choice. Pieces that were returned
    /// come first so that later ones of their queue do not overtake them.
    fn dispatch(&mut self, now: Instant, out: &mut Vec<Output>) -> Option<Wake> {
        let before = out.len();
        // Returned pieces must be sent before anything new (docs/decisions/busy-pieces.md).
        if !self.busy.is_empty() {
            self.retry(now, out);
        }
        // Only dispatches are appended from here on, so the length of `out` counts them.
        let wake = self.fill(now, out);
        self.counters.dispatched += (out.len() - before) as u64;
        if self.busy.is_empty() {
            wake
        } else {
            Wake::earlier(self.busy.wake(), wake)
        }
    }

    #[inline]
    fn fill(&mut self, now: Instant, out: &mut Vec<Output>) -> Option<Wake> {
        // A piece that was taken ahead is committed, so it goes before any later choice.
        if self.ahead.is_some() && !self.cx.table.pieces.is_full() {
            self.send_ahead(now, out);
        }
        let mut held = None;
        if self.flushes.is_ready() {
            held = self.begin_flushes(now, out);
        }
        while !self.cx.table.pieces.is_full() {
            match &mut self.elevator {
                // The elevator `none` never delays flushes.
                AnyElevator::None(fifo) => {
                    let request = fifo.pop()?;
                    let (bytes, last) = self.cx.table.piece(request);
                    if !last {
                        // The request is split and has further pieces, which follow it directly.
                        fifo.unpop();
                    }
                    self.send(now, request, bytes, out);
                }
                AnyElevator::Other(elevator) => match elevator.next(&mut self.cx) {
                    DispatchDecision::Take { request, bytes } => {
                        self.send(now, request, bytes, out);
                        // What was sent may end the reason for which the elevator delayed the
                        // flushes.
                        if held.is_some() {
                            held = self.begin_flushes(now, out);
                        }
                    }
                    DispatchDecision::Wait(wake) => {
                        return Wake::earlier(Some(wake), held);
                    }
                    DispatchDecision::Nothing => return held,
                },
            }
        }
        if self.config.merge.ahead && self.busy.is_empty() {
            return Wake::earlier(self.take_ahead(), held);
        }
        held
    }

    /// Sends pieces of busy queues again, if those queues are due.
    #[cold]
    fn retry(&mut self, now: Instant, out: &mut Vec<Output>) {
        while let Some(queue) = self.busy.due(now) {
            while let Some(tag) = self.busy.pop(queue) {
                self.send_again(tag, out);
            }
            // All returned pieces of the queue are sent, so others may follow.
            self.cx.table.pieces.open(queue);
        }
    }

    /// Begins the flushes that the elevator does not delay. Returns the time at which to query the
    /// elevator again if it delays some.
    #[inline(never)]
    fn begin_flushes(&mut self, now: Instant, out: &mut Vec<Output>) -> Option<Wake> {
        while self.flushes.is_ready() && !self.cx.table.pieces.is_full() {
            if let AnyElevator::Other(elevator) = &mut self.elevator
                && let Some(wake) = elevator.hold_flush(&mut self.cx, &self.flushes)
            {
                return Some(wake);
            }
            let request = self.flushes.begin().expect("a flush is ready");
            self.begin_flush(now, request, out);
        }
        None
    }

    /// Begins a flush command, whose leader is `request`.
    fn begin_flush(&mut self, now: Instant, request: u32, out: &mut Vec<Output>) {
        let space = self.cx.table.requests[request].request.space;
        let queue = self.cx.table.queue_of(request);
        // All flushes of the lane have one piece in the drive, although only the first has the tag.
        for member in self.flushes.running(space, queue) {
            let live = &mut self.cx.table.requests[member];
            debug_assert!(live.request.op == Op::Flush && live.stage == Stage::Flush);
            live.stage = Stage::Flushing;
            live.dispatched = now;
            live.pieces = 1;
        }
        let live = &self.cx.table.requests[request];
        let piece = Piece::of(live, request, 0, 0, now);
        let (queue, tag) = self
            .cx
            .table
            .pieces
            .insert(piece, live.request.stream.index);
        let dispatch = dispatch_of(&live.request, queue, tag, 0, 0);
        out.push(Output::Dispatch(dispatch));
    }

    /// Sends the next `bytes` bytes of a request to the drive. A tag must be free.
    #[expect(
        clippy::inline_always,
        reason = "most of what `none` does for a request"
    )]
    #[inline(always)]
    fn send(&mut self, now: Instant, request: u32, bytes: u32, out: &mut Vec<Output>) {
        let live = &mut self.cx.table.requests[request];
        debug_assert!(
            live.stage == Stage::Elevator
                && bytes > 0
                && bytes <= live.request.length - live.issued
        );
        let within = live.issued;
        if within == 0 {
            // The wait in the elevator ends with the first piece.
            live.dispatched = now;
        }
        live.issued += bytes;
        live.pieces += 1;
        if live.issued == live.request.length {
            live.stage = Stage::Drive;
        }
        let piece = Piece::of(live, request, within, bytes, now);
        let (queue, tag) = self
            .cx
            .table
            .pieces
            .insert(piece, live.request.stream.index);
        let dispatch = dispatch_of(&live.request, queue, tag, within, bytes);
        out.push(Output::Dispatch(dispatch));
    }

    /// Sends a piece to the drive. A tag must be free.
    pub(super) fn send_piece(&mut self, piece: Piece, out: &mut Vec<Output>) {
        let request = &self.cx.table.requests[piece.request].request;
        let (queue, tag) = (self.cx.table.pieces).insert(piece, request.stream.index);
        let (within, length) = (piece.within, piece.length);
        out.push(Output::Dispatch(dispatch_of(
            request, queue, tag, within, length,
        )));
    }

    /// Sends the piece of a tag again that the drive returned.
    fn send_again(&mut self, tag: Tag, out: &mut Vec<Output>) {
        let piece = self.cx.table.pieces.last(tag);
        let request = &self.cx.table.requests[piece.request].request;
        out.push(Output::Dispatch(dispatch_of(
            request,
            piece.queue,
            tag,
            piece.within,
            piece.length,
        )));
    }

    /// Records that a queue of the drive was busy. The piece keeps its tag and is sent again when
    /// another piece of the queue ends, or after a while. In the meantime, the queue receives no
    /// other piece.
    #[cold]
    pub(super) fn requeue(&mut self, now: Instant, tag: Tag) {
        let queue = self.cx.table.pieces.last(tag).queue;
        self.busy.add(now, queue, tag);
        self.cx.table.pieces.close(queue);
    }
}

/// Returns the report of a request that ended.
#[inline]
fn done_output(live: &Live) -> Output {
    let ended = live.since;
    let dispatched = live.dispatched;
    Output::Done(Done {
        stream: live.request.stream,
        cookie: live.request.cookie,
        op: live.request.op,
        length: live.request.length,
        outcome: live.outcome,
        submitted: live.submitted,
        waits: Waits {
            limit: between(live.submitted, live.cleared),
            elevator: between(live.cleared, dispatched),
            drive: between(dispatched, ended),
        },
    })
}

/// Returns the time from one instant to a later one. It does not saturate, because the layer's
/// times never go back.
#[inline]
fn between(from: Instant, to: Instant) -> Span {
    Span::from_nanos(to.as_nanos() - from.as_nanos())
}

/// Returns a piece of a request in the form in which the driver receives it.
#[inline]
fn dispatch_of(request: &Request, queue: QueueId, tag: Tag, within: u32, length: u32) -> Dispatch {
    Dispatch {
        queue,
        tag,
        stream: request.stream,
        cookie: request.cookie,
        space: request.space,
        op: request.op,
        flags: request.flags,
        offset: request.offset + u64::from(within),
        length,
        within,
    }
}
