//! Completions: processes the tags that come back from the drive.

use super::Layer;
use crate::table::{Piece, Stage};
use crate::{Completion, Instant, Outcome, Tag};

impl Layer {
    /// Processes a batch of completions. Completions of tags that are not in flight are counted and
    /// ignored.
    pub fn complete(&mut self, now: Instant, batch: &[Completion]) {
        let now = self.advance(now);
        for completion in batch {
            self.complete_one(now, completion);
        }
        self.run_timers(now);
        #[cfg(debug_assertions)]
        self.check();
    }

    /// Processes one completion: a piece that ended, that was returned as busy, or that is unknown.
    fn complete_one(&mut self, now: Instant, completion: &Completion) {
        let tag = completion.tag;
        if !self.busy.is_empty() && self.is_returned(tag) {
            self.counters.stray += 1;
            return;
        }
        // A tag that is not in flight belongs to a stalled piece, or is a mistake of the driver.
        let Some(&Piece { request, .. }) = self.cx.table.pieces.get(tag) else {
            return self.complete_stalled(now, completion);
        };
        let Some(outcome) = completion.outcome else {
            self.requeue(now, tag);
            return;
        };
        // Elevators expect that the tag is free already. `Pieces::last` still has the piece.
        self.cx.table.pieces.remove(tag);
        if let Some(elevator) = self.elevator.other_mut() {
            elevator.complete(&mut self.cx, tag);
        }
        self.complete_piece(now, request, outcome);
    }

    /// Processes the end of a request's piece.
    #[inline]
    pub(super) fn complete_piece(&mut self, now: Instant, request: u32, outcome: Outcome) {
        let live = &mut self.cx.table.requests[request];
        if outcome != Outcome::Ok {
            live.fail(outcome);
        }
        debug_assert!(live.pieces > 0 && live.is_dispatched());
        live.pieces -= 1;
        if live.pieces > 0 {
            return;
        }
        if live.stage == Stage::Drive {
            // The common case without any further lookup: nothing of the request is left.
            let tagged = live.finish(now);
            self.end(now, request, tagged);
        } else {
            self.leave_drive(now, request);
        }
    }

    /// Processes the end of the last piece in the drive of a request that is not finished, or is a
    /// flush.
    #[inline(never)]
    fn leave_drive(&mut self, now: Instant, request: u32) {
        match self.cx.table.requests[request].stage {
            Stage::Flushing => self.end_flush(now, request),
            Stage::OnHold => {
                self.release_held_tag(now, request);
                self.resume_stalled(now, request);
            }
            _ => {}
        }
    }

    /// Returns true if the drive returned the piece of this tag as busy, so that it cannot
    /// complete. Otherwise, a busy queue to which the tag belongs has room again.
    #[cold]
    fn is_returned(&mut self, tag: Tag) -> bool {
        let pieces = &self.cx.table.pieces;
        let piece = pieces.get(tag).or_else(|| pieces.get_stalled(tag));
        let Some(&Piece { queue, .. }) = piece else {
            return false;
        };
        if self.busy.contains(tag) {
            return true;
        }
        self.busy.on_completion(queue);
        false
    }

    /// Frees the scheduler tag of a request whose stream is on hold. The request keeps it only
    /// while a piece is in the drive.
    #[cold]
    fn release_held_tag(&mut self, now: Instant, request: u32) {
        self.chain.ended(&mut self.cx, request, None);
        let live = &mut self.cx.table.requests[request];
        if core::mem::replace(&mut live.tagged, false) {
            self.untag(request);
            self.fill_front(self.cx.table.queue_of(request));
        }
        self.release(now);
    }

    /// Ends all flushes for which a command stood, with its outcome.
    fn end_flush(&mut self, now: Instant, request: u32) {
        let live = &self.cx.table.requests[request];
        let (space, outcome) = (live.request.space, live.outcome);
        let queue = self.cx.table.queue_of(request);
        while let Some(member) = self.flushes.end(space, queue) {
            let live = &mut self.cx.table.requests[member];
            live.stage = Stage::Drive;
            live.pieces = 0;
            // A flush that fails fails for all requests that share it.
            live.outcome = outcome;
            self.finish_if_over(now, member);
        }
    }

    /// Finishes a request if nothing of it is left to send and its last piece completed.
    #[inline]
    pub(super) fn finish_if_over(&mut self, now: Instant, request: u32) {
        let live = &mut self.cx.table.requests[request];
        if live.stage != Stage::Drive || live.pieces > 0 {
            return;
        }
        let tagged = live.finish(now);
        self.end(now, request, tagged);
        // For a request that was never dispatched, all time until now counts as time in the
        // elevator.
        let live = &mut self.cx.table.requests[request];
        live.dispatched = live.dispatched.min(now);
    }

    /// Frees the resources of a request that ended.
    #[inline]
    fn end(&mut self, now: Instant, request: u32, tagged: bool) {
        self.finished.push(request);
        self.tags.release_any(tagged);
        debug_assert!(self.cx.table.requests[request].pieces == 0);
        if self.ends_seen || !self.front.is_empty() {
            self.after_end(now, request, tagged);
        }
    }

    /// Performs the additional work at the end of a request if an elevator, a controller or a
    /// listener must see it, or if requests wait for a scheduler tag.
    #[inline(never)]
    fn after_end(&mut self, now: Instant, request: u32, tagged: bool) {
        if self.merging {
            self.end_members(now, request);
        }
        if tagged {
            let queue = self.cx.table.queue_of(request);
            self.tags.release_in(queue);
            self.notify_tagged(request, false);
            self.fill_front_after(request);
        }
        // Controllers that count requests in flight may release others now.
        if self.chain_counts {
            let live = &self.cx.table.requests[request];
            let took = live.is_dispatched().then(|| now.since(live.submitted));
            if self.chain.ended(&mut self.cx, request, took) {
                self.release(now);
            }
        }
        if self.stalls.any() {
            let live = &self.cx.table.requests[request];
            let (space, answered) = (live.request.space, live.is_dispatched());
            self.leave_space(request);
            self.space_has_room(now, space, answered);
        }
    }
}
