//! Rows: the combinations of scenarios, cases, drives, policies and kernels that are compared.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use weir_config::scenario::{self, Choice, Scenario, Script};
use weir_config::{Policy, policy, profile};

/// The contents of the file of rows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    rows: Vec<RowBlock>,
    /// The reasons why the two sides differ, by the names of rows.
    #[serde(default)]
    pub why: BTreeMap<String, String>,
}

/// A block of rows: every case with every policy on every drive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowBlock {
    scenario: String,
    cases: Option<Vec<String>>,
    drives: Vec<String>,
    policies: Vec<String>,
    kernel: String,
}

/// A row: one run on each side.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GuestRow {
    /// The name of the scenario, which is a file next to the rows.
    pub scenario: String,
    /// The case, if the scenario has several.
    pub case: Option<String>,
    /// The name of one of Weir's drives.
    pub drive: String,
    /// The name of one of Weir's policies, by which Linux is configured.
    pub policy: String,
    /// The version of Linux.
    pub kernel: String,
}

impl GuestRow {
    /// Returns the name of the row in the file of Linux's results.
    pub fn name(&self) -> String {
        let case = self.case.as_deref().unwrap_or("-");
        let Self {
            scenario,
            drive,
            policy,
            kernel,
            ..
        } = self;
        format!("{scenario}: {case}: {drive}: {policy}: {kernel}")
    }

    /// Builds the scenario and policy of the row.
    ///
    /// # Errors
    /// Returns an error if there is no such scenario, case, drive, policy or target.
    pub fn build(&self) -> Result<RowSetup, String> {
        let built = RowSetup::new(
            &self.script()?,
            self.case.as_deref(),
            &self.drive,
            &self.policy,
        );
        built.map_err(|what| format!("{}: {what}", self.name()))
    }

    fn script(&self) -> Result<Script, String> {
        let wrong = |e: &dyn std::fmt::Debug| format!("{}: {e:?}", self.name());
        let file = crate::conformance::root().join(format!("guest/{}.toml", self.scenario));
        let text = fs::read_to_string(&file).map_err(|e| wrong(&e))?;
        scenario::read(&text, &file.to_string_lossy()).map_err(|e| wrong(&e))
    }
}

/// The scenario and policy of a row.
#[derive(Debug)]
pub struct RowSetup {
    /// The clients and their drive.
    pub scenario: Scenario,
    /// The policy that schedules them.
    pub policy: Policy,
    /// The index of the client that the scenario is about.
    pub target: usize,
}

impl RowSetup {
    /// Builds a case of a scenario on a drive under a policy, both given by their names.
    ///
    /// # Errors
    /// Returns an error if there is no such case, drive, policy or target.
    pub fn new(
        script: &Script,
        case: Option<&str>,
        drive: &str,
        policy: &str,
    ) -> Result<Self, String> {
        let wrong = |e: &dyn std::fmt::Debug| format!("{e:?}");
        let drive = profile::find(drive).map_err(|e| wrong(&e))?.drive;
        let choice = Choice::new(&drive, case, policy);
        let mut policy = policy::find(policy).map_err(|e| wrong(&e))?;
        // Linux has it since 5.13. Elevators other than BFQ do not.
        policy.tune("bfq", "stable_merge", 1);
        let built = script.scenario(&choice).map_err(|e| wrong(&e))?;
        script.tune(&choice, &mut policy).map_err(|e| wrong(&e))?;
        // The policy may set properties of the host, such as `nr_requests`.
        let scenario = built.under(&policy);
        let name = script.target();
        let target = scenario.clients.iter().position(|c| c.name == name);
        Ok(Self {
            target: target.ok_or_else(|| format!("no client {name}"))?,
            scenario,
            policy,
        })
    }
}

impl Rows {
    /// Reads the file of rows.
    ///
    /// # Errors
    /// Returns the reason if the file cannot be read or is not valid.
    pub fn read(file: &Path) -> Result<Self, String> {
        let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
        let text = fs::read_to_string(file).map_err(|e| wrong(&e))?;
        toml::from_str(&text).map_err(|e| wrong(&e))
    }

    /// Returns the rows, in the order of the page.
    pub fn all(&self) -> Vec<GuestRow> {
        let mut all = Vec::new();
        for block in &self.rows {
            let cases = block.cases.as_ref();
            // A scenario without cases has one row per drive and policy.
            let cases = cases.map_or_else(|| vec![None], |c| c.iter().cloned().map(Some).collect());
            for (drive, case) in block
                .drives
                .iter()
                .flat_map(|d| cases.iter().map(move |c| (d, c)))
            {
                all.extend(block.policies.iter().map(|policy| GuestRow {
                    scenario: block.scenario.clone(),
                    case: case.clone(),
                    drive: drive.clone(),
                    policy: policy.clone(),
                    kernel: block.kernel.clone(),
                }));
            }
        }
        all
    }
}
