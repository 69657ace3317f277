//! The file of a job, and the position of its requests in the file.

use super::Section;
use super::value::{bytes, count, report_value, size};
use crate::document::Document;
use crate::key::FILE_MOST;
use crate::scenario::PAGE;
use crate::text::quoted;
use std::cell::Cell;

/// The drive of a run, for jobs that use a whole device or a part of it.
#[derive(Debug)]
pub(super) struct JobDevice {
    /// The size of the drive in bytes.
    length: u64,
    /// True if a job depends on the size.
    used: Cell<bool>,
}

impl JobDevice {
    /// Creates a drive with this number of bytes, rounded down to whole pages.
    pub(super) fn new(length: u64) -> Self {
        Self {
            length: length / PAGE * PAGE,
            // The length is read through shared references while a file is parsed, hence the cell.
            used: Cell::new(false),
        }
    }

    /// Returns true if a job depends on the size of the drive.
    pub(super) fn is_used(&self) -> bool {
        self.used.get()
    }

    fn length(&self) -> u64 {
        self.used.set(true);
        self.length
    }
}

/// The part of a file that a job uses: its size, its offset, and the distance between the offsets
/// of several jobs.
#[derive(Clone, Copy)]
pub(super) struct JobExtent {
    pub(super) length: Option<u64>,
    pub(super) offset: u64,
    pub(super) increment: u64,
    /// The total number of bytes of a job that is not `time_based`. The job then ends.
    pub(super) amount: u64,
}

impl JobExtent {
    /// Returns the extent of a job that uses the first `length` bytes of its file once.
    pub(super) fn of(length: u64) -> Self {
        Self {
            length: Some(length),
            offset: 0,
            increment: 0,
            amount: length,
        }
    }
}

/// Returns the device of a job if it is a whole device. A partition or a volume over several
/// devices has a size of its own, which is not known here.
pub(super) fn device<'a>(section: &Section<'a>) -> Option<&'a str> {
    let name = section.get("filename")?.value?;
    let short = name.strip_prefix("/dev/")?;
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let letters = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_lowercase());
    let numbered = |prefix| short.strip_prefix(prefix).is_some_and(digits);
    let nvme = short.strip_prefix("nvme").and_then(|t| t.split_once('n'));
    let lettered = ["sd", "vd", "xvd", "hd"];
    let whole = lettered
        .iter()
        .any(|p| short.strip_prefix(p).is_some_and(letters))
        || nvme.is_some_and(|(drive, space)| digits(drive) && digits(space))
        || [
            "mmcblk", "nbd", "ublkb", "loop", "md", "dm-", "nullb", "ram", "pmem",
        ]
        .into_iter()
        .any(numbered);
    whole.then_some(name)
}

/// Reads the position of `jobs` identical jobs.
pub(super) fn place(
    doc: &mut Document<'_>,
    section: &Section<'_>,
    on: &JobDevice,
    base: u64,
    jobs: u64,
) -> JobExtent {
    let files = count(doc, section, "nrfiles", 1..=1024).unwrap_or(1);
    let each = size(doc, section, "filesize", base, 1..=FILE_MOST);
    let stated = each.map(|each| each.saturating_mul(files).min(FILE_MOST));
    let is_device = section.get("filesize").is_none() && device(section).is_some();
    let whole = || is_device.then(|| on.length()).or(stated);
    let offset = part(doc, section, "offset", base, &whole).unwrap_or(0);
    let increment = part(doc, section, "offset_increment", base, &whole).unwrap_or(0);
    // The last of several jobs begins furthest back and has the least space.
    let last = offset.saturating_add(increment.saturating_mul(jobs - 1));
    let used = part(doc, section, "size", base, &whole);
    let ends = is_part(section, "size") || section.get("size").is_none() || stated.is_some();
    // If the size of the file is known, a job uses at most the part after its offset.
    let there = whole_if(ends, &whole).map(|whole| whole.saturating_sub(last));
    if there == Some(0) {
        after_the_end(doc, section);
    }
    let length = match (used, there) {
        (Some(used), Some(there)) if is_device => Some(used.min(there)),
        (used, there) => there.or(used),
    };
    if length.is_none() && section.get("size").is_none() {
        missing(doc, section);
    }
    let used = used.map(|used| used.min(there.unwrap_or(used)));
    let amount = size(doc, section, "io_size", base, 1..=FILE_MOST);
    let loops = count(doc, section, "loops", 1..=1 << 40).unwrap_or(1);
    JobExtent {
        length: length.filter(|length| *length > 0),
        offset,
        increment,
        amount: (amount.or(used).or(length).unwrap_or(0)).saturating_mul(loops),
    }
}

fn whole_if(ends: bool, whole: &impl Fn() -> Option<u64>) -> Option<u64> {
    if ends { whole() } else { None }
}

fn is_part(section: &Section<'_>, name: &str) -> bool {
    let value = section.get(name).and_then(|line| line.value);
    value.is_some_and(|value| value.ends_with('%'))
}

/// Reads a number of bytes, or a percentage of a file such as `50%`, rounded down to whole pages.
fn part(
    doc: &mut Document<'_>,
    section: &Section<'_>,
    name: &str,
    base: u64,
    whole: &impl Fn() -> Option<u64>,
) -> Option<u64> {
    let line = section.get(name)?;
    // An offset can be zero, but a size cannot.
    let least = u64::from(name == "size");
    let Some(percent) = line.value.and_then(|v| v.strip_suffix('%')) else {
        return size(doc, section, name, base, least..=FILE_MOST);
    };
    let percent = bytes(percent, base).filter(|p| (least..=100).contains(p));
    let Some(percent) = percent else {
        report_value(
            doc,
            line,
            "is not a percentage up to 100%",
            "write for example 50%",
        );
        return None;
    };
    let Some(whole) = whole() else {
        let help = "write bytes, for example 1g, or set filesize=1g; percentages of a device, for example filename=/dev/nvme0n1, are supported";
        report_value(doc, line, "is a part of a file of unknown length", help);
        return None;
    };
    let part = u128::from(whole) * u128::from(percent) / 100;
    // In a small file, the result can be less than a page. It is then not rounded to zero.
    let part = part as u64;
    Some(if part >= PAGE {
        part / PAGE * PAGE
    } else {
        part
    })
}

fn missing(doc: &mut Document<'_>, section: &Section<'_>) {
    let name = section.get("filename").and_then(|line| line.value);
    let help = match name.filter(|name| name.starts_with("/dev/")) {
        Some(name) => format!(
            "set size, for example size=100g; the size of {} is unknown",
            quoted(name)
        ),
        None => "set size, the part of the file that the job uses, for example size=1g".to_owned(),
    };
    doc.report_span(&section.at, "size", "is missing", &help);
}

fn after_the_end(doc: &mut Document<'_>, section: &Section<'_>) {
    let what = match section.get("offset_increment") {
        Some(_) => {
            "with offset_increment is at or after the end of the file for the last job, which fio refuses"
        }
        None => "is at or after the end of the file, which fio refuses",
    };
    match section
        .get("offset")
        .or_else(|| section.get("offset_increment"))
    {
        Some(line) => report_value(doc, line, what, "reduce the offset, or increase filesize"),
        None => doc.report_span(&section.at, "offset", what, "increase filesize"),
    }
}
