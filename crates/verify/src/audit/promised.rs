//! The promise of a contract as one figure, and which clients have something to send: shared by several auditors of contracts.

use crate::audit::model::{Live, Model, Stream};
use weir_core::{Class, Contract, Dispatch};
pub(crate) use weir_measure::promise::{Rate, Units};

/// The min of a contract; `None` without a promise.
pub(crate) fn rate(contract: &Contract) -> Option<Rate> {
    Rate::of(contract).filter(|_| contract.class != Class::Idle)
}

/// The units of a piece: its bytes, or a sector if it moves none; one if its request ends with it.
pub(crate) fn counts(units: Units, piece: &Dispatch, live: &Live) -> u64 {
    match units {
        Units::Bytes => piece.op.charge(piece.length.into()),
        Units::Requests => u64::from(piece.within + piece.length == live.request.length),
    }
}

/// Groups with a stream for which `has` is true, and those above them.
pub(crate) fn mark(model: &Model, marks: &mut Vec<bool>, has: impl Fn(&Stream) -> bool) {
    marks.clear();
    marks.resize(model.tree.capacity() as usize, false);
    for stream in model.streams().filter(|s| has(s)) {
        for group in model.tree.path(stream.group) {
            marks[group.0 as usize] = true;
        }
    }
}

/// True if requests may be waiting for a scheduler tag, where the elevator does not see them.
pub(crate) fn crowded(model: &Model) -> bool {
    model.live > model.config.sizes.scheduler_tags
}
