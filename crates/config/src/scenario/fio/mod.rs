//! Job files of `fio`: one client a job.
//!
//! `fio`'s syntax, words and units. An option that has no meaning here is refused by name and line, and never ignored in silence.
//! Options that change nothing here are accepted and noted.

mod job;
mod option;
mod phases;
mod place;
mod refuse;
mod table;
mod value;
mod whole;
mod written;

pub(crate) use table::{Fate, OPTIONS, VALUES};

use super::script::{self, Script, stem};
use super::{CLIENTS, RESERVED};
use crate::document::Document;
use crate::key::SCENARIOS;
use crate::problem::Problem;
use crate::profile;
use job::Job;
use phases::Phases;
use place::Device;
use std::ops::Range;
use std::sync::Arc;
use whole::Whole;
use written::written;

/// Longest file, bytes.
const FILE_MAX: usize = 1 << 20;

/// What jobs are played on unless a drive is chosen: a flash drive as many machines have one, whose model is held against published figures.
const DRIVE: &str = "samsung-970-pro";

/// An option as it stands in a file.
#[derive(Clone, Debug)]
struct Line<'a> {
    /// By the first of its names.
    name: &'static str,
    value: Option<&'a str>,
    /// It is of `[global]`.
    global: bool,
    /// Where the name stands, and where the value.
    at: Range<usize>,
    value_at: Range<usize>,
}

/// A section: its name and what it says, options of `[global]` before it included.
#[derive(Clone, Debug)]
struct Section<'a> {
    name: &'a str,
    at: Range<usize>,
    lines: Vec<Line<'a>>,
}

/// Reads the text of a job file. `file` is its name in problems. The files that it includes are not read.
pub(super) fn read(text: &str, file: &str) -> Result<Script, Vec<Problem>> {
    script(Whole::alone(text, file))
}

/// Reads a job file and those that it includes, with variables from the environment.
pub(super) fn load(path: &std::path::Path) -> Result<Script, Vec<Problem>> {
    script(Whole::open(path)?)
}

/// What is known of a job file beside the scenario that it comes to.
#[derive(Clone, Debug)]
pub(super) struct Jobs {
    /// What is to be known of how the file was read.
    pub(super) notes: Vec<Problem>,
    /// I/O priorities that are no classes.
    pub(super) unclassed: Vec<Problem>,
    /// The file, if a job depends on the length of the drive.
    again: Option<Arc<Whole>>,
}

impl Jobs {
    /// What the file says of a drive of `length` bytes; `None` if it says the same of every one.
    pub(super) fn on(&self, length: Option<u64>) -> Option<Result<Script, Vec<Problem>>> {
        let whole = self.again.as_ref()?;
        let device = Device::new(length.unwrap_or_else(usual));
        Some(jobs(whole, &device).and_then(|read| read.script(whole, None)))
    }
}

/// Bytes of the drive that jobs are played on unless one is chosen.
fn usual() -> u64 {
    let drive = profile::find(DRIVE).ok().map(|p| p.drive);
    drive.and_then(|d| d.size()).unwrap_or(0)
}

fn script(whole: Whole) -> Result<Script, Vec<Problem>> {
    let device = Device::new(usual());
    let read = jobs(&whole, &device)?;
    let whole = Arc::new(whole);
    read.script(&whole, device.is_used().then(|| whole.clone()))
}

/// What was read of a file.
struct Read {
    jobs: Vec<Job>,
    notes: Vec<Problem>,
}

impl Read {
    /// The scenario that the jobs of a file are, by the keys of a scenario's file.
    fn script(self, whole: &Whole, again: Option<Arc<Whole>>) -> Result<Script, Vec<Problem>> {
        let unclassed = self.jobs.iter().filter_map(|j| j.unclassed.clone());
        let jobs = Jobs {
            notes: self.notes,
            unclassed: unclassed.collect(),
            again,
        };
        let text = written(&stem(whole.name()), &self.jobs);
        script::of(&text, whole.name(), Some(jobs))
    }
}

/// Reads the jobs of a file that are played on a drive.
fn jobs(whole: &Whole, device: &Device) -> Result<Read, Vec<Problem>> {
    let (text, file) = (&whole.text[..], whole.name());
    let mut doc = Document::new(file, text);
    doc.family = SCENARIOS;
    let mut notes = Document::new(file, text);
    if text.len() > FILE_MAX {
        doc.at(&(0..0), "", "is longer than 1MiB, the maximum", "");
        return Err(doc.into_problems());
    }
    let sections = sections(&mut doc, &mut notes, text);
    if sections.is_empty() && doc.found() == 0 {
        let help = "add a section, for example [reader], with its options below";
        doc.at(&(0..0), "", "the file has no job", help);
    }
    let mut jobs: Vec<Job> = Vec::new();
    let mut phases = Phases::default();
    let mut count = 0;
    for section in &sections {
        phases.device(&mut doc, section);
        let begins = phases.begins(&mut doc, &mut notes, section);
        let Some(mut job) = job::job(&mut doc, &mut notes, section, device) else {
            continue;
        };
        phases.add(&mut doc, &mut notes, section, &mut job, begins);
        count += job.names.len();
        if count > CLIENTS {
            let what = format!("the file has too many jobs; at most {CLIENTS} are permitted");
            doc.at(&section.at, section.name, what, "use fewer jobs");
            break;
        }
        is_free(&mut doc, section, &job, &jobs);
        jobs.push(job);
    }
    if doc.found() > 0 {
        return Err(whole.placed(doc.into_problems()));
    }
    note_shared_group(&mut notes, &sections, &jobs);
    let mut all = whole.notes().to_vec();
    all.extend(whole.placed(notes.into_problems()));
    Ok(Read { jobs, notes: all })
}

/// The place of the first job whose I/O priority is not that of the first one. Linux compares priorities within a group only, so such jobs
/// share one; all others have groups of their own.
fn other_priority(jobs: &[Job]) -> Option<usize> {
    let first = jobs.first().map(|job| job.priority);
    jobs.iter().position(|job| Some(job.priority) != first)
}

/// Notes that jobs share a group, at the priority that makes them.
fn note_shared_group(notes: &mut Document<'_>, sections: &[Section<'_>], jobs: &[Job]) {
    if let Some(section) = other_priority(jobs).and_then(|at| sections.get(at)) {
        let line = section.get("prioclass").or_else(|| section.get("prio"));
        let (at, name) = line.map_or((&section.at, "prio"), |line| (&line.at, line.name));
        let what = "differs between jobs, so that they share one group: Linux compares I/O priorities within a group only";
        let help = "convert the job with `weir scenarios --from` and set grouping = \"each\" to give each job a group of its own";
        notes.at(at, name, what, help);
    }
}

/// Refuses a job whose name another has, or that results use for something else.
fn is_free(doc: &mut Document<'_>, section: &Section<'_>, job: &Job, jobs: &[Job]) {
    let same = |j: &Job| j.names.iter().any(|n| job.names.contains(n));
    let reserved = RESERVED.iter().find(|r| job.names.iter().any(|n| n == *r));
    if let Some(reserved) = reserved {
        let what = format!("a job cannot be called {reserved:?}");
        doc.at(&section.at, section.name, what, "use another name");
    }
    if jobs.iter().any(same) {
        let what = format!("two jobs have the name {:?}", section.name);
        doc.at(&section.at, section.name, what, "use another name");
    }
}

/// The jobs of a file with their options.
fn sections<'a>(
    doc: &mut Document<'_>,
    notes: &mut Document<'_>,
    text: &'a str,
) -> Vec<Section<'a>> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    let mut global: Vec<Line<'a>> = Vec::new();
    // None before the first section, Some(true) in [global].
    let mut place = None;
    let mut start = 0;
    for whole in text.split_inclusive('\n') {
        let begin = start;
        start += whole.len();
        // A comment goes to the end of its line.
        let line = whole.split([';', '#']).next().unwrap_or_default();
        let begin = begin + (line.len() - line.trim_start().len());
        let line = line.trim();
        let span = begin..begin + line.len();
        if line.is_empty() {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let Some(name) = rest.strip_suffix(']') else {
                let what = "the section's name is not closed";
                doc.at(&span, "", what, "close it with ]");
                continue;
            };
            if name != "global" && name.eq_ignore_ascii_case("global") {
                let what = format!("{name:?} would be a job's name");
                doc.at(&span, "", what, "did you mean [global]?");
            }
            place = Some(name.eq_ignore_ascii_case("global"));
            if place == Some(true) {
                continue;
            }
            if let Some(name) = name.strip_prefix('[') {
                let name = name.trim_end_matches(']');
                let help = format!(
                    "write [{name}]; a scenario in TOML is a file whose name ends in .toml"
                );
                doc.at(&span, "", "a section has one bracket on each side", &help);
            } else if !crate::text::is_name(name) {
                let help = "use 1 to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit";
                doc.at(&span, "", format!("{name:?} is not a valid name"), help);
            }
            sections.push(Section {
                name,
                at: span,
                lines: global.clone(),
            });
            continue;
        }
        let Some(line) = option::line(doc, notes, line, begin) else {
            continue;
        };
        match (place, sections.last_mut()) {
            (Some(true), _) => global.push(Line {
                global: true,
                ..line
            }),
            (Some(false), Some(section)) => section.lines.push(line),
            _ => {
                let what = "is before the first section";
                doc.at(&line.at, line.name, what, "add [global] above it");
            }
        }
    }
    sections
}

impl<'a> Section<'a> {
    /// The option that states the length of requests, if one does.
    fn size_option(&self) -> &'static str {
        let of_size = |name: &&str| ["bs", "bsrange", "bssplit"].contains(name);
        let names = self.lines.iter().rev().map(|l| l.name);
        names.into_iter().find(of_size).unwrap_or("bs")
    }

    /// Refuses an option if this holds and the option is there.
    fn refuse(&self, doc: &mut Document<'_>, name: &str, (holds, what, help): (bool, &str, &str)) {
        if let Some(line) = self.get(name).filter(|_| holds) {
            value::say(doc, line, what, help);
        }
    }

    /// Notes what is to be known of an option if this holds and the option is there.
    fn note(&self, notes: &mut Document<'_>, name: &str, (holds, what): (bool, &str)) {
        if let Some(line) = self.get(name).filter(|_| holds) {
            notes.at(&line.at, name, what, "");
        }
    }

    /// The last that is said of an option.
    fn get(&self, name: &str) -> Option<&Line<'a>> {
        self.lines.iter().rev().find(|l| l.name == name)
    }

    /// The options of these names, the last first; what the job says itself takes the place of what is in `[global]`.
    fn one_of(&self, names: &[&str]) -> Vec<&Line<'a>> {
        let found = self.lines.iter().rev();
        let mut found: Vec<&Line<'a>> = found.filter(|l| names.contains(&l.name)).collect();
        if let Some(last) = found.first().copied() {
            // The same once more only takes its own place.
            found.retain(|l| l.global == last.global && (l.name != last.name || l.at == last.at));
        }
        found
    }
}
