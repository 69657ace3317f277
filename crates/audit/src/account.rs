//! What a group is owed by the second and what it gets, over stretches of a second or a little more.

use std::collections::VecDeque;
use weir_core::{Instant, Span};

const SECOND: Span = Span::from_secs(1);
/// Stretches begin at instants this far apart or further, so that a second is not held as thousands of them.
const STEP: Span = Span::from_millis(1);

/// A running account in units (bytes or requests), both sides exact: a rate is owed for as long as somebody asks.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Units times nanoseconds a second: what was owed, what would have been owed had somebody asked all the time, what was served.
    owed: u128,
    whole: u128,
    got: u128,
    points: VecDeque<Point>,
}

/// How the account stood when all that happened at that instant had.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Instant,
    owed: u128,
    whole: u128,
    got: u128,
}

/// A stretch of a second or more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) from: Instant,
    /// Units, rounded down.
    pub(crate) owed: u64,
    /// What would have been owed had somebody asked throughout.
    pub(crate) whole: u64,
    pub(crate) got: u64,
}

impl Account {
    /// Time passes; `rate` units a second are owed for it if somebody `asks`.
    pub(crate) fn pass(&mut self, from: Instant, to: Instant, rate: u64, asks: bool) {
        if self.points.back().is_none_or(|p| from.since(p.at) >= STEP) {
            self.points.push_back(Point {
                at: from,
                owed: self.owed,
                whole: self.whole,
                got: self.got,
            });
        }
        let whole = u128::from(rate) * u128::from(to.since(from).as_nanos());
        self.whole += whole;
        if asks {
            self.owed += whole;
        }
    }

    /// So many units were served.
    pub(crate) fn serve(&mut self, units: u64) {
        self.got += u128::from(units) * u128::from(SECOND.as_nanos());
    }

    /// The shortest stretch that ends now and is no shorter than a second, if it has been watched for so long.
    pub(crate) fn stretch(&mut self, now: Instant) -> Option<Stretch> {
        let within = |p: &Point| now.since(p.at) >= SECOND;
        while self.points.get(1).is_some_and(within) {
            self.points.pop_front();
        }
        let begin = *self.points.front().filter(|p| within(p))?;
        let units = |sum: u128| u64::try_from(sum / u128::from(SECOND.as_nanos()));
        Some(Stretch {
            from: begin.at,
            owed: units(self.owed - begin.owed).unwrap_or(u64::MAX),
            whole: units(self.whole - begin.whole).unwrap_or(u64::MAX),
            got: units(self.got - begin.got).unwrap_or(u64::MAX),
        })
    }

    /// Begins anew: what was before is of no account.
    pub(crate) fn restart(&mut self) {
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
    fn a_pause_takes_its_part_of_what_is_owed() {
        let mut account = Account::default();
        account.pass(at(0), at(250), 1_000, true);
        account.serve(200);
        assert!(account.stretch(at(250)).is_none());
        account.pass(at(250), at(750), 1_000, false);
        account.pass(at(750), at(1_000), 1_000, true);
        let stretch = account.stretch(at(1_000)).expect("a second has passed");
        assert_eq!(
            (stretch.owed, stretch.whole, stretch.got),
            (500, 1_000, 200)
        );
        account.pass(at(1_000), at(1_500), 2_000, true);
        let stretch = account.stretch(at(1_500)).expect("a second has passed");
        assert_eq!(stretch.from, at(250));
        assert_eq!((stretch.owed, stretch.got), (1_250, 0));
    }

    #[test]
    fn a_stretch_is_not_much_longer_than_a_second_where_much_happens() {
        let mut account = Account::default();
        for ms in 0..3_000 {
            account.pass(at(ms), at(ms + 1), 1_000, true);
            account.serve(1);
        }
        let stretch = account.stretch(at(3_000)).expect("a second has passed");
        assert_eq!(
            (stretch.from, stretch.owed, stretch.got),
            (at(2_000), 1_000, 1_000)
        );
    }
}
