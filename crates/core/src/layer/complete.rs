//! Tags come back from the drive.

use super::{At, Layer, Piece};
use crate::mutant;
use crate::{Completion, Instant, Op, Outcome};

impl Layer {
    /// A batch of completions. Tags that are not in flight are counted and ignored.
    pub fn complete(&mut self, now: Instant, batch: &[Completion]) {
        let now = self.advance(now);
        for completion in batch {
            self.complete_one(now, completion);
        }
        self.run_timers(now);
    }

    fn complete_one(&mut self, now: Instant, completion: &Completion) {
        let tag = completion.tag.0;
        let Some(&Piece { request, .. }) = self.table.pieces.get(completion.tag) else {
            self.counters.stray += 1;
            return;
        };
        if !self.busy.is_empty() && self.busy_links.contains(tag) {
            self.counters.stray += 1;
            return;
        }
        let Some(outcome) = completion.outcome else {
            if !mutant::is(mutant::BUSY_LOSES_PIECE) {
                self.requeue(now, tag);
            }
            return;
        };
        // Something ended, so the drive has room again for what it sent back.
        self.retry_at = None;
        self.table.pieces.remove(completion.tag);
        if let Some(elevator) = self.elevator.other_mut() {
            elevator.complete(now, self.table.pieces.last(completion.tag), &self.table);
        }
        let live = &mut self.table.requests[request];
        if outcome != Outcome::Ok {
            live.fail(outcome);
        }
        if live.request.op == Op::Flush {
            self.end_flush(now, request);
            return;
        }
        live.pieces -= 1;
        if live.pieces == 0 {
            match live.at {
                At::Drive => {
                    let tagged = live.finish(now);
                    self.end(now, request, tagged);
                }
                At::Held => self.give_back(now, request),
                _ => {}
            }
        }
    }

    /// A request of a stream on hold keeps its place while a piece of it is in the drive, not longer.
    #[cold]
    fn give_back(&mut self, now: Instant, request: u32) {
        let live = &mut self.table.requests[request];
        self.latency.leave(now, request, &live.request, None);
        if core::mem::replace(&mut live.tagged, false) {
            self.untag(request);
            self.fill_front(now);
        }
        self.pass_latency(now);
    }

    fn end_flush(&mut self, now: Instant, request: u32) {
        let live = &self.table.requests[request];
        let (space, outcome) = (live.request.space, live.outcome);
        while let Some(member) = self.flushes.end(space) {
            let live = &mut self.table.requests[member];
            live.at = At::Drive;
            live.pieces = 0;
            live.outcome = outcome;
            self.finish_if_over(now, member);
        }
    }

    /// Moves a request on whose last piece has come back and that has no more to send.
    #[inline]
    pub(super) fn finish_if_over(&mut self, now: Instant, request: u32) {
        let live = &mut self.table.requests[request];
        if live.at != At::Drive || live.pieces > 0 {
            return;
        }
        let tagged = live.finish(now);
        self.end(now, request, tagged);
        // What never went to the drive has been on its way there until now.
        let live = &mut self.table.requests[request];
        live.dispatched = live.dispatched.min(now);
    }

    /// A request is over: what it took up is for others.
    #[inline]
    fn end(&mut self, now: Instant, request: u32, tagged: bool) {
        self.finished.push(request);
        self.tags_left += u32::from(tagged);
        if self.looks_at_all || !self.front.is_empty() {
            self.after_end(now, request, tagged);
        }
    }

    /// Somebody wants to see requests that are over, or waits for their tags.
    #[inline(never)]
    fn after_end(&mut self, now: Instant, request: u32, tagged: bool) {
        if tagged {
            self.tell_tagged(request, false);
            self.fill_front(now);
        }
        if self.latency.is_counting() {
            let live = &self.table.requests[request];
            let took = live.is_dispatched().then(|| now.since(live.submitted));
            self.latency.leave(now, request, &live.request, took);
            self.pass_latency(now);
        }
    }
}
