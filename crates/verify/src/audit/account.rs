//! The account of a group: the amount that it was owed per second and the amount that it got, over
//! windows of a second or slightly more.

use std::collections::VecDeque;
use weir_core::{Instant, Span};

const SECOND: Span = Span::from_secs(1);
/// Windows begin at least this far apart, which bounds the number of points that an account keeps
/// for a second.
const STEP: Span = Span::from_millis(1);

/// A running account in units (bytes or requests). It is exact on both sides: a rate is owed only
/// for the time in which the group has requests.
#[derive(Debug, Default)]
pub(crate) struct OwedAccount {
    /// All three sums are in units times nanoseconds per second, so that no division rounds them.
    /// The amount that was owed so far.
    owed: u128,
    /// The amount that would have been owed if the group had had requests all the time.
    whole: u128,
    /// The amount that was served so far.
    got: u128,
    points: VecDeque<AccountPoint>,
}

/// The state of an account at the beginning of a step of time.
#[derive(Clone, Copy, Debug)]
struct AccountPoint {
    at: Instant,
    owed: u128,
    whole: u128,
    got: u128,
}

/// The result of an account over a window of at least a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccountWindow {
    pub(crate) from: Instant,
    /// The amount that was owed, in units, rounded down.
    pub(crate) owed: u64,
    /// The amount that would have been owed if the group had had requests throughout.
    pub(crate) whole: u64,
    pub(crate) got: u64,
}

impl OwedAccount {
    /// Advances the time. For this period, `rate` units per second are owed if the group `asks`.
    pub(crate) fn advance(&mut self, from: Instant, to: Instant, rate: u64, asks: bool) {
        if self.points.back().is_none_or(|p| from.since(p.at) >= STEP) {
            self.points.push_back(AccountPoint {
                at: from,
                owed: self.owed,
                whole: self.whole,
                got: self.got,
            });
        }
        // The product of 64-bit values needs 128 bits, so that long runs at high rates do not
        // overflow.
        let whole = u128::from(rate) * u128::from(to.since(from).as_nanos());
        self.whole += whole;
        if asks {
            self.owed += whole;
        }
    }

    /// Records that units were served.
    pub(crate) fn serve(&mut self, units: u64) {
        self.got += u128::from(units) * u128::from(SECOND.as_nanos());
    }

    /// Returns the shortest window of at least a second that ends now, or `None` if the account is
    /// younger than a second.
    pub(crate) fn latest_window(&mut self, now: Instant) -> Option<AccountWindow> {
        let within = |p: &AccountPoint| now.since(p.at) >= SECOND;
        // Windows begin only at points. The latest point that is at least a second old gives the
        // shortest window.
        while self.points.get(1).is_some_and(within) {
            self.points.pop_front();
        }
        let begin = *self.points.front().filter(|p| within(p))?;
        let units = |sum: u128| u64::try_from(sum / u128::from(SECOND.as_nanos()));
        Some(AccountWindow {
            from: begin.at,
            // Sums that exceed 64 bits are beyond every comparison, so that saturating them loses
            // nothing.
            owed: units(self.owed - begin.owed).unwrap_or(u64::MAX),
            whole: units(self.whole - begin.whole).unwrap_or(u64::MAX),
            got: units(self.got - begin.got).unwrap_or(u64::MAX),
        })
    }

    /// Discards everything before the present time.
    pub(crate) fn clear(&mut self) {
        self.points.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_pause_reduces_the_owed_amount() {
        let mut account = OwedAccount::default();
        // First window: 250 ms with requests, 500 ms without, and 250 ms with requests again.
        account.advance(at(0), at(250), 1_000, true);
        account.serve(200);
        assert!(account.latest_window(at(250)).is_none());
        account.advance(at(250), at(750), 1_000, false);
        account.advance(at(750), at(1_000), 1_000, true);
        // Owed at 1,000 units/s: 250 ms and 250 ms with requests make 500. The 500 ms without
        // requests count only for `whole`.
        let stretch = account
            .latest_window(at(1_000))
            .expect("a second has passed");
        assert_eq!(
            (stretch.owed, stretch.whole, stretch.got),
            (500, 1_000, 200)
        );
        account.advance(at(1_000), at(1_500), 2_000, true);
        // The window now begins at 250 ms: 250 ms at 1,000 units/s and 500 ms at 2,000 units/s make
        // 1,250.
        let stretch = account
            .latest_window(at(1_500))
            .expect("a second has passed");
        assert_eq!(stretch.from, at(250));
        assert_eq!((stretch.owed, stretch.got), (1_250, 0));
    }

    #[test]
    fn a_stretch_with_many_events_is_about_a_second_long() {
        let mut account = OwedAccount::default();
        // Points every millisecond: a window may begin at any of them.
        for ms in 0..3_000 {
            account.advance(at(ms), at(ms + 1), 1_000, true);
            account.serve(1);
        }
        let stretch = account
            .latest_window(at(3_000))
            .expect("a second has passed");
        assert_eq!(
            (stretch.from, stretch.owed, stretch.got),
            (at(2_000), 1_000, 1_000)
        );
    }
}
