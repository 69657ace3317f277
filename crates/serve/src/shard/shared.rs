//! The part of a shared minimum that this server promises.

use weir_core::{Contract, Instant};

/// The part of a volume's shared minimum that this server holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HeldPart {
    /// Bytes per second that this server promises.
    pub min: u64,
    /// Requests per second that this server promises.
    pub min_iops: u64,
    /// The fraction of the whole minimum that this part is, from 0 to 1.
    pub part: f64,
    /// The end of the part. Afterwards nothing is promised here.
    pub until: std::time::Instant,
    /// The number of earlier parts that lapsed.
    pub lapses: u64,
}

/// The service that a volume has received since it was added, and the waiting time of its requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PartUsage {
    /// Bytes of requests that completed without an error.
    pub bytes: u64,
    /// The number of these requests.
    pub requests: u64,
    /// The total time with at least one waiting request, in nanoseconds.
    pub waited_ns: u64,
}

/// A [`HeldPart`] in the shard's time.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedPart {
    min: u64,
    min_iops: u64,
    pub(super) part: f64,
    pub(super) lapses: u64,
    pub(super) until: Instant,
}

impl SharedPart {
    /// Returns the state in which nothing is promised here.
    pub(super) const fn nothing(lapses: u64) -> Self {
        Self {
            min: 0,
            min_iops: 0,
            part: 0.0,
            lapses,
            until: Instant::MAX,
        }
    }

    pub(super) fn new(held: &HeldPart, until: Instant) -> Self {
        Self {
            min: held.min,
            min_iops: held.min_iops,
            part: held.part,
            lapses: held.lapses,
            until,
        }
    }

    /// Returns the contract `whole` with this part in place of its min. The part cannot exceed the
    /// whole.
    pub(super) fn of(&self, whole: &Contract) -> Contract {
        Contract {
            min: self.min.min(whole.min),
            min_iops: self.min_iops.min(whole.min_iops),
            ..*whole
        }
    }
}
