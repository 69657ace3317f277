//! Positions of requests: sort keys, the distance from the head, and the seekiness of queues. BFQ
//! and CFQ share this module.

use crate::id::SpaceId;

/// Number of sectors above which a distance counts as far (Linux: `BFQQ_SEEK_THR`).
const FAR: u64 = 800;
/// Number of sectors below which a far request counts as seeky on flash (Linux:
/// `BFQQ_SECT_THR_NONROT`).
const SMALL: u64 = 64;

/// Bits of a sort key for the sector. They distinguish the sectors of 4 PiB. Requests beyond that
/// keep the order of arrival.
const KEY_BITS: u32 = 43;

/// Returns the number of sectors of 512 bytes that `bytes` occupy.
#[inline]
pub(crate) const fn sectors(bytes: u64) -> u64 {
    bytes.div_ceil(512)
}

/// Returns true if a request of this many sectors is not small on flash.
#[inline]
pub(crate) const fn is_large(sectors: u64) -> bool {
    sectors >= SMALL
}

/// The position of a sector in a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SeekPosition {
    pub(crate) space: SpaceId,
    pub(crate) sector: u64,
}

impl SeekPosition {
    pub(crate) const START: Self = Self {
        space: SpaceId(0),
        sector: 0,
    };

    /// Returns true if the distance from `other` is at most `sectors`. Positions in different
    /// spaces have no distance.
    pub(crate) fn is_within(self, sectors: u64, other: Self) -> bool {
        self.space == other.space && self.sector.abs_diff(other.sector) <= sectors
    }

    /// Returns the sort key: positions are ordered by space, then by sector. Sectors beyond 4 PiB
    /// have the key of the last sector below.
    #[inline]
    pub(crate) fn key(self) -> u64 {
        u64::from(self.space.0) << KEY_BITS | self.sector.min((1 << KEY_BITS) - 1)
    }

    /// Returns true if the position is far from `other`. Positions in different spaces are far.
    pub(crate) fn is_far(self, other: Self) -> bool {
        !self.is_within(FAR, other)
    }
}

/// Returns true if a request of `sectors` sectors at `start` costs a seek after a request that
/// ended at `last` (Linux: `BFQ_RQ_SEEKY`).
#[inline]
pub(crate) fn is_seeky(
    start: SeekPosition,
    sectors: u64,
    last: SeekPosition,
    rotational: bool,
) -> bool {
    start.is_far(last) && (rotational || sectors < SMALL)
}

/// The cost of backward seeks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackSeek {
    /// Largest backward distance that does not count as far, in sectors.
    pub(crate) max: u64,
    /// Factor by which a sector backward counts more than a sector forward.
    pub(crate) penalty: u64,
}

/// Returns true if `a` is better to serve than `b` when the head is at `head` (Linux:
/// `bfq_choose_req`, `cfq_choose_req`).
#[inline]
pub(crate) fn is_nearer(
    a: SeekPosition,
    b: SeekPosition,
    head: SeekPosition,
    back: BackSeek,
) -> bool {
    let (x, y) = (distance(a, head, back), distance(b, head, back));
    if x != y {
        x < y
    } else if x == FAR_BEHIND {
        // Both are far behind the head. The frontmost one costs one long seek, and all others
        // follow in forward direction.
        (a.space, a.sector) <= (b.space, b.sector)
    } else {
        // At equal cost, Linux prefers the request in front of the head.
        a.sector >= b.sector
    }
}

/// The distance of positions that are too far behind the head, or in another space.
const FAR_BEHIND: u64 = u64::MAX;

/// Returns the distance in sectors. Behind the head, it is multiplied by the penalty.
#[inline]
fn distance(at: SeekPosition, head: SeekPosition, back: BackSeek) -> u64 {
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

/// The seekiness of a queue's last 32 requests, one bit each (Linux: `seek_history`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeekHistory(u32);

impl SeekHistory {
    /// The history of a new queue, whose first request is almost certainly seeky.
    pub(crate) const NEW: Self = Self(1);

    /// A history without any seeky request.
    pub(crate) const CALM: Self = Self(0);

    pub(crate) fn push(&mut self, seeky: bool) {
        // The bit of the oldest request is shifted out.
        self.0 = self.0 << 1 | u32::from(seeky);
    }

    /// Returns true if more than `threshold` of the requests were seeky (Linux: `BFQQ_SEEKY`).
    #[inline]
    pub(crate) fn is_seeky(self, threshold: u32) -> bool {
        self.0.count_ones() > threshold
    }

    /// Returns true if all requests were seeky (Linux: `BFQQ_TOTALLY_SEEKY`).
    pub(crate) fn is_all_seeky(self) -> bool {
        self.0 == u32::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(space: u32, sector: u64) -> SeekPosition {
        SeekPosition {
            space: SpaceId(space),
            sector,
        }
    }

    #[test]
    fn positions_are_ordered_by_space_first() {
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
        let mut history = SeekHistory::NEW;
        for _ in 0..32 {
            history.push(false);
        }
        for n in 1..=32 {
            history.push(true);
            assert_eq!(history.is_seeky(19), n >= 20);
        }
    }
}
