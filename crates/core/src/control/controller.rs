//! What the chain asks of a controller.

use crate::cx::Cx;
use crate::id::GroupId;
use crate::sample::Take;
use crate::table::Table;
use crate::time::{Instant, Span};
use crate::wake::Reason;
use core::fmt::Debug;

/// What a controller says of a request that comes to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It goes on. What it is charged has been charged.
    Pass,
    /// The controller keeps it, and gives it out of [`Controller::next_passed`] some time.
    Hold,
}

/// A controller as the chain sees it. Numbers are slots of live requests and of streams in the [`Table`].
///
/// A request enters, passes at once or is held and passes later, and ends. One that is held may be removed instead. Where the
/// stream of one that has passed is put on hold, it ends without having been served and enters again when the hold is over;
/// only controllers behind the gate see that ([`Chain`](super::chain::Chain)).
pub(crate) trait Controller: Send + Sync + Debug {
    /// The tree, its contracts or its knobs changed. What is held or under way stays.
    fn set(&mut self, cx: &mut Cx);
    /// True if requests of a group have to enter. The others may go straight to the elevator.
    fn covers(&self, group: GroupId) -> bool;
    /// True if it counts requests and must be told of the end of each ([`Self::ended`]).
    fn counts(&self) -> bool {
        false
    }
    /// A request comes.
    fn enter(&mut self, cx: &mut Cx, request: u32) -> Verdict;
    /// The next request that was held and may go on. It is asked after every other call that may let one go on.
    fn next_passed(&mut self, cx: &mut Cx) -> Option<u32>;
    /// A request that passed got its scheduler tag, for which it had to wait this long.
    fn tagged(&mut self, _cx: &mut Cx, _request: u32, _waited: Span) {}
    /// A request that did not enter goes to the drive as part of another's command (Linux: `rq_qos_merge`).
    fn merged(&mut self, _cx: &mut Cx, _request: u32, _leader: u32) {}
    /// A request that passed is over, `took` after its submission; `None` if nothing of it was served. It is also told of requests
    /// that never entered, since they came before it covered their group. In front of the gate, only of what was served. True if
    /// requests that were held may go on.
    fn ended(&mut self, _cx: &mut Cx, _request: u32, _took: Option<Span>) -> bool {
        false
    }
    /// A request that is held leaves: given up. Nothing is charged for it.
    fn remove(&mut self, cx: &mut Cx, request: u32);
    /// The time of [`Self::due`] has come, or may have.
    fn run(&mut self, cx: &mut Cx);
    /// When [`Self::run`] is to be called; [`Instant::MAX`]: never.
    fn due(&self) -> Instant;
    /// Why it is to be called then.
    fn reason(&self) -> Reason {
        Reason::Limit
    }
    /// How long what the stream has here will take to pass, as far as that is known.
    fn backlog(&self, _table: &Table, _stream: u32) -> Span {
        Span::ZERO
    }
    /// How things stand with each group.
    fn sample(&self, _cx: &Cx, _take: &mut Take<'_>) {}
}
