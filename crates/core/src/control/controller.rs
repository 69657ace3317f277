//! The interface between the chain and its controllers.

use crate::contract::MaxDebt;
use crate::cx::Cx;
use crate::id::GroupId;
use crate::sample::Take;
use crate::table::Table;
use crate::time::{Instant, Span};
use crate::wake::Reason;
use core::fmt::Debug;

/// The decision of a controller about a request that enters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The request continues, and its charges have been made.
    Pass,
    /// The controller keeps the request, and later returns it from [`Controller::next_passed`].
    Hold,
}

/// A controller as the chain calls it. Numbers are slots of live requests and of streams in the
/// [`Table`].
///
/// A request enters, passes at once or is held and passes later, and ends. A held request can be
/// removed instead. If the stream of a request that has passed is put on hold, the request ends
/// without having been served, and enters again after the hold. Only controllers behind the gate
/// see that ([`Chain`](super::chain::Chain)).
pub(crate) trait Controller: Send + Sync + Debug {
    /// Applies a changed tree, contracts or knobs. Requests that are held or under way remain.
    fn set(&mut self, cx: &mut Cx);
    /// Replaces the debts of a group ([`Edit::SetDebt`](crate::Edit::SetDebt)). Only exact limits
    /// have debts.
    fn set_debt(&mut self, _cx: &mut Cx, _group: GroupId, _debt: &MaxDebt) {}
    /// Returns the debts of a group at `now`.
    fn debt(&self, _now: Instant, _group: GroupId) -> MaxDebt {
        MaxDebt::NONE
    }
    /// Returns true if requests of a group must enter. Others may go directly to the elevator.
    fn covers(&self, group: GroupId) -> bool;
    /// Returns true if the controller counts requests and must be notified of the end of each
    /// ([`Self::ended`]).
    fn counts(&self) -> bool {
        false
    }
    /// Decides about a request that enters the controller.
    fn enter(&mut self, cx: &mut Cx, request: u32) -> Verdict;
    /// Returns the next request that was held and may continue, by its slot. It is charged already,
    /// and counts as passed from now on. The layer calls this until `None`, after every other call
    /// that can let a request continue.
    fn next_passed(&mut self, cx: &mut Cx) -> Option<u32>;
    /// Notes that a request that passed has its scheduler tag, for which it waited this long.
    fn tagged(&mut self, _cx: &mut Cx, _request: u32, _waited: Span) {}
    /// Notes that a request that did not enter goes to the drive as part of another's command
    /// (Linux: `rq_qos_merge`).
    fn merged(&mut self, _cx: &mut Cx, _request: u32, _leader: u32) {}
    /// Notes the end of a request that passed, `took` after its submission, or `None` if no part of
    /// it was served. Returns true if held requests may continue.
    ///
    /// The call also concerns requests that never entered, because they arrived before the
    /// controller covered their group. In front of the gate, it is made only for served requests.
    fn ended(&mut self, _cx: &mut Cx, _request: u32, _took: Option<Span>) -> bool {
        false
    }
    /// Removes a held request that is given up. It is not charged.
    fn remove(&mut self, cx: &mut Cx, request: u32);
    /// Does the work that is due. The time of [`Self::due`] has come, or may have.
    fn run(&mut self, cx: &mut Cx);
    /// Returns the time at which [`Self::run`] must be called, or [`Instant::MAX`].
    fn due(&self) -> Instant;
    /// Returns the reason of the next call.
    fn reason(&self) -> Reason {
        Reason::Limit
    }
    /// Returns the time that the stream's held requests will take to pass, as far as it is known.
    fn backlog(&self, _table: &Table, _stream: u32) -> Span {
        Span::ZERO
    }
    /// Samples the state of each group.
    fn sample(&self, _cx: &Cx, _take: &mut Take<'_>) {}
}
