//! Which commands may be one, and which of those in the elevator a request may join.

use super::{Join, Side};
use crate::request::Flags;
use crate::table::{Live, Table, piece_max};

impl Table {
    /// The first of these commands that a request may join.
    pub(crate) fn first_join(
        &self,
        mut commands: impl Iterator<Item = u32>,
        request: u32,
    ) -> Option<Join> {
        commands.find_map(|leader| {
            let side = self.side(leader, request)?;
            let joins = self.is_compatible(leader, request);
            joins.then_some(Join { leader, side })
        })
    }

    /// Two commands may be one, wherever they lie (Linux: `blk_rq_merge_ok`): the same operation and flags in one space, for one
    /// group, with the same I/O priority. Whether somebody waits for it is the elevator's business.
    pub(crate) fn is_compatible(&self, command: u32, with: u32) -> bool {
        let (a, b) = (&self.requests[command], &self.requests[with]);
        let (x, y) = (&a.request, &b.request);
        let priority = |live: &Live| {
            let priority = self.streams[live.request.stream.index].spec.priority;
            (priority.class, priority.level.min(7))
        };
        a.group == b.group
            && x.space == y.space
            && x.op == y.op
            && x.flags.with(Flags::SYNC) == y.flags.with(Flags::SYNC)
            && a.issued == 0
            && b.issued == 0
            && !self.merges.is_closed(command)
            && !self.merges.is_closed(with)
            && priority(a) == priority(b)
    }

    /// On which side of a command another begins or ends (Linux: `blk_try_merge`).
    pub(crate) fn side(&self, command: u32, with: u32) -> Option<Side> {
        let (a, b) = (
            &self.requests[command].request,
            &self.requests[with].request,
        );
        if a.end() == b.offset {
            Some(Side::Back)
        } else {
            (b.end() == a.offset).then_some(Side::Front)
        }
    }

    /// Makes one command of two if it is not too long and not of too many segments; otherwise `leader` merges with nothing any more
    /// (Linux: `ll_back_merge_fn`).
    pub(crate) fn join(&mut self, leader: u32, other: u32, side: Side) -> bool {
        let (own, joined) = (self.requests[leader].request, self.requests[other].request);
        let length = own.length + joined.length;
        let most = piece_max(own.op, self.shape.max_transfer);
        if length > most || !self.merges.fits(leader, other) {
            self.merges.close(leader);
            return false;
        }
        self.merges.join(leader, other, side);
        self.restore(other);
        let request = &mut self.requests[leader].request;
        request.offset = own.offset.min(joined.offset);
        request.length = length;
        true
    }

    /// A command enters the elevator (Linux: `elv_rqhash_add`).
    pub(crate) fn add_end(&mut self, id: u32) {
        if self.merges.is_closed(id) {
            return;
        }
        let request = &self.requests[id].request;
        self.merges.put_end(id, request.space, request.end());
        if self.last_merged().is_none() {
            self.merges.set_last(id);
        }
    }

    /// A command in the elevator has grown (Linux: `elv_rqhash_reposition`).
    pub(crate) fn move_end(&mut self, id: u32) {
        let request = &self.requests[id].request;
        self.merges.put_end(id, request.space, request.end());
        self.merges.set_last(id);
    }

    /// The command that was merged last, while it waits in the elevator.
    pub(crate) fn last_merged(&self) -> Option<u32> {
        let last = self.merges.last();
        last.filter(|&id| self.requests[id].issued == 0)
    }

    /// The command that came to the elevator last of those that wait there and end where a request begins.
    pub(crate) fn ending_before(&self, id: u32) -> Option<u32> {
        let request = &self.requests[id].request;
        self.merges.ending_at(request.space, request.offset, |at| {
            at != id && self.requests[at].issued == 0 && !self.merges.is_closed(at)
        })
    }

    /// A command in the elevator that one that is about to enter it may join, at the back and whosever it is
    /// (Linux: `elv_attempt_insert_merge`).
    pub(crate) fn find_join(&self, id: u32) -> Option<u32> {
        let joins = |&leader: &u32| {
            leader != id
                && self.side(leader, id) == Some(Side::Back)
                && self.is_compatible(leader, id)
        };
        let last = self.last_merged().filter(joins);
        if last.is_some() || self.merges.is_one_hit() {
            return last;
        }
        self.ending_before(id).filter(joins)
    }

    /// Gives a request that leads no longer its own range back.
    pub(crate) fn restore(&mut self, id: u32) {
        let request = &mut self.requests[id].request;
        (request.offset, request.length) = self.merges.own(id);
    }
}
