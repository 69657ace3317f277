//! Reading of a client, or of several identical clients.

use super::super::build::{ClientDeclaration, StatedScenario};
use super::super::class::{ClassProblem, UNCLASSED, of_priority};
use super::super::distribution::{distribution, parts, pattern_of};
use super::{checked, contract, first_of_contract, replay};
use crate::document::{Document, KeyEntry, ShapedTable, refuse};
use crate::key::{CLIENT, FILE_MOST as FILE, HOUR, REQUEST_MOST as REQUEST, RW};
use crate::scenario::host::{NOT_SECTORS, SECTOR, in_sectors};
use crate::scenario::rate::limited;
use crate::scenario::trace::TraceFiles;
use crate::scenario::{Buffered, ClientSpec, PAGE};
use crate::terms::knobs;
use crate::text::quoted;
use crate::units::{ByteSize as Bytes, BytesPerSecond, Time, UnitError};
use crate::words::Words;
use weir_core::rule::RuleViolation;
use weir_core::{Class, Contract, GroupId, Priority, PriorityClass, ROOT, Span};
use weir_model::load::{
    Activity, Arrival, Pattern, Program, Region, Size, Skew, Split, SyncMode, Trace, Zones,
};

/// Refuses several values and quotes each of them. A row has the key, the condition for the
/// refusal, and the problem with its value.
macro_rules! refuse_shown {
    ($doc:expr, $table:expr, $help:expr; $($key:expr, $holds:expr, $what:expr;)*) => {$({
        let shown = $table.entry($key).map(|entry| entry.quoted_value());
        let what = format!("{} {}", shown.unwrap_or_default(), $what);
        let holds = $holds;
        $table.refuse($doc, $key, (holds, what, $help));
    })*};
}

/// The fields that a program's validation names, and the keys of the file that set them.
const KEYS: &[(&str, &str)] = &[
    ("region.length", "size"),
    ("size", "bs"),
    ("depth", "iodepth"),
    ("think", "thinktime"),
    ("zones", "zonesize"),
    ("files", "nrfiles"),
    ("activity.on", "on"),
    ("activity.off", "off"),
    ("arrival.low", "iodepth_low"),
];

/// Reads a `[[client]]`. `host` has the use of the page cache by processes of this host.
pub(super) fn clients<'a>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
    stated: &StatedScenario,
    host: Buffered,
    traces: &TraceFiles,
) -> Option<ClientDeclaration> {
    let before = doc.problem_count();
    let table = entry.table(doc, &CLIENT)?;
    let name = super::name(doc, &table);
    let count: Option<u64> = table.field(doc, "numjobs");
    let number = table.field(doc, "first");
    let buffered = !table.field::<bool>(doc, "direct");
    let trace = replay::trace(doc, &table, traces);
    let program = program(doc, &table, buffered, trace.as_deref());
    let region = region(doc, &table, count.unwrap_or(1), trace.as_deref());
    let group = table.entry("group");
    let group = group.and_then(|e| super::group(doc, &e, &stated.groups));
    let contract = own_contract(doc, &table, group.is_some(), stated.grouped);
    let priority = ionice(doc, &table).unwrap_or_default();
    let class = class(&table, priority, stated, group, &contract);
    let unclassed = class.err().zip(table.entry("ionice"));
    let unclassed = unclassed.map(|((why, help), entry)| {
        let what = format!("{UNCLASSED}: {why}");
        doc.problem_at(&entry.span, &entry.path, what, help)
    });
    let (name, program) = (name?, program?);
    let mut first = ClientSpec {
        group: group.unwrap_or(ROOT),
        priority,
        buffered: buffered.then(|| Buffered {
            // Clients give the kernel the advice that fits their pattern, as `fio` does by default.
            advice: Buffered::advised(program.pattern).advice,
            ..host
        }),
        write_back: write_back(doc, &table, buffered),
        empty_kicks: empty_kicks(doc, &table, stated.scenario.guest.is_some()),
        deadline: table.field(doc, "deadline"),
        arrives: table.field(doc, "arrives"),
        leaves: table.field(doc, "leaves"),
        trace,
        ..ClientSpec::new(program)
    };
    let file = named(doc, &table, "file", "a file's name", "\"table\"");
    let redirect = named(doc, &table, "replay_redirect", "a file's name", "\"disk\"");
    let guest = named(doc, &table, "guest", "a virtual machine's name", "\"one\"");
    let increment;
    (first.region, increment) = region?;
    let clients = ClientDeclaration {
        names: names(&name, count, number),
        first,
        increment,
        file: redirect.or(file),
        guest,
        contract,
        knobs: knobs(doc, &table),
        class: class.unwrap_or_default(),
        unclassed,
    };
    check(doc, &table, &clients.first);
    (doc.problem_count() == before).then_some(clients)
}

/// Returns the names of `count` clients that are called `name` with a number. `None` stands for a
/// single client without a number.
pub(in crate::scenario) fn names(name: &str, count: Option<u64>, first: u64) -> Vec<String> {
    let Some(count) = count else {
        return vec![name.to_owned()];
    };
    // All numbers have the same width, so that names sort in the order of the clients.
    let wide = (first + count).saturating_sub(1).to_string().len().max(2);
    let numbers = first..first + count;
    numbers.map(|n| format!("{name}-{n:0wide$}")).collect()
}

/// Returns the class that follows from an I/O priority if the contract states none.
fn class(
    table: &ShapedTable<'_>,
    priority: Priority,
    stated: &StatedScenario,
    group: Option<GroupId>,
    contract: &Contract,
) -> Result<Option<Class>, ClassProblem> {
    let is_stated = match group {
        Some(id) => stated.groups[id.0 as usize - 1].1,
        None => table.entry("class").is_some(),
    };
    if is_stated || priority.class == PriorityClass::BestEffort {
        return Ok(None);
    }
    match group {
        Some(_) => Err((
            "the client has the class of its group",
            "set class in the [[group]]",
        )),
        // If all clients are in the root group, as `fio` jobs are, a policy with classes gives each
        // a group of its own.
        None if !stated.grouped && !stated.groups.is_empty() => Err((
            "the client is in the root group, which has no class",
            "set grouping = \"each\"",
        )),
        None => of_priority(priority.class, contract),
    }
}

/// Reads whether direct writes stand for the write-back of the page cache.
fn write_back<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, buffered: bool) -> bool {
    refuse!(doc, table;
        "writeback", buffered, "is not supported for writes through the page cache", "set direct = true, or remove it";
    );
    table.field(doc, "writeback")
}

/// Reads the name of an object that clients share.
fn named<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    key: &str,
    what: &str,
    example: &str,
) -> Option<String> {
    let entry = table.entry(key)?;
    let name = entry.text(doc, what, example)?;
    checked(doc, &entry, name)
}

/// Reads the number of notifications without a request. This key and the name of a guest require
/// guests.
fn empty_kicks<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, guests: bool) -> u32 {
    refuse!(doc, table;
        "guest", !guests, "requires virtual machines", "add [guest], or remove it";
        "empty_kicks", !guests, "requires virtual machines", "add [guest], or remove it";
    );
    table.field(doc, "empty_kicks")
}

/// Reads the contract of a client in a group of its own.
fn own_contract<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    in_group: bool,
    grouped: bool,
) -> Contract {
    if let Some(entry) = first_of_contract(table).filter(|_| in_group || !grouped) {
        if in_group {
            let what = "cannot be set for a client that is in a group";
            doc.report(&entry, what, "set it in the [[group]]");
        } else {
            let help = "set grouping = \"each\", or put the client into a [[group]]";
            doc.report(&entry, "cannot be set for a client in the root group", help);
        }
    }
    contract(doc, table)
}

/// Reads the part of the file that the first of `count` clients uses, and the distance between the
/// offsets of two consecutive clients.
fn region<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    count: u64,
    trace: Option<&Trace>,
) -> Option<(Region, u64)> {
    let size = match trace {
        Some(trace) => Some(
            table
                .field::<Option<u64>>(doc, "size")
                .unwrap_or_else(|| replay::length(trace)),
        ),
        // The problem of the recorded load was already reported.
        None if table.entry("read_iolog").is_some() => return None,
        None => {
            let size = doc.required(table, "size", "set size, for example size = \"1GiB\"");
            size.and_then(|e| e.size(doc))
        }
    };
    let offset: u64 = table.field(doc, "offset");
    let increment: u64 = table.field(doc, "offset_increment");
    let size = size?;
    // The declared maximums, 1 PiB each and 4,096 clients, keep this below 2^63.
    let end = offset + increment * count.saturating_sub(1) + size;
    if end > FILE {
        let entry = table.entry("size").or_else(|| table.entry("read_iolog"))?;
        let what = format!("the file would be longer than {}", Bytes(FILE));
        doc.report(&entry, what, "reduce size or offset");
    }
    let region = Region::new(offset, size);
    if let Some(trace) = trace {
        replay::check(doc, table, trace, region);
    }
    Some((region, increment))
}

fn program<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    buffered: bool,
    trace: Option<&Trace>,
) -> Option<Program> {
    if let Some(trace) = trace {
        return Some(replayed(doc, table, trace));
    }
    let before = doc.problem_count();
    let rw = table.word(doc, "rw", RW);
    let mix: u8 = table.field(doc, "rwmixread");
    let random = rw.starts_with("rand");
    let writes = match rw.trim_start_matches("rand") {
        "read" => 0,
        "write" => 100,
        // The key is the percentage of reads, and the program has that of writes.
        _ => 100 - mix,
    };
    // `readwrite` ends in `write`, but has both kinds.
    let one_kind = writes == 0 || rw.ends_with("write") && rw != "readwrite";
    let mixed = if random { "randrw" } else { "rw" };
    refuse!(doc, table;
        "rwmixread", one_kind, format!("has no effect with rw = \"{rw}\""), &format!("remove it, or set rw = \"{mixed}\"");
    );
    let bs = table.entry("bs");
    // A wrong size was already reported. The default lets the other keys be checked.
    let size = bs.and_then(|e| block(doc, &e));
    let size = size.unwrap_or(Size::Fixed(4096));
    let (start, start_spread) = start_delay(doc, table);
    let runtime: Option<Span> = table.field(doc, "runtime");
    let program = Program {
        pattern: pattern(doc, table, random),
        zones: zones(doc, table),
        files: table.field(doc, "nrfiles"),
        writes,
        fua: table.word(doc, "sync", [false, true]),
        sync: sync(doc, table),
        size,
        depth: table.field(doc, "iodepth"),
        arrival: arrival(doc, table, size, writes),
        think_every: think_every(doc, table),
        activity: activity(doc, table),
        start,
        start_spread,
        stop: runtime.map(|r| start + r),
        requests: table.field(doc, "number_ios"),
    };
    if buffered {
        check_buffered(doc, table, &program);
    } else {
        check_direct(doc, table, &program);
    }
    (doc.problem_count() == before).then_some(program)
}

/// Returns the program of a client that plays a recorded load.
fn replayed<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, trace: &Trace) -> Program {
    let (start, start_spread) = start_delay(doc, table);
    let runtime: Option<Span> = table.field(doc, "runtime");
    let requests: Option<u64> = table.field(doc, "number_ios");
    let program = trace.program(table.field(doc, "iodepth"));
    Program {
        start,
        start_spread,
        stop: runtime.map(|r| start + r),
        requests: [requests, program.requests].into_iter().flatten().min(),
        ..program
    }
}

fn pattern<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, random: bool) -> Pattern {
    let skew = table.entry("random_distribution");
    let skew = skew.and_then(|e| skewed(doc, &e));
    let part = table.entry("percentage_random");
    let part = part.and_then(|e| partly(doc, &e));
    let again = table.field(doc, "norandommap");
    for key in ["random_distribution", "percentage_random", "norandommap"] {
        let what = "has no effect for a sequential client";
        table.refuse(
            doc,
            key,
            (!random, what, "remove it, or set rw = \"randread\""),
        );
    }
    refuse!(doc, table;
        "percentage_random", skew.is_some() && part.is_some(), "cannot be combined with random_distribution", "remove one of the two";
    );
    pattern_of(random, skew, part, again)
}

fn skewed<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<Skew> {
    let said = |text, (what, help)| (format!("{} {what}", quoted(text)), help);
    entry.parsed(doc, ("a distribution", "\"zipf:1.1\""), |text| {
        distribution(text, 1_000_000).map_err(|wrong| said(text, wrong))
    })?
}

/// Reads the percentages of random reads and writes. `None` if all are random.
fn partly<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<[u8; 2]> {
    let Some(text) = entry.as_text() else {
        let both = entry.count(doc)?;
        // A percentage of 100 is the same as none.
        return (both < 100).then_some([both; 2]);
    };
    let found = parts(text);
    if found.is_none() {
        let what = format!("{} must be one percentage or two", quoted(text));
        doc.report(entry, what, "write 80, or \"100,0\" for reads and writes");
    }
    found.filter(|parts| *parts != [100; 2])
}

fn zones<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Option<Zones> {
    let size = table.entry("zonesize");
    refuse!(doc, table;
        "zoneskip", size.is_none(), "requires zonesize", "set zonesize, for example zonesize = \"16KiB\"";
    );
    let skip = table.field(doc, "zoneskip");
    let size = size?.size(doc)?;
    Some(Zones { size, skip })
}

fn activity<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Option<Activity> {
    let on: Option<Span> = table.field(doc, "on");
    let off: Option<Span> = table.field(doc, "off");
    refuse!(doc, table;
        "on", table.entry("off").is_none(), "requires off", "set off, for example off = \"1s\"";
        "off", table.entry("on").is_none(), "requires on", "set on, for example on = \"1s\"";
    );
    Some(Activity { on: on?, off: off? })
}

fn sync<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> SyncMode {
    let mut found = SyncMode::Never;
    let mut first = None;
    for key in ["fsync", "fdatasync", "flush"] {
        let every @ 1.. = table.field(doc, key) else {
            continue;
        };
        if let Some(first) = first {
            let what = format!("cannot be combined with {first}");
            table.refuse(doc, key, (true, what, "remove one of the two"));
        }
        first = Some(key);
        found = match key {
            "flush" => SyncMode::Flush(every),
            // Timestamps of files are not modelled, so `fsync` is the same as `fdatasync`.
            _ => SyncMode::Fdatasync(every),
        };
    }
    found
}

/// Reads the number of replies before each think time.
fn think_every<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> u32 {
    refuse!(doc, table;
        "thinktime_blocks", table.entry("thinktime").is_none(), "requires thinktime",
            "set thinktime, for example thinktime = \"100ms\"";
    );
    table.field(doc, "thinktime_blocks")
}

fn arrival<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, size: Size, writes: u8) -> Arrival {
    let poisson = poisson(doc, table);
    let rate = table.entry("rate");
    let of_bytes = |text: &str| text.parse::<BytesPerSecond>().ok().map(|r| r.0);
    let bytes = rate.as_ref().and_then(|e| rates(doc, e, of_bytes));
    let iops = table.entry("rate_iops");
    let of_requests = |text: &str| text.parse().ok().filter(|n| *n <= 1_000_000_000);
    let per_second = iops.as_ref().and_then(|e| rates(doc, e, of_requests));
    let think = table.field(doc, "thinktime");
    refuse!(doc, table;
        "rate_iops", rate.is_some(), "cannot be combined with rate", "remove one of the two";
        "thinktime", rate.is_some() || iops.is_some(), "cannot be combined with a rate",
            "remove one of the two; with a rate, requests are sent independently of replies";
    );
    let intervals = match (bytes, per_second, size) {
        (Some(bytes), _, Size::Fixed(each)) => bytes.map(|bytes| {
            let ns = u128::from(each) * 1_000_000_000 / u128::from(bytes?);
            Some(ns.clamp(1, u128::from(HOUR.as_nanos())) as u64)
        }),
        (Some(_), ..) => {
            refuse!(doc, table;
                "rate", true, "requires a bs of one size", "set rate_iops, for example rate_iops = 200";
            );
            [None; 2]
        }
        (None, Some(per_second), _) => {
            per_second.map(|per_second| Some((1_000_000_000 / per_second?).max(1)))
        }
        (None, None, _) => [None; 2],
    };
    let low = batches(doc, table);
    let intervals = intervals.map(|ns| ns.map(Span::from_nanos));
    let together = together(doc, table, intervals);
    // If one rate applies to both kinds together, it is passed as that of reads alone.
    let kinds = if together { 0 } else { writes };
    match limited(intervals, kinds, poisson) {
        Some(limited) => limited,
        None if low.is_some() => Arrival::Batches {
            low: low.unwrap_or_default(),
        },
        None => Arrival::Closed { think },
    }
}

/// Reads whether the times between requests are random.
fn poisson<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> bool {
    let paced = table.entry("rate").is_some() || table.entry("rate_iops").is_some();
    refuse!(doc, table;
        "rate_process", !paced, "requires a rate", "set rate_iops, for example rate_iops = 200";
    );
    table.word(doc, "rate_process", [false, true])
}

/// Reads whether one rate applies to reads and writes together.
fn together<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    intervals: [Option<Span>; 2],
) -> bool {
    let one = intervals[0].is_some() && intervals[0] == intervals[1];
    refuse!(doc, table;
        "rate_for", !one, "requires one rate for reads and writes", "set rate_iops, for example rate_iops = 200, or remove it";
    );
    table.word(doc, "rate_for", [false, true])
}

/// Reads one rate for reads and for writes, or two such as `"1000,500"`. One of two can be empty,
/// which means no limit.
fn rates<'a>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
    read: impl Fn(&str) -> Option<u64>,
) -> Option<[Option<u64>; 2]> {
    let Some((reads, writes)) = entry.as_text().and_then(|text| text.split_once(',')) else {
        return entry.number(doc).map(|rate| [Some(rate); 2]);
    };
    let rate = |text: &str| match text.trim() {
        // One of two rates can be left out.
        "" => Some(None),
        text => read(text).filter(|rate| *rate > 0).map(Some),
    };
    let both = rate(reads).zip(rate(writes)).map(|(r, w)| [r, w]);
    // A comma alone limits neither reads nor writes.
    let found = both.filter(|both| *both != [None; 2]);
    if found.is_none() {
        let text = quoted(entry.as_text().unwrap_or_default());
        let what = format!("{text} is not a rate for reads and one for writes");
        let help = "write one rate for both, or two in quotes, separated by a comma; an empty one is no limit";
        doc.report(entry, what, help);
    }
    found
}

/// Reads the number of requests in flight that lets the client continue.
fn batches<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Option<u32> {
    let entry = table.entry("iodepth_low")?;
    let low = entry.count(doc)?;
    let others = ["rate", "rate_iops", "thinktime"];
    if let Some(other) = others.iter().find(|key| table.entry(key).is_some()) {
        let what = format!("cannot be combined with {other}");
        doc.report(&entry, what, "remove one of the two");
    }
    let depth: u32 = table.field(doc, "iodepth");
    // With the depth itself, each reply is followed by a request, as without the key.
    (low != depth).then_some(low)
}

/// Reads the size of a request: a single size, `least-most`, or `size/percent:size/percent`.
fn block<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<Size> {
    let text = match entry.as_text() {
        Some(text) if text.contains(['-', '/']) => text,
        _ => {
            let size = entry.size(doc)?;
            return Some(Size::Fixed(size as u32));
        }
    };
    let found = if text.contains('/') {
        split(text)
    } else {
        range(text)
    };
    match found {
        Ok(size) => Some(size),
        Err((what, help)) => {
            doc.report(entry, format!("{}: {what}", quoted(text)), &help);
            None
        }
    }
}

/// Reads the start of a client, and the range of a random start.
fn start_delay<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> (Span, Span) {
    let entry = table.entry("startdelay");
    let range = entry.and_then(|e| time_range(doc, &e));
    range.unwrap_or_default()
}

/// Reads a time or a range of times. Returns the minimum, and the difference between maximum and
/// minimum.
fn time_range<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<(Span, Span)> {
    let Some((least, most)) = entry.as_text().and_then(|text| text.split_once('-')) else {
        let start = entry.time(doc)?;
        return Some((start, Span::ZERO));
    };
    let found = moment(least).and_then(|least| Ok((least, moment(most)?)));
    let (what, help) = match found {
        Ok((least, most)) if least <= most => return Some((least, most - least)),
        Ok((least, most)) => (
            "the maximum is below the minimum".to_owned(),
            format!("write \"{}-{}\"", Time(most), Time(least)),
        ),
        Err(said) => said,
    };
    let text = entry.as_text().unwrap_or_default();
    doc.report(entry, format!("{}: {what}", quoted(text)), &help);
    None
}

fn moment(text: &str) -> Result<Span, ValueProblem> {
    let time: Time = text.trim().parse().map_err(UnitError::into_problem_parts)?;
    if time.0 > HOUR {
        let [least, most] = [Span::ZERO, HOUR].map(Time);
        let what = format!("must be between {least} and {most}, not {time}");
        return Err((what, String::new()));
    }
    Ok(time.0)
}

/// A problem and its help.
type ValueProblem = (String, String);

fn bytes(text: &str) -> Result<u32, ValueProblem> {
    let size: Bytes = text.trim().parse().map_err(UnitError::into_problem_parts)?;
    if !(1..=REQUEST).contains(&size.0) {
        let what = format!("a request must have 1B to {}, not {size}", Bytes(REQUEST));
        return Err((what, String::new()));
    }
    Ok(size.0 as u32)
}

fn range(text: &str) -> Result<Size, ValueProblem> {
    let (min, max) = text.split_once('-').unwrap_or((text, text));
    let (min, max) = (bytes(min)?, bytes(max)?);
    if max < min {
        let help = format!("write \"{}-{}\"", Bytes(max.into()), Bytes(min.into()));
        return Err(("the maximum is below the minimum".to_owned(), help));
    }
    Ok(Size::Range {
        min,
        max,
        step: min,
    })
}

fn split(text: &str) -> Result<Size, ValueProblem> {
    const HELP: &str =
        "write sizes and percentages that add up to 100, for example \"4KiB/60:64KiB/40\"";
    let fail = |what: String| (what, HELP.to_owned());
    let mut parts = Vec::new();
    for part in text.split(':') {
        let (size, percent) = part.split_once('/').unwrap_or((part, ""));
        let percent: u8 = (percent.parse())
            .map_err(|_| fail(format!("{} is not a percentage", quoted(percent))))?;
        parts.push((bytes(size)?, percent));
    }
    if parts.len() > Split::MOST {
        let (count, most) = (parts.len(), Split::MOST);
        let what = format!("has {count} sizes; at most {most} are permitted");
        return Err((what, String::new()));
    }
    let sum: u32 = parts.iter().map(|p| u32::from(p.1)).sum();
    let split = Split::new(&parts)
        .ok_or_else(|| fail(format!("the percentages add up to {sum}, not 100")))?;
    Ok(Size::Split(split))
}

fn ionice<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Option<Priority> {
    let entry = table.entry("ionice")?;
    let text = entry.text(doc, "an I/O priority", "\"best-effort:4\"")?;
    let (class, level) = text.split_once(':').unwrap_or((text, "4"));
    let class = PriorityClass::named(class);
    let level = level.parse::<u8>().ok().filter(|l| *l < 8);
    let (Some(class), Some(level)) = (class, level) else {
        let help = "write \"realtime\", \"best-effort\" or \"idle\"; a level from 0 to 7 can be appended, for example \"best-effort:7\"";
        let what = format!("{} is not an I/O priority", quoted(text));
        doc.report(&entry, what, help);
        return None;
    };
    Some(Priority { class, level })
}

/// Refuses uses of the page cache that the model of the host does not have, such as concurrent
/// calls.
fn check_buffered<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, program: &Program) {
    let flushes = matches!(program.sync, SyncMode::Flush(_));
    refuse_shown!(doc, table, "set direct = true to bypass the page cache";
        "iodepth", program.depth > 1,
            "requests in flight are not supported through the page cache, where a client makes one system call at a time";
        "sync", program.fua, "is not supported through the page cache";
        "nrfiles", program.files > 1, "files are not supported through the page cache";
        "flush", flushes, "is not supported through the page cache, where a process calls fdatasync";
    );
    // The model of the page cache works in whole pages.
    for key in ["offset", "offset_increment"] {
        if let Some(entry) = table.entry(key) {
            entry.size_from(doc, 0, PAGE);
        }
    }
}

/// Refuses direct requests that do not begin and end at a sector, as Linux does.
fn check_direct<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, program: &Program) {
    let sectors = |bytes: u64| bytes.is_multiple_of(SECTOR);
    let zones = program.zones.map_or([0, 0], |z| [z.size, z.skip]);
    refuse_shown!(doc, table, "write a multiple of 512B";
        "bs", !in_sectors(&program.size), NOT_SECTORS;
        "offset", !sectors(table.field(doc, "offset")), NOT_SECTORS;
        "offset_increment", !sectors(table.field(doc, "offset_increment")), NOT_SECTORS;
        "zonesize", !sectors(zones[0]), NOT_SECTORS;
        "zoneskip", !sectors(zones[1]), NOT_SECTORS;
    );
}

/// Checks the program against its region, and reports a broken rule at the key of the file.
fn check<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, client: &ClientSpec) {
    if let Err(error) = client.program.validate(client.region) {
        let RuleViolation {
            field,
            value,
            allowed,
        } = error;
        // A rule can name a part of a field, such as a bound of `size`.
        let known = KEYS.iter().find(|k| field.starts_with(k.0));
        let key = known.map_or(field, |k| k.1);
        let path = crate::text::join(&table.path, key);
        let what = format!("{value} is not permitted; it must be {allowed}");
        doc.report_span(&table.span_of(key), &path, what, "");
    }
}
