//! What is asked of a result, and what was published of the same.

use crate::units::{Rate, Time};
use crate::words::Words;
use std::fmt;
use weir_core::Span;

/// What is asked of a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expect {
    /// What.
    pub asked: Asked,
    /// Under which policies it is required; empty: under every one.
    pub policies: Vec<String>,
}

/// What can be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The promise of this client is kept in every second; `None`: those of all clients are.
    Promise(Option<String>),
    /// Bandwidths over the run are to each other as the shares, no further off than this.
    Shares(Part),
    /// A client with a maximum gets it, no further off than this.
    Max(Part),
    /// A figure lies between bounds.
    Figure(Bounds),
}

/// A figure and where it is to lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Which.
    pub figure: Figure,
    /// Whose.
    pub whose: Whose,
    /// What it is not to be below.
    pub at_least: Option<Value>,
    /// What it is not to be above.
    pub at_most: Option<Value>,
    /// The bounds are parts of the same figure under this policy.
    pub beside: Option<String>,
    /// The bounds are parts of the same figure in this case.
    pub beside_case: Option<String>,
}

/// Whose figure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whose {
    /// That of the target.
    Target,
    /// That of a client.
    Client(String),
    /// That of all but the target together.
    Others,
    /// That of all together.
    Total,
}

/// A figure of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// Bytes a second.
    Bandwidth,
    /// Requests a second.
    Iops,
    /// Bytes in the worst second.
    WorstSecond,
    /// Mean latency.
    Mean,
    /// A percentile of latency, in thousandths: 500, 900, 990 or 999.
    Percentile(u16),
    /// The longest latency.
    Longest,
    /// How long a client whose program ends took for all of it.
    Runtime,
    /// Requests that were not answered by their deadline.
    Late,
    /// For how much of the time the drive was busy.
    Busy,
    /// Mean latency as the back end of a virtual machine sees it: from when it has a request to when that is done.
    Backend,
    /// Notifications a second from virtual machines.
    Kicks,
    /// Notifications a second to virtual machines.
    Calls,
    /// Notifications to virtual machines for each request.
    CallsPerRequest,
    /// How often a second a thread of the back end woke up.
    Wakeups,
    /// For how much of the time the virtual machines' processors were busy, all together.
    GuestBusy,
    /// For how much of the time the back end's threads were, all together.
    BackendBusy,
}

/// A part of something, in millionths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Part(pub u64);

/// The value of a figure, or a bound for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// Bytes a second.
    Rate(u64),
    /// A length of time.
    Time(Span),
    /// A number.
    Count(u64),
    /// A part.
    Part(Part),
}

/// A figure that somebody has published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Published {
    /// On which drive; `None`: on every one.
    pub drive: Option<String>,
    /// In which case; `None`: in every one.
    pub case: Option<String>,
    /// Under which policy.
    pub policy: String,
    /// Which figure.
    pub figure: Figure,
    /// Whose.
    pub whose: Whose,
    /// Its value.
    pub value: Value,
    /// Where it was published.
    pub source: String,
}

impl Bounds {
    /// The bounds are parts of another figure.
    pub fn is_relative(&self) -> bool {
        self.beside.is_some() || self.beside_case.is_some()
    }
}

impl Expect {
    /// Whether it is required under a policy.
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
    /// All there are, by the words of a file.
    pub fn all() -> impl Iterator<Item = (&'static str, Self)> {
        Self::WORDS.iter().copied()
    }

    /// Its word in a file.
    pub fn name(self) -> &'static str {
        match self.word() {
            "" => "percentile",
            word => word,
        }
    }
}

impl Part {
    /// As a fraction of 1.
    pub fn fraction(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Value {
    /// In bytes a second, nanoseconds, as a number, or as a fraction of 1.
    pub fn number(self) -> f64 {
        match self {
            Self::Rate(value) | Self::Count(value) => value as f64,
            Self::Time(span) => span.as_nanos() as f64,
            Self::Part(part) => part.fraction(),
        }
    }
}

impl fmt::Display for Whose {
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
        let text = format!("{}.{:04}", self.0 / 10_000, self.0 % 10_000);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => Rate(*rate).fmt(f),
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
    fn figures_are_called_what_files_call_them() {
        for (word, figure) in Figure::all() {
            assert_eq!(figure.name(), word);
        }
        assert_eq!(Figure::Percentile(123).name(), "percentile");
    }

    #[test]
    fn bounds_are_relative_to_another_policy_or_another_case() {
        let bounds = |beside: Option<&str>, case: Option<&str>| Bounds {
            figure: Figure::Bandwidth,
            whose: Whose::Target,
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
