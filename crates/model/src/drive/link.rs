//! A serial link: one transfer at a time, in order, exact to a fraction of a nanosecond.

use weir_core::{Instant, Span};

const SECOND: u64 = 1_000_000_000;

/// A link that transfers bytes one after the other at a fixed rate.
///
/// Times are whole nanoseconds, rounded up. While the link stays busy, the fraction of a nanosecond
/// is carried to the next transfer, so that a backlog of `n` bytes takes exactly `n / rate` and
/// rounding errors do not accumulate.
#[derive(Debug)]
pub(crate) struct SerialLink {
    /// The rate in bytes per second: at most 10^12.
    rate: u64,
    /// The end of the last transfer: `until` and `fraction / rate` of a nanosecond.
    until: u64,
    fraction: u64,
}

impl SerialLink {
    pub(crate) fn new(rate: u64) -> Self {
        debug_assert!((1..=1_000_000_000_000).contains(&rate));
        Self {
            rate,
            until: 0,
            fraction: 0,
        }
    }

    /// The time at which all transfers so far have ended.
    pub(crate) fn until(&self) -> Instant {
        Instant::from_nanos(self.until)
    }

    /// The transfer time of `bytes` on an idle link.
    #[inline]
    pub(crate) fn time(&self, bytes: u32) -> Span {
        Span::from_nanos((u64::from(bytes) * SECOND).div_ceil(self.rate))
    }

    /// Transfers `bytes` that are ready at `ready`, after all earlier transfers. Returns the end of
    /// the transfer.
    #[inline]
    pub(crate) fn transfer(&mut self, ready: Instant, bytes: u32) -> Instant {
        // After an idle time, the transfer begins when its data is ready. The fraction belongs to
        // the backlog that has ended.
        if ready.as_nanos() > self.until {
            self.until = ready.as_nanos();
            self.fraction = 0;
        }
        // 2^32 × 10^9 + 10^12 fits into 64 bits, so the product needs no wider type.
        let time = u64::from(bytes) * SECOND + self.fraction;
        self.until = self.until.saturating_add(time / self.rate);
        self.fraction = time % self.rate;
        Instant::from_nanos(self.until.saturating_add(u64::from(self.fraction > 0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn four_kib_at_250_mb_a_second() {
        let mut link = SerialLink::new(250_000_000);
        // 4096 bytes at 250 MB/s take 16,384 ns. The second transfer waits for the first, the third
        // finds the link idle.
        assert_eq!(link.transfer(at(0), 4096), at(16_384));
        assert_eq!(link.transfer(at(100), 4096), at(32_768));
        assert_eq!(link.transfer(at(40_000), 4096), at(56_384));
    }

    #[test]
    fn fractions_round_up_once_and_never_add_up() {
        // A third of a nanosecond short: 1 byte takes 333 333 333.3 ns.
        let mut link = SerialLink::new(3);
        let ends: [u64; 4] = core::array::from_fn(|_| link.transfer(at(0), 1).as_nanos());
        assert_eq!(
            ends,
            [333_333_334, 666_666_667, 1_000_000_000, 1_333_333_334]
        );
        // Ready within the last nanosecond that has begun: the transfer waits for the fraction.
        assert_eq!(link.transfer(at(1_333_333_333), 1), at(1_666_666_667));
        // Ready after it: the link was idle, and the fraction is dropped.
        assert_eq!(link.transfer(at(1_666_666_668), 3), at(2_666_666_668));
    }
}
