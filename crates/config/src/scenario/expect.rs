//! Expectations of results, and published figures for comparison.

use crate::units::{BytesPerSecond, Time};
use crate::words::Words;
use std::fmt;
use weir_core::Span;

/// An expectation that the results of a scenario must meet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expect {
    /// The requirement of the expectation.
    pub asked: Requirement,
    /// The policies that must meet the requirement. Empty for all policies.
    pub policies: Vec<String>,
}

/// A requirement for the results of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Requirement {
    /// This client's promise is kept in every second. `None` for the promises of all clients.
    Promise(Option<String>),
    /// The bandwidths over the run are in proportion to the shares, with at most this deviation.
    Shares(Part),
    /// A client with a max gets its max, with at most this deviation.
    Max(Part),
    /// A figure is between two bounds.
    Figure(Bounds),
}

/// A figure with the bounds that it must meet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The figure that the bounds apply to.
    pub figure: Figure,
    /// The client or clients whose figure is meant.
    pub whose: FigureOwner,
    /// The smallest permitted value.
    pub at_least: Option<FigureValue>,
    /// The largest permitted value.
    pub at_most: Option<FigureValue>,
    /// The policy whose figure is 100 % of the bounds.
    pub beside: Option<String>,
    /// The case whose figure is 100 % of the bounds.
    pub beside_case: Option<String>,
}

/// The client or clients of a figure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FigureOwner {
    /// The target of the scenario.
    Target,
    /// The client with this name.
    Client(String),
    /// All clients except the target, together.
    Others,
    /// All clients together.
    Total,
}

/// A figure that a run measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// The bandwidth in bytes per second.
    Bandwidth,
    /// The number of requests per second.
    Iops,
    /// The smallest number of bytes in one second.
    WorstSecond,
    /// The mean latency of requests.
    Mean,
    /// A percentile of latency, in thousandths: 500, 900, 990 or 999.
    Percentile(u16),
    /// The maximum latency of a request.
    Longest,
    /// The time that a client with a number of requests took for all of them.
    Runtime,
    /// The number of requests that were not completed by their deadline.
    Late,
    /// The busy time of the drive, as a part of the measured time.
    Busy,
    /// The mean latency as the back end of a guest measures it, from taking a request to its
    /// completion.
    Backend,
    /// The number of notifications per second from guests.
    Kicks,
    /// The number of notifications per second to guests.
    Calls,
    /// The number of notifications to guests per request.
    CallsPerRequest,
    /// The number of wake-ups per second of the back end's threads.
    Wakeups,
    /// The busy time of all guests' CPUs together, as a part of the measured time.
    GuestBusy,
    /// The busy time of all threads of the back end, as a part of the measured time.
    BackendBusy,
}

/// A fraction in millionths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Part(pub u64);

/// The value of a figure, or a bound for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FigureValue {
    /// A number of bytes per second.
    Rate(u64),
    /// A length of time.
    Time(Span),
    /// A number.
    Count(u64),
    /// A fraction of something.
    Part(Part),
}

/// A figure that others have published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Published {
    /// The drive of the measurement. `None` for all drives.
    pub drive: Option<String>,
    /// The case of the measurement. `None` for all cases.
    pub case: Option<String>,
    /// The policy of the measurement.
    pub policy: String,
    /// The kind of figure.
    pub figure: Figure,
    /// The client or clients whose figure it is.
    pub whose: FigureOwner,
    /// The value that was published.
    pub value: FigureValue,
    /// The publication that states the value.
    pub source: String,
}

impl Bounds {
    /// Returns true if the bounds are fractions of another figure.
    pub fn is_relative(&self) -> bool {
        self.beside.is_some() || self.beside_case.is_some()
    }
}

impl Expect {
    /// Returns true if the requirement applies under a policy.
    pub fn is_required(&self, policy: &str) -> bool {
        self.policies.is_empty() || self.policies.iter().any(|p| p == policy)
    }
}

impl Words for Figure {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("bandwidth", Self::Bandwidth),
        ("iops", Self::Iops),
        ("worst_second", Self::WorstSecond),
        ("mean", Self::Mean),
        ("p50", Self::Percentile(500)),
        ("p90", Self::Percentile(900)),
        ("p99", Self::Percentile(990)),
        ("p999", Self::Percentile(999)),
        ("longest", Self::Longest),
        ("runtime", Self::Runtime),
        ("late", Self::Late),
        ("busy", Self::Busy),
        ("backend", Self::Backend),
        ("kicks", Self::Kicks),
        ("calls", Self::Calls),
        ("calls_per_request", Self::CallsPerRequest),
        ("wakeups", Self::Wakeups),
        ("guest_busy", Self::GuestBusy),
        ("backend_busy", Self::BackendBusy),
    ];
}

impl Figure {
    /// Iterates over all figures with their words in files.
    pub fn all() -> impl Iterator<Item = (&'static str, Self)> {
        Self::WORDS.iter().copied()
    }

    /// Returns the word of the figure in files.
    pub fn name(self) -> &'static str {
        match self.word() {
            // A percentile that no file can name has no word.
            "" => "percentile",
            word => word,
        }
    }
}

impl Part {
    /// Returns the fraction as a number between 0 and 1, or above.
    pub fn fraction(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl FigureValue {
    /// Returns the value in bytes per second, in nanoseconds, as a count, or as a fraction.
    pub fn number(self) -> f64 {
        match self {
            Self::Rate(value) | Self::Count(value) => value as f64,
            Self::Time(span) => span.as_nanos() as f64,
            Self::Part(part) => part.fraction(),
        }
    }
}

impl fmt::Display for FigureOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client(name) => name,
            Self::Target => "target",
            Self::Others => "others",
            Self::Total => "total",
        })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A millionth is a ten-thousandth of a per cent.
        let text = format!("{}.{:04}", self.0 / 10_000, self.0 % 10_000);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl fmt::Display for FigureValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => BytesPerSecond(*rate).fmt(f),
            Self::Time(span) => Time(*span).fmt(f),
            Self::Count(count) => count.fmt(f),
            Self::Part(part) => part.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_names_used_in_files() {
        for (word, figure) in Figure::all() {
            assert_eq!(figure.name(), word);
        }
        assert_eq!(Figure::Percentile(123).name(), "percentile");
    }

    #[test]
    fn bounds_are_relative_to_another_policy_or_another_case() {
        let bounds = |beside: Option<&str>, case: Option<&str>| Bounds {
            figure: Figure::Bandwidth,
            whose: FigureOwner::Target,
            at_least: None,
            at_most: None,
            beside: beside.map(String::from),
            beside_case: case.map(String::from),
        };
        assert!(!bounds(None, None).is_relative());
        assert!(bounds(Some("bfq"), None).is_relative());
        assert!(bounds(None, Some("alone")).is_relative());
    }
}
