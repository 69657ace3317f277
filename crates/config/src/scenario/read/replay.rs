//! Reading of the recorded load that a client plays.

use crate::document::{Document, ShapedTable, refuse};
use crate::problem::Problem;
use crate::scenario::PAGE;
use crate::scenario::trace::{TraceFiles, TraceKind, TraceOptions};
use crate::text::quoted;
use crate::units::ByteSize as Bytes;
use std::sync::Arc;
use weir_model::load::{Region, Trace};

/// The keys that a recorded load makes meaningless.
const DETERMINED: [&str; 21] = [
    "rw",
    "rwmixread",
    "bs",
    "iodepth_low",
    "writeback",
    "fsync",
    "fdatasync",
    "flush",
    "sync",
    "rate",
    "rate_iops",
    "thinktime",
    "thinktime_blocks",
    "on",
    "off",
    "nrfiles",
    "random_distribution",
    "norandommap",
    "percentage_random",
    "zonesize",
    "zoneskip",
];

/// Reads the recorded load of a client. `None` if it has none, or after a problem.
pub(super) fn trace<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    traces: &TraceFiles,
) -> Option<Arc<Trace>> {
    let options = options(doc, table);
    let Some(entry) = table.entry("read_iolog") else {
        for key in TraceOptions::KEYS {
            let help = "set read_iolog, for example read_iolog = \"database.iolog\"";
            table.refuse(doc, key, (true, "requires read_iolog", help));
        }
        return None;
    };
    for key in DETERMINED {
        let what = "cannot be combined with read_iolog, which determines the requests";
        table.refuse(doc, key, (true, what, "remove one of the two"));
    }
    let direct: bool = table.field(doc, "direct");
    refuse!(doc, table;
        "read_iolog", !direct, "is not supported through the page cache", "set direct = true";
    );
    let name = entry.text(doc, "the path of a file", "\"database.iolog\"")?;
    match traces.get(name, &doc.places.file, &options?) {
        Ok(trace) => Some(trace),
        Err(problem) => {
            let help = problem.help.clone().unwrap_or_default();
            doc.report(&entry, located(&problem), &help);
            None
        }
    }
}

/// Returns the problem of a recorded load for the problem of the file that names it.
pub(in crate::scenario) fn located(problem: &Problem) -> String {
    format!("cannot be played: {}", problem.located())
}

fn options<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Option<TraceOptions> {
    let before = doc.problem_count();
    let align: Option<u64> = table.field(doc, "replay_align");
    refuse!(doc, table;
        "replay_align", align.is_some_and(|a| !a.is_power_of_two()),
            "must be a power of two", "write for example \"4KiB\"";
    );
    let skip = table.entry("replay_skip").and_then(|entry| {
        entry.parsed(doc, ("a list of kinds", "\"write,trim\""), |text| {
            let what = || {
                format!(
                    "{} is not a list of read, write, trim and sync",
                    quoted(text)
                )
            };
            TraceKind::list(text).ok_or_else(|| (what(), "write for example \"write,trim\""))
        })
    });
    let options = TraceOptions {
        fast: table.field(doc, "replay_no_stall"),
        speed: table.field(doc, "replay_time_scale"),
        scale: table.field(doc, "replay_scale"),
        align: align.unwrap_or(1),
        together: table.entry("replay_redirect").is_some(),
        skip: skip.unwrap_or_default(),
    };
    (doc.problem_count() == before).then_some(options)
}

/// Returns the length of the file for a recorded load, in whole pages.
pub(in crate::scenario) fn length(trace: &Trace) -> u64 {
    trace.region().length.max(1).next_multiple_of(PAGE)
}

/// Refuses a region that is too short for a recorded load.
pub(super) fn check<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    trace: &Trace,
    region: Region,
) {
    let needed = trace.region().length;
    let help = "increase it, remove it, or divide the offsets with replay_scale";
    refuse!(doc, table;
        "size", region.length < needed,
            format!("must be at least {}, the end of the last range of the recorded load", Bytes(needed)), help;
    );
}
