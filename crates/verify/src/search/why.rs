//! The cause of a broken promise: the use of the drive's time in the worst second of a case.
//!
//! The amount that a group lacks would have taken time in proportion to the amount that it got. The
//! cause is the first of the [`BreachCause`]s below whose time, together with the time of those
//! before it, would have been enough.

use crate::search::case::SearchCase;
use crate::search::judge::{self, JudgedSecond};
use crate::search::spent::{DriveTimeLedger, DriveTimeUse};
use crate::search::trial::{self, RunFailure};
use std::fmt::{self, Display, Formatter, Write as _};
use weir_core::Class;
use weir_sim::Policy;

listed! {
    /// The clients whose time would have been enough for the promise.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub enum BreachCause {
        /// Requests of clients without a promise, or idle time.
        Unpromised = "unpromised",
        /// Flushes of clients without a promise.
        Flushes = "flushes",
        /// Realtime clients, with their flushes.
        Realtime = "realtime",
        /// Other clients with a promise.
        Promised = "promised",
        /// No client: with the cost of its requests at that time, the whole second was too short
        /// for the promise.
        Cost = "cost",
        /// Unknown, because the group got no service, so that the cost of its requests is not
        /// known.
        Unserved = "unserved",
    }
}

impl BreachCause {
    /// Returns the description of the cause for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Unpromised => "what clients without a promise had would have been enough",
            Self::Flushes => "with their flushes it would have been",
            Self::Realtime => "with what realtime clients had it would have been",
            Self::Promised => {
                "with what others had that were promised something it would have been"
            }
            Self::Cost => "a whole second was too short at what its requests cost",
            Self::Unserved => "nothing of it was served",
        }
    }
}

/// The use of the drive's time in the worst second of a case, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct CauseReport {
    /// The verdict about the promise that was missed.
    pub missed: JudgedSecond,
    /// The time that the missing amount would have taken, or zero if nothing was served.
    pub lacks: u64,
    /// The group's own time, with flushes.
    pub own: u64,
    /// The time of requests of clients without a promise.
    pub unpromised: u64,
    /// The time of flushes of clients without a promise.
    pub flushes: u64,
    /// The time of realtime clients, with flushes.
    pub realtime: u64,
    /// The time of other clients with a promise, with flushes.
    pub promised: u64,
    /// The time in which nothing was in flight.
    pub idle: u64,
}

impl CauseReport {
    fn new(case: &SearchCase, missed: &JudgedSecond, spent: &DriveTimeUse) -> Self {
        let mut why = Self {
            missed: *missed,
            lacks: 0,
            own: 0,
            unpromised: 0,
            flushes: 0,
            realtime: 0,
            promised: 0,
            idle: spent.idle,
        };
        for group in case.groups() {
            let at = group.0 as usize;
            // Only for clients without a promise, requests and flushes are separate causes.
            let both = spent.requests[at] + spent.flushes[at];
            if case.path(group).any(|g| g == missed.group) {
                why.own += both;
            } else if case.group(group).class == Class::Realtime {
                why.realtime += both;
            } else if case.path(group).any(|g| case.is_promised(g)) {
                why.promised += both;
            } else {
                why.unpromised += spent.requests[at];
                why.flushes += spent.flushes[at];
            }
        }
        // The time of the missing amount is proportional to that of the served amount.
        let lacks = u128::from(why.own) * u128::from(missed.lacks);
        let lacks = lacks.checked_div(missed.served.into());
        why.lacks = lacks.unwrap_or(0) as u64;
        why
    }

    /// Returns the cause: the first kind of clients whose time would have been enough.
    pub fn cause(&self) -> BreachCause {
        if self.missed.served == 0 {
            return BreachCause::Unserved;
        }
        let parts = [
            // Idle time could also have been used for the promise.
            (BreachCause::Unpromised, self.unpromised + self.idle),
            (BreachCause::Flushes, self.flushes),
            (BreachCause::Realtime, self.realtime),
            (BreachCause::Promised, self.promised),
        ];
        let mut time = 0;
        for (cause, part) in parts {
            time += part;
            if self.lacks <= time {
                return cause;
            }
        }
        BreachCause::Cost
    }
}

impl Display for CauseReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns / 1_000_000;
        write!(
            f,
            "group {} got {:.3} of what it was owed in second {}: {}; ms: lacks {}, own {}, unpromised {}, their flushes {}, realtime {}, promised {}, idle {}",
            self.missed.group.0,
            self.missed.part(),
            self.missed.second,
            self.cause().name(),
            ms(self.lacks),
            ms(self.own),
            ms(self.unpromised),
            ms(self.flushes),
            ms(self.realtime),
            ms(self.promised),
            ms(self.idle),
        )
    }
}

/// Finds the cause in the worst second of a case under `contract`. Returns `None` if every promise
/// is kept in every second.
///
/// # Errors
/// Returns the reason if the case cannot be run, in words.
pub fn why(case: &SearchCase) -> Result<Option<CauseReport>, RunFailure> {
    let mut ledger = DriveTimeLedger::new(case);
    let played = trial::play_with(case, &Policy::contract(), &mut ledger)?;
    let judged = judge::judge(case, &played.watch, 100);
    let worst = judge::worst(&judged).filter(|worst| !worst.is_kept());
    let second = |missed: &JudgedSecond| &ledger.seconds()[missed.second as usize];
    Ok(worst.map(|missed| CauseReport::new(case, missed, second(missed))))
}

/// Prints the number of cases of each cause.
pub fn table(all: &[CauseReport]) -> String {
    let mut text = String::new();
    for cause in BreachCause::ALL {
        let count = all.iter().filter(|why| why.cause() == cause).count();
        let _ = writeln!(text, "{count:>6} {:<10} {}", cause.name(), cause.words());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::GroupId;

    /// Returns a case of four clients: a stream that is promised half of the drive's bandwidth, and
    /// three clients that read at random. The second of these is a realtime client, and the third
    /// has a promise.
    fn case() -> SearchCase {
        let at_random = |name: &str, more: &str| {
            format!(
                "[[client]]\nname = \"{name}\"\nrw = \"randread\"\nnorandommap = true\nsize = \"1GiB\"\ndirect = true\n{more}\n"
            )
        };
        let text = [
            "duration = \"2s\"\nrun_in = \"0s\"\nwarm_up = \"0s\"\ndrives = [\"seagate-no-ncq\"]\n\
             capacity = { read = \"100MB/s\", write = \"100MB/s\" }\n\
             [[client]]\nname = \"a\"\nbs = \"64KiB\"\nsize = \"1GiB\"\ndirect = true\nmin = \"50MB/s\"\n",
            &at_random("b", "iodepth = 4"),
            &at_random("c", "class = \"realtime\"\nmax = { bandwidth = \"1MB/s\" }"),
            &at_random("d", "min = \"1MB/s\""),
        ];
        SearchCase::read(&text.concat(), "why.toml").unwrap_or_else(|e| panic!("{e}"))
    }

    /// Returns the cause if half of a promise was served. The drive needed `own` ms for that half,
    /// and used the rest of the second for the others.
    fn cause(own: u64, unpromised: u64, flushes: u64, realtime: u64, promised: u64) -> BreachCause {
        let case = case();
        let missed = JudgedSecond {
            group: GroupId(1),
            second: 0,
            // Half of the promise was served, so that the other half takes as long again.
            served: 50,
            owed: 100,
            lacks: 50,
        };
        let spent = DriveTimeUse {
            requests: vec![0, own, unpromised, realtime, promised],
            flushes: vec![0, 0, flushes, 0, 0],
            idle: 0,
        };
        let why = CauseReport::new(&case, &missed, &spent);
        assert_eq!(why.lacks, own, "as much again");
        why.cause()
    }

    #[test]
    fn the_cause_is_the_first_with_enough_time_for_the_deficit() {
        // The first figure is the time that is lacking. The cause is the first of the others whose
        // sum reaches it.
        assert_eq!(cause(300, 300, 200, 100, 100), BreachCause::Unpromised);
        assert_eq!(cause(300, 200, 100, 300, 100), BreachCause::Flushes);
        assert_eq!(cause(300, 100, 100, 100, 400), BreachCause::Realtime);
        assert_eq!(cause(450, 100, 100, 100, 250), BreachCause::Promised);
        assert_eq!(cause(600, 100, 100, 100, 100), BreachCause::Cost);
    }

    #[test]
    fn the_parts_of_a_second_add_up_to_the_second() {
        let case = case();
        let why = why(&case)
            .unwrap()
            .expect("no such drive reads so fast beside others");
        let parts = [why.own, why.unpromised, why.flushes, why.realtime];
        let all: u64 = parts.iter().sum::<u64>() + why.promised + why.idle;
        assert!(all.abs_diff(1_000_000_000) < 50_000_000, "{why}");
        assert!(why.own > 0 && why.promised > 0, "{why}");
    }
}
