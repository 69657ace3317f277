//! What the layer asks of an elevator.

use super::common::seek::{Place, sectors};
use crate::cx::Cx;
use crate::flush::Flushes;
use crate::id::{GroupId, Tag};
use crate::merge::{Join, Side};
use crate::sample::{Take, Wanted};
use crate::table::Table;
use crate::wake::Wake;
use core::ops::Range;

/// What an elevator wants done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send the next `bytes` of this request (all that is left of it if `bytes` says so). The elevator has accounted for them
    /// and, if that was all, has forgotten the request.
    Take { request: u32, bytes: u32 },
    /// Nothing now on purpose; ask again then, or after the next call.
    Wait(Wake),
    /// Nothing to send.
    Nothing,
}

/// An elevator as the layer sees it. Numbers are slots: of live requests and of streams in the [`Table`]. A call that may change the
/// elevator is given a context; a question is given the table where it needs it.
pub(crate) trait Schedule: Send + Sync + core::fmt::Debug {
    /// A stream came.
    fn open(&mut self, _cx: &mut Cx, _stream: u32) {}
    /// A stream without requests goes.
    fn close(&mut self, _cx: &mut Cx, _stream: u32) {}
    /// A group came, or its contract or its knobs changed.
    fn set_group(&mut self, _cx: &mut Cx, _id: GroupId) {}
    /// A group without members goes.
    fn remove_group(&mut self, _cx: &mut Cx, _id: GroupId) {}
    /// The drive's capacity changed.
    fn set_capacity(&mut self, _cx: &mut Cx) {}
    /// All edits of a change have been made; only the promises of groups in these slots may have
    /// changed.
    fn settle(&mut self, _cx: &mut Cx, _slots: Range<u32>) {}
    /// A request (or what is left of one that was taken out) enters.
    fn insert(&mut self, cx: &mut Cx, request: u32);
    /// A request that is inside leaves undispatched: given up, or its stream is on hold.
    fn remove(&mut self, cx: &mut Cx, request: u32);
    /// Chooses. There is a free tag.
    fn next(&mut self, cx: &mut Cx) -> Next;
    /// A flush could begin, the first of those that are ready; there is a free tag. `None` begins it, else it is asked again then,
    /// or after the next call. As in Linux, where flushes bypass the elevator, none is held back unless an elevator says so.
    fn hold_flush(&mut self, _cx: &mut Cx, _flushes: &Flushes) -> Option<Wake> {
        None
    }
    /// True if requests leave in another order than they came in. It stays so, and only then may a command that is about to enter join
    /// one inside.
    fn sorts(&self) -> bool {
        true
    }
    /// True if not everyone may take any scheduler tag. It stays so.
    fn limits_tags(&self) -> bool {
        false
    }
    /// A request that is outside may take a scheduler tag and enter.
    fn may_tag(&self, _cx: &Cx, _request: u32) -> bool {
        true
    }
    /// A request that has entered took a scheduler tag for it. This and the next are only told where tags are limited.
    fn tagged(&mut self, _cx: &mut Cx, _request: u32) {}
    /// A request that has entered has its scheduler tag no longer.
    fn untagged(&mut self, _cx: &mut Cx, _request: u32) {}
    /// The piece that had this tag came back from the drive (flushes among them, which no elevator chose); the tag is free, and
    /// [`Pieces::last`](crate::table::Pieces::last) still has the piece.
    fn complete(&mut self, _cx: &mut Cx, _tag: Tag) {}
    /// The piece that has this tag counts as back from the drive from now on, though the drive has
    /// it still: its space stalls, and how long it took says nothing of the drive. That it is
    /// really back is not told.
    fn stall(&mut self, cx: &mut Cx, tag: Tag) {
        self.complete(cx, tag);
    }
    /// A request has its scheduler tag and is about to be inserted, or merged.
    fn arrive(&mut self, _cx: &mut Cx, _request: u32) {}
    /// A command inside that a request that has come may join (Linux: `elv_merge`); only asked where requests are merged, as are the
    /// next six.
    fn find_join(&mut self, cx: &mut Cx, request: u32) -> Option<Join> {
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
        let end = Place {
            space: asked.space,
            sector: sectors(asked.end()),
        };
        let leader = self.beginning_at(&cx.table, request, end)?;
        let side = Side::Front;
        let meets = cx.table.side(leader, request) == Some(side);
        (meets && self.allows(cx, leader, request)).then_some(Join { leader, side })
    }
    /// Whether a request may join a command inside, wherever they lie.
    fn allows(&mut self, cx: &mut Cx, command: u32, request: u32) -> bool {
        cx.table.is_compatible(command, request)
    }
    /// A command inside that begins at a place and might be joined in front by a request.
    fn beginning_at(&mut self, _table: &Table, _request: u32, _place: Place) -> Option<u32> {
        None
    }
    /// Whether a command that is about to come in, or is inside as well, may join one inside that ends where it begins (Linux:
    /// `elv_attempt_insert_merge`).
    fn may_join(&self, _cx: &Cx, _leader: u32, _request: u32, _inside: bool) -> bool {
        true
    }
    /// A command inside has grown.
    fn grown(&mut self, _cx: &mut Cx, _leader: u32, _side: Side) {}
    /// The command inside that lies next to one that has grown on this side, in the order in which they would be sent.
    fn neighbour(&mut self, _leader: u32, _side: Side) -> Option<u32> {
        None
    }
    /// A command inside is part of another now, and leaves.
    fn absorbed(&mut self, cx: &mut Cx, _by: u32, request: u32) {
        self.remove(cx, request);
    }
    /// Asserts what holds between calls, `queued` requests being inside. `sums` is room for sums by stream or group.
    #[cfg(debug_assertions)]
    fn invariants(&self, _cx: &Cx, _queued: u32, _sums: &mut [u64]) {}
    /// How things stand: as much of it as is wanted.
    fn sample(&self, _cx: &Cx, _wanted: Wanted, _take: &mut Take<'_>) {}
}
