//! Where requests are, which of two is nearer to the head, and whether a queue is seeky. BFQ and CFQ share all of it.

use crate::id::SpaceId;

/// Farther than this many sectors is far (Linux: `BFQQ_SEEK_THR`).
const FAR: u64 = 800;
/// On flash only requests of fewer sectors count as seeky (Linux: `BFQQ_SECT_THR_NONROT`).
const SMALL: u64 = 64;

/// Sectors of a space that a sort key tells apart: 4 PiB; what lies beyond keeps the order of arrival.
const KEY_BITS: u32 = 43;

/// Sectors of 512 bytes that `bytes` take.
#[inline]
pub(crate) const fn sectors(bytes: u64) -> u64 {
    bytes.div_ceil(512)
}

/// True if `sectors` sectors are not a small request on flash.
#[inline]
pub(crate) const fn is_large(sectors: u64) -> bool {
    sectors >= SMALL
}

/// A sector of a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) space: SpaceId,
    pub(crate) sector: u64,
}

impl Place {
    pub(crate) const START: Self = Self {
        space: SpaceId(0),
        sector: 0,
    };

    /// True if it is at most `sectors` sectors from `other`. Other spaces are not.
    pub(crate) fn is_within(self, sectors: u64, other: Self) -> bool {
        self.space == other.space && self.sector.abs_diff(other.sector) <= sectors
    }

    /// Orders places: by space, then by sector; what lies beyond 4 PiB counts as there.
    #[inline]
    pub(crate) fn key(self) -> u64 {
        u64::from(self.space.0) << KEY_BITS | self.sector.min((1 << KEY_BITS) - 1)
    }

    /// True if `self` is far from `other`. Other spaces are.
    pub(crate) fn is_far(self, other: Self) -> bool {
        !self.is_within(FAR, other)
    }
}

/// True if going from `last` to a request of `sectors` sectors at `start` costs a seek (Linux: `BFQ_RQ_SEEKY`).
#[inline]
pub(crate) fn is_seeky(start: Place, sectors: u64, last: Place, rotational: bool) -> bool {
    start.is_far(last) && (rotational || sectors < SMALL)
}

/// What seeks backwards are worth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackSeek {
    /// The longest that is not far, in sectors.
    pub(crate) max: u64,
    /// By how much each sector backwards counts more than one forwards.
    pub(crate) penalty: u64,
}

/// True if `a` is better to serve than `b` when the head is at `head` (Linux: `bfq_choose_req`, `cfq_choose_req`).
#[inline]
pub(crate) fn is_nearer(a: Place, b: Place, head: Place, back: BackSeek) -> bool {
    let (x, y) = (distance(a, head, back), distance(b, head, back));
    if x != y {
        x < y
    } else if x == FAR_BEHIND {
        // The one at the very front costs one long seek, then all go forward.
        (a.space, a.sector) <= (b.space, b.sector)
    } else {
        a.sector >= b.sector
    }
}

/// Beyond the longest near seek backwards, or in another space.
const FAR_BEHIND: u64 = u64::MAX;

/// Sectors ahead of the head, or behind it times the penalty.
#[inline]
fn distance(at: Place, head: Place, back: BackSeek) -> u64 {
    if at.space != head.space {
        FAR_BEHIND
    } else if at.sector >= head.sector {
        at.sector - head.sector
    } else {
        let behind = head.sector - at.sector;
        if behind <= back.max {
            behind * back.penalty
        } else {
            FAR_BEHIND
        }
    }
}

/// Which of the last 32 requests of a queue were seeky (Linux: `seek_history`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct History(u32);

impl History {
    /// The first request almost certainly is.
    pub(crate) const NEW: Self = Self(1);

    /// None of them was.
    pub(crate) const CALM: Self = Self(0);

    pub(crate) fn push(&mut self, seeky: bool) {
        self.0 = self.0 << 1 | u32::from(seeky);
    }

    /// True if more than `threshold` of them were (Linux: `BFQQ_SEEKY`).
    #[inline]
    pub(crate) fn is_seeky(self, threshold: u32) -> bool {
        self.0.count_ones() > threshold
    }

    /// True if all of them were (Linux: `BFQQ_TOTALLY_SEEKY`).
    pub(crate) fn is_all_seeky(self) -> bool {
        self.0 == u32::MAX
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
    fn places_are_ordered_by_space_however_far_they_are() {
        let places = [
            place(0, 7),
            place(0, u64::MAX),
            place(1, 0),
            place(1, (1 << KEY_BITS) - 2),
            place(1, (1 << KEY_BITS) - 1),
            place(2, 0),
        ];
        assert!(places.is_sorted_by(|a, b| a.key() < b.key()));
        assert_eq!(place(1, 1 << KEY_BITS).key(), place(1, u64::MAX).key());
    }

    #[test]
    fn far_small_requests_are_seeky_on_flash_and_far_ones_on_disks() {
        let last = place(0, 1000);
        for (sector, sectors, flash, disk) in [
            (1000, 8, false, false),
            (1800, 8, false, false),
            (1801, 8, true, true),
            (199, 63, true, true),
            (200, 63, false, false),
            (9000, 64, false, true),
        ] {
            let seeky = |rotational| is_seeky(place(0, sector), sectors, last, rotational);
            assert_eq!(seeky(false), flash, "{sector} on flash");
            assert_eq!(seeky(true), disk, "{sector} on a disk");
        }
        let other = place(1, 1000);
        assert!(is_seeky(other, 8, last, false), "another space is far");
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
