//! What bugs do that are built in on purpose (`mutant`) and take more than a line. Nothing of this is called while none is switched on.

use super::{Layer, Output};
use crate::table::Stage;
use crate::{Done, Instant, Outcome};
use alloc::vec::Vec;

impl Layer {
    /// A tag of a request that is given up is free at once; false if it has none.
    pub(super) fn free_tag(&mut self, now: Instant, request: u32) -> bool {
        let table = &self.cx.table;
        let Some((tag, _)) = table.pieces.iter().find(|(_, p)| p.request == request) else {
            return false;
        };
        if table.requests[request].stage != Stage::Drive {
            return false;
        }
        self.cx.table.pieces.remove(tag);
        self.cx.table.requests[request].pieces -= 1;
        self.finish_if_over(now, request);
        true
    }

    /// What failed after it was split is answered once more.
    pub(super) fn answer_twice(&self, out: &mut Vec<Output>) {
        let split = |d: &Done| d.length > self.cx.table.shape.max_transfer;
        let failed = |d: &Done| matches!(d.outcome, Outcome::Error(_));
        for next in 0..out.len() {
            if matches!(&out[next], Output::Done(d) if split(d) && failed(d)) {
                out.push(out[next]);
            }
        }
    }
}
