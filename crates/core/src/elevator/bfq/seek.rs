//! Where requests are, and whether a queue jumps about.

use crate::layer::Table;
use crate::{Op, SpaceId};

/// Farther than this many sectors is far (Linux: `BFQQ_SEEK_THR`).
const FAR: u64 = 800;
/// On flash only requests of fewer sectors count as seeky (Linux: `BFQQ_SECT_THR_NONROT`).
const SMALL: u64 = 64;

/// Sectors of 512 bytes that `bytes` take.
#[inline]
pub(super) const fn sectors(bytes: u64) -> u64 {
    bytes.div_ceil(512)
}

/// A sector of a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) space: SpaceId,
    pub(super) sector: u64,
}

impl Place {
    pub(super) const START: Self = Self {
        space: SpaceId(0),
        sector: 0,
    };

    /// True if `self` is far from `other`. Other spaces are.
    pub(super) fn is_far(self, other: Self) -> bool {
        self.space != other.space || self.sector.abs_diff(other.sector) > FAR
    }
}

/// What is left of a request: where it begins, where it ends, its sectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) start: Place,
    pub(super) end: Place,
    pub(super) sectors: u64,
}

impl Extent {
    /// The next `bytes` of a request.
    pub(super) fn of(table: &Table, request: u32, bytes: u32) -> Self {
        let live = &table.requests[request];
        let from = live.request.offset + u64::from(live.issued);
        let space = live.request.space;
        Self {
            start: Place {
                space,
                sector: from / 512,
            },
            end: Place {
                space,
                sector: sectors(from + u64::from(bytes)),
            },
            sectors: sectors(u64::from(bytes)),
        }
    }

    /// True if coming from `last` to here costs a seek (Linux: `BFQ_RQ_SEEKY`).
    pub(super) fn is_seeky(&self, last: Place, rotational: bool) -> bool {
        self.start.is_far(last) && (rotational || self.sectors < SMALL)
    }
}

/// Where a request begins, sent pieces not counted.
#[inline]
pub(super) fn start(table: &Table, request: u32) -> Place {
    let live = &table.requests[request];
    Place {
        space: live.request.space,
        sector: (live.request.offset + u64::from(live.issued)) / 512,
    }
}

/// Sectors that the next piece of a request is charged: what it covers, one sector for a whole discard.
pub(super) fn charge(table: &Table, request: u32, bytes: u32) -> u64 {
    let live = &table.requests[request];
    match live.request.op {
        Op::Discard => u64::from(live.issued == 0),
        _ => sectors(u64::from(bytes)),
    }
}

/// Which of the last 32 requests of a queue were seeky (Linux: `seek_history`).
#[derive(Clone, Copy, Debug)]
pub(super) struct History(u32);

impl History {
    /// The first request almost certainly is.
    pub(super) const NEW: Self = Self(1);

    pub(super) fn push(&mut self, seeky: bool) {
        self.0 = self.0 << 1 | u32::from(seeky);
    }

    /// True if more than `threshold` of them were (Linux: `BFQQ_SEEKY`).
    #[inline]
    pub(super) fn is_seeky(self, threshold: u32) -> bool {
        self.0.count_ones() > threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(space: u32, sector: u64) -> Place {
        Place {
            space: SpaceId(space),
            sector,
        }
    }

    #[test]
    fn far_small_requests_are_seeky_on_flash_and_far_ones_on_disks() {
        let extent = |sector, sectors| Extent {
            start: place(0, sector),
            end: place(0, sector + sectors),
            sectors,
        };
        let last = place(0, 1000);
        for (sector, sectors, flash, disk) in [
            (1000, 8, false, false),
            (1800, 8, false, false),
            (1801, 8, true, true),
            (199, 63, true, true),
            (200, 63, false, false),
            (9000, 64, false, true),
        ] {
            let e = extent(sector, sectors);
            assert_eq!(e.is_seeky(last, false), flash, "{sector} on flash");
            assert_eq!(e.is_seeky(last, true), disk, "{sector} on a disk");
        }
        assert!(
            extent(1000, 8).is_seeky(place(1, 1000), false),
            "another space is far"
        );
    }

    #[test]
    fn a_queue_is_seeky_from_twenty_of_thirty_two_on() {
        let mut history = History::NEW;
        for _ in 0..32 {
            history.push(false);
        }
        for n in 1..=32 {
            history.push(true);
            assert_eq!(history.is_seeky(19), n >= 20);
        }
    }
}
