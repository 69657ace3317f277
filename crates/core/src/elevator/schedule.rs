//! The interface between the layer and an elevator.

use super::common::seek::{SeekPosition, sectors};
use crate::cx::Cx;
use crate::flush::Flushes;
use crate::id::{GroupId, Tag};
use crate::merge::{Join, Side};
use crate::sample::{SampleMask, Take};
use crate::table::Table;
use crate::wake::Wake;
use core::ops::Range;

/// The decision of an elevator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DispatchDecision {
    /// Dispatch the next `bytes` of this request, which may be all that is left of it. The elevator
    /// has accounted for the piece. If it is the last piece, the elevator has forgotten the
    /// request.
    Take { request: u32, bytes: u32 },
    /// Dispatch nothing now, although requests wait. The layer must call again at this time, or
    /// after the next call.
    Wait(Wake),
    /// There is no request that could be dispatched.
    Nothing,
}

/// An elevator, as the layer calls it.
///
/// Numbers are slots: of live requests, and of streams in the [`Table`]. Calls that can change the
/// elevator receive a context. Queries receive the table if they need it.
///
/// A request passes these calls in order: `arrive`, `insert`, `next` once for each piece, and
/// `complete` for each piece. `remove` ends it before it is dispatched completely.
pub(crate) trait Schedule: Send + Sync + core::fmt::Debug {
    /// Adds a stream that was opened.
    fn open(&mut self, _cx: &mut Cx, _stream: u32) {}
    /// Removes a stream that is closed. It has no requests.
    fn close(&mut self, _cx: &mut Cx, _stream: u32) {}
    /// Adds a group, or applies a change of its contract or its knobs.
    fn set_group(&mut self, _cx: &mut Cx, _id: GroupId) {}
    /// Removes a group. It has no members.
    fn remove_group(&mut self, _cx: &mut Cx, _id: GroupId) {}
    /// Applies a change of the drive's capacity.
    fn set_capacity(&mut self, _cx: &mut Cx) {}
    /// Ends a change whose edits have all been made. Only the promises of groups in these slots may
    /// have changed.
    fn settle(&mut self, _cx: &mut Cx, _slots: Range<u32>) {}
    /// Adds a request, or the remainder of a request that was removed earlier.
    fn insert(&mut self, cx: &mut Cx, request: u32);
    /// Removes a request that is not completely dispatched, because it is given up or its stream is
    /// on hold.
    fn remove(&mut self, cx: &mut Cx, request: u32);
    /// Chooses the next piece. The drive has a free tag, unless the layer takes a piece ahead.
    fn next(&mut self, cx: &mut Cx) -> DispatchDecision;
    /// Returns a time if the next flush must wait until then, or until the next call. `None` begins
    /// the flush. The drive has a free tag. By default no flush waits, because flushes bypass the
    /// elevator in Linux.
    fn hold_flush(&mut self, _cx: &mut Cx, _flushes: &Flushes) -> Option<Wake> {
        None
    }
    /// Returns true if requests may leave in another order than they arrived in. Only then can a
    /// command that is about to enter join one in the elevator. The result never changes.
    fn sorts(&self) -> bool {
        true
    }
    /// Returns true if some requests may not take every scheduler tag. The result never changes.
    fn limits_tags(&self) -> bool {
        false
    }
    /// Returns true if a request outside the elevator may take a scheduler tag and enter.
    fn may_tag(&self, _cx: &Cx, _request: u32) -> bool {
        true
    }
    /// Records that a request takes a scheduler tag. This call and `on_tag_returned` occur only if
    /// tags are limited.
    fn on_tag_taken(&mut self, _cx: &mut Cx, _request: u32) {}
    /// Records that a request no longer has its scheduler tag.
    fn on_tag_returned(&mut self, _cx: &mut Cx, _request: u32) {}
    /// Records that the piece with this tag has completed. Flushes are included, although no
    /// elevator chose them. The tag is free, and [`Pieces::last`](crate::table::Pieces::last) still
    /// has the piece.
    fn complete(&mut self, _cx: &mut Cx, _tag: Tag) {}
    /// Records that the piece with this tag counts as completed although the drive still has it,
    /// because its space stalls. Its latency shows nothing about the drive. The actual completion
    /// is not reported.
    fn stall(&mut self, cx: &mut Cx, tag: Tag) {
        self.complete(cx, tag);
    }
    /// Prepares for a request that has its scheduler tag and will be inserted or merged.
    fn arrive(&mut self, _cx: &mut Cx, _request: u32) {}
    /// Returns a command in the elevator that a new request can join (Linux: `elv_merge`). This
    /// call and the next six occur only if requests are merged.
    fn find_join(&mut self, cx: &mut Cx, request: u32) -> Option<Join> {
        // The order is that of `elv_merge`: the last merged request, then a back merge, then a
        // front merge.
        let last = cx.table.last_merged();
        let last = last.filter(|&leader| self.allows(cx, leader, request));
        let found = last.and_then(|leader| {
            let side = cx.table.side(leader, request)?;
            Some(Join { leader, side })
        });
        if found.is_some() || cx.table.merges.is_one_hit() {
            return found;
        }
        if let Some(leader) = cx.table.ending_before(request)
            && self.allows(cx, leader, request)
        {
            let side = Side::Back;
            return Some(Join { leader, side });
        }
        let asked = &cx.table.requests[request].request;
        let end = SeekPosition {
            space: asked.space,
            sector: sectors(asked.end()),
        };
        let leader = self.beginning_at(&cx.table, request, end)?;
        let side = Side::Front;
        let meets = cx.table.side(leader, request) == Some(side);
        (meets && self.allows(cx, leader, request)).then_some(Join { leader, side })
    }
    /// Returns true if a request may join a command in the elevator, regardless of their positions.
    fn allows(&mut self, cx: &mut Cx, command: u32, request: u32) -> bool {
        cx.table.is_compatible(command, request)
    }
    /// Returns a command in the elevator that begins at `place`, so that a request could join it in
    /// front.
    fn beginning_at(&mut self, _table: &Table, _request: u32, _place: SeekPosition) -> Option<u32> {
        None
    }
    /// Returns true if a command may join one in the elevator that ends where it begins. The
    /// joining command is in the elevator (`inside`) or about to enter (Linux:
    /// `elv_attempt_insert_merge`).
    fn may_join(&self, _cx: &Cx, _leader: u32, _request: u32, _inside: bool) -> bool {
        true
    }
    /// Records that a command in the elevator has grown.
    fn on_growth(&mut self, _cx: &mut Cx, _leader: u32, _side: Side) {}
    /// Returns the command that follows or precedes one that has grown on this side, in the order
    /// of dispatch.
    fn neighbour(&mut self, _leader: u32, _side: Side) -> Option<u32> {
        None
    }
    /// Removes a command that has become part of another one.
    fn on_absorption(&mut self, cx: &mut Cx, _by: u32, request: u32) {
        self.remove(cx, request);
    }
    /// Checks the elevator's state between calls. `queued` is the number of requests in the
    /// elevator. `sums` is scratch space with an element for each stream or group.
    #[cfg(debug_assertions)]
    fn invariants(&self, _cx: &Cx, _queued: u32, _sums: &mut [u64]) {}
    /// Reports the elevator's present state, as far as it is wanted.
    fn sample(&self, _cx: &Cx, _wanted: SampleMask, _take: &mut Take<'_>) {}
}
