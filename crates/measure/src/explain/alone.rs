//! The time that the drive takes for a piece when nothing else is in it.

use weir_core::Op;

/// The number of size classes, which are powers of two: one for each bit length of a `u32`,
/// including 0.
const SIZES: usize = 33;
/// The number of pieces from which on the time is used. Each further piece replaces one eighth of
/// the mean.
const KNOWN: u32 = 8;

/// The mean times of pieces that were alone in the drive, by operation and size.
#[derive(Clone, Debug)]
pub(crate) struct AloneTimes {
    means: [[(f64, u32); SIZES]; 2],
}

impl AloneTimes {
    pub(crate) fn new() -> Self {
        Self {
            means: [[(0.0, 0); SIZES]; 2],
        }
    }

    /// Learns from a piece that had the drive to itself for `ns`.
    pub(crate) fn learn(&mut self, op: Op, bytes: u32, ns: u64) {
        let Some((mean, count)) = self.place(op, bytes) else {
            return;
        };
        // The mean is a plain one up to `KNOWN` pieces, and then an exponential one.
        *count = (*count + 1).min(KNOWN);
        *mean += (ns as f64 - *mean) / f64::from(*count);
    }

    /// Returns the time for which a piece would be in the drive alone, if it is known.
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
