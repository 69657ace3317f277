//! The report of a comparison: policies side by side, by drive and by case.

use weir_measure::{Latency, RingsPerSecond, State};

mod clients;
mod page;
mod plots;
mod rows;
mod states;
mod suite;
mod table;

pub use clients::{ComparedClient, ComparedRow};
pub use page::{PAGE_BYTES, compare_page};
pub use suite::{SuiteReport, suite_page};
pub use table::compare_table;

/// All results of a comparison: the contents of its tables and its page.
#[derive(Debug, Clone, Default)]
pub struct CompareReport {
    /// The scenario's name.
    pub scenario: String,
    /// What the scenario shows, in a line; empty if it does not state that.
    pub about: String,
    /// What the clients do, in a sentence or two.
    pub load: String,
    /// Name of the target client.
    pub target: String,
    /// Names of the parts of a request's time.
    pub parts: Vec<String>,
    /// The results on each drive.
    pub drives: Vec<ComparedDrive>,
    /// Whether each client is shown, not the target alone.
    pub clients: bool,
    /// Whether the tables show the target's latency.
    pub latency: bool,
    /// What the target is to get at least, in MB/s, if that is asked.
    pub minimum_mb_per_s: Option<f64>,
    /// How to read the figures.
    pub notes: Vec<String>,
}

/// The results on one drive.
#[derive(Debug, Clone, Default)]
pub struct ComparedDrive {
    /// Its name.
    pub name: String,
    /// A description of it and its capacity, in a sentence or two.
    pub about: String,
    /// The results: by case, and within a case by policy.
    pub cells: Vec<ComparedCell>,
    /// Explanations of the results, as lines below the table.
    pub why: Vec<String>,
}

/// The result of a case under a policy, over all repetitions.
#[derive(Debug, Clone, Default)]
pub struct ComparedCell {
    /// The case; empty if there is only one.
    pub case: String,
    /// The policy.
    pub policy: String,
    /// Requests of the target.
    pub requests: u64,
    /// Their latency; `None` without requests.
    pub latency_us: Option<Latency>,
    /// Their mean latency relative to that without control, if known.
    pub of_none: Option<f64>,
    /// Bandwidth of the target, in MB/s.
    pub target_mb_per_s: f64,
    /// Bandwidth of all clients together, in MB/s.
    pub total_mb_per_s: f64,
    /// The fraction (0 to 1) of the time in which the drive had at least one command in flight, if known.
    pub busy: Option<f64>,
    /// Where the target's mean request spent its time, in microseconds: a value for each of [`CompareReport::parts`].
    pub parts_us: Vec<f64>,
    /// Every client.
    pub clients: Vec<ComparedClient>,
    /// Clients that fall short of a promise or starve, and by how much: a phrase each, the largest first.
    pub trouble: Vec<String>,
    /// An explanation in a sentence or two.
    pub why: String,
    /// What was asked of it: titles of columns, and what stands there.
    pub asked: Vec<(String, String)>,
    /// Figures that have a plot of their own.
    pub figures: Vec<ComparedFigure>,
    /// What the scenario asks for first, with the same name and unit in all cells; `None` if the scenario asks for nothing but latency.
    pub headline: Option<ComparedFigure>,
    /// Notifications between virtual machines and their back end, if there are any: means of the repetitions.
    pub rings: Option<RingsPerSecond>,
    /// Mean latency of the target's requests as the back end of virtual machines sees it, in microseconds, if there were any.
    pub backend_us: Option<f64>,
    /// How one of the repetitions went over time.
    pub over_time: Option<ComparedOverTime>,
}

/// A figure that has a plot of its own, with a bar for each policy in each case.
#[derive(Debug, Clone, Default)]
pub struct ComparedFigure {
    /// What it is, and whose: `bandwidth of the target`.
    pub name: String,
    /// Its unit: `us`, which is written with the unit that fits, `MB/s`, `of 16`; empty for numbers of things.
    pub unit: String,
    /// Mean of the repetitions; `None` if it is not known of all of them.
    pub value: Option<f64>,
}

/// A run over time: points (seconds, value).
#[derive(Debug, Clone, Default)]
pub struct ComparedOverTime {
    /// Mean latency of the target's requests completed around that time, in microseconds.
    pub latency_us: Vec<(f64, f64)>,
    /// Commands in flight.
    pub depth: Vec<(f64, f64)>,
    /// Bandwidth of the target, in MB/s.
    pub target_mb_per_s: Vec<(f64, f64)>,
    /// Total bandwidth of all others, in MB/s.
    pub others_mb_per_s: Vec<(f64, f64)>,
    /// What controllers and the elevator were doing.
    pub states: Vec<State>,
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
