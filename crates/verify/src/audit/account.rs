//! What a group is owed per second and what it was served, over windows of a second or a little more.

use std::collections::VecDeque;
use weir_core::{Instant, Span};

const SECOND: Span = Span::from_secs(1);
/// Windows begin at least this far apart, so that a second does not become thousands of them.
const STEP: Span = Span::from_millis(1);

/// A running account in units (bytes or requests), exact on both sides: a rate is owed for the time in which the group asks.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// In units times nanoseconds per second: what was owed, what would have been owed if the group had asked all the time, and
    /// what was served.
    owed: u128,
    whole: u128,
    got: u128,
    points: VecDeque<Point>,
}

/// The state of the account after everything at that instant.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Instant,
    owed: u128,
    whole: u128,
    got: u128,
}

/// A window of at least a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) from: Instant,
    /// Units, rounded down.
    pub(crate) owed: u64,
    /// What would have been owed if the group had asked throughout.
    pub(crate) whole: u64,
    pub(crate) got: u64,
}

impl Account {
    /// Advances the time; `rate` units per second are owed for it if the group `asks`.
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

    /// Units were served.
    pub(crate) fn serve(&mut self, units: u64) {
        self.got += u128::from(units) * u128::from(SECOND.as_nanos());
    }

    /// The shortest window of at least a second that ends now, if the account is that old.
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

    /// Forgets everything before now.
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
