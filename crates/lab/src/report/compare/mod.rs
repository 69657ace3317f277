//! The report of a comparison: policies side by side, by drive and by case.

use weir_measure::{LatencyRecord, RingsPerSecond, TracedState};

mod clients;
mod page;
mod plots;
mod rows;
mod scores;
mod states;
mod suite;
mod table;

pub use clients::{ComparedClient, ComparedRow};
pub use page::{PAGE_BYTES, compare_page};
pub use suite::{SuiteReport, suite_page, suite_scores};
pub use table::compare_table;

/// The results of a comparison: the contents of its tables and its page.
#[derive(Debug, Clone, Default)]
pub struct CompareReport {
    /// The name of the scenario.
    pub scenario: String,
    /// The purpose of the scenario, in a line. Empty if it does not state one.
    pub about: String,
    /// The load of the clients, in a sentence or two.
    pub load: String,
    /// The name of the target client.
    pub target: String,
    /// The names of the parts of a request's time.
    pub parts: Vec<String>,
    /// The results on each drive.
    pub drives: Vec<ComparedDrive>,
    /// True if each client is shown, and not only the target.
    pub clients: bool,
    /// True if the tables show the target's latency.
    pub latency: bool,
    /// The minimum bandwidth that the scenario requires for the target, in MB/s.
    pub minimum_mb_per_s: Option<f64>,
    /// The maximum bandwidth that the contract of the target permits, in MB/s.
    pub maximum_mb_per_s: Option<f64>,
    /// Explanations of the figures, one per line.
    pub notes: Vec<String>,
}

/// The results on one drive.
#[derive(Debug, Clone, Default)]
pub struct ComparedDrive {
    /// The name of the drive.
    pub name: String,
    /// A description of the drive and its capacity, in a sentence or two.
    pub about: String,
    /// The results, by case and within a case by policy.
    pub cells: Vec<ComparedCell>,
    /// Explanations of the results, as lines below the table.
    pub why: Vec<String>,
}

/// The result of a case under a policy, over all repetitions.
#[derive(Debug, Clone, Default)]
pub struct ComparedCell {
    /// The name of the case, or empty if there is only one.
    pub case: String,
    /// The name of the policy.
    pub policy: String,
    /// The number of requests of the target.
    pub requests: u64,
    /// The latency of these requests. `None` without requests.
    pub latency_us: Option<LatencyRecord>,
    /// The mean latency of these requests relative to that without control, if known.
    pub of_none: Option<f64>,
    /// The bandwidth of the target, in MB/s.
    pub target_mb_per_s: f64,
    /// The bandwidth of all clients together, in MB/s.
    pub total_mb_per_s: f64,
    /// The fraction (0 to 1) of the time in which the drive had at least one command in flight, if
    /// known.
    pub busy: Option<f64>,
    /// The time that the target's mean request spent in each of [`CompareReport::parts`], in
    /// microseconds.
    pub parts_us: Vec<f64>,
    /// Jain's index of the clients' bandwidths relative to their shares, as the mean of the
    /// repetitions: from 1 divided by the number of clients to 1. `None` without bandwidth.
    pub fairness: Option<f64>,
    /// The results of every client.
    pub clients: Vec<ComparedClient>,
    /// The clients that fall short of a promise or starve, with the amount. There is a phrase for
    /// each, the largest first.
    pub trouble: Vec<String>,
    /// An explanation of the result, in a sentence or two.
    pub why: String,
    /// The requirements of the scenario: titles of columns, and the values in them.
    pub asked: Vec<(String, String)>,
    /// The figures that have a plot of their own.
    pub figures: Vec<ComparedFigure>,
    /// The first requirement of the scenario, with the same name and unit in all cells. `None` if
    /// the scenario requires only latency.
    pub headline: Option<ComparedFigure>,
    /// The value of the headline in each repetition in which it is known.
    pub runs: Vec<f64>,
    /// The notifications between virtual machines and their back end, if there are any, as means of
    /// the repetitions.
    pub rings: Option<RingsPerSecond>,
    /// The mean latency of the target's requests in the back end of virtual machines, in
    /// microseconds, if there are any.
    pub backend_us: Option<f64>,
    /// The course of one of the repetitions over time.
    pub over_time: Option<ComparedOverTime>,
}

/// A figure that has a plot of its own, with a bar for each policy in each case.
#[derive(Debug, Clone, Default)]
pub struct ComparedFigure {
    /// The name of the figure with its client, for example `bandwidth of the target`.
    pub name: String,
    /// The unit: `us` (printed with the unit that fits), `MB/s`, or for example `of 16`. Empty for
    /// counts.
    pub unit: String,
    /// The mean of the repetitions. `None` if it is not known for all of them.
    pub value: Option<f64>,
}

/// A run over time, as points (seconds, value).
#[derive(Debug, Clone, Default)]
pub struct ComparedOverTime {
    /// The mean latency of the target's requests that completed around that time, in microseconds.
    pub latency_us: Vec<(f64, f64)>,
    /// The number of commands in flight.
    pub depth: Vec<(f64, f64)>,
    /// The bandwidth of the target, in MB/s.
    pub target_mb_per_s: Vec<(f64, f64)>,
    /// The total bandwidth of all other clients, in MB/s.
    pub others_mb_per_s: Vec<(f64, f64)>,
    /// The states of controllers and the elevator.
    pub states: Vec<TracedState>,
}

impl ComparedDrive {
    /// Returns the names of its cases, in order.
    fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = self.cells.iter().map(|c| c.case.as_str()).collect();
        cases.dedup();
        cases
    }

    /// Returns the results of a case.
    fn of<'a>(&'a self, case: &'a str) -> impl Iterator<Item = &'a ComparedCell> + Clone {
        self.cells.iter().filter(move |c| c.case == case)
    }
}
