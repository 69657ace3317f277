//! What a drive was said to do at the least.

use weir_core::{Capacity, Op};

/// How long a drive of a stated capacity takes for a piece at most, while it is kept busy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stated {
    /// Nanoseconds a byte and a request: of reads, and of writes.
    costs: Option<[(f64, f64); 2]>,
}

impl Stated {
    pub(crate) fn new(capacity: Option<Capacity>) -> Self {
        let each = |rate: u64| if rate == 0 { 0.0 } else { 1e9 / rate as f64 };
        let requests = |c: &Capacity, own: u64| each(if own > 0 { own } else { c.iops });
        let costs = capacity.map(|c| {
            [
                (each(c.read), requests(&c, c.read_iops)),
                (each(c.write), requests(&c, c.write_iops)),
            ]
        });
        Self {
            costs: costs.filter(|costs| costs.iter().all(|c| c.0 > 0.0 || c.1 > 0.0)),
        }
    }

    /// Whether anything was stated.
    pub(crate) fn is_known(&self) -> bool {
        self.costs.is_some()
    }

    /// Nanoseconds of the drive for a piece, at most; `None` where nothing is stated of such a piece.
    #[inline]
    pub(crate) fn cost(&self, op: Op, bytes: u32) -> Option<u64> {
        let [read, write] = self.costs?;
        let (byte, request) = match op {
            Op::Read => read,
            Op::Write | Op::WriteZeroes => write,
            Op::Flush | Op::Discard | Op::Extents => return None,
        };
        Some((byte * f64::from(bytes)).max(request) as u64)
    }
}
