//! What a request costs: its part of a second of the drive's time, by a linear model (Linux: `calc_lcoefs`,
//! `calc_vtime_cost_builtin`).

use super::vtime::PER_SEC;
use crate::Op;

/// Bytes of a page, in which the model counts.
const PAGE: u64 = 4096;
/// Sectors of a page.
const PAGE_SECTORS_SHIFT: u32 = 3;
/// A request farther than this number of pages from where its group's last one ended is a random one.
const NEAR_PAGES: u64 = 4096;

/// What the drive can do of one direction: bytes a second, sequential and random requests of 4 KiB a second. Zero: it costs nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Speed {
    pub(super) bps: u64,
    pub(super) seq_iops: u64,
    pub(super) rand_iops: u64,
}

/// Prices of one direction, in vtime.
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

/// How a request lies to the last one of its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// It is near to it, or there was none.
    Near,
    /// It is not.
    Far,
    /// It goes to the drive as part of another's command.
    Merged,
}

impl Place {
    /// Where a request that begins at a sector is, the last one having ended at another.
    pub(super) fn of(sector: u64, cursor: u64) -> Self {
        if sector.abs_diff(cursor) >> PAGE_SECTORS_SHIFT > NEAR_PAGES {
            Self::Far
        } else {
            Self::Near
        }
    }
}

/// The model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Model {
    read: Prices,
    write: Prices,
}

impl Model {
    pub(super) fn new(read: Speed, write: Speed) -> Self {
        Self {
            read: Prices::of(read),
            write: Prices::of(write),
        }
    }

    /// Only reads and writes cost anything.
    fn prices(&self, op: Op) -> Option<&Prices> {
        match op {
            Op::Read => Some(&self.read),
            Op::Write => Some(&self.write),
            Op::Flush | Op::Discard | Op::WriteZeroes | Op::Extents => None,
        }
    }

    /// The absolute cost of a request.
    #[inline]
    pub(super) fn cost(&self, op: Op, length: u32, place: Place) -> u64 {
        let Some(prices) = self.prices(op) else {
            return 0;
        };
        let base = match place {
            Place::Near => prices.sequential,
            Place::Far => prices.random,
            Place::Merged => 0,
        };
        base + pages(length) * prices.page
    }

    /// What the transfer alone costs (Linux: `calc_size_vtime_cost`).
    #[inline]
    pub(super) fn size_cost(&self, op: Op, length: u32) -> u64 {
        self.cost(op, length, Place::Merged)
    }
}

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
    fn a_second_of_what_the_drive_can_do_costs_a_second() {
        let model = Model::new(SPEED, Speed::default());
        let second = |count: u64, length, place| {
            let cost = count * model.cost(Op::Read, length, place);
            cost.abs_diff(PER_SEC) < PER_SEC / 10_000
        };
        assert!(second(50_000, 4096, Place::Near));
        assert!(second(20_000, 4096, Place::Far));
        assert!(second(100_000, 4096, Place::Merged));
        // 1 MiB: 256 pages of 10 us and 10 us for going there.
        let mib = model.cost(Op::Read, 1 << 20, Place::Near);
        assert_eq!(mib / (PER_SEC / 1_000_000), 2570);
    }

    #[test]
    fn what_moves_no_data_and_what_has_no_price_is_free() {
        let model = Model::new(SPEED, Speed::default());
        for op in [
            Op::Flush,
            Op::Discard,
            Op::WriteZeroes,
            Op::Extents,
            Op::Write,
        ] {
            assert_eq!(model.cost(op, 4096, Place::Far), 0, "{op:?}");
        }
        let only_bytes = Speed {
            seq_iops: 0,
            rand_iops: 0,
            ..SPEED
        };
        let model = Model::new(only_bytes, only_bytes);
        let page = PER_SEC.div_ceil(100_000);
        assert_eq!(model.cost(Op::Write, 512, Place::Far), page, "at least one");
        assert_eq!(model.cost(Op::Write, 8191, Place::Far), page, "whole ones");
    }

    #[test]
    fn sixteen_mebibytes_away_is_near() {
        let far = 16 << 20 >> 9;
        assert_eq!(Place::of(far + 7, 0), Place::Near);
        assert_eq!(Place::of(far + 8, 0), Place::Far);
        assert_eq!(Place::of(0, far + 8), Place::Far);
    }
}
