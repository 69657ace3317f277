//! What is promised here of a min that several servers keep.

use weir_core::{Contract, Instant};

/// What of a volume's min is promised by this server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Held {
    /// Bytes a second.
    pub min: u64,
    /// Requests a second.
    pub min_iops: u64,
    /// Which part of the whole that is, 0 to 1.
    pub part: f64,
    /// Until when; then it is nothing.
    pub until: std::time::Instant,
    /// How often what was held before was lost.
    pub lapses: u64,
}

/// What a volume was served, and how long requests of it waited, since it is served.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Used {
    /// Bytes of requests that were answered without an error.
    pub bytes: u64,
    /// These requests.
    pub requests: u64,
    /// Nanoseconds in which at least one request waited.
    pub waited_ns: u64,
}

/// A [`Held`] as a volume has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    min: u64,
    min_iops: u64,
    pub(super) part: f64,
    pub(super) lapses: u64,
    pub(super) until: Instant,
}

impl Shared {
    pub(super) const fn nothing(lapses: u64) -> Self {
        Self {
            min: 0,
            min_iops: 0,
            part: 0.0,
            lapses,
            until: Instant::MAX,
        }
    }

    pub(super) fn new(held: &Held, until: Instant) -> Self {
        Self {
            min: held.min,
            min_iops: held.min_iops,
            part: held.part,
            lapses: held.lapses,
            until,
        }
    }

    /// A contract with this in the place of its min, which is the whole.
    pub(super) fn of(&self, whole: &Contract) -> Contract {
        Contract {
            min: self.min.min(whole.min),
            min_iops: self.min_iops.min(whole.min_iops),
            ..*whole
        }
    }
}
