//! How long the drive takes for a piece that has it to itself.

use weir_core::Op;

/// Sizes told apart: powers of two.
const SIZES: usize = 33;
/// From as many pieces on the time is known; with each further one an eighth is forgotten.
const KNOWN: u32 = 8;

/// Mean times of pieces that were alone in the drive, by operation and size.
#[derive(Clone, Debug)]
pub(crate) struct Alone {
    means: [[(f64, u32); SIZES]; 2],
}

impl Alone {
    pub(crate) fn new() -> Self {
        Self {
            means: [[(0.0, 0); SIZES]; 2],
        }
    }

    /// A piece had the drive to itself for `ns`.
    pub(crate) fn learn(&mut self, op: Op, bytes: u32, ns: u64) {
        let Some((mean, count)) = self.place(op, bytes) else {
            return;
        };
        *count = (*count + 1).min(KNOWN);
        *mean += (ns as f64 - *mean) / f64::from(*count);
    }

    /// For how long a piece would be in the drive alone, if that is known.
    #[inline]
    pub(crate) fn of(&mut self, op: Op, bytes: u32) -> Option<u64> {
        let (mean, count) = self.place(op, bytes)?;
        (*count == KNOWN).then_some(*mean as u64)
    }

    #[inline]
    fn place(&mut self, op: Op, bytes: u32) -> Option<&mut (f64, u32)> {
        let kind = match op {
            Op::Read => 0,
            Op::Write | Op::WriteZeroes => 1,
            Op::Flush | Op::Discard | Op::Extents => return None,
        };
        let size = (u32::BITS - bytes.leading_zeros()) as usize;
        Some(&mut self.means[kind][size])
    }
}
