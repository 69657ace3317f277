//! A scenario's file with all its cases: reading it, and choosing what a run simulates.

use super::build::{Choice, StatedScenario};
use super::expect::{Expect, Published};
use super::fio::Jobs;
use super::trace::TraceFiles;
use super::{Scenario, overlay, read as tables};
use crate::Setting;
use crate::document::{Document, KeyEntry, ShapedTable, TomlTable};
use crate::file::tables as parsed;
use crate::key::{SCENARIO, SCENARIOS, VARIED};
use crate::policy::Policy;
use crate::problem::Problem;
use crate::text::quoted;
use crate::tunable;
use std::path::Path;
use std::sync::Arc;

/// The maximum size of a file in bytes.
const FILE_MAX: usize = 1 << 20;

/// The maximum number of problems that are kept.
const PROBLEMS_MAX: usize = 100;

/// The maximum number of combinations of case, kind of drive and policy that are checked when a
/// file is read. Further combinations are checked when they are played.
const LOOKED_AT: usize = 256;

/// A scenario's file: the keys that all cases, drives and policies share, and the differences
/// between them. [`Self::scenario`] returns the [`Scenario`] for a chosen drive, case and policy.
#[derive(Clone, Debug)]
pub struct Script {
    name: String,
    about: String,
    facts: Facts,
    cases: Vec<String>,
    tables: Arc<Tables>,
    /// The original job file, if any.
    jobs: Option<Jobs>,
    /// The changes of contracts from the command line, in order.
    settings: Vec<Setting>,
}

/// The keys of a file that do not depend on the case, drive or policy.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) load: String,
    pub(super) target: String,
    /// True if results show each client instead of the target alone.
    pub(super) shows_clients: bool,
    pub(super) drives: Vec<String>,
    pub(super) policies: Vec<String>,
    pub(super) repetitions: u32,
    pub(super) expects: Vec<Expect>,
    pub(super) published: Vec<Published>,
}

/// The parsed tables of a scenario's file. The text serves to find the line and column of a
/// problem.
#[derive(Debug)]
struct Tables {
    file: String,
    text: String,
    map: TomlTable,
    traces: Arc<TraceFiles>,
}

/// Reads the text of a scenario's file. `file` is its name in problems.
///
/// # Errors
/// Everything that is wrong with the text, in the order of the file.
pub fn read(text: &str, file: &str) -> Result<Script, Vec<Problem>> {
    if text.len() > FILE_MAX {
        let mut doc = document(text, file);
        doc.report_span(&(0..0), "", "is longer than 1MiB, the maximum", "");
        return Err(doc.into_problems());
    }
    of(text, file, None)
}

/// Reads the text of a scenario's file, or the converted text of `jobs`.
pub(super) fn of(text: &str, file: &str, jobs: Option<Jobs>) -> Result<Script, Vec<Problem>> {
    let mut doc = document(text, file);
    let Some(map) = parsed(&mut doc, text) else {
        return Err(doc.into_problems());
    };
    let tables = Tables {
        file: file.to_owned(),
        text: text.to_owned(),
        map,
        traces: jobs
            .as_ref()
            .map(|jobs| jobs.traces.clone())
            .unwrap_or_default(),
    };
    let mut doc = document(text, file);
    let varied = VariantNames::read(&mut doc, &ShapedTable::root(&tables.map, &SCENARIO));
    // A file is checked before a drive is chosen, so a demo drive stands for it.
    let drive = weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo());
    let mut problems = doc.into_problems();
    let (mut head, mut of_head) = (None, Vec::new());
    for (at, chosen) in varied.choices().iter().enumerate() {
        let case = chosen[0].as_deref();
        let choice = Choice::new(&drive, case, "");
        let read = tables.read(chosen, |doc, root| {
            let stated = tables::stated(doc, root, "", &choice, &tables.traces);
            // The keys of the file as a whole are read only once, together with the first
            // combination.
            if at == 0 {
                let mut doc = document(text, file);
                head = self::head(&mut doc, root, stated.as_ref(), &varied.cases);
                of_head = doc.into_problems();
            }
            stated
        });
        keep(&mut problems, read.err().unwrap_or_default());
    }
    keep(&mut problems, of_head);
    match head {
        Some((name, about, facts)) if problems.is_empty() => Ok(Script {
            name,
            about,
            facts,
            cases: varied.cases,
            tables: Arc::new(tables),
            jobs,
            settings: Vec::new(),
        }),
        _ => Err(sorted(problems)),
    }
}

/// Reads the keys of the file as a whole. `stated` is the first combination, because clients and
/// their required keys can be in the cases only.
fn head<'a>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    stated: Option<&StatedScenario>,
    cases: &[String],
) -> Option<(String, String, Facts)> {
    let name = match root.entry("name") {
        Some(entry) => entry
            .text(doc, "a name", "\"nightly\"")
            .and_then(|name| tables::checked(doc, &entry, name)),
        None => Some(stem(&doc.places.file)),
    };
    let about = tables::line(doc, root, "about");
    let facts = stated.map(|stated| tables::facts(doc, root, &stated.scenario, cases));
    let (name, facts) = name.zip(facts)?;
    Some((name, about, facts))
}

/// Returns the name of a file without its directory and extension, as a valid name for a scenario.
pub(super) fn stem(file: &str) -> String {
    let stem = Path::new(file).file_stem().and_then(|s| s.to_str());
    let stem = stem.unwrap_or_default();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let name: String = stem
        .chars()
        .map(|c| if allowed(c) { c } else { '-' })
        .collect();
    // 64 characters are the maximum length of a name.
    let name: String = name.chars().take(64).collect();
    if crate::text::is_name(&name) {
        name
    } else {
        "scenario".to_owned()
    }
}

fn document<'a>(text: &'a str, file: &str) -> Document<'a> {
    let mut doc = Document::new(file, text);
    doc.family = SCENARIOS;
    doc
}

/// Adds the problems that are not yet in the list. The same line is read for each combination, and
/// its problem is reported once.
fn keep(problems: &mut Vec<Problem>, more: Vec<Problem>) {
    for problem in more {
        let same = |p: &Problem| {
            (p.line, p.column, &p.message) == (problem.line, problem.column, &problem.message)
        };
        if problems.len() < PROBLEMS_MAX && !problems.iter().any(same) {
            problems.push(problem);
        }
    }
}

fn sorted(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|p| (p.line, p.column));
    problems
}

/// The names in the differences of a file.
#[derive(Debug, Default)]
struct VariantNames {
    /// The names of the cases, in the order of the file.
    cases: Vec<String>,
    /// The kinds of drives, `disk` and `flash`.
    drives: Vec<String>,
    /// The names of the policies.
    policies: Vec<String>,
}

/// A case, a kind of drive and a policy, as far as the file distinguishes them.
type VariantChoice = [Option<String>; 3];

impl VariantNames {
    /// Checks the keys of the file and of all its differences.
    fn read<'a>(doc: &mut Document<'a>, root: &ShapedTable<'a>) -> Self {
        doc.check_keys(root, SCENARIO.name, &tunable::and_tables(SCENARIO.names()));
        let mut varied = Self::default();
        for (kind, entry) in patches(doc, root, "case") {
            if tables::checked(doc, &entry, &kind).is_some() {
                varied.cases.push(kind);
            }
        }
        for (kind, entry) in patches(doc, root, "on") {
            if kind != "disk" && kind != "flash" {
                let what = format!("unknown kind of drive {}", quoted(&kind));
                let help = "use [on.disk] for rotating drives, and [on.flash] for others";
                doc.report(&entry, what, help);
            }
            varied.drives.push(kind);
        }
        for (kind, entry) in patches(doc, root, "under") {
            tables::known_policy(doc, &entry, &kind);
            varied.policies.push(kind);
        }
        varied
    }

    /// Returns all combinations, up to the maximum number that is checked.
    fn choices(&self) -> Vec<VariantChoice> {
        let cases = options(&self.cases, self.cases.is_empty());
        let drives = options(&self.drives, true);
        let policies = options(&self.policies, true);
        let mut choices = Vec::new();
        for case in &cases {
            for drive in &drives {
                for policy in &policies {
                    if choices.len() == LOOKED_AT {
                        return choices;
                    }
                    choices.push([case.clone(), drive.clone(), policy.clone()]);
                }
            }
        }
        choices
    }
}

/// Returns each of the names, preceded by `None` if `or_none` is true.
fn options(names: &[String], or_none: bool) -> Vec<Option<String>> {
    let none = or_none.then_some(None);
    let names = names.iter().cloned().map(Some);
    none.into_iter().chain(names).collect()
}

/// Returns the tables of differences by name, in the order of the file, and checks their keys.
fn patches<'a>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    key: &str,
) -> Vec<(String, KeyEntry<'a>)> {
    let table = root.entry(key).and_then(|e| e.names(doc, key));
    let entries = table.iter().flat_map(ShapedTable::entries);
    let mut all: Vec<_> = entries.map(|(k, e)| (k.get_ref().clone(), e)).collect();
    // A parsed table is sorted by name, while results list cases in the order of the file.
    all.sort_by_key(|(_, entry)| entry.span.start);
    let keys = tunable::and_tables(VARIED.iter().map(|k| k.name).collect());
    for (name, entry) in &all {
        if let Some(table) = entry.map(doc) {
            doc.check_keys(&table, &format!("[{key}.{name}]"), &keys);
        }
    }
    all
}

/// Returns the differences for a name, if the file has any.
fn patch<'t>(map: &'t TomlTable, key: &str, name: &str) -> Option<&'t TomlTable> {
    let named = map.get(key)?.get_ref().as_table()?;
    named.get(name)?.get_ref().as_table()
}

impl Tables {
    /// Applies the differences for a choice to the tables, and returns the result of `read`.
    fn read<T>(
        &self,
        choice: &VariantChoice,
        read: impl for<'a> FnOnce(&mut Document<'a>, &ShapedTable<'a>) -> Option<T>,
    ) -> Result<T, Vec<Problem>> {
        let mut doc = document(&self.text, &self.file);
        let mut map = self.map.clone();
        // Later differences override earlier ones.
        for (key, name) in ["case", "on", "under"].into_iter().zip(choice) {
            let name = name.as_ref();
            if let Some(patch) = name.and_then(|name| patch(&self.map, key, name)) {
                overlay::put(&mut doc, &mut map, patch);
            }
        }
        overlay::rename(&mut map);
        let mut problems = doc.into_problems();
        let mut doc = document(&self.text, &self.file);
        let value = read(&mut doc, &ShapedTable::root(&map, &SCENARIO));
        keep(&mut problems, doc.into_problems());
        match value {
            Some(value) if problems.is_empty() => Ok(value),
            _ => Err(sorted(problems)),
        }
    }
}

impl Choice<'_> {
    /// Returns the choice by the names that a file can use for differences.
    fn chosen(&self) -> VariantChoice {
        let kind = if self.drive.shape().rotational {
            "disk"
        } else {
            "flash"
        };
        let chosen = [self.case, Some(kind), Some(self.policy)];
        chosen.map(|name| name.map(str::to_owned))
    }
}

impl Script {
    /// Returns the text of a scenario's file that plays the same as the job file, with comments
    /// where contracts can be added. `None` if the script was not read from a job file.
    pub fn printed(&self) -> Option<String> {
        self.is_jobs().then(|| self.tables.text.clone())
    }

    /// Returns true if the script was read from a job file, which does not name a drive.
    pub fn is_jobs(&self) -> bool {
        self.jobs.is_some()
    }

    /// Returns the name in results. The seeds of the clients depend on it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a line about the effect that the scenario demonstrates.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Returns a description of the clients' load, which can be empty.
    pub fn load(&self) -> &str {
        &self.facts.load
    }

    /// Returns the name of the client whose latency is shown.
    pub fn target(&self) -> &str {
        &self.facts.target
    }

    /// Returns true if results show each client instead of the target alone.
    pub fn shows_clients(&self) -> bool {
        self.facts.shows_clients
    }

    /// Returns the default drives: names, or paths of profiles.
    pub fn drives(&self) -> &[String] {
        &self.facts.drives
    }

    /// Returns the default policies.
    pub fn policies(&self) -> &[String] {
        &self.facts.policies
    }

    /// Returns the default number of repetitions.
    pub fn repetitions(&self) -> u32 {
        self.facts.repetitions
    }

    /// Returns the names of the cases in the order of the file. It is empty if the file has no
    /// cases.
    pub fn cases(&self) -> &[String] {
        &self.cases
    }

    /// Returns the expectations that the results must meet.
    pub fn expects(&self) -> &[Expect] {
        &self.facts.expects
    }

    /// Returns the published figures for the same scenario.
    pub fn published(&self) -> &[Published] {
        &self.facts.published
    }

    /// Adds changes of contracts, which apply in this order to every case, drive and policy.
    pub fn set(&mut self, settings: &[Setting]) {
        self.settings.extend_from_slice(settings);
    }

    /// Returns notes on the reading of the file.
    pub fn notes(&self) -> &[Problem] {
        self.jobs.as_ref().map_or(&[], |jobs| &jobs.notes)
    }

    /// Sets the tunables that the file states for the policy's elevator.
    ///
    /// # Errors
    /// Problems as those of [`Self::scenario`].
    pub fn tune(&self, choice: &Choice<'_>, policy: &mut Policy) -> Result<(), Vec<Problem>> {
        self.tables.read(&choice.chosen(), |doc, root| {
            tables::tune(doc, root, Some(policy));
            Some(())
        })
    }

    /// Returns the scenario of a run for a drive, a case and a policy.
    ///
    /// # Errors
    /// The problems of the combination, as far as they were not found when the file was read.
    pub fn scenario(&self, choice: &Choice<'_>) -> Result<Scenario, Vec<Problem>> {
        // The sizes of some jobs depend on the drive. Such a file is read again for the chosen
        // drive.
        let again = self
            .jobs
            .as_ref()
            .and_then(|jobs| jobs.on(choice.drive.size()));
        let again = again.transpose()?;
        let tables = again.as_ref().map_or(&self.tables, |script| &script.tables);
        let stated = tables.read(&choice.chosen(), |doc, root| {
            tables::stated(doc, root, &self.name, choice, &tables.traces)
        })?;
        let mut scenario = stated
            .build(&self.settings)
            .map_err(|problem| vec![problem])?;
        if let Some(jobs) = &self.jobs {
            // Remarks about the converted text would refer to lines that the user has not written.
            scenario.unclassed.clone_from(&jobs.unclassed);
        }
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::PARSED;
    use crate::policy;
    use crate::scenario::source;

    #[test]
    fn a_scenario_is_parsed_once_for_all_its_cases_and_policies() {
        let drive =
            weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo());
        let policies = ["none", "bfq", "contract"].map(|name| policy::find(name).unwrap());
        let before = PARSED.get();
        let script = read(source("latency").unwrap(), "latency").unwrap();
        assert!(script.cases().len() > 1);
        for case in script.cases() {
            for policy in &policies {
                let choice = Choice::new(&drive, Some(case), &policy.name);
                script.scenario(&choice).unwrap();
                script.tune(&choice, &mut policy.clone()).unwrap();
            }
        }
        // Parsing is the costly part of reading a file with many combinations.
        assert_eq!(PARSED.get() - before, 1);
    }
}
