//! Checks for jobs that `fio` or Linux would refuse, and for uses of the page cache that are not
//! modelled.

use super::Section;
use super::value::report_value;
use crate::document::Document;
use crate::key::FILE_MOST;
use crate::scenario::PAGE;
use crate::scenario::host::{NOT_SECTORS, SECTOR, in_sectors};
use weir_model::load::Program;

/// Reports the rules that are broken. Each row has the condition of the rule, the option that
/// states the value, the problem, and the help.
macro_rules! rules {
    ($doc:expr, $section:expr; $($holds:expr, $name:expr, $what:expr, $help:expr;)*) => {
        $(rule($doc, $section, $holds, ($name, $what, $help));)*
    };
}

/// Refuses a file that would be longer than the maximum.
pub(super) fn short_enough(doc: &mut Document<'_>, section: &Section<'_>, end: u64) {
    if end > FILE_MOST {
        let what = "the file would be longer than 1PiB";
        doc.report_span(&section.at, "size", what, "reduce size");
    }
}

/// Refuses direct requests that do not begin and end at a sector, as Linux does. `offsets` are the
/// first offset and the distance between two jobs.
pub(super) fn direct(
    doc: &mut Document<'_>,
    section: &Section<'_>,
    program: &Program,
    offsets: [u64; 2],
) {
    const HELP: &str = "write a multiple of 512";
    let sectors = |bytes: u64| bytes.is_multiple_of(SECTOR);
    let whole = in_sectors(&program.size);
    let size = "write a multiple of 512, or remove direct=1";
    let zones = program.zones.map_or([0, 0], |z| [z.size, z.skip]);
    rules!(doc, section;
        whole, section.size_option(), NOT_SECTORS, size;
        sectors(offsets[0]), "offset", NOT_SECTORS, HELP;
        sectors(offsets[1]), "offset_increment", NOT_SECTORS, HELP;
        sectors(zones[0]), "zonesize", NOT_SECTORS, HELP;
        sectors(zones[1]), "zoneskip", NOT_SECTORS, HELP;
    );
}

/// Refuses uses of the page cache that are not modelled, such as several concurrent calls.
pub(super) fn buffered(
    doc: &mut Document<'_>,
    section: &Section<'_>,
    program: &Program,
    offsets: [u64; 2],
) {
    const DIRECT: &str = "set direct=1 to bypass the page cache";
    const PAGES: &str = "must be a multiple of 4KiB, the page size of the page cache";
    let pages = |bytes: u64| bytes.is_multiple_of(PAGE);
    rules!(doc, section;
        program.depth == 1, "iodepth",
            "requests in flight are not supported through the page cache, where a job makes one system call at a time", DIRECT;
        program.files == 1, "nrfiles", "files are not supported through the page cache", DIRECT;
        !program.fua, "sync", "is not supported through the page cache",
            "use fdatasync=1 instead, or set direct=1 to bypass the page cache";
        pages(offsets[0]), "offset", PAGES, "write a multiple of 4k";
        pages(offsets[1]), "offset_increment", PAGES, "write a multiple of 4k";
    );
}

/// Reports a broken rule at the option that states the value.
fn rule(
    doc: &mut Document<'_>,
    section: &Section<'_>,
    holds: bool,
    (name, what, help): (&str, &str, &str),
) {
    if holds {
        return;
    }
    let Some(line) = section.get(name) else {
        return doc.report_span(&section.at, name, what, help);
    };
    let value = line.value.map(str::to_ascii_lowercase);
    // A value such as `4KiB` looks like a multiple of 512, but `fio` reads it as 4,000 bytes.
    let binary = value.is_some_and(|v| v.ends_with("ib"));
    let help = if binary && section.get("kb_base").is_none() {
        "write 4k for 4096 bytes; fio reads KiB as 1000 bytes unless kb_base=1000"
    } else {
        help
    };
    report_value(doc, line, what, help);
}
