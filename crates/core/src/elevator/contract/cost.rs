//! What a request costs the drive: a linear model from the capacity that was stated or measured.

use crate::{Capacity, Op};

/// Fraction bits of nanoseconds a byte.
const SHIFT: u32 = 20;

/// Nanoseconds of drive time by operation and length: the larger of its part of the requests and its part of the bytes that the
/// drive can do in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Model {
    request: u64,
    read_byte: u64,
    write_byte: u64,
}

impl Model {
    /// The model of a drive; of one whose capacity is unknown, 1 GB/s and a million requests a second, so that costs compare.
    pub(super) fn new(capacity: Option<Capacity>) -> Self {
        let c = capacity.unwrap_or(Capacity {
            read: 1_000_000_000,
            write: 1_000_000_000,
            iops: 1_000_000,
            ..Capacity::NONE
        });
        let byte = |rate: u64| (1_000_000_000u64 << SHIFT) / rate.max(1);
        Self {
            request: 1_000_000_000u64.checked_div(c.iops).unwrap_or(0),
            read_byte: byte(c.read),
            write_byte: byte(c.write),
        }
    }

    /// The cost of moving `bytes` in one request, at least one nanosecond.
    #[inline]
    pub(super) fn cost(&self, op: Op, bytes: u64) -> u64 {
        let (byte, bytes) = match op {
            Op::Read => (self.read_byte, bytes),
            Op::Write | Op::WriteZeroes => (self.write_byte, bytes),
            Op::Discard => (self.write_byte, 512),
            Op::Flush => (self.write_byte, 0),
        };
        let moved =
            u64::try_from((u128::from(bytes) * u128::from(byte)) >> SHIFT).unwrap_or(u64::MAX >> 1);
        moved.max(self.request).max(1)
    }

    /// The bytes that cost no more than the request they come in: cutting them smaller costs the drive more and frees it no sooner.
    pub(super) fn indivisible(&self) -> u64 {
        self.bytes_in(self.request)
    }

    /// The bytes whose reading or writing takes `nanos`, whichever is fewer.
    pub(super) fn bytes_in(&self, nanos: u64) -> u64 {
        let byte = self.read_byte.max(self.write_byte).max(1);
        u64::try_from((u128::from(nanos) << SHIFT) / u128::from(byte)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_requests_cost_their_part_of_the_requests_large_ones_of_the_bytes() {
        let model = Model::new(Some(Capacity {
            read: 250_000_000,
            write: 125_000_000,
            iops: 50_000,
            ..Capacity::NONE
        }));
        assert_eq!(model.cost(Op::Read, 4096), 20_000);
        assert_eq!(model.cost(Op::Read, 131_072), 524_288);
        assert_eq!(model.cost(Op::Write, 131_072), 1_048_576);
        assert_eq!(model.cost(Op::Discard, 1 << 30), 20_000);
        assert_eq!(model.bytes_in(524_288), 65_536);
        assert_eq!(model.indivisible(), 2_500);
    }
}
