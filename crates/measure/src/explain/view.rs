//! What a journal held at one time.

use crate::explain::answer::explain;
use crate::explain::explanation::{Explanation, Waiting};
use crate::explain::late::Late;
use crate::explain::ring::Kept;
use crate::explain::rows::{Piece, Request, Row, Ruled, Second};
use crate::explain::stated::Stated;
use crate::explain::terms::Groups;
use std::sync::Arc;
use weir_core::{GroupId, Span};

/// What a journal held at one time. It shares the journal's memory, of which the journal has a new part for each that the view holds when
/// it would write there: drop it soon.
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
    /// Explains the requests of its group that ended in the last whole seconds, `since` at the least, and the second under way; `None`
    /// for as many as are known. `name` says what a group is called: it may be asked for groups that are gone.
    pub fn explain(&self, since: Option<Span>, name: &dyn Fn(GroupId) -> String) -> Explanation {
        explain(self, since, name)
    }
}
