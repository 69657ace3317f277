//! How the drive's time is divided among the pieces that are in it.

/// While `n` pieces are in the drive, each has an `n`th of its time. A piece's share of the drive is then the difference between two
/// readings, and the shares of all pieces add up to the time in which the drive was busy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    now: u64,
    pieces: u32,
    /// The share of a piece that was there all the time. In floating point: it loses 4 ns in a year.
    share: f64,
    busy: u64,
}

impl Clock {
    /// Time passes.
    #[inline]
    pub(crate) fn advance(&mut self, now: u64) {
        let passed = now.saturating_sub(self.now);
        self.now += passed;
        if self.pieces > 0 {
            self.busy += passed;
            self.share += passed as f64 / f64::from(self.pieces);
        }
    }

    /// A piece goes to the drive. The reading to keep.
    #[inline]
    pub(crate) fn enter(&mut self) -> f64 {
        self.pieces += 1;
        self.share
    }

    /// A piece that came with this reading is back. Its share, in nanoseconds.
    #[inline]
    pub(crate) fn leave(&mut self, entered: f64) -> u64 {
        self.pieces = self.pieces.saturating_sub(1);
        (self.share - entered).round() as u64
    }

    /// Pieces in the drive.
    #[inline]
    pub(crate) fn pieces(&self) -> u32 {
        self.pieces
    }

    /// For how long there has been one at least, nanoseconds.
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }
}
