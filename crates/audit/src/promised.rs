//! The promise of a contract as one figure, and which clients have something to send: shared by several auditors of contracts.

use crate::model::{Live, Model, Stream};
use weir_core::{Class, Contract, Dispatch};

/// A min in units per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rate {
    pub(crate) units: Units,
    pub(crate) a_second: u64,
}

/// The units of a min.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Units {
    Bytes,
    Requests,
}

impl Rate {
    /// The min of a contract; `None` without a promise.
    pub(crate) fn of(contract: &Contract) -> Option<Self> {
        let rate = |units, a_second| Self { units, a_second };
        match (contract.class, contract.min, contract.min_iops) {
            (Class::Idle, ..) | (_, 0, 0) => None,
            (_, 0, iops) => Some(rate(Units::Requests, iops)),
            (_, bytes, _) => Some(rate(Units::Bytes, bytes)),
        }
    }
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
