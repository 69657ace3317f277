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

/// The results of the demo: the contents of its table and its page.
///
/// The records are those of `--json`: one for each client and one for [`TOTAL`], with promise,
/// series, split and limit if known. Values that a record lacks are left blank or out of a plot,
/// and never estimated.
#[derive(Debug, Clone, Default)]
pub struct DemoReport {
    /// A description of the drive and its capacity, in a sentence.
    pub drive: String,
    /// The load of the clients, in a sentence or two.
    pub load: String,
    /// The name of the target client.
    pub target: String,
    /// The figures of the best possible schedule on this drive. Each has a name, such as `total,
    /// everyone at least 10 MB/s`, and the value with its unit.
    pub best: Vec<(String, String)>,
    /// The contract of each client (name, contract), in any notation. Clients with different
    /// contracts never share a row. Clients that are missing here have no contract.
    pub contracts: Vec<(String, String)>,
    /// The results under each policy, in the order in which they are shown.
    pub policies: Vec<PolicyResult>,
    /// Further remarks, for example about the machine, the version, and figures that were not
    /// measured.
    pub notes: Vec<String>,
}

/// The results under one policy.
#[derive(Debug, Clone, Default)]
pub struct PolicyResult {
    /// The name of the policy.
    pub policy: String,
    /// A description in a few words.
    pub about: String,
    /// The verdict about the target's promise.
    pub fate: Fate,
    /// The result in a sentence.
    pub verdict: String,
    /// The fraction (0 to 1) of the time in which the drive had at least one command in flight.
    pub drive_busy: Option<f64>,
    /// One record for each client, and one of the total.
    pub records: Vec<Record>,
}

impl DemoReport {
    /// Returns the looks of its policies.
    fn looks(&self) -> Looks {
        Looks::of(self.policies.iter().map(|p| p.policy.as_str()))
    }

    /// Returns the contract of a client.
    fn contract(&self, client: &str) -> Option<&str> {
        let found = self.contracts.iter().find(|(name, _)| name == client);
        found.map(|(_, contract)| contract.as_str())
    }
}

impl PolicyResult {
    /// Returns the record of a client, by name.
    pub fn client(&self, name: &str) -> Option<&Record> {
        self.records.iter().find(|r| r.client == name)
    }

    /// Returns the record of all clients together.
    pub fn total(&self) -> Option<&Record> {
        self.client(TOTAL)
    }

    /// Returns the records of all clients, without the total.
    pub fn clients(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|r| r.client != TOTAL)
    }

    /// Returns the records of all clients except the target.
    pub fn others<'a>(&'a self, target: &'a str) -> impl Iterator<Item = &'a Record> {
        self.clients().filter(move |r| r.client != target)
    }
}
