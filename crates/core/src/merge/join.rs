//! The rules for joining two commands, and the search for a command that a request can join.

use super::{Join, Side};
use crate::request::Flags;
use crate::table::{Live, Table, piece_max};

impl Table {
    /// Returns the first of these commands that a request can join, and on which side.
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

    /// Returns true if two commands may be joined, regardless of their ranges (Linux:
    /// `blk_rq_merge_ok`). They must have the same operation, flags, space, group and I/O priority.
    /// The flag `SYNC` is ignored here, because the elevator decides about it.
    pub(crate) fn is_compatible(&self, command: u32, with: u32) -> bool {
        let (a, b) = (&self.requests[command], &self.requests[with]);
        let (x, y) = (&a.request, &b.request);
        let priority = |live: &Live| {
            let priority = self.streams[live.request.stream.index].spec.priority;
            // Larger levels count as 7, see `Priority::level`.
            (priority.class, priority.level.min(7))
        };
        a.group == b.group
            && x.space == y.space
            && x.op == y.op
            // Setting the flag in both excludes it from the comparison.
            && x.flags.with(Flags::SYNC) == y.flags.with(Flags::SYNC)
            // A command that was dispatched in part cannot grow.
            && a.issued == 0
            && b.issued == 0
            && !self.merges.is_closed(command)
            && !self.merges.is_closed(with)
            && priority(a) == priority(b)
    }

    /// Returns the side on which a command touches another, if it does (Linux: `blk_try_merge`).
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

    /// Joins two commands, unless the result would be too long or have too many segments. In that
    /// case, `leader` is excluded from further merging (Linux: `ll_back_merge_fn`). Returns true if
    /// they were joined.
    pub(crate) fn join(&mut self, leader: u32, other: u32, side: Side) -> bool {
        let (own, joined) = (self.requests[leader].request, self.requests[other].request);
        let length = own.length + joined.length;
        let most = piece_max(own.op, self.shape.max_transfer);
        // Linux also marks such a request, so that it is not tried again (`req_set_nomerge`).
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

    /// Adds a command that enters the elevator to the search (Linux: `elv_rqhash_add`).
    pub(crate) fn add_end(&mut self, id: u32) {
        if self.merges.is_closed(id) {
            return;
        }
        let request = &self.requests[id].request;
        self.merges.put_end(id, request.space, request.end());
        // As in `dd_insert_request`, a new command takes this place only if it is free.
        if self.last_merged().is_none() {
            self.merges.set_last(id);
        }
    }

    /// Updates the search after a command in the elevator has grown (Linux:
    /// `elv_rqhash_reposition`).
    pub(crate) fn move_end(&mut self, id: u32) {
        let request = &self.requests[id].request;
        self.merges.put_end(id, request.space, request.end());
        self.merges.set_last(id);
    }

    /// Returns the command that was merged last, if it still waits in the elevator.
    pub(crate) fn last_merged(&self) -> Option<u32> {
        let last = self.merges.last();
        last.filter(|&id| self.requests[id].issued == 0)
    }

    /// Returns the waiting command that ends where request `id` begins. If there are several, it is
    /// the one that entered the elevator last.
    pub(crate) fn ending_before(&self, id: u32) -> Option<u32> {
        let request = &self.requests[id].request;
        self.merges.ending_at(request.space, request.offset, |at| {
            at != id && self.requests[at].issued == 0 && !self.merges.is_closed(at)
        })
    }

    /// Returns a command in the elevator that command `id`, which is about to enter it, can join at
    /// the back, regardless of their streams (Linux: `elv_attempt_insert_merge`).
    pub(crate) fn find_join(&self, id: u32) -> Option<u32> {
        let joins = |&leader: &u32| {
            leader != id
                && self.side(leader, id) == Some(Side::Back)
                && self.is_compatible(leader, id)
        };
        let last = self.last_merged().filter(joins);
        // As in `elv_attempt_insert_merge`: first the command that was merged last, then the hash
        // of ends.
        if last.is_some() || self.merges.is_one_hit() {
            return last;
        }
        self.ending_before(id).filter(joins)
    }

    /// Restores the range of a request that no longer leads a command.
    pub(crate) fn restore(&mut self, id: u32) {
        let request = &mut self.requests[id].request;
        (request.offset, request.length) = self.merges.own(id);
    }
}
