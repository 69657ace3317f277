//! Functions that several auditors of contracts share: the promise of a contract as one rate, and
//! the groups that have something to send.

use crate::audit::model::{LayerModel, LiveRequest, ModelStream};
use weir_core::{Class, Contract, Dispatch};
pub(crate) use weir_measure::promise::{PromisedRate, Units};

/// Returns the min of a contract, or `None` without a promise.
pub(crate) fn rate(contract: &Contract) -> Option<PromisedRate> {
    PromisedRate::of(contract).filter(|_| contract.class != Class::Idle)
}

/// Returns the units of a piece. In bytes, this is its length, or a sector if it moves none. In
/// requests, it is one if its request ends with it.
pub(crate) fn units_of_piece(units: Units, piece: &Dispatch, live: &LiveRequest) -> u64 {
    match units {
        Units::Bytes => piece.op.charge(piece.length.into()),
        Units::Requests => u64::from(piece.within + piece.length == live.request.length),
    }
}

/// Marks the groups with a stream for which `has` returns true, and those above them.
pub(crate) fn mark_groups(
    model: &LayerModel,
    marks: &mut Vec<bool>,
    has: impl Fn(&ModelStream) -> bool,
) {
    marks.clear();
    marks.resize(model.tree.capacity() as usize, false);
    for stream in model.streams().filter(|s| has(s)) {
        for group in model.tree.path(stream.group) {
            marks[group.0 as usize] = true;
        }
    }
}

/// Returns true if requests may be waiting for a scheduler tag, where the elevator does not see
/// them.
pub(crate) fn may_wait_for_tags(model: &LayerModel) -> bool {
    model.live > model.config.sizes.scheduler_tags
}
