//! The contents of a journal at one time.

use crate::explain::answer::explain;
use crate::explain::explanation::{Explanation, Waiting};
use crate::explain::late::Late;
use crate::explain::ring::Kept;
use crate::explain::rows::{Piece, Request, Row, Ruled, Second};
use crate::explain::stated::Stated;
use crate::explain::terms::Groups;
use std::sync::Arc;
use weir_core::{GroupId, Span};

/// The contents of a journal at one time, for one group.
///
/// A view shares the memory of the journal. When the journal needs a chunk that a view holds, it
/// allocates a new one, so a view should be dropped soon.
#[derive(Clone, Debug)]
pub struct View {
    pub(crate) group: GroupId,
    pub(crate) now: u64,
    pub(crate) groups: Arc<Groups>,
    pub(crate) stated: Stated,
    pub(crate) late: Late,
    pub(crate) rows: Kept<Row>,
    pub(crate) seconds: Kept<Second>,
    pub(crate) ruled: Kept<Ruled>,
    pub(crate) pieces: Kept<Piece>,
    pub(crate) requests: Kept<Request>,
    pub(crate) waiting: Option<Waiting>,
}

impl View {
    /// Explains the requests of the group that completed in the last whole seconds, of at least the
    /// length `since`, and in the current second. With `None`, all known seconds are explained.
    /// `name` returns the name of a group, which may have been removed.
    pub fn explain(&self, since: Option<Span>, name: &dyn Fn(GroupId) -> String) -> Explanation {
        explain(self, since, name)
    }
}
