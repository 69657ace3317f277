//! Drives, as simple as they can be and still show what elevators react to.

use weir_core::{Dispatch, Op, testing};

/// A drive that serves what it is given first come, first served.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Four units work side by side: 60 us and 4 ns a byte each, half as fast for writes. A flush takes 300 us.
    Flash,
    /// A tenth as fast.
    SlowFlash,
    /// One arm: up to 8 ms to get somewhere else, then 10 ns a byte. A flush takes 6 ms.
    Disk,
    /// Four units, and everything takes a millisecond, so that what lasts just as long as a rule says comes up.
    Even,
}

/// Its state: when each unit has done what it was given.
pub(crate) struct Drive {
    kind: Kind,
    free_at: Vec<u64>,
    head: u64,
}

/// Bytes from its innermost track to its outermost.
const SIZE: u64 = 1 << 32;

impl Drive {
    pub(crate) fn new(kind: Kind) -> Self {
        let units = if matches!(kind, Kind::Disk) { 1 } else { 4 };
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
            _ => 1_500_000 + 6_500_000 * (distance >> 20) / (SIZE >> 20),
        };
        seek + 10 * u64::from(piece.length)
    }
}

impl testing::Drive for Drive {
    fn take(&mut self, now: u64, piece: &Dispatch) -> u64 {
        let took = match self.kind {
            Kind::Flash => flash(piece),
            Kind::SlowFlash => 10 * flash(piece),
            Kind::Disk => self.disk(piece),
            Kind::Even => 1_000_000,
        };
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
