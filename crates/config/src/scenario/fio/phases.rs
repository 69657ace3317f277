//! Start times of jobs that wait for other jobs, and the check that all jobs use one device.

use super::Section;
use super::job::FioJob;
use super::value::{flag, report_value};
use crate::document::Document;
use crate::key::HOUR;
use crate::text::quoted;
use weir_core::Span;

/// The jobs that were read so far, with their latest ends.
#[derive(Debug, Default)]
pub(super) struct Phases<'a> {
    /// The start of the present phase, which `stonewall` advances.
    begin: Span,
    /// The latest end of all jobs.
    end: Span,
    /// The name of each section, with the latest end of its jobs.
    ends: Vec<(&'a str, Span)>,
    /// The device that the jobs name.
    device: Option<&'a str>,
}

impl<'a> Phases<'a> {
    /// Refuses a job on another device than the jobs before it, because a run has one drive.
    pub(super) fn device(&mut self, doc: &mut Document<'_>, section: &Section<'a>) {
        let Some(line) = section.get("filename") else {
            return;
        };
        let Some(name) = line.value.filter(|name| name.starts_with("/dev/")) else {
            return;
        };
        // The list of several files is refused when the job's file is read.
        if name.contains(':') {
            return;
        }
        let first = *self.device.get_or_insert(name);
        if name != first {
            let what = format!(
                "is a different device from {}; all jobs must use one drive",
                quoted(first)
            );
            let help = "put the jobs of each device into a file of its own, and choose the drive with --drive; files on one drive have \
                        names without /dev/";
            report_value(doc, line, &what, help);
        }
    }

    /// Returns the start of a job. With `stonewall` or `wait_for`, it is the latest end of the jobs
    /// that it waits for.
    pub(super) fn begins(
        &mut self,
        doc: &mut Document<'_>,
        notes: &mut Document<'_>,
        section: &Section<'a>,
    ) -> Span {
        let stonewall = flag(doc, section, "stonewall").unwrap_or(false);
        if stonewall {
            // `stonewall` waits for all earlier jobs, and later jobs belong to the same phase.
            self.begin = self.end;
        }
        let mut begins = self.begin;
        if let Some(line) = section.get("wait_for") {
            let name = line.value.unwrap_or_default();
            if let Some((_, end)) = self.ends.iter().find(|e| e.0 == name) {
                begins = begins.max(*end);
            } else {
                let help = "write the name of an earlier job, or stonewall";
                report_value(doc, line, "is not the name of an earlier job", help);
            }
        }
        let waits = if stonewall { "stonewall" } else { "wait_for" };
        if let Some(line) = section.get(waits).filter(|_| begins > Span::ZERO) {
            let what = format!(
                "{} begins after {}, the latest end of the jobs for which it waits",
                section.name,
                crate::units::Time(begins)
            );
            notes.report_span(&line.at, line.name, what, "");
        }
        begins
    }

    /// Adds a job whose start delay counts from `begins`.
    pub(super) fn add(
        &mut self,
        doc: &mut Document<'_>,
        notes: &mut Document<'_>,
        section: &Section<'a>,
        job: &mut FioJob,
        begins: Span,
    ) {
        let program = &mut job.program;
        program.start += begins;
        program.stop = program.stop.map(|stop| stop + begins);
        // The start is drawn later, so the latest possible end counts.
        let end = program.stop.unwrap_or(program.start) + program.start_spread;
        if end > HOUR {
            let what = "the phases take more than one hour together";
            doc.report_span(&section.at, section.name, what, "reduce runtime");
        }
        // The warm-up of the run counts from its beginning, so it is over before this job starts.
        let late = job.ramp > Span::ZERO && program.start >= job.ramp;
        let what = "counts from the beginning of the run, so that a job that begins later is measured from its own beginning";
        section.note(notes, "ramp_time", (late, what));
        self.end = self.end.max(end);
        self.ends.push((section.name, end));
    }
}
