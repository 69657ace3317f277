//! The report of a comparison: policies beside each other, by drive and by case.

use weir_measure::Latency;

mod page;
mod plots;
mod rows;
mod table;

pub use page::compare_page;
pub use table::compare_table;

/// Everything that a comparison found out: what its tables and its page show.
#[derive(Debug, Clone, Default)]
pub struct CompareReport {
    /// The scenario's name.
    pub scenario: String,
    /// What the clients do, in a sentence or two.
    pub load: String,
    /// Name of the client that it is about.
    pub target: String,
    /// Names of the parts that the time of a request is made of.
    pub parts: Vec<String>,
    /// What was found on each drive.
    pub drives: Vec<ComparedDrive>,
    /// How to read the figures.
    pub notes: Vec<String>,
}

/// What was found on one drive.
#[derive(Debug, Clone, Default)]
pub struct ComparedDrive {
    /// Its name.
    pub name: String,
    /// What it is and what it can do, in a sentence or two.
    pub about: String,
    /// The results: by case, and within a case by policy.
    pub cells: Vec<ComparedCell>,
    /// Why they are what they are, in lines for below the table.
    pub why: Vec<String>,
}

/// The result of a case under a policy, over all repetitions.
#[derive(Debug, Clone, Default)]
pub struct ComparedCell {
    /// The case; empty where there is but one.
    pub case: String,
    /// The policy.
    pub policy: String,
    /// Requests of the target.
    pub requests: u64,
    /// Their latency; `None` if there were none.
    pub latency_us: Option<Latency>,
    /// Their mean latency as a part of that without control, where that is known.
    pub of_none: Option<f64>,
    /// Bandwidth of the target, in MB/s.
    pub target_mbps: f64,
    /// Bandwidth of all clients together, in MB/s.
    pub total_mbps: f64,
    /// The part (0 to 1) of the time in which the drive was busy (at least one command was in it), where that is known.
    pub busy: Option<f64>,
    /// Where the time of the target's mean request went, in microseconds: a value for each of [`CompareReport::parts`].
    pub parts_us: Vec<f64>,
    /// Why it is so, in a sentence or two.
    pub why: String,
    /// How one of the repetitions went over time.
    pub over_time: Option<ComparedOverTime>,
}

/// How a run went over time: points (seconds, value).
#[derive(Debug, Clone, Default)]
pub struct ComparedOverTime {
    /// Mean latency of the target's requests answered about then, in microseconds.
    pub latency_us: Vec<(f64, f64)>,
    /// Commands in the drive.
    pub depth: Vec<(f64, f64)>,
    /// Bandwidth of the target, in MB/s.
    pub target_mbps: Vec<(f64, f64)>,
    /// Bandwidth of all others together, in MB/s.
    pub others_mbps: Vec<(f64, f64)>,
}

impl ComparedDrive {
    /// The names of its cases, in order.
    fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = self.cells.iter().map(|c| c.case.as_str()).collect();
        cases.dedup();
        cases
    }

    /// The results of a case.
    fn of<'a>(&'a self, case: &'a str) -> impl Iterator<Item = &'a ComparedCell> + Clone {
        self.cells.iter().filter(move |c| c.case == case)
    }
}
