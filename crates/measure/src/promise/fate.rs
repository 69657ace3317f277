//! The result of a promise, or of another requirement, over a whole run.

use super::{Excuse, Seconds};
use serde::{Deserialize, Serialize};

/// The result of a promise, or of another requirement, over a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// The promise was kept in every second in which it applied.
    #[serde(rename = "kept")]
    Kept,
    /// The promise was broken in at least one second.
    #[serde(rename = "broken")]
    Broken,
    /// The promise was broken or excused, but the client would have missed it even with the drive
    /// to itself.
    #[serde(rename = "out of reach")]
    OutOfReach,
    /// The promise applied in no second: the client had no requests, or its own max limited it.
    #[serde(rename = "excused")]
    Excused,
    /// The machine that ran it was so busy that the run is not conclusive.
    #[serde(rename = "invalid")]
    Invalid,
    /// There was no whole second to judge.
    #[serde(rename = "not judged")]
    NotJudged,
    /// There was no promise and no expectation.
    #[default]
    #[serde(rename = "not asked for")]
    NotAsked,
}

impl Fate {
    /// Returns the fate of a promise with these verdicts. `is_beyond` is true if the client would
    /// not get as much with the drive to itself.
    pub fn new(seconds: &Seconds, is_beyond: bool) -> Self {
        let depth = seconds.excused[Excuse::Depth as usize];
        match (seconds.all_short(), seconds.kept) {
            _ if seconds.promised == 0 => Self::NotJudged,
            // A promise that was mostly excused because of the queue depth cannot be met by this
            // client, even if the other seconds were kept.
            (0, kept) if depth > kept => Self::OutOfReach,
            (0, 0) => Self::Excused,
            (0, _) => Self::Kept,
            _ if is_beyond => Self::OutOfReach,
            _ => Self::Broken,
        }
    }

    /// Returns the fate in one to three words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Broken => "broken",
            Self::OutOfReach => "out of reach",
            Self::Excused => "excused",
            Self::Invalid => "invalid",
            Self::NotJudged => "not judged",
            Self::NotAsked => "not asked for",
        }
    }

    /// Returns true if this fate fails an expectation: the promise was not kept, or that could not
    /// be determined.
    pub const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::Broken | Self::OutOfReach | Self::NotJudged | Self::Invalid
        )
    }

    /// Returns the worse of two fates, of several runs or of several promises.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let rank = |fate| match fate {
            Self::NotAsked => 0,
            Self::Excused => 1,
            Self::Kept => 2,
            Self::NotJudged => 3,
            Self::OutOfReach => 4,
            Self::Broken => 5,
            Self::Invalid => 6,
        };
        if rank(other) > rank(self) {
            other
        } else {
            self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(kept: u64, short: u64, depth: u64, idle: u64) -> Seconds {
        Seconds {
            promised: kept + short + depth + idle,
            kept,
            short: std::array::from_fn(|n| if n == 0 { short } else { 0 }),
            excused: [idle, 0, 0, depth, 0, 0],
            ..Seconds::default()
        }
    }

    #[test]
    fn a_promise_is_broken_by_one_second_and_excused_only_where_it_never_applied() {
        let fate = |seconds, is_beyond| Fate::new(&seconds, is_beyond);
        assert_eq!(fate(seconds(0, 0, 0, 0), false), Fate::NotJudged);
        assert_eq!(fate(seconds(9, 0, 0, 1), false), Fate::Kept);
        assert_eq!(fate(seconds(9, 1, 0, 0), false), Fate::Broken);
        assert_eq!(fate(seconds(0, 0, 0, 9), false), Fate::Excused);
        // More seconds were excused for the depth than kept.
        assert_eq!(fate(seconds(2, 0, 8, 0), false), Fate::OutOfReach);
        assert_eq!(fate(seconds(8, 0, 2, 0), false), Fate::Kept);
        assert_eq!(fate(seconds(0, 9, 0, 0), true), Fate::OutOfReach);
        assert_eq!(fate(seconds(9, 0, 0, 0), true), Fate::Kept, "it got it");
    }
}
