//! Jobs that play a recorded load (`read_iolog`).

use super::value::{base, bytes, count, flag, report_value};
use super::{OptionLine, Section};
use crate::document::Document;
use crate::scenario::read::replay_problem;
use crate::scenario::trace::{TraceFiles, TraceKind, TraceOptions};
use crate::text::quoted;
use std::sync::Arc;
use weir_model::load::Trace;

/// The recorded load of a job.
#[derive(Debug)]
pub(super) struct JobReplay {
    /// The name of the file, as the job states it.
    pub(super) name: String,
    pub(super) options: TraceOptions,
    pub(super) trace: Arc<Trace>,
}

/// The options that have no effect in a job with a recorded load. In `fio`, they are ignored too.
const IGNORED: &[&str] = &[
    "rw",
    "rwmixread",
    "rwmixwrite",
    "bs",
    "bsrange",
    "bssplit",
    "ba",
    "size",
    "io_size",
    "filesize",
    "loops",
    "time_based",
    "offset",
    "offset_increment",
    "nrfiles",
    "iodepth_low",
    "iodepth_batch_complete_min",
    "fsync",
    "fdatasync",
    "sync",
    "random_distribution",
    "percentage_random",
    "norandommap",
    "zonemode",
    "zonesize",
    "zoneskip",
    "zonerange",
];

/// The options that have an effect in `fio` and are not supported together with a recorded load.
const REFUSED: &[&str] = &["rate", "rate_iops", "rate_process", "thinktime"];

/// Reads the recorded load of a job. `None` if the job has none, or after a problem.
pub(super) fn replay(
    doc: &mut Document<'_>,
    notes: &mut Document<'_>,
    section: &Section<'_>,
    traces: &TraceFiles,
) -> Option<JobReplay> {
    let Some(line) = section.get("read_iolog") else {
        for name in TraceOptions::KEYS {
            section.note(notes, name, (true, "has no effect without read_iolog"));
        }
        return None;
    };
    for name in IGNORED {
        let what = "has no effect, because read_iolog determines the requests";
        section.note(notes, name, (true, what));
    }
    for name in REFUSED {
        let what = "cannot be combined with read_iolog";
        section.refuse(doc, name, (true, what, "remove one of the two"));
    }
    let name = line.value.unwrap_or_default();
    if name.is_empty() || name == "-" || name.contains(':') {
        let help = "write the path of one file; a job for each file plays several";
        doc.report_span(
            &line.value_at,
            line.name,
            format!("{} is not one file", quoted(name)),
            help,
        );
        return None;
    }
    let options = options(doc, section)?;
    match traces.get(name, &doc.places.file, &options) {
        Ok(trace) => Some(JobReplay {
            name: name.to_owned(),
            options,
            trace,
        }),
        Err(problem) => {
            let help = problem.help.clone().unwrap_or_default();
            doc.report_span(&line.value_at, line.name, replay_problem(&problem), &help);
            None
        }
    }
}

fn options(doc: &mut Document<'_>, section: &Section<'_>) -> Option<TraceOptions> {
    let before = doc.problem_count();
    let skip = section
        .get("replay_skip")
        .and_then(|line| skipped(doc, line));
    let align = section.get("replay_align").and_then(|line| {
        let base = base(doc, section);
        let found = line.value.and_then(|v| bytes(v, base));
        let found = found.filter(|align| align.is_power_of_two() && *align <= 1 << 40);
        if found.is_none() {
            report_value(doc, line, "is not a power of two", "write for example 4k");
        }
        found
    });
    // In `fio`, a scale of zero is no scale.
    let scale = count(doc, section, "replay_scale", 0..=1 << 40).unwrap_or(1);
    let options = TraceOptions {
        fast: flag(doc, section, "replay_no_stall").unwrap_or(false),
        speed: count(doc, section, "replay_time_scale", 1..=1_000_000).unwrap_or(100),
        scale: scale.max(1),
        align: align.unwrap_or(1),
        together: section.get("replay_redirect").is_some(),
        skip: skip.unwrap_or_default(),
    };
    (doc.problem_count() == before).then_some(options)
}

fn skipped(doc: &mut Document<'_>, line: &OptionLine<'_>) -> Option<Vec<TraceKind>> {
    let found = line.value.and_then(TraceKind::list);
    if found.is_none() {
        let what = "is not a list of read, write, trim and sync";
        report_value(doc, line, what, "write for example write,trim");
    }
    found
}
