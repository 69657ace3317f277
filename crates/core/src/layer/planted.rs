//! Bugs built in on purpose (`mutant`) that take more than a condition: none of this does anything while none is switched on.

use super::{Layer, Output};
use crate::mutant;
use crate::table::Stage;
use crate::{Done, Instant, Outcome, QueueId};
use alloc::vec::Vec;

impl Layer {
    /// [`mutant::TAG_FREED_ON_CANCEL`]: a tag of a request that is given up is free at once. True if that was done instead.
    #[inline]
    pub(super) fn frees_tag(&mut self, now: Instant, request: u32) -> bool {
        if !mutant::is(mutant::TAG_FREED_ON_CANCEL)
            || self.cx.table.requests[request].stage != Stage::Drive
        {
            return false;
        }
        let found = {
            let mut pieces = self.cx.table.pieces.iter();
            pieces.find(|(_, piece)| piece.request == request)
        };
        let Some(tag) = found.map(|(tag, _)| tag) else {
            return false;
        };
        self.cx.table.pieces.remove(tag);
        self.cx.table.requests[request].pieces -= 1;
        self.finish_if_over(now, request);
        true
    }

    /// [`mutant::BUSY_QUEUE_HOLDS_ALL`]: the queue after a busy one is closed, too.
    #[inline]
    pub(super) fn close_next(&mut self, queue: QueueId) {
        if mutant::is(mutant::BUSY_QUEUE_HOLDS_ALL) {
            let next = (queue.0 + 1) % self.config.drive.queues;
            self.cx.table.pieces.close(QueueId(next));
        }
    }

    /// [`mutant::DONE_TWICE`]: what failed after it was split is answered once more.
    #[inline]
    pub(super) fn answer_twice(&self, out: &mut Vec<Output>) {
        if !mutant::is(mutant::DONE_TWICE) {
            return;
        }
        let split = |d: &Done| d.length > self.cx.table.shape.max_transfer;
        let failed = |d: &Done| matches!(d.outcome, Outcome::Error(_));
        for next in 0..out.len() {
            if matches!(&out[next], Output::Done(d) if split(d) && failed(d)) {
                out.push(out[next]);
            }
        }
    }
}
