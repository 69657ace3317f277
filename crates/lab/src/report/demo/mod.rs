//! The demo's report: the same clients under several policies, before and after.

use crate::report::policy::Looks;
use weir_measure::promise::Fate;
use weir_measure::{Record, TOTAL};

mod page;
mod plots;
mod rows;
mod table;

pub use page::demo_page;
pub use table::demo_table;

/// All results of the demo: the contents of its table and its page.
///
/// The records are those of `--json`: one for each client and one for [`TOTAL`], with promise, series, split and
/// limit if known. What a record lacks is left blank or out of a plot, never guessed.
#[derive(Debug, Clone, Default)]
pub struct DemoReport {
    /// A description of the drive and its capacity, in a sentence.
    pub drive: String,
    /// What the clients do, in a sentence or two.
    pub load: String,
    /// Name of the target client.
    pub target: String,
    /// The figures of the best possible schedule on this drive: what it is, such as `total, everyone at least 10 MB/s`, and the figure
    /// with its unit.
    pub best: Vec<(String, String)>,
    /// Each client's contract (name, contract), in any notation: clients with different contracts never share a row. Clients that
    /// are missing here have none.
    pub contracts: Vec<(String, String)>,
    /// Results under each policy, in the order in which they are shown.
    pub policies: Vec<PolicyResult>,
    /// Further remarks: machine, version, what was not measured.
    pub notes: Vec<String>,
}

/// The results under one policy.
#[derive(Debug, Clone, Default)]
pub struct PolicyResult {
    /// The policy's name.
    pub policy: String,
    /// A description in a few words.
    pub about: String,
    /// The verdict about the target's promise.
    pub fate: Fate,
    /// The outcome in a sentence.
    pub verdict: String,
    /// The fraction (0 to 1) of the time in which the drive had at least one command in flight.
    pub drive_busy: Option<f64>,
    /// One record for each client, and one of the total.
    pub records: Vec<Record>,
}

impl DemoReport {
    /// The looks of its policies.
    fn looks(&self) -> Looks {
        Looks::of(self.policies.iter().map(|p| p.policy.as_str()))
    }

    /// The contract of a client.
    fn contract(&self, client: &str) -> Option<&str> {
        let found = self.contracts.iter().find(|(name, _)| name == client);
        found.map(|(_, contract)| contract.as_str())
    }
}

impl PolicyResult {
    /// The record of a client, by name.
    pub fn client(&self, name: &str) -> Option<&Record> {
        self.records.iter().find(|r| r.client == name)
    }

    /// The record of all clients together.
    pub fn total(&self) -> Option<&Record> {
        self.client(TOTAL)
    }

    /// The records of all clients, without the total.
    pub fn clients(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|r| r.client != TOTAL)
    }

    /// The records of all clients but the target.
    pub fn others<'a>(&'a self, target: &'a str) -> impl Iterator<Item = &'a Record> {
        self.clients().filter(move |r| r.client != target)
    }
}
