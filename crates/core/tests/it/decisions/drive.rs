//! Drives that are as simple as possible while elevators still react to them.

use weir_core::{Dispatch, Op, testing};

/// A drive that serves pieces in the order of their arrival.
#[derive(Clone, Copy)]
pub(crate) enum SceneDriveKind {
    /// Four units that work in parallel. Each takes 60 us and 4 ns for each byte, and twice the
    /// time per byte for writes. A flush takes 300 us.
    Flash,
    /// A flash drive with a tenth of that speed.
    SlowFlash,
    /// One arm that seeks in up to 8 ms and transfers a byte in 10 ns. A flush takes 6 ms.
    Disk,
    /// Four units for which everything takes one millisecond, so that durations are often exactly
    /// equal to a limit.
    Even,
}

/// A drive with the time at which each unit is free.
pub(crate) struct SceneDrive {
    kind: SceneDriveKind,
    free_at: Vec<u64>,
    head: u64,
}

/// The distance from the innermost to the outermost track in bytes.
const SIZE: u64 = 1 << 32;

impl SceneDrive {
    pub(crate) fn new(kind: SceneDriveKind) -> Self {
        let units = if matches!(kind, SceneDriveKind::Disk) {
            1
        } else {
            4
        };
        Self {
            kind,
            free_at: vec![0; units],
            head: 0,
        }
    }

    fn disk(&mut self, piece: &Dispatch) -> u64 {
        if piece.op == Op::Flush {
            return 6_000_000;
        }
        let distance = piece.offset.abs_diff(self.head);
        self.head = piece.offset + u64::from(piece.length);
        let seek = match distance {
            0 => 20_000,
            // Settling takes 1.5 ms, and a seek across the whole disk 6.5 ms more.
            _ => 1_500_000 + 6_500_000 * (distance >> 20) / (SIZE >> 20),
        };
        seek + 10 * u64::from(piece.length)
    }
}

impl testing::Drive for SceneDrive {
    fn take(&mut self, now: u64, piece: &Dispatch) -> u64 {
        let took = match self.kind {
            SceneDriveKind::Flash => flash(piece),
            SceneDriveKind::SlowFlash => 10 * flash(piece),
            SceneDriveKind::Disk => self.disk(piece),
            SceneDriveKind::Even => 1_000_000,
        };
        // The unit that is free first serves the piece.
        let unit = (0..self.free_at.len()).min_by_key(|&u| self.free_at[u]);
        let free_at = &mut self.free_at[unit.unwrap()];
        *free_at = now.max(*free_at) + took;
        *free_at
    }
}

fn flash(piece: &Dispatch) -> u64 {
    let length = u64::from(piece.length);
    match piece.op {
        Op::Flush => 300_000,
        Op::Read => 60_000 + 4 * length,
        _ => 60_000 + 8 * length,
    }
}
