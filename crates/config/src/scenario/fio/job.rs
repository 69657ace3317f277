//! Reading of a job as one client, or as several equal clients.

use super::place::{JobDevice, JobExtent, place};
use super::replay::{JobReplay, replay};
use super::value::{base, bytes, count, flag, report_value, size, size_of, time, time_range};
use super::{OptionLine, Section};
use crate::document::{Document, refuse};
use crate::key::{FILE_MOST, HOUR, REQUEST_MOST};
use crate::nearest;
use crate::problem::Problem;
use crate::scenario::class::{UNCLASSED, of_priority};
use crate::scenario::distribution::{distribution, parts, pattern_of};
use crate::scenario::rate::limited;
use crate::scenario::read::{names, replay_length};
use crate::scenario::trace::TraceFiles;
use crate::text::quoted;
use std::ops::RangeInclusive;
use weir_core::{Contract, Priority, PriorityClass, Span};
use weir_model::load::{
    Arrival, Pattern, Program, Region, Size, Skew, Split, SyncMode, Trace, TraceTiming, Zones,
};

/// The number of nanoseconds in a second, which is the unit of most times in job files.
const SECOND: u64 = 1_000_000_000;
/// The number of nanoseconds in a microsecond, which is the unit of `thinktime`.
const MICRO: u64 = 1_000;

/// The engines that can keep several requests in flight.
const ASYNC: &[&str] = &["libaio", "io_uring", "posixaio", "linuxaio"];
/// The engines that make one system call at a time.
const SYNC: &[&str] = &["psync", "sync", "vsync", "pvsync", "pvsync2"];

/// A job, or several identical jobs (`numjobs`).
#[derive(Debug)]
pub(super) struct FioJob {
    /// The name of each job.
    pub(super) names: Vec<String>,
    pub(super) program: Program,
    /// True if the job uses the page cache.
    pub(super) buffered: bool,
    pub(super) priority: Priority,
    /// The reason why the I/O priority does not result in a class.
    pub(super) unclassed: Option<Problem>,
    /// The part of the file that the first job uses.
    pub(super) region: Region,
    /// The distance in bytes between the offsets of two consecutive jobs.
    pub(super) increment: u64,
    /// The recorded load that the job plays, if it does.
    pub(super) replay: Option<JobReplay>,
    /// The name of the file that the jobs share. `None` if each has its own.
    pub(super) file: Option<String>,
    pub(super) runtime: Span,
    /// The time before the measurement of the job begins.
    pub(super) ramp: Span,
}

/// The runtime of a job that states none. In `fio`, such a job ends with its `size`. Here it also
/// ends after this time.
const RUNTIME: Span = Span::from_secs(10);

/// Reads the runtime of a job.
fn runtime(
    doc: &mut Document<'_>,
    notes: &mut Document<'_>,
    section: &Section<'_>,
    trace: Option<&Trace>,
) -> Span {
    let runtime = time(doc, section, "runtime", SECOND).filter(|t| *t > Span::ZERO);
    if section.get("runtime").is_some() {
        return runtime.unwrap_or(Span::ZERO);
    }
    // A recorded load ends by itself. One more second lets its last requests complete.
    let recorded = trace.filter(|trace| trace.timing() == TraceTiming::Recorded);
    if let Some(trace) = recorded {
        let seconds = trace.length().as_nanos().div_ceil(SECOND) + 1;
        return Span::from_secs(seconds).min(HOUR);
    }
    if let Some(line) = section.get("time_based").filter(|_| trace.is_none()) {
        let what = "is missing, but time_based requires it";
        doc.report_span(&line.at, "runtime", what, "set for example runtime=10");
    }
    let what = "is missing, so that the job is played for at most 10 s";
    let help = "set for example runtime=60 to play it longer, or use --seconds";
    notes.report_span(&section.at, "runtime", what, help);
    RUNTIME
}

/// The times of a job: its start, the range of a random start, the time before the measurement, and
/// the runtime.
struct JobTimes {
    start: Span,
    start_spread: Span,
    ramp: Span,
    runtime: Span,
}

fn times(
    doc: &mut Document<'_>,
    notes: &mut Document<'_>,
    section: &Section<'_>,
    trace: Option<&Trace>,
) -> JobTimes {
    let runtime = runtime(doc, notes, section, trace);
    let ramp = time(doc, section, "ramp_time", SECOND).unwrap_or(Span::ZERO);
    let start = time_range(doc, section, "startdelay", SECOND);
    let (start, start_spread) = start.unwrap_or_default();
    // Times of a scenario's file are limited to an hour.
    if start + start_spread + ramp + runtime > HOUR {
        let what = "startdelay, ramp_time and runtime add up to more than an hour";
        doc.report_span(&section.at, section.name, what, "reduce runtime");
    }
    JobTimes {
        start,
        start_spread,
        ramp,
        runtime,
    }
}

/// Reads a job from its section, for a run on the drive `on`.
pub(super) fn job(
    doc: &mut Document<'_>,
    notes: &mut Document<'_>,
    section: &Section<'_>,
    on: &JobDevice,
    traces: &TraceFiles,
) -> Option<FioJob> {
    let before = doc.problem_count();
    let base = base(doc, section);
    let jobs = count(doc, section, "numjobs", 1..=4096);
    let replay = replay(doc, notes, section, traces);
    if replay.is_none() && section.get("read_iolog").is_some() {
        return None;
    }
    let trace = replay.as_ref().map(|replay| &*replay.trace);
    let place = match trace {
        Some(trace) => JobExtent::of(replay_length(trace)),
        None => place(doc, section, on, base, jobs.unwrap_or(1)),
    };
    let direct = flag(doc, section, "direct").unwrap_or(false);
    // `buffered` and `direct` are opposites in `fio`, and `buffered` takes precedence here.
    let buffered = flag(doc, section, "buffered").map_or(!direct, |b| b);
    let times = times(doc, notes, section, trace);
    let program = match trace {
        Some(trace) => Some(replayed(doc, section, trace)),
        None => program(doc, notes, section, base),
    };
    let mut program = Program {
        start: times.start,
        start_spread: times.start_spread,
        stop: Some(times.start + times.ramp + times.runtime),
        ..program?
    };
    let offsets = [place.offset, place.increment];
    if trace.is_none() {
        ends(doc, section, &mut program, place.amount);
    }
    if trace.is_some() {
        let help = "set direct=1 to bypass the page cache";
        section.refuse(
            doc,
            "read_iolog",
            (buffered, "is not supported through the page cache", help),
        );
    } else if buffered {
        super::refuse::buffered(doc, section, &program, offsets);
    } else {
        super::refuse::direct(doc, section, &program, offsets);
    }
    let priority = priority(doc, section);
    let last = place.increment.saturating_mul(jobs.unwrap_or(1) - 1);
    let job = FioJob {
        names: names(section.name, jobs.filter(|n| *n > 1), 1),
        program,
        buffered,
        priority,
        unclassed: unclassed(doc, section, priority),
        file: section
            .get("replay_redirect")
            .filter(|_| replay.is_some())
            .map_or_else(|| file(doc, section), |line| line.value.map(str::to_owned)),
        replay,
        region: Region::new(place.offset, place.length?),
        increment: place.increment,
        runtime: times.runtime,
        ramp: times.ramp,
    };
    let end = place.offset.saturating_add(last);
    super::refuse::short_enough(doc, section, end.saturating_add(job.region.length));
    // A wrong option was already reported, and would also make the program invalid.
    if let (Err(error), true) = (
        job.program.validate(job.region),
        doc.problem_count() == before,
    ) {
        doc.report_span(&section.at, section.name, error, "");
    }
    (doc.problem_count() == before).then_some(job)
}

/// Returns the program of a job that plays a recorded load.
fn replayed(doc: &mut Document<'_>, section: &Section<'_>, trace: &Trace) -> Program {
    let program = trace.program(depth(doc, section));
    let requests = count(doc, section, "number_ios", 1..=1 << 60);
    Program {
        requests: [requests, program.requests].into_iter().flatten().min(),
        ..program
    }
}

/// Reads one of a few words. A value with further text after a colon is refused.
fn word<T: Copy>(
    doc: &mut Document<'_>,
    section: &Section<'_>,
    name: &str,
    words: &[(&str, T)],
    help: &str,
) -> Option<T> {
    let line = section.get(name)?;
    let value = line.value.unwrap_or_default();
    let found = words.iter().find(|w| w.0 == value);
    if found.is_none() {
        let all: Vec<&str> = words.iter().map(|w| w.0).collect();
        let near = nearest::name(value, all.iter().copied());
        let near = near.map(|n| format!("did you mean {n}?"));
        let what = format!("is not supported; it must be one of {}", all.join(", "));
        report_value(doc, line, &what, &near.unwrap_or_else(|| help.to_owned()));
    }
    found.map(|w| w.1)
}

fn program(
    doc: &mut Document<'_>,
    notes: &mut Document<'_>,
    section: &Section<'_>,
    base: u64,
) -> Option<Program> {
    let words = [
        ("read", (false, 0)),
        ("write", (false, 100)),
        ("rw", (false, 50)),
        ("readwrite", (false, 50)),
        ("randread", (true, 0)),
        ("randwrite", (true, 100)),
        ("randrw", (true, 50)),
    ];
    let help = "use one of these; trim, sequences such as rw:8 and verification are not supported";
    let (random, writes) = word(doc, section, "rw", &words, help).unwrap_or((false, 0));
    let writes = match writes {
        // Only a job with both kinds has a percentage of writes.
        50 => mix(doc, section),
        all => all,
    };
    let size = block(doc, section, base, writes)?;
    aligned(doc, section, base, size);
    let depth = depth(doc, section);
    // The journal of a file system is not modelled, so `O_SYNC` has the effect of `O_DSYNC`.
    let sync = [
        ("none", false),
        ("0", false),
        ("dsync", true),
        ("sync", true),
        ("1", true),
    ];
    let help = "write dsync, or fdatasync=1";
    let arrival = arrival(doc, notes, section, size, [depth, writes.into()], base);
    let every = count(doc, section, "thinktime_blocks", 1..=65_536);
    Some(Program {
        pattern: pattern(doc, notes, section, random),
        zones: zones(doc, section, base),
        files: count(doc, section, "nrfiles", 1..=1024).unwrap_or(1) as u32,
        writes,
        fua: word(doc, section, "sync", &sync, help).unwrap_or(false),
        sync: flushes(doc, section),
        size,
        depth,
        arrival,
        think_every: match arrival {
            Arrival::Closed { think } if think > Span::ZERO => every.unwrap_or(1) as u32,
            _ => 1,
        },
        requests: count(doc, section, "number_ios", 1..=1 << 60),
        ..Program::random_reads(1, 1)
    })
}

/// Reads the percentage of writes of a mixed job. If both options state it, the last one applies,
/// as in `fio`.
fn mix(doc: &mut Document<'_>, section: &Section<'_>) -> u8 {
    let reads = count(doc, section, "rwmixread", 0..=100);
    let writes = count(doc, section, "rwmixwrite", 0..=100);
    let mut lines = section.lines.iter().rev();
    let last = lines.find(|l| ["rwmixread", "rwmixwrite"].contains(&l.name));
    match last.map(|l| l.name) {
        Some("rwmixwrite") => writes.unwrap_or(50) as u8,
        _ => 100 - reads.unwrap_or(50) as u8,
    }
}

/// Reads the size of requests.
fn block(doc: &mut Document<'_>, section: &Section<'_>, base: u64, writes: u8) -> Option<Size> {
    // These options state the same property in three ways.
    let there = section.one_of(&["bs", "bsrange", "bssplit"]);
    let Some(line) = there.first().copied() else {
        return Some(Size::Fixed(4096));
    };
    if let Some(other) = there.get(1) {
        let what = format!("cannot be combined with {}", other.name);
        report_value(doc, line, &what, "remove one of the two");
        return None;
    }
    let Some(value) = of_kind(line.value.unwrap_or_default(), writes, "4096") else {
        let what = "cannot have different sizes for reads, writes and trims";
        report_value(doc, line, what, "write one size for all, or two jobs");
        return None;
    };
    let one = |text: &str| {
        let bytes = bytes(text, base).filter(|b| (1..=REQUEST_MOST).contains(b));
        bytes.map(|b| b as u32)
    };
    let found = match line.name {
        "bs" => one(value).map(Size::Fixed),
        "bsrange" => value.split_once('-').and_then(|(min, max)| {
            let (min, max) = (one(min)?, one(max)?);
            // The other sizes of a range are multiples of the smallest one.
            let step = min;
            (min <= max).then_some(Size::Range { min, max, step })
        }),
        _ => split(value, one).map(Size::Split),
    };
    if found.is_none() {
        let (what, help) = match line.name {
            "bs" => ("is not a size from 1 byte to 64MiB", "write for example 4k"),
            "bsrange" => (
                "is not a range of sizes up to 64MiB",
                "write for example 4k-64k",
            ),
            _ => (
                "is not a list of at most 12 sizes with percentages that add up to 100",
                "write for example 4k/60:64k/40",
            ),
        };
        report_value(doc, line, what, help);
    }
    found
}

/// Checks that the alignment of offsets is the smallest size, because the model has no other
/// alignment.
fn aligned(doc: &mut Document<'_>, section: &Section<'_>, base: u64, size: Size) {
    let Some(line) = section.get("ba") else {
        return;
    };
    let one = of_kind(line.value.unwrap_or_default(), 0, "0");
    let stated = one.and_then(|value| bytes(value, base));
    if stated != Some(u64::from(size.least())) {
        let what = "must be the smallest size, because offsets are multiples of it";
        report_value(doc, line, what, "remove it");
    }
}

/// Splits a value into those for reads and for writes. A kind that the value leaves out is `None`.
/// A value without a comma applies to both.
fn kinds(value: &str) -> [Option<&str>; 2] {
    let mut all = value.split(',').map(str::trim);
    let reads = all.next().filter(|v| !v.is_empty());
    match all.next() {
        None => [reads; 2],
        Some(writes) => [reads, Some(writes).filter(|v| !v.is_empty())],
    }
}

/// Returns the size of a job's requests from a value with sizes for reads and for writes. If the
/// job has both kinds, the sizes must be equal. A size that is left out is `default`.
fn of_kind<'a>(value: &'a str, writes: u8, default: &'a str) -> Option<&'a str> {
    if !value.contains(',') {
        return Some(value);
    }
    let [reads, of_writes] = kinds(value).map(|v| v.unwrap_or(default));
    match writes {
        0 => Some(reads),
        100 => Some(of_writes),
        _ => (reads == of_writes).then_some(reads),
    }
}

/// Reads sizes with percentages. Sizes without one share the rest equally, as in `fio`.
fn split(text: &str, one: impl Fn(&str) -> Option<u32>) -> Option<Split> {
    let parts: Option<Vec<(u32, Option<u8>)>> = (text.split(':'))
        .map(|part| {
            let (size, percent) = part.split_once('/').unwrap_or((part, ""));
            let percent = match percent {
                "" => None,
                number => Some(number.parse::<u8>().ok().filter(|p| *p <= 100)?),
            };
            Some((one(size)?, percent))
        })
        .collect();
    let parts = parts?;
    let stated: u32 = parts.iter().filter_map(|p| p.1).map(u32::from).sum();
    let open = parts.iter().filter(|p| p.1.is_none()).count() as u32;
    // More than 100 % in total is an error.
    let left = 100u32.checked_sub(stated)?.checked_div(open.max(1))? as u8;
    let parts: Vec<(u32, u8)> = parts.iter().map(|p| (p.0, p.1.unwrap_or(left))).collect();
    Split::new(&parts)
}

/// Reads the queue depth. More than one request in flight requires an asynchronous engine.
fn depth(doc: &mut Document<'_>, section: &Section<'_>) -> u32 {
    let depth = count(doc, section, "iodepth", 1..=65_536).unwrap_or(1) as u32;
    let engines: Vec<(&str, bool)> = (ASYNC.iter().map(|e| (*e, true)))
        .chain(SYNC.iter().map(|e| (*e, false)))
        .collect();
    let help = "use one of these; other engines are not supported";
    let several = word(doc, section, "ioengine", &engines, help);
    // An unknown engine was already reported, so it must not cause a second problem.
    let several = several.unwrap_or_else(|| section.get("ioengine").is_some());
    refuse!(doc, section;
        "iodepth", depth > 1 && !several,
            "requests in flight require an asynchronous engine; fio's default engine makes one system call at a time",
            "set ioengine=libaio";
    );
    depth
}

fn pattern(
    doc: &mut Document<'_>,
    notes: &mut Document<'_>,
    section: &Section<'_>,
    random: bool,
) -> Pattern {
    let skew = section.get("random_distribution");
    let skew = skew.and_then(|line| skewed(doc, line));
    let again = flag(doc, section, "norandommap").unwrap_or(false);
    let part = section.get("percentage_random").and_then(|line| {
        let parts = line.value.and_then(parts);
        if parts.is_none() {
            let help = "write 80, or 100,0 for reads and writes";
            report_value(doc, line, "must be one percentage or two", help);
        }
        // A percentage of 100 is the same as none.
        parts.filter(|parts| *parts != [100; 2])
    });
    for name in ["random_distribution", "percentage_random"] {
        section.note(notes, name, (!random, "has no effect for a sequential job"));
    }
    refuse!(doc, section;
        "percentage_random", random && skew.is_some() && part.is_some(),
            "cannot be combined with random_distribution", "remove one of the two";
    );
    pattern_of(random, skew, part, again)
}

/// Reads a distribution. `zipf` without an exponent has 1.1, as in `fio`.
fn skewed(doc: &mut Document<'_>, line: &OptionLine<'_>) -> Option<Skew> {
    match distribution(line.value.unwrap_or_default(), 1_100_000) {
        Ok(skew) => skew,
        Err((what, help)) => {
            report_value(doc, line, what, &help);
            None
        }
    }
}

fn zones(doc: &mut Document<'_>, section: &Section<'_>, base: u64) -> Option<Zones> {
    let modes = [("none", false), ("strided", true)];
    let help = "use one of these; zoned drives are not supported";
    let strided = word(doc, section, "zonemode", &modes, help);
    let used = size(doc, section, "zonesize", base, 1..=FILE_MOST);
    let range = size(doc, section, "zonerange", base, 1..=FILE_MOST);
    let skip = size(doc, section, "zoneskip", base, 0..=FILE_MOST).unwrap_or(0);
    if strided != Some(true) {
        let zones = ["zonesize", "zonerange", "zoneskip"];
        if let Some(line) = zones.iter().find_map(|name| section.get(name)) {
            report_value(doc, line, "requires zonemode=strided", "");
        }
        return None;
    }
    let Some(used) = used else {
        let help = "set zonesize, for example zonesize=16k";
        doc.report_span(&section.at, "zonesize", "is missing", help);
        return None;
    };
    refuse!(doc, section;
        "zonerange", range.is_some_and(|r| r != used), "must be equal to zonesize", "remove it";
    );
    Some(Zones { size: used, skip })
}

fn flushes(doc: &mut Document<'_>, section: &Section<'_>) -> SyncMode {
    let kinds = ["fsync", "fdatasync"];
    let every = kinds.map(|name| count(doc, section, name, 0..=65_536).filter(|n| *n > 0));
    match every {
        [Some(_), Some(_)] => {
            refuse!(doc, section;
                "fdatasync", true, "cannot be combined with fsync", "remove one of the two";
            );
            SyncMode::Never
        }
        // Timestamps of files are not modelled, so the two are equal.
        [Some(n), None] | [None, Some(n)] => SyncMode::Fdatasync(n as u32),
        [None, None] => SyncMode::Never,
    }
}

/// Reads the arrival of a job's requests. `depth` and `writes` are its queue depth and its
/// percentage of writes.
fn arrival(
    doc: &mut Document<'_>,
    notes: &mut Document<'_>,
    section: &Section<'_>,
    size: Size,
    [depth, writes]: [u32; 2],
    base: u64,
) -> Arrival {
    let processes = [("linear", false), ("poisson", true)];
    let poisson = word(doc, section, "rate_process", &processes, "").unwrap_or(false);
    let think = time(doc, section, "thinktime", MICRO).filter(|t| *t > Span::ZERO);
    refuse!(doc, section;
        "thinktime", think.is_some() && depth > 1,
            "cannot be combined with iodepth above 1: fio would pause the whole job, but Weir would pause each request on its own",
            "set iodepth=1, or use rate_iops";
    );
    let rate = rates(doc, section, "rate", 1..=1 << 50, base);
    let iops = rates(doc, section, "rate_iops", 1..=SECOND, base);
    let both = [rate.is_some(), iops.is_some(), think.is_some()];
    if both.into_iter().filter(|b| *b).count() > 1 {
        let what = "rate, rate_iops and thinktime cannot be combined";
        doc.report_span(&section.at, section.name, what, "keep one of them");
    }
    let bytes = match size {
        Size::Fixed(bytes) => Some(u64::from(bytes)),
        Size::Range { .. } | Size::Split(_) => None,
    };
    refuse!(doc, section;
        "rate", bytes.is_none() && rate.is_some(), "requires a bs of one size", "use rate_iops instead";
    );
    // A rate can be so low or so high that its interval does not fit into the bounds of a scenario.
    let interval = |ns: u64| Span::from_nanos(ns.clamp(1, 3_600 * SECOND));
    let intervals = match (rate, iops) {
        (Some(rate), _) => {
            let all = bytes.unwrap_or(0).saturating_mul(SECOND);
            rate.map(|rate| rate.map(|rate| interval(all / rate)))
        }
        (None, Some(iops)) => iops.map(|iops| iops.map(|iops| interval(SECOND / iops))),
        (None, None) => [None; 2],
    };
    let limited = limited(intervals, writes as u8, poisson);
    refuse!(doc, section;
        "rate_process", limited.is_none(), "requires a rate", "set rate_iops, for example rate_iops=200";
    );
    let low = batches(doc, notes, section, depth, limited.is_some());
    match limited {
        Some(limited) => limited,
        // If the job continues at one request below its depth, each reply is followed by a request,
        // as without the option.
        None if low < depth - 1 && think.is_none() => Arrival::Batches { low },
        None => Arrival::Closed {
            think: think.unwrap_or(Span::ZERO),
        },
    }
}

/// Reads the rates of reads and of writes that an option states. A kind without a limit is `None`.
fn rates(
    doc: &mut Document<'_>,
    section: &Section<'_>,
    name: &str,
    range: RangeInclusive<u64>,
    base: u64,
) -> Option<[Option<u64>; 2]> {
    let line = section.get(name)?;
    let value = line.value.unwrap_or_default();
    if !value.contains(',') {
        return size_of(doc, line, base, range).map(|rate| [Some(rate); 2]);
    }
    let found = kinds(value).map(|value| {
        let line = OptionLine {
            value: Some(value?),
            ..line.clone()
        };
        size_of(doc, &line, base, range.clone())
    });
    Some(found)
}

/// Returns the number of requests in flight that lets a job continue after it had reached its
/// depth. It is at most `iodepth_low`, and below `iodepth` by at least the number of replies that
/// the job collects at a time.
fn batches(
    doc: &mut Document<'_>,
    notes: &mut Document<'_>,
    section: &Section<'_>,
    depth: u32,
    paced: bool,
) -> u32 {
    for name in ["iodepth_low", "iodepth_batch_complete_min"] {
        section.note(notes, name, (paced, "has no effect for a job with a rate"));
    }
    let least = count(doc, section, "iodepth_batch_complete_min", 0..=65_536);
    let taken = least.unwrap_or(1).max(1) as u32;
    let low = count(doc, section, "iodepth_low", 0..=65_536);
    let low = low.map_or(depth, |low| low as u32);
    low.min(depth.saturating_sub(taken))
}

/// Sets the end of a job that is not `time_based`: it ends after `bytes` bytes. If sizes differ,
/// the average size determines the number of requests.
fn ends(doc: &mut Document<'_>, section: &Section<'_>, program: &mut Program, bytes: u64) {
    if flag(doc, section, "time_based").unwrap_or(false) {
        return;
    }
    let each = match program.size {
        Size::Fixed(each) => u64::from(each),
        // Sizes go from `min` in steps to at most `max` and are equally likely, so the average is
        // in the middle.
        Size::Range { min, max, step } => u64::from(min) + u64::from((max - min) / step * step) / 2,
        Size::Split(split) => {
            let parts = split.parts();
            let all = parts.map(|(size, percent)| u64::from(size) * u64::from(percent));
            all.sum::<u64>() / 100
        }
    };
    // A scenario cannot state a larger number, and no run reaches it.
    let all = (bytes / each.max(1)).clamp(1, 1 << 60);
    program.requests = Some(program.requests.map_or(all, |n| n.min(all)));
}

/// Returns the reason why an I/O priority does not result in a class. A job has no contract. A
/// realtime job therefore never has the max that its class requires.
fn unclassed(doc: &Document<'_>, section: &Section<'_>, priority: Priority) -> Option<Problem> {
    let (why, _) = of_priority(priority.class, &Contract::DEFAULT).err()?;
    let line = section.get("prioclass")?;
    let help = "convert the job with `weir scenarios --from`, and set what is missing there";
    Some(doc.problem_at(&line.at, line.name, format!("{UNCLASSED}: {why}"), help))
}

fn priority(doc: &mut Document<'_>, section: &Section<'_>) -> Priority {
    let class = count(doc, section, "prioclass", 0..=3);
    let level = count(doc, section, "prio", 0..=7);
    let default = Priority::default();
    Priority {
        class: match class {
            // The numbers are `IOPRIO_CLASS_RT` (1), `_BE` (2) and `_IDLE` (3) of Linux.
            Some(1) => PriorityClass::Realtime,
            Some(3) => PriorityClass::Idle,
            _ => default.class,
        },
        level: level.map_or(default.level, |l| l as u8),
    }
}

/// Returns the name of the job's file. Jobs with the same name share the file.
fn file(doc: &mut Document<'_>, section: &Section<'_>) -> Option<String> {
    let Some(line) = section.get("filename") else {
        return format(section);
    };
    let name = line.value.unwrap_or_default();
    // `fio` separates the names of several files by colons.
    if name.is_empty() || name.contains(':') {
        let what = format!("{} is not one file", quoted(name));
        let help = "write one file; nrfiles=4 gives a job several files of its own";
        doc.report_span(&line.value_at, line.name, what, help);
        return None;
    }
    Some(name.to_owned())
}

/// Returns the file of a `filename_format`. Jobs share it unless the format contains their number.
fn format(section: &Section<'_>) -> Option<String> {
    let format = section.get("filename_format")?.value?;
    let own = format.is_empty() || format.contains("$jobnum");
    (!own).then(|| format.replace("$jobname", section.name))
}
