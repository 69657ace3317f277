//! The linear cost model: the part of a second of the drive's time that a request costs (Linux:
//! `calc_lcoefs`, `calc_vtime_cost_builtin`).

use super::vtime::PER_SEC;
use crate::Op;

/// The bytes of a page, which is the unit of the model (Linux: `IOC_PAGE_SIZE`).
const PAGE: u64 = 4096;
/// The binary logarithm of the sectors of a page (Linux: `IOC_SECT_TO_PAGE_SHIFT`).
const PAGE_SECTORS_SHIFT: u32 = 3;
/// The distance in pages from the end of the group's last request above which a request is random
/// (Linux: `LCOEF_RANDIO_PAGES`).
const NEAR_PAGES: u64 = 4096;

/// The performance of the drive in one direction: bytes, sequential requests and random requests of
/// 4 KiB per second. Zero means that the operation costs nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Speed {
    pub(super) bps: u64,
    pub(super) seq_iops: u64,
    pub(super) rand_iops: u64,
}

/// The prices of one direction in vtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Prices {
    page: u64,
    sequential: u64,
    random: u64,
}

impl Prices {
    fn of(speed: Speed) -> Self {
        let page = match speed.bps {
            0 => 0,
            bps => PER_SEC.div_ceil(bps.div_ceil(PAGE)),
        };
        // The measured time of a request of 4 KiB includes the transfer of a page, which is priced
        // separately.
        let base = |iops| match iops {
            0 => 0,
            iops => PER_SEC.div_ceil(iops).saturating_sub(page),
        };
        Self {
            page,
            sequential: base(speed.seq_iops),
            random: base(speed.rand_iops),
        }
    }
}

/// The position of a request relative to the last one of its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Proximity {
    /// Near the last request, or the group's first.
    Near,
    /// Far from the last request, so that it counts as random.
    Far,
    /// Part of another request's command, which pays for the seek.
    Merged,
}

impl Proximity {
    /// Returns the position of a request that begins at `sector`, if the last one ended at
    /// `cursor`.
    pub(super) fn of(sector: u64, cursor: u64) -> Self {
        if sector.abs_diff(cursor) >> PAGE_SECTORS_SHIFT > NEAR_PAGES {
            Self::Far
        } else {
            Self::Near
        }
    }
}

/// The prices of reads and writes on a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LinearModel {
    read: Prices,
    write: Prices,
}

impl LinearModel {
    pub(super) fn new(read: Speed, write: Speed) -> Self {
        Self {
            read: Prices::of(read),
            write: Prices::of(write),
        }
    }

    /// Returns the prices of an operation. Only reads and writes have any.
    fn prices(&self, op: Op) -> Option<&Prices> {
        match op {
            Op::Read => Some(&self.read),
            Op::Write => Some(&self.write),
            Op::Flush | Op::Discard | Op::WriteZeroes | Op::Extents => None,
        }
    }

    /// Returns the absolute cost of a request, in vtime.
    #[inline]
    pub(super) fn cost(&self, op: Op, length: u32, place: Proximity) -> u64 {
        let Some(prices) = self.prices(op) else {
            return 0;
        };
        let base = match place {
            Proximity::Near => prices.sequential,
            Proximity::Far => prices.random,
            Proximity::Merged => 0,
        };
        base + pages(length) * prices.page
    }

    /// Returns the cost of the transfer alone (Linux: `calc_size_vtime_cost`).
    #[inline]
    pub(super) fn size_cost(&self, op: Op, length: u32) -> u64 {
        self.cost(op, length, Proximity::Merged)
    }
}

/// Returns the whole pages of a length, at least one.
fn pages(length: u32) -> u64 {
    u64::from(length >> 12).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEED: Speed = Speed {
        bps: 409_600_000,
        seq_iops: 50_000,
        rand_iops: 20_000,
    };

    #[test]
    fn a_second_of_requests_at_full_speed_costs_a_second() {
        let model = LinearModel::new(SPEED, Speed::default());
        let second = |count: u64, length, place| {
            let cost = count * model.cost(Op::Read, length, place);
            cost.abs_diff(PER_SEC) < PER_SEC / 10_000
        };
        assert!(second(50_000, 4096, Proximity::Near));
        assert!(second(20_000, 4096, Proximity::Far));
        assert!(second(100_000, 4096, Proximity::Merged));
        // 1 MiB is 256 pages of 10 us each. The base of a sequential request is another 10 us.
        let mib = model.cost(Op::Read, 1 << 20, Proximity::Near);
        assert_eq!(mib / (PER_SEC / 1_000_000), 2570);
    }

    #[test]
    fn requests_without_data_or_without_a_price_are_free() {
        let model = LinearModel::new(SPEED, Speed::default());
        for op in [
            Op::Flush,
            Op::Discard,
            Op::WriteZeroes,
            Op::Extents,
            Op::Write,
        ] {
            assert_eq!(model.cost(op, 4096, Proximity::Far), 0, "{op:?}");
        }
        let only_bytes = Speed {
            seq_iops: 0,
            rand_iops: 0,
            ..SPEED
        };
        let model = LinearModel::new(only_bytes, only_bytes);
        let page = PER_SEC.div_ceil(100_000);
        assert_eq!(
            model.cost(Op::Write, 512, Proximity::Far),
            page,
            "at least one"
        );
        assert_eq!(
            model.cost(Op::Write, 8191, Proximity::Far),
            page,
            "whole ones"
        );
    }

    #[test]
    fn distances_up_to_16_mib_are_near() {
        let far = 16 << 20 >> 9;
        assert_eq!(Proximity::of(far + 7, 0), Proximity::Near);
        assert_eq!(Proximity::of(far + 8, 0), Proximity::Far);
        assert_eq!(Proximity::of(0, far + 8), Proximity::Far);
    }
}
