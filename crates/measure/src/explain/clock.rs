//! Divides the drive's time among the pieces that are in the drive.

/// A clock that counts the share of a piece in the drive's time. While `n` pieces are in the drive,
/// each has an `n`th of its time.
///
/// The share of a piece is the difference between two readings. The shares of all pieces add up to
/// the time in which the drive was busy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShareClock {
    now: u64,
    pieces: u32,
    /// The share of an imaginary piece that was in the drive all the time, in nanoseconds. After a
    /// year, the resolution of the floating-point number is 4 ns.
    share: f64,
    busy: u64,
}

impl ShareClock {
    /// Advances the time to `now`.
    #[inline]
    pub(crate) fn advance(&mut self, now: u64) {
        let passed = now.saturating_sub(self.now);
        self.now += passed;
        if self.pieces > 0 {
            self.busy += passed;
            self.share += passed as f64 / f64::from(self.pieces);
        }
    }

    /// Records that a piece goes to the drive, and returns the reading to keep for
    /// [`leave`](Self::leave).
    #[inline]
    pub(crate) fn enter(&mut self) -> f64 {
        self.pieces += 1;
        self.share
    }

    /// Records that a piece that entered with this reading completed, and returns its share in
    /// nanoseconds.
    #[inline]
    pub(crate) fn leave(&mut self, entered: f64) -> u64 {
        self.pieces = self.pieces.saturating_sub(1);
        (self.share - entered).round() as u64
    }

    /// Returns the number of pieces in the drive.
    #[inline]
    pub(crate) fn pieces(&self) -> u32 {
        self.pieces
    }

    /// Returns the time for which at least one piece has been in the drive, in nanoseconds.
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }
}
