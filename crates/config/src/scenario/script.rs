//! A scenario as people write it.

use super::build::Choice;
use super::draft::{Draft, Facts};
use super::expect::{Expect, Published};
use super::print::Jobs;
use super::{Scenario, overlay, read as tables};
use crate::Setting;
use crate::document::{Document, Entry, Table};
use crate::file::tables as parsed;
use crate::key::{SCENARIO, SCENARIOS, VARIED};
use crate::policy::Policy;
use crate::problem::Problem;
use crate::text::quoted;
use crate::tunable;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use toml::de::DeTable;

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
    source: Source,
    notes: Vec<Problem>,
    /// Changes of contracts, each after the ones before it.
    settings: Vec<Setting>,
}

/// What a script was read from.
#[derive(Clone, Debug)]
enum Source {
    /// A scenario's file: its name and its text.
    Toml(String, String),
    /// A job file.
    Jobs(JobFile),
}

/// What a job file says of the drive that jobs are played on unless one is chosen, and the file itself where it depends on the drive.
#[derive(Clone, Debug)]
pub(super) struct JobFile {
    draft: Box<Draft>,
    again: Option<Arc<dyn OnDrive>>,
}

/// Reads a job file for a drive of another length.
pub(super) trait OnDrive: Debug + Send + Sync {
    /// What the file says of a drive of `length` bytes; `None`: of the one that jobs are played on unless one is chosen.
    ///
    /// # Errors
    /// Everything that is wrong with the file on such a drive.
    fn on(&self, length: Option<u64>) -> Result<Draft, Vec<Problem>>;
}

impl JobFile {
    /// A file with its draft. `again`: what reads the file for a drive of another length.
    pub(super) fn new(draft: Draft, again: Option<Arc<dyn OnDrive>>) -> Self {
        let draft = Box::new(draft);
        Self { draft, again }
    }
}

/// Reads the text of a scenario's file. `file` is its name in problems.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn read(text: &str, file: &str) -> Result<Script, Vec<Problem>> {
    let mut doc = document(text, file);
    if text.len() > FILE_MAX {
        doc.at(&(0..0), "", "is longer than 1MiB, the maximum", "");
        return Err(doc.into_problems());
    }
    let Some(root) = parsed(&mut doc, text) else {
        return Err(doc.into_problems());
    };
    let map = root.into_inner();
    let root = Table::root(&map, &SCENARIO);
    let varied = Varied::read(&mut doc, &root);
    let mut problems = Vec::new();
    keep(&mut problems, doc.into_problems());
    for choice in varied.choices() {
        keep(&mut problems, merged(text, file, &map, &choice).1);
    }
    let (head, found) = head(text, file, &map, &varied.cases);
    keep(&mut problems, found);
    match head {
        Some((name, about, facts)) if problems.is_empty() => Ok(Script {
            name,
            about,
            facts,
            cases: varied.cases,
            source: Source::Toml(file.to_owned(), text.to_owned()),
            notes: Vec::new(),
            settings: Vec::new(),
        }),
        _ => Err(sorted(problems)),
    }
}

/// Name, text and all else that holds for a file as a whole.
fn head(
    text: &str,
    file: &str,
    map: &DeTable<'_>,
    cases: &[String],
) -> (Option<(String, String, Facts)>, Vec<Problem>) {
    let (mut base, case) = (map.clone(), cases.first());
    let mut doc = document(text, file);
    // Which clients are named, and what must be said of a client, may be in the cases only.
    if let Some(patch) = case.and_then(|case| patch(map, "case", case)) {
        overlay::put(&mut doc, &mut base, patch);
    }
    let mut doc = document(text, file);
    let root = Table::root(&base, &SCENARIO);
    let mut drafted = document(text, file);
    let draft = tables::draft(&mut drafted, &root);
    let name = match root.entry("name") {
        Some(entry) => entry
            .text(&mut doc, "a name", "\"nightly\"")
            .and_then(|name| tables::checked(&mut doc, &entry, name)),
        None => Some(stem(file)),
    };
    let about = tables::line(&mut doc, &root, "about");
    let facts = draft.map(|draft| tables::facts(&mut doc, &root, &draft, cases));
    let head = name.zip(facts).map(|(name, facts)| (name, about, facts));
    let mut problems = doc.into_problems();
    keep(&mut problems, drafted.into_problems());
    (head, problems)
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
    let mut all: Vec<_> = entries.map(|(k, e)| (k.get_ref().to_string(), e)).collect();
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
fn patch<'t, 'a>(map: &'t DeTable<'a>, key: &str, name: &str) -> Option<&'t DeTable<'a>> {
    let named = map.get(key)?.get_ref().as_table()?;
    named.get(name)?.get_ref().as_table()
}

/// What a file says for one choice, and what is wrong with it.
fn merged(
    text: &str,
    file: &str,
    map: &DeTable<'_>,
    choice: &Chosen,
) -> (Option<Draft>, Vec<Problem>) {
    let (all, mut problems) = put_in(text, file, map, choice);
    let mut doc = document(text, file);
    let draft = tables::draft(&mut doc, &Table::root(&all, &SCENARIO));
    keep(&mut problems, doc.into_problems());
    (draft, problems)
}

/// A file's tables with all that differs for a choice put in.
fn put_in<'a>(
    text: &str,
    file: &str,
    map: &DeTable<'a>,
    choice: &Chosen,
) -> (DeTable<'a>, Vec<Problem>) {
    let mut all = map.clone();
    let mut put = document(text, file);
    for (key, name) in ["case", "on", "under"].into_iter().zip(choice) {
        let name = name.as_ref();
        if let Some(patch) = name.and_then(|name| patch(map, key, name)) {
            overlay::put(&mut put, &mut all, patch);
        }
    }
    overlay::rename(&mut all);
    (all, put.into_problems())
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
    /// A script that says one thing, with remarks on what was read.
    pub(super) fn new(name: String, jobs: JobFile, facts: Facts, notes: Vec<Problem>) -> Self {
        Self {
            name,
            about: String::new(),
            facts,
            cases: Vec::new(),
            source: Source::Jobs(jobs),
            notes,
            settings: Vec::new(),
        }
    }

    /// What a job file comes to, as the text of a scenario's file that plays the same, with places for contracts. `None` if it was read from a
    /// scenario's file.
    pub fn printed(&self) -> Option<String> {
        let Source::Jobs(JobFile { draft, .. }) = &self.source else {
            return None;
        };
        let (name, facts) = (&self.name, &self.facts);
        Some(Jobs { name, facts, draft }.to_string())
    }

    /// Whether it was read from a job file, which names no drive.
    pub fn is_jobs(&self) -> bool {
        matches!(self.source, Source::Jobs(_))
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
        &self.notes
    }

    /// Sets the tunables of the policy's elevator that the file states under it.
    ///
    /// # Errors
    /// As [`Self::scenario`].
    pub fn tune(&self, choice: &Choice<'_>, policy: &mut Policy) -> Result<(), Vec<Problem>> {
        let Source::Toml(file, text) = &self.source else {
            return Ok(());
        };
        let (map, _) = DeTable::parse_recoverable(text);
        let (all, mut problems) = put_in(text, file, map.get_ref(), &choice.chosen());
        let mut doc = document(text, file);
        tables::tune(&mut doc, &Table::root(&all, &SCENARIO), Some(policy));
        keep(&mut problems, doc.into_problems());
        if problems.is_empty() {
            Ok(())
        } else {
            Err(sorted(problems))
        }
    }

    /// What a run plays on a drive, in a case, under a policy.
    ///
    /// # Errors
    /// What is wrong with the combination, where that was not found when the file was read.
    pub fn scenario(&self, choice: &Choice<'_>) -> Result<Scenario, Vec<Problem>> {
        let draft = match &self.source {
            Source::Jobs(JobFile { draft, again }) => {
                let draft = match again {
                    Some(file) => file.on(choice.drive.size())?,
                    None => (**draft).clone(),
                };
                (Some(draft), Vec::new())
            }
            Source::Toml(file, text) => {
                let (map, _) = DeTable::parse_recoverable(text);
                merged(text, file, map.get_ref(), &choice.chosen())
            }
        };
        match draft {
            (Some(mut draft), problems) if problems.is_empty() => {
                for setting in &self.settings {
                    draft.set(setting).map_err(|problem| vec![problem])?;
                }
                Ok(draft.build(&self.name, choice))
            }
            (_, problems) => Err(sorted(problems)),
        }
    }
}
