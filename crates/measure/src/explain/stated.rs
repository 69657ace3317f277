//! The stated capacity of a drive, as costs of pieces.

use weir_core::{Capacity, Op};

/// The longest time that a drive of a stated capacity takes for a piece, while it is kept busy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StatedCapacity {
    /// Nanoseconds per byte and per request, of reads and of writes.
    costs: Option<[(f64, f64); 2]>,
}

impl StatedCapacity {
    pub(crate) fn new(capacity: Option<Capacity>) -> Self {
        // A rate of 0 states nothing, so it adds no cost.
        let each = |rate: u64| if rate == 0 { 0.0 } else { 1e9 / rate as f64 };
        // Operations without a rate of requests of their own use the common one.
        let requests = |c: &Capacity, own: u64| each(if own > 0 { own } else { c.iops });
        let costs = capacity.map(|c| {
            [
                (each(c.read), requests(&c, c.read_iops)),
                (each(c.write), requests(&c, c.write_iops)),
            ]
        });
        Self {
            // A capacity must state something about both reads and writes.
            costs: costs.filter(|costs| costs.iter().all(|c| c.0 > 0.0 || c.1 > 0.0)),
        }
    }

    /// Returns true if a capacity was stated.
    pub(crate) fn is_known(&self) -> bool {
        self.costs.is_some()
    }

    /// Returns the longest time of the drive for a piece, in nanoseconds, or `None` if no capacity
    /// is stated for such a piece.
    #[inline]
    pub(crate) fn cost(&self, op: Op, bytes: u32) -> Option<u64> {
        let [read, write] = self.costs?;
        let (byte, request) = match op {
            Op::Read => read,
            Op::Write | Op::WriteZeroes => write,
            Op::Flush | Op::Discard | Op::Extents => return None,
        };
        // A piece is limited by its bytes or by its request, whichever takes longer.
        Some((byte * f64::from(bytes)).max(request) as u64)
    }
}
