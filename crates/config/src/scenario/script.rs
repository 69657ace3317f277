//! A scenario as people write it.

use super::build::{Choice, Stated};
use super::expect::{Expect, Published};
use super::fio::Jobs;
use super::{Scenario, overlay, read as tables};
use crate::Setting;
use crate::document::{Document, Entry, Map, Table};
use crate::file::tables as parsed;
use crate::key::{SCENARIO, SCENARIOS, VARIED};
use crate::policy::Policy;
use crate::problem::Problem;
use crate::text::quoted;
use crate::tunable;
use std::path::Path;
use std::sync::Arc;

/// Longest file, bytes.
const FILE_MAX: usize = 1 << 20;

/// Problems that are kept.
const PROBLEMS_MAX: usize = 100;

/// Combinations of case, kind of drive and policy that are read when a file is: those beyond are read when they are played.
const LOOKED_AT: usize = 256;

/// A scenario as people write it: what its cases, drives and policies have in common and what differs. What a run plays is a
/// [`Scenario`], made by [`Self::scenario`] once drive, case and policy are chosen.
#[derive(Clone, Debug)]
pub struct Script {
    name: String,
    about: String,
    facts: Facts,
    cases: Vec<String>,
    tables: Arc<Tables>,
    /// The job file that it was read from.
    jobs: Option<Jobs>,
    /// Changes of contracts, each after the ones before it.
    settings: Vec<Setting>,
}

/// What a file says as a whole.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) load: String,
    pub(super) target: String,
    /// Each client is shown, not the target alone.
    pub(super) shows_clients: bool,
    pub(super) drives: Vec<String>,
    pub(super) policies: Vec<String>,
    pub(super) repetitions: u32,
    pub(super) expects: Vec<Expect>,
    pub(super) published: Vec<Published>,
}

/// A scenario's file, parsed. Its text serves to say where something is wrong.
#[derive(Debug)]
struct Tables {
    file: String,
    text: String,
    map: Map,
}

/// Reads the text of a scenario's file. `file` is its name in problems.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn read(text: &str, file: &str) -> Result<Script, Vec<Problem>> {
    if text.len() > FILE_MAX {
        let mut doc = document(text, file);
        doc.at(&(0..0), "", "is longer than 1MiB, the maximum", "");
        return Err(doc.into_problems());
    }
    of(text, file, None)
}

/// Reads the text of a scenario's file, or of what `jobs` are as one.
pub(super) fn of(text: &str, file: &str, jobs: Option<Jobs>) -> Result<Script, Vec<Problem>> {
    let mut doc = document(text, file);
    let Some(map) = parsed(&mut doc, text) else {
        return Err(doc.into_problems());
    };
    let tables = Tables {
        file: file.to_owned(),
        text: text.to_owned(),
        map,
    };
    let mut doc = document(text, file);
    let varied = Varied::read(&mut doc, &Table::root(&tables.map, &SCENARIO));
    let drive = weir_model::drive::Config::Null(weir_model::drive::null::Config::demo());
    let mut problems = doc.into_problems();
    let (mut head, mut of_head) = (None, Vec::new());
    for (at, chosen) in varied.choices().iter().enumerate() {
        let case = chosen[0].as_deref();
        let choice = Choice::new(&drive, case, "");
        let read = tables.read(chosen, |doc, root| {
            let stated = tables::stated(doc, root, "", &choice);
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

/// Name, text and all else that holds for a file as a whole: which clients are named, and what must
/// be said of a client, may be in the cases only.
fn head<'a>(
    doc: &mut Document<'a>,
    root: &Table<'a>,
    stated: Option<&Stated>,
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

/// A file's name without its folder and its ending, as a scenario can be called.
pub(super) fn stem(file: &str) -> String {
    let stem = Path::new(file).file_stem().and_then(|s| s.to_str());
    let stem = stem.unwrap_or_default();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let name: String = stem
        .chars()
        .map(|c| if allowed(c) { c } else { '-' })
        .collect();
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

/// Adds what is not there already.
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

/// What differs where.
#[derive(Debug, Default)]
struct Varied {
    /// In the order of the file.
    cases: Vec<String>,
    drives: Vec<String>,
    policies: Vec<String>,
}

/// A case, a kind of drive and a policy, where there are any.
type Chosen = [Option<String>; 3];

impl Varied {
    /// Checks the keys of the file and of everything that differs.
    fn read<'a>(doc: &mut Document<'a>, root: &Table<'a>) -> Self {
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

    /// All combinations, as many as are looked at.
    fn choices(&self) -> Vec<Chosen> {
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

/// Each of these, and perhaps none.
fn options(names: &[String], or_none: bool) -> Vec<Option<String>> {
    let none = or_none.then_some(None);
    let names = names.iter().cloned().map(Some);
    none.into_iter().chain(names).collect()
}

/// The tables of what differs, by name, in the order of the file; each may have the keys that may differ.
fn patches<'a>(doc: &mut Document<'a>, root: &Table<'a>, key: &str) -> Vec<(String, Entry<'a>)> {
    let table = root.entry(key).and_then(|e| e.names(doc, key));
    let entries = table.iter().flat_map(Table::entries);
    let mut all: Vec<_> = entries.map(|(k, e)| (k.get_ref().clone(), e)).collect();
    all.sort_by_key(|(_, entry)| entry.span.start);
    let keys = tunable::and_tables(VARIED.iter().map(|k| k.name).collect());
    for (name, entry) in &all {
        if let Some(table) = entry.map(doc) {
            doc.check_keys(&table, &format!("[{key}.{name}]"), &keys);
        }
    }
    all
}

/// What differs where it is chosen.
fn patch<'t>(map: &'t Map, key: &str, name: &str) -> Option<&'t Map> {
    let named = map.get(key)?.get_ref().as_table()?;
    named.get(name)?.get_ref().as_table()
}

impl Tables {
    /// What is read of a file's tables, with all that differs for a choice put in.
    fn read<T>(
        &self,
        choice: &Chosen,
        read: impl for<'a> FnOnce(&mut Document<'a>, &Table<'a>) -> Option<T>,
    ) -> Result<T, Vec<Problem>> {
        let mut doc = document(&self.text, &self.file);
        let mut map = self.map.clone();
        for (key, name) in ["case", "on", "under"].into_iter().zip(choice) {
            let name = name.as_ref();
            if let Some(patch) = name.and_then(|name| patch(&self.map, key, name)) {
                overlay::put(&mut doc, &mut map, patch);
            }
        }
        overlay::rename(&mut map);
        let mut problems = doc.into_problems();
        let mut doc = document(&self.text, &self.file);
        let value = read(&mut doc, &Table::root(&map, &SCENARIO));
        keep(&mut problems, doc.into_problems());
        match value {
            Some(value) if problems.is_empty() => Ok(value),
            _ => Err(sorted(problems)),
        }
    }
}

impl Choice<'_> {
    /// By the names of what may differ.
    fn chosen(&self) -> Chosen {
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
    /// What a job file comes to, as the text of a scenario's file that plays the same, with places for contracts. `None` if it was read from a
    /// scenario's file.
    pub fn printed(&self) -> Option<String> {
        self.is_jobs().then(|| self.tables.text.clone())
    }

    /// Whether it was read from a job file, which names no drive.
    pub fn is_jobs(&self) -> bool {
        self.jobs.is_some()
    }

    /// Its name in results; the clients' seeds depend on it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it shows, in a line.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// What the clients do, in sentences; perhaps nothing.
    pub fn load(&self) -> &str {
        &self.facts.load
    }

    /// The client that it is about.
    pub fn target(&self) -> &str {
        &self.facts.target
    }

    /// Whether each client is shown, not the target alone.
    pub fn shows_clients(&self) -> bool {
        self.facts.shows_clients
    }

    /// The drives it is played on unless others are chosen: names, or profiles' files.
    pub fn drives(&self) -> &[String] {
        &self.facts.drives
    }

    /// The policies it is played under unless others are chosen.
    pub fn policies(&self) -> &[String] {
        &self.facts.policies
    }

    /// How often it is played.
    pub fn repetitions(&self) -> u32 {
        self.facts.repetitions
    }

    /// Its cases, in the order of the file; none if there is but one.
    pub fn cases(&self) -> &[String] {
        &self.cases
    }

    /// What is asked of the result.
    pub fn expects(&self) -> &[Expect] {
        &self.facts.expects
    }

    /// What others have published of the same.
    pub fn published(&self) -> &[Published] {
        &self.facts.published
    }

    /// Changes contracts of clients and groups, in this order, for every case, drive and policy.
    pub fn set(&mut self, settings: &[Setting]) {
        self.settings.extend_from_slice(settings);
    }

    /// What is to be known of how the file was read.
    pub fn notes(&self) -> &[Problem] {
        self.jobs.as_ref().map_or(&[], |jobs| &jobs.notes)
    }

    /// Sets the tunables of the policy's elevator that the file states under it.
    ///
    /// # Errors
    /// As [`Self::scenario`].
    pub fn tune(&self, choice: &Choice<'_>, policy: &mut Policy) -> Result<(), Vec<Problem>> {
        self.tables.read(&choice.chosen(), |doc, root| {
            tables::tune(doc, root, Some(policy));
            Some(())
        })
    }

    /// What a run plays on a drive, in a case, under a policy.
    ///
    /// # Errors
    /// What is wrong with the combination, where that was not found when the file was read.
    pub fn scenario(&self, choice: &Choice<'_>) -> Result<Scenario, Vec<Problem>> {
        let again = self
            .jobs
            .as_ref()
            .and_then(|jobs| jobs.on(choice.drive.size()));
        let again = again.transpose()?;
        let tables = again.as_ref().map_or(&self.tables, |script| &script.tables);
        let stated = tables.read(&choice.chosen(), |doc, root| {
            tables::stated(doc, root, &self.name, choice)
        })?;
        let mut scenario = stated
            .build(&self.settings)
            .map_err(|problem| vec![problem])?;
        if let Some(jobs) = &self.jobs {
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
        let drive = weir_model::drive::Config::Null(weir_model::drive::null::Config::demo());
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
        assert_eq!(PARSED.get() - before, 1);
    }
}
