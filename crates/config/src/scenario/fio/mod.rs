//! Job files of `fio`. Each job becomes one client.
//!
//! Syntax, words and units are those of `fio`. An option without a meaning here is refused with its
//! name and line. An option that has no effect here is accepted with a note. No option is ignored
//! silently.
//!
//! `whole` reads the text with its included files, `option` reads lines, `job` reads sections as
//! jobs, and `written` prints the jobs as the text of a scenario's file, which is then read like
//! any other scenario.

mod job;
mod option;
mod phases;
mod place;
mod refuse;
mod replay;
mod table;
mod value;
mod whole;
mod written;

pub(crate) use table::{OPTIONS, OptionTreatment, VALUES};

use super::script::{self, Script, stem};
use super::trace::TraceFiles;
use super::{CLIENTS, RESERVED};
use crate::document::Document;
use crate::key::SCENARIOS;
use crate::problem::Problem;
use crate::profile;
use job::FioJob;
use phases::Phases;
use place::JobDevice;
use std::ops::Range;
use std::sync::Arc;
use whole::JobFileText;
use written::written;

/// The maximum size of a file in bytes.
const FILE_MAX: usize = 1 << 20;

/// The default drive of jobs: a common flash drive whose model is validated against published
/// figures.
const DRIVE: &str = "samsung-970-pro";

/// An option of a job file with its value.
#[derive(Clone, Debug)]
struct OptionLine<'a> {
    /// The first of the option's names.
    name: &'static str,
    value: Option<&'a str>,
    /// True if the option is in `[global]`.
    global: bool,
    /// The span of the name.
    at: Range<usize>,
    /// The span of the value.
    value_at: Range<usize>,
}

/// A section with its name and its options, including those of `[global]` before it.
#[derive(Clone, Debug)]
struct Section<'a> {
    name: &'a str,
    at: Range<usize>,
    lines: Vec<OptionLine<'a>>,
}

/// Reads the text of a job file without its included files. `file` is its name in problems.
pub(super) fn read(text: &str, file: &str) -> Result<Script, Vec<Problem>> {
    script(JobFileText::alone(text, file))
}

/// Reads a job file with its included files and with variables of the environment.
pub(super) fn load(path: &std::path::Path) -> Result<Script, Vec<Problem>> {
    script(JobFileText::open(path)?)
}

/// The information about a job file that its scenario does not contain.
#[derive(Clone, Debug)]
pub(super) struct Jobs {
    /// Notes on the reading of the file.
    pub(super) notes: Vec<Problem>,
    /// The I/O priorities that do not result in a class.
    pub(super) unclassed: Vec<Problem>,
    /// The text of the file, if a job depends on the size of the drive and the file must be read
    /// again for another drive.
    again: Option<Arc<JobFileText>>,
    /// The recorded loads of the jobs.
    pub(super) traces: Arc<TraceFiles>,
}

impl Jobs {
    /// Reads the file again for a drive of `length` bytes. `None` if no job depends on the size of
    /// the drive.
    pub(super) fn on(&self, length: Option<u64>) -> Option<Result<Script, Vec<Problem>>> {
        let whole = self.again.as_ref()?;
        let device = JobDevice::new(length.unwrap_or_else(usual));
        Some(jobs(whole, &device, &self.traces).and_then(|read| read.script(whole, None)))
    }
}

/// Returns the size of the default drive in bytes.
fn usual() -> u64 {
    let drive = profile::find(DRIVE).ok().map(|p| p.drive);
    drive.and_then(|d| d.size()).unwrap_or(0)
}

fn script(whole: JobFileText) -> Result<Script, Vec<Problem>> {
    let device = JobDevice::new(usual());
    let read = jobs(&whole, &device, &Arc::default())?;
    let whole = Arc::new(whole);
    read.script(&whole, device.is_used().then(|| whole.clone()))
}

/// The jobs of a file, with notes on its reading.
struct ReadJobs {
    jobs: Vec<FioJob>,
    notes: Vec<Problem>,
    traces: Arc<TraceFiles>,
}

impl ReadJobs {
    /// Converts the jobs of a file to the text of a scenario's file, and reads that.
    fn script(
        self,
        whole: &JobFileText,
        again: Option<Arc<JobFileText>>,
    ) -> Result<Script, Vec<Problem>> {
        let unclassed = self.jobs.iter().filter_map(|j| j.unclassed.clone());
        let jobs = Jobs {
            notes: self.notes,
            unclassed: unclassed.collect(),
            again,
            traces: self.traces,
        };
        let text = written(&stem(whole.name()), &self.jobs);
        script::of(&text, whole.name(), Some(jobs))
    }
}

/// Reads the jobs of a file for a drive.
fn jobs(
    whole: &JobFileText,
    device: &JobDevice,
    traces: &Arc<TraceFiles>,
) -> Result<ReadJobs, Vec<Problem>> {
    let (text, file) = (&whole.text[..], whole.name());
    let mut doc = Document::new(file, text);
    doc.family = SCENARIOS;
    // Notes are collected in the same way as problems, so that they have lines and columns too.
    let mut notes = Document::new(file, text);
    if text.len() > FILE_MAX {
        doc.report_span(&(0..0), "", "is longer than 1MiB, the maximum", "");
        return Err(doc.into_problems());
    }
    let sections = sections(&mut doc, &mut notes, text);
    if sections.is_empty() && doc.problem_count() == 0 {
        let help = "add a section, for example [reader], with its options below";
        doc.report_span(&(0..0), "", "the file has no job", help);
    }
    let mut jobs: Vec<FioJob> = Vec::new();
    let mut phases = Phases::default();
    let mut count = 0;
    for section in &sections {
        phases.device(&mut doc, section);
        let begins = phases.begins(&mut doc, &mut notes, section);
        let Some(mut job) = job::job(&mut doc, &mut notes, section, device, traces) else {
            continue;
        };
        phases.add(&mut doc, &mut notes, section, &mut job, begins);
        count += job.names.len();
        if count > CLIENTS {
            let what = format!("the file has too many jobs; at most {CLIENTS} are permitted");
            doc.report_span(&section.at, section.name, what, "use fewer jobs");
            break;
        }
        is_free(&mut doc, section, &job, &jobs);
        jobs.push(job);
    }
    if doc.problem_count() > 0 {
        return Err(whole.placed(doc.into_problems()));
    }
    note_shared_group(&mut notes, &sections, &jobs);
    let mut all = whole.notes().to_vec();
    all.extend(whole.placed(notes.into_problems()));
    Ok(ReadJobs {
        jobs,
        notes: all,
        traces: traces.clone(),
    })
}

/// Returns the index of the first job whose I/O priority differs from that of the first job. Linux
/// compares priorities only within a group, so such jobs must share one group. Otherwise, each job
/// has a group of its own.
fn other_priority(jobs: &[FioJob]) -> Option<usize> {
    let first = jobs.first().map(|job| job.priority);
    jobs.iter().position(|job| Some(job.priority) != first)
}

/// Adds a note if jobs share a group, at the option that causes it.
fn note_shared_group(notes: &mut Document<'_>, sections: &[Section<'_>], jobs: &[FioJob]) {
    // If no section was refused, jobs and sections have the same indices.
    if let Some(section) = other_priority(jobs).and_then(|at| sections.get(at)) {
        let line = section.get("prioclass").or_else(|| section.get("prio"));
        let (at, name) = line.map_or((&section.at, "prio"), |line| (&line.at, line.name));
        let what = "differs between jobs, so that they share one group: Linux compares I/O priorities within a group only";
        let help = "convert the job with `weir scenarios --from` and set grouping = \"each\" to give each job a group of its own";
        notes.report_span(at, name, what, help);
    }
}

/// Refuses a job with the name of another job, or with a name that results use otherwise.
fn is_free(doc: &mut Document<'_>, section: &Section<'_>, job: &FioJob, jobs: &[FioJob]) {
    let same = |j: &FioJob| j.names.iter().any(|n| job.names.contains(n));
    let reserved = RESERVED.iter().find(|r| job.names.iter().any(|n| n == *r));
    if let Some(reserved) = reserved {
        let what = format!("a job cannot be called {reserved:?}");
        doc.report_span(&section.at, section.name, what, "use another name");
    }
    if jobs.iter().any(same) {
        let what = format!("two jobs have the name {:?}", section.name);
        doc.report_span(&section.at, section.name, what, "use another name");
    }
}

/// Splits a file into its sections with their options.
fn sections<'a>(
    doc: &mut Document<'_>,
    notes: &mut Document<'_>,
    text: &'a str,
) -> Vec<Section<'a>> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    let mut global: Vec<OptionLine<'a>> = Vec::new();
    // `None` before the first section, `Some(true)` in `[global]`, and `Some(false)` in a job.
    let mut place = None;
    let mut start = 0;
    for whole in text.split_inclusive('\n') {
        let begin = start;
        start += whole.len();
        // A comment ends with its line, and can follow an option.
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
                doc.report_span(&span, "", what, "close it with ]");
                continue;
            };
            if name != "global" && name.eq_ignore_ascii_case("global") {
                let what = format!("{name:?} would be a job's name");
                doc.report_span(&span, "", what, "did you mean [global]?");
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
                doc.report_span(&span, "", "a section has one bracket on each side", &help);
            } else if !crate::text::is_name(name) {
                let help = "use 1 to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit";
                doc.report_span(&span, "", format!("{name:?} is not a valid name"), help);
            }
            sections.push(Section {
                name,
                at: span,
                // The options of `[global]` apply only to the sections after it.
                lines: global.clone(),
            });
            continue;
        }
        let Some(line) = option::line(doc, notes, line, begin) else {
            continue;
        };
        match (place, sections.last_mut()) {
            (Some(true), _) => global.push(OptionLine {
                global: true,
                ..line
            }),
            (Some(false), Some(section)) => section.lines.push(line),
            _ => {
                let what = "is before the first section";
                doc.report_span(&line.at, line.name, what, "add [global] above it");
            }
        }
    }
    sections
}

impl<'a> Section<'a> {
    /// Returns the name of the option that states the size of requests.
    fn size_option(&self) -> &'static str {
        let of_size = |name: &&str| ["bs", "bsrange", "bssplit"].contains(name);
        let names = self.lines.iter().rev().map(|l| l.name);
        names.into_iter().find(of_size).unwrap_or("bs")
    }

    /// Refuses an option if the condition `holds` and the option is set.
    fn refuse(&self, doc: &mut Document<'_>, name: &str, (holds, what, help): (bool, &str, &str)) {
        if let Some(line) = self.get(name).filter(|_| holds) {
            value::report_value(doc, line, what, help);
        }
    }

    /// Adds a note about an option if the condition `holds` and the option is set.
    fn note(&self, notes: &mut Document<'_>, name: &str, (holds, what): (bool, &str)) {
        if let Some(line) = self.get(name).filter(|_| holds) {
            notes.report_span(&line.at, name, what, "");
        }
    }

    /// Returns the last occurrence of an option, which is the one that applies.
    fn get(&self, name: &str) -> Option<&OptionLine<'a>> {
        self.lines.iter().rev().find(|l| l.name == name)
    }

    /// Returns the options with these names, beginning with the last. Options of the job replace
    /// those of `[global]`.
    fn one_of(&self, names: &[&str]) -> Vec<&OptionLine<'a>> {
        let found = self.lines.iter().rev();
        let mut found: Vec<&OptionLine<'a>> = found.filter(|l| names.contains(&l.name)).collect();
        if let Some(last) = found.first().copied() {
            // An earlier occurrence of the same option is replaced, so it does not conflict.
            found.retain(|l| l.global == last.global && (l.name != last.name || l.at == last.at));
        }
        found
    }
}
