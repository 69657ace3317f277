//! The contents of a journal at one time.

use crate::explain::answer::explain;
use crate::explain::explanation::{Explanation, OutstandingRequests};
use crate::explain::late::LateIntervals;
use crate::explain::ring::RingContents;
use crate::explain::rows::{DriveSecond, GroupRow, PieceTrace, RequestTrace, RuledSecond};
use crate::explain::stated::StatedCapacity;
use crate::explain::terms::GroupTree;
use std::sync::Arc;
use weir_core::{GroupId, Span};

/// The contents of a journal at one time, for one group.
///
/// A view shares the memory of the journal. When the journal needs a chunk that a view holds, it
/// allocates a new one, so a view should be dropped soon.
#[derive(Clone, Debug)]
pub struct JournalSnapshot {
    pub(crate) group: GroupId,
    pub(crate) now: u64,
    pub(crate) groups: Arc<GroupTree>,
    pub(crate) stated: StatedCapacity,
    pub(crate) late: LateIntervals,
    pub(crate) rows: RingContents<GroupRow>,
    pub(crate) seconds: RingContents<DriveSecond>,
    pub(crate) ruled: RingContents<RuledSecond>,
    pub(crate) pieces: RingContents<PieceTrace>,
    pub(crate) requests: RingContents<RequestTrace>,
    pub(crate) waiting: Option<OutstandingRequests>,
}

impl JournalSnapshot {
    /// Explains the requests of the group that completed in the last whole seconds, of at least the
    /// length `since`, and in the current second. With `None`, all known seconds are explained.
    /// `name` returns the name of a group, which may have been removed.
    pub fn explain(&self, since: Option<Span>, name: &dyn Fn(GroupId) -> String) -> Explanation {
        explain(self, since, name)
    }
}
