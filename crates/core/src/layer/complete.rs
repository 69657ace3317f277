//! Tags come back from the drive.

use super::{At, Layer};
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
        let Some(&piece) = self
            .table
            .pieces
            .get(completion.tag)
            .filter(|_| self.busy.is_empty() || !self.busy_links.contains(tag))
        else {
            self.counters.stray += 1;
            return;
        };
        let Some(outcome) = completion.outcome else {
            if !mutant::is(mutant::BUSY_LOSES_PIECE) {
                self.requeue(now, tag);
            }
            return;
        };
        // Something ended, so the drive has room again for what it sent back.
        self.retry_at = None;
        self.table.pieces.remove(completion.tag);
        self.elevator.complete(now, &piece, &self.table);
        if piece.op == Op::Flush {
            self.end_flush(now, piece.request, outcome);
            return;
        }
        let live = &mut self.table.requests[piece.request];
        live.pieces -= 1;
        if matches!(live.outcome, Outcome::Ok) {
            live.outcome = outcome;
        }
        self.finish_if_over(now, piece.request);
        self.give_back_if_held(now, piece.request);
    }

    /// A request of a stream on hold keeps its scheduler tag while a piece of it is in the drive, not longer.
    fn give_back_if_held(&mut self, now: Instant, request: u32) {
        let live = &mut self.table.requests[request];
        if live.at == At::Held && live.pieces == 0 && live.tagged {
            live.tagged = false;
            self.tagged -= 1;
            self.fill_front(now);
        }
    }

    fn end_flush(&mut self, now: Instant, request: u32, outcome: Outcome) {
        let space = self.table.requests[request].request.space;
        while let Some(member) = self.flushes.end(space) {
            let live = &mut self.table.requests[member];
            live.at = At::Drive;
            live.pieces = 0;
            live.outcome = outcome;
            self.finish_if_over(now, member);
        }
    }

    /// Moves a request on whose last piece has come back and that has no more to send.
    pub(super) fn finish_if_over(&mut self, now: Instant, request: u32) {
        let live = &mut self.table.requests[request];
        if live.at != At::Drive || live.pieces > 0 {
            return;
        }
        live.at = At::Finished;
        live.since = now;
        let tagged = core::mem::replace(&mut live.tagged, false);
        self.finished.push(request);
        if tagged {
            self.tagged -= 1;
            if !self.waiting.is_empty() {
                self.fill_front(now);
            }
        }
    }
}
