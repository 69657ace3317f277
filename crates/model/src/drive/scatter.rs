//! A drive on which the files of a file system are scattered, as on one that has been in use for
//! long.

use crate::drive::{DriveModel, QueueFull, TimedCompletion};
use weir_core::random::Rng;
use weir_core::{Dispatch, DriveShape, Instant};

/// The length of an extent in bytes, which stays together: the longest extent of ext4, which is
/// also its block group (`EXT_INIT_MAX_LEN` in `fs/ext4/ext4_extents.h`, in blocks of 4 KiB).
const EXTENT: u64 = 128 << 20;

/// A drive whose used part is scattered in extents over a larger part of it.
///
/// Extents are placed at random, with the same probability at each free place. A command that
/// crosses the end of an extent is served at the place of its first byte.
#[derive(Debug)]
pub struct Scattered {
    drive: Box<dyn DriveModel>,
    /// The number of each extent's place.
    places: Vec<u32>,
}

impl Scattered {
    /// Returns true if `used` bytes can be scattered over `spread` bytes of a drive of `size`
    /// bytes.
    pub fn is_valid(used: u64, spread: u64, size: u64) -> bool {
        spread <= size
            && used.div_ceil(EXTENT) <= spread / EXTENT
            && u32::try_from(spread / EXTENT).is_ok()
    }

    /// Scatters the first `used` bytes of `drive` over the first `spread` bytes. The places depend
    /// on `seed`.
    ///
    /// # Panics
    /// If the bytes do not [fit](Self::is_valid).
    pub fn new(drive: Box<dyn DriveModel>, used: u64, spread: u64, seed: u64) -> Self {
        assert!(
            Self::is_valid(used, spread, u64::MAX),
            "each extent has a place"
        );
        let last = spread / EXTENT - 1;
        let mut places: Vec<u32> = (0..=last as u32).collect();
        let extents = used.div_ceil(EXTENT);
        let mut random = Rng::new(seed);
        for extent in 0..extents {
            let drawn = random.range(extent, last);
            places.swap(extent as usize, drawn as usize);
        }
        places.truncate(extents as usize);
        Self { drive, places }
    }

    /// The offset on the drive of a byte of the files. Bytes beyond the files stay at their offset.
    fn place(&self, offset: u64) -> u64 {
        match self.places.get((offset / EXTENT) as usize) {
            Some(place) => u64::from(*place) * EXTENT + offset % EXTENT,
            None => offset,
        }
    }
}

impl DriveModel for Scattered {
    fn submit(&mut self, now: Instant, command: &Dispatch) -> Result<(), QueueFull> {
        let mut placed = *command;
        placed.offset = self.place(command.offset);
        self.drive.submit(now, &placed)
    }

    fn next_completion(&self) -> Option<Instant> {
        self.drive.next_completion()
    }

    fn pop(&mut self, now: Instant) -> Option<TimedCompletion> {
        self.drive.pop(now)
    }

    fn in_flight(&self) -> u32 {
        self.drive.in_flight()
    }

    fn shape(&self) -> DriveShape {
        self.drive.shape()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::hdd::HddConfig;
    use crate::drive::testing::{ClosedLoop, LoopClient};
    use std::collections::BTreeSet;
    use weir_core::{Op, Span};

    const GIB: u64 = 1 << 30;

    fn disk() -> Box<dyn DriveModel> {
        Box::new(HddConfig::generic().build().unwrap())
    }

    #[test]
    fn each_extent_has_a_place_of_its_own_within_the_spread() {
        for (used, spread) in [(GIB, GIB), (GIB, 100 * GIB), (EXTENT + 1, 2 * EXTENT)] {
            let drive = Scattered::new(disk(), used, spread, 7);
            let extents = used.div_ceil(EXTENT);
            let places: BTreeSet<u64> = (0..extents).map(|e| drive.place(e * EXTENT)).collect();
            assert_eq!(places.len() as u64, extents);
            assert!(
                places
                    .iter()
                    .all(|p| p % EXTENT == 0 && p + EXTENT <= spread)
            );
            // Within an extent, bytes stay together.
            assert_eq!(drive.place(EXTENT - 1), drive.place(0) + EXTENT - 1);
            assert_eq!(drive.place(extents * EXTENT), extents * EXTENT);
            let again = Scattered::new(disk(), used, spread, 7);
            assert_eq!(again.places, drive.places);
        }
        let [one, other] = [1, 2].map(|seed| Scattered::new(disk(), GIB, 100 * GIB, seed).places);
        assert_ne!(one, other);
    }

    #[test]
    fn files_that_do_not_fit_are_refused() {
        assert!(Scattered::is_valid(GIB, GIB, GIB));
        assert!(!Scattered::is_valid(GIB, GIB - 1, 2 * GIB));
        assert!(!Scattered::is_valid(GIB, 2 * GIB, 2 * GIB - 1));
    }

    #[test]
    fn a_random_read_of_scattered_files_seeks_further() {
        let mean = |spread: u64| {
            let drive = Scattered::new(disk(), GIB, spread, 3);
            let mut clients = [LoopClient::random(Op::Read, 4096, 1)];
            let (results, _) = ClosedLoop::new(drive, GIB).run(&mut clients, Span::from_secs(20));
            results[0].mean().as_nanos()
        };
        let (near, middle, far) = (mean(GIB), mean(20 * GIB), mean(80 * GIB));
        assert!(
            near * 11 < middle * 10 && middle * 11 < far * 10,
            "{near} {middle} {far}"
        );
    }
}
