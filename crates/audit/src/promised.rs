//! What a contract promises as one figure, and who has something to send: what several auditors of contracts look at.

use crate::model::{Live, Model, Stream};
use weir_core::{Class, Contract, Dispatch, Op};

/// A min: so many units a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rate {
    pub(crate) units: Units,
    pub(crate) a_second: u64,
}

/// What a min is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Units {
    Bytes,
    Requests,
}

impl Rate {
    /// The min of a contract; `None` if nothing is promised.
    pub(crate) fn of(contract: &Contract) -> Option<Self> {
        let rate = |units, a_second| Self { units, a_second };
        match (contract.class, contract.min, contract.min_iops) {
            (Class::Idle, ..) | (_, 0, 0) => None,
            (_, 0, iops) => Some(rate(Units::Requests, iops)),
            (_, bytes, _) => Some(rate(Units::Bytes, bytes)),
        }
    }
}

/// What a piece counts: its bytes, of what moves none a sector; and one if its request ends with it.
pub(crate) fn counts(units: Units, piece: &Dispatch, live: &Live) -> u64 {
    match units {
        Units::Bytes => moved(piece.op, piece.length).into(),
        Units::Requests => u64::from(piece.within + piece.length == live.request.length),
    }
}

/// The bytes that `length` of an operation count as.
pub(crate) fn moved(op: Op, length: u32) -> u32 {
    match op {
        Op::Discard | Op::Extents => 512,
        _ => length,
    }
}

/// Groups with a stream that `has` what is looked for, and those above them.
pub(crate) fn mark(model: &Model, marks: &mut Vec<bool>, has: impl Fn(&Stream) -> bool) {
    marks.clear();
    marks.resize(model.tree.capacity() as usize, false);
    for stream in model.streams().filter(|s| has(s)) {
        for group in model.tree.path(stream.group) {
            marks[group.0 as usize] = true;
        }
    }
}

/// True if requests may be waiting for a scheduler tag, out of the elevator's sight.
pub(crate) fn crowded(model: &Model) -> bool {
    model.live > model.config.limits.scheduler_tags
}
