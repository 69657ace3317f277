//! Tests of recorded loads: both formats, their damage, and the options.

use super::builder::TraceBuilder;
use super::*;
use proptest::prelude::*;
use std::fmt::Write as _;
use std::io::Cursor;
use weir_core::{Flags, Span};
use weir_model::load::{Region, TraceTiming, TracedRequest};

/// Reads the bytes of one file.
fn parsed(bytes: &[u8], options: &TraceOptions) -> Result<Trace, Problem> {
    let mut builder = TraceBuilder::new(options);
    builder.file = "load".into();
    read(&mut builder, &mut Cursor::new(bytes))?;
    builder.finish()
}

fn plain(bytes: &[u8]) -> Result<Trace, Problem> {
    parsed(bytes, &TraceOptions::default())
}

/// Returns the problem of a damaged file, with its help.
fn refusal(bytes: &[u8]) -> String {
    plain(bytes).expect_err("it is refused").to_string()
}

fn micros(trace: &Trace) -> Vec<u64> {
    let times = trace.requests().iter().map(|r| r.at.as_nanos() / 1_000);
    times.collect()
}

/// Returns the operation, the offset and the length of each request.
fn ranges(trace: &Trace) -> Vec<(Op, u64, u32)> {
    let requests = trace.requests().iter();
    requests.map(|r| (r.op, r.offset, r.length)).collect()
}

const LOG: &str = "\
fio version 3 iolog
3 a add
4 b add
5 a open
10 a read 4096 8192
20 b write 0 512
20 b datasync 0 0
30 a trim 8192 1048576
40 a sync 0 0
41 a close
";

#[test]
fn an_iolog_with_times_has_each_request_at_its_time() {
    let trace = plain(LOG.as_bytes()).unwrap();
    assert_eq!(trace.timing(), TraceTiming::Recorded);
    assert_eq!(micros(&trace), [10, 20, 20, 30, 40]);
    // The second file follows the first, which ends at 1 MiB and 8 KiB.
    let after = (1 << 20) + 8192;
    assert_eq!(
        ranges(&trace),
        [
            (Op::Read, 4096, 8192),
            (Op::Write, after, 512),
            (Op::Flush, 0, 0),
            (Op::Discard, 8192, 1 << 20),
            (Op::Flush, 0, 0),
        ]
    );
    assert_eq!(trace.requests()[1].flags, Flags::SYNC);
}

#[test]
fn an_iolog_of_version_2_waits_and_is_fast_without_a_wait() {
    let text = "fio version 2 iolog\n\na add\na open\na read 0 4096\na wait 1500 0\na wait 99 0\na write 0 4096\n";
    let trace = plain(text.as_bytes()).unwrap();
    // A wait below 100 us is ignored, as in fio.
    assert_eq!(micros(&trace), [0, 1_500]);
    assert_eq!(trace.timing(), TraceTiming::Recorded);
    let trace = plain(text.replace("a wait 1500 0\n", "").as_bytes()).unwrap();
    assert_eq!(trace.timing(), TraceTiming::Fast);
}

/// Changes of [`LOG`]: a text that is replaced, its replacement, and the problem that follows.
const DAMAGED: [(&str, &str, &str); 13] = [
    (
        "version 3",
        "version 1",
        "load:1:1: \"fio version 1 iolog\" is not supported",
    ),
    (
        "a read 4096",
        "c read 4096",
        "load:5:1: the file \"c\" was not added before",
    ),
    (
        "read 4096",
        "raed 4096",
        "load:5:1: unknown action \"raed\"",
    ),
    (
        "4096 8192",
        "4096",
        "load:5:1: \"10 a read 4096\" is not a line of an iolog",
    ),
    (
        "4096 8192",
        "-1 8192",
        "load:5:1: \"-1\" is not an offset in bytes",
    ),
    (
        "4096 8192",
        "4096 0",
        "load:5:1: a length must be 1B to 64MiB, not 0B",
    ),
    (
        "4096 8192",
        "4096 99999999999",
        "load:5:1: a length must be 1B to 64MiB",
    ),
    (
        "4096 8192",
        "4096 8000",
        "load:5:1: is not a range of whole sectors",
    ),
    (
        "4096 8192",
        "18446744073709551104 8192",
        "load:5:1: ends after 1PiB",
    ),
    (
        "20 b write",
        "9 b write",
        "load:6:1: 9 is before 10, the time of the line before",
    ),
    (
        "40 a sync",
        "99999999999999999 a sync",
        "load:9:1: 99999999999999999 is not a time",
    ),
    (
        "30 a trim",
        "30 a wait",
        "load:8:1: wait is not part of version 3",
    ),
    (
        "41 a close",
        "41 a clo",
        "load:10:1: unknown action \"clo\"",
    ),
];

#[test]
fn a_damaged_iolog_is_refused_with_its_line() {
    for (from, to, expected) in DAMAGED {
        let said = refusal(LOG.replacen(from, to, 1).as_bytes());
        assert!(said.starts_with(expected), "{said}");
        assert!(said.contains("\n  help: "), "{said}");
    }
}

#[test]
fn a_file_that_is_not_a_whole_iolog_is_refused() {
    let cut = &LOG.as_bytes()[..LOG.len() - 2];
    let said = refusal(cut);
    assert!(
        said.starts_with("load:10:1: the last line has no end"),
        "{said}"
    );
    let long = LOG.to_owned() + &"x".repeat(5_000);
    assert!(refusal(long.as_bytes()).starts_with("load:11:1: the line is longer than 4096 bytes"));
    let mut binary = LOG.as_bytes().to_vec();
    binary.extend(b"50 \xff read 0 4096\n");
    assert!(refusal(&binary).starts_with("load:11:1: the line is not text"));
    assert!(refusal(b"fio version 3 iolog\n").starts_with("load: has no request"));
    for other in [&b""[..], b"0, 0, 4096\n", b"[job]\n"] {
        assert!(refusal(other).starts_with("load: is neither an iolog"));
    }
}

#[test]
fn too_many_files_are_refused() {
    let mut text = "fio version 2 iolog\n".to_owned();
    for file in 0..=TraceBuilder::FILES {
        writeln!(text, "{file} add").expect("a String takes anything");
    }
    let said = refusal(text.as_bytes());
    assert!(
        said.starts_with("load:1026:1: has more than 1024 files"),
        "{said}"
    );
}

#[test]
fn options_change_times_offsets_and_kinds() {
    let with = |change: fn(&mut TraceOptions)| {
        let mut options = TraceOptions::default();
        change(&mut options);
        parsed(LOG.as_bytes(), &options).unwrap()
    };
    let fast = with(|o| o.fast = true);
    assert_eq!(fast.timing(), TraceTiming::Fast);
    assert_eq!(micros(&with(|o| o.speed = 50)), [20, 40, 40, 60, 80]);
    assert_eq!(micros(&with(|o| o.speed = 200)), [5, 10, 10, 15, 20]);
    let one = with(|o| o.together = true);
    assert_eq!(ranges(&one)[1], (Op::Write, 0, 512));
    // The offset is divided first: 4096 / 4 is 1024, and 8192 / 4 is 2048.
    let scaled = with(|o| (o.scale, o.align) = (4, 2048));
    assert_eq!(ranges(&scaled)[0].1, 0);
    assert_eq!(ranges(&scaled)[3].1, 2048);
    let skipped = with(|o| o.skip = TraceKind::list("write, sync").unwrap());
    let ops: Vec<Op> = skipped.requests().iter().map(|r| r.op).collect();
    assert_eq!(ops, [Op::Read, Op::Discard]);
    assert_eq!(TraceKind::list("write,erase"), None);
    assert_eq!(
        TraceKind::words(&TraceKind::list("sync,read").unwrap()),
        "read,sync"
    );
}

/// An event as a machine with this byte order writes it.
fn event(little: bool, time: u64, sector: u64, bytes: u32, action: u32) -> Vec<u8> {
    let u32s = |value: u32| {
        if little {
            value.to_le_bytes()
        } else {
            value.to_be_bytes()
        }
    };
    let u64s = |value: u64| {
        if little {
            value.to_le_bytes()
        } else {
            value.to_be_bytes()
        }
    };
    let further: u16 = 8;
    let further = if little {
        further.to_le_bytes()
    } else {
        further.to_be_bytes()
    };
    let mut event = Vec::new();
    event.extend(u32s(0x6561_7407));
    event.extend(u32s(1));
    event.extend(u64s(time));
    event.extend(u64s(sector));
    for value in [bytes, action, 4711, 8 << 20, 0] {
        event.extend(u32s(value));
    }
    event.extend([0, 0]);
    event.extend(further);
    // The further data are those of the cgroup.
    event.extend([0xff; 8]);
    event
}

const QUEUE: u32 = 0x0101;
const WRITE: u32 = 1 << 17;
const SYNC: u32 = 1 << 19;

fn events(little: bool) -> Vec<u8> {
    let notify = (1 << 26) | 1;
    let passthrough = (1 << 25) | 1;
    let flush = 1 << 18;
    let durable = 1 << 31;
    let discard = 1 << 29;
    [
        event(little, 500, 0, 0, notify),
        event(little, 1_000, 8, 4096, (1 << 16) | QUEUE),
        event(little, 1_100, 8, 4096, (1 << 16) | 7),
        event(little, 1_200, 8, 512, passthrough),
        event(
            little,
            3_000,
            16,
            512,
            WRITE | flush | durable | SYNC | QUEUE,
        ),
        event(little, 2_000, 0, 0, WRITE | flush | QUEUE),
        event(little, 4_000, 16, 65_536, WRITE | discard | QUEUE),
    ]
    .concat()
}

#[test]
fn a_trace_of_either_byte_order_has_the_queued_requests_in_order() {
    for little in [true, false] {
        let trace = plain(&events(little)).unwrap();
        assert_eq!(
            ranges(&trace),
            [
                (Op::Read, 4096, 4096),
                (Op::Flush, 0, 0),
                // A write that is preceded by a flush.
                (Op::Flush, 0, 0),
                (Op::Write, 8192, 512),
                (Op::Discard, 8192, 65_536),
            ]
        );
        let times: Vec<u64> = trace.requests().iter().map(|r| r.at.as_nanos()).collect();
        assert_eq!(times, [0, 1_000, 2_000, 2_000, 3_000]);
        let durable = Flags::SYNC.with(Flags::FUA);
        assert_eq!(trace.requests()[3].flags, durable);
    }
}

#[test]
fn a_damaged_trace_is_refused_with_its_byte() {
    let mut bytes = events(true);
    for cut in [1, 20, 55] {
        let cut = &bytes[..bytes.len() - cut];
        let said = refusal(cut);
        assert!(said.contains(": the file ends within an event"), "{said}");
    }
    bytes[56] = 0;
    assert!(refusal(&bytes).starts_with("load: byte 56: version 0 is not supported"));
    bytes[57] = 0;
    let said = refusal(&bytes);
    assert!(
        said.starts_with("load: byte 56: an event does not begin with"),
        "{said}"
    );
    let far = event(true, 0, u64::MAX, 4096, (1 << 16) | QUEUE);
    assert!(refusal(&far).starts_with("load: byte 0: sector 18446744073709551615 is after"));
    let odd = event(true, 0, 8, 100, (1 << 16) | QUEUE);
    assert!(refusal(&odd).starts_with("load: byte 0: is not a range of whole sectors"));
    let none = event(true, 0, 8, 4096, (1 << 16) | 7);
    assert!(refusal(&none).starts_with("load: has no request"));
}

#[test]
fn a_trace_of_a_processor_that_is_offline_can_be_missing() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("disk");
    for (number, sector) in [(1, 8), (3, 16), (10, 24)] {
        let bytes = event(true, u64::from(number), sector, 4096, WRITE | QUEUE);
        fs::write(of_processor(&base, number), bytes).unwrap();
    }
    let play = |path: &Path| {
        let files = TraceFiles::default();
        files.get(path.to_str().unwrap(), "", &TraceOptions::default())
    };
    let trace = play(&base).unwrap();
    let write = |sector: u64| (Op::Write, sector * 512, 4096);
    assert_eq!(ranges(&trace), [write(8), write(16), write(24)]);
    let said = play(&of_processor(&base, 3)).unwrap_err().to_string();
    assert!(said.contains("and others exist"), "{said}");
}

#[test]
fn traces_of_processors_are_merged_and_one_of_several_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("disk");
    let write = |number: u32, bytes: &[u8]| {
        fs::write(of_processor(&base, number), bytes).unwrap();
    };
    write(0, &event(true, 1_000, 8, 4096, (1 << 16) | QUEUE));
    write(1, &event(true, 500, 16, 512, WRITE | QUEUE));
    // A processor without events leaves an empty file.
    write(2, &[]);
    let options = TraceOptions::default();
    let files = TraceFiles::default();
    let name = base.to_str().unwrap();
    let trace = files.get(name, "jobs.fio", &options).unwrap();
    assert_eq!(
        ranges(&trace),
        [(Op::Write, 8192, 512), (Op::Read, 4096, 4096)]
    );
    // The file is read once, even if it has changed since.
    write(0, b"damaged");
    assert!(Arc::ptr_eq(
        &trace,
        &files.get(name, "jobs.fio", &options).unwrap()
    ));
    let one = of_processor(&base, 1);
    let said = files
        .get(one.to_str().unwrap(), "", &options)
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("is the trace of one processor, and others exist"),
        "{said}"
    );
    let said = files.get("absent", "", &options).unwrap_err().to_string();
    assert!(said.contains("cannot read the file"), "{said}");
    let said = files
        .get("/dev/zero", "", &options)
        .unwrap_err()
        .to_string();
    assert!(said.contains("not a regular file"), "{said}");
}

/// Checks the properties of a recorded load that was accepted.
fn check(trace: &Trace, options: &TraceOptions) {
    let requests: &[TracedRequest] = trace.requests();
    assert!(!requests.is_empty() && requests.is_sorted_by_key(|r| r.at));
    let end = trace.region().length;
    for request in requests {
        let length = u64::from(request.length);
        assert!(request.offset + length <= end && request.offset.is_multiple_of(512));
        assert_eq!(request.op == Op::Flush, length == 0);
        assert!(!options.skip.iter().any(|kind| kind.op() == request.op));
    }
    assert!(
        trace
            .program(1)
            .validate(Region::new(0, end.max(512)))
            .is_ok()
    );
    assert!(trace.length() >= Span::ZERO);
}

fn options() -> impl Strategy<Value = TraceOptions> {
    let skip = prop::sample::subsequence(
        vec![TraceKind::Read, TraceKind::Write, TraceKind::Sync],
        0..3,
    );
    (
        any::<bool>(),
        1u64..400,
        1u64..5,
        0u32..14,
        any::<bool>(),
        skip,
    )
        .prop_map(|(fast, speed, scale, align, together, skip)| TraceOptions {
            fast,
            speed,
            scale,
            align: 1 << align,
            together,
            skip,
        })
}

/// A change of a file: a position, and bytes that replace those there.
fn damage() -> impl Strategy<Value = (usize, Vec<u8>)> {
    (any::<usize>(), prop::collection::vec(any::<u8>(), 0..8))
}

proptest! {
    #[test]
    fn arbitrary_damage_is_refused_with_a_reason_or_leaves_a_valid_load(
        changes in prop::collection::vec(damage(), 0..4),
        cut in prop::option::of(any::<usize>()),
        which in 0usize..3,
        options in options(),
    ) {
        let mut bytes = match which {
            0 => LOG.as_bytes().to_vec(),
            1 => events(true),
            _ => events(false),
        };
        for (at, new) in changes {
            let at = at % bytes.len();
            let end = (at + new.len()).min(bytes.len());
            bytes.splice(at..end, new);
        }
        if let Some(cut) = cut {
            bytes.truncate(cut % (bytes.len() + 1));
        }
        match parsed(&bytes, &options) {
            Ok(trace) => check(&trace, &options),
            Err(problem) => prop_assert!(!problem.message.is_empty() && problem.file == "load"),
        }
    }

    #[test]
    fn lines_of_words_and_numbers_never_break_the_reader(
        lines in prop::collection::vec(("[0-9]{0,20} ?", "[ab]", "(add|open|close|read|write|trim|sync|wait|x)", "( [0-9]{1,20}){0,3}"), 0..20),
        version in 2..4,
    ) {
        let mut text = format!("fio version {version} iolog\n");
        for (time, name, action, numbers) in lines {
            writeln!(text, "{time}{name} {action}{numbers}").expect("a String takes anything");
        }
        match plain(text.as_bytes()) {
            Ok(trace) => check(&trace, &TraceOptions::default()),
            Err(problem) => prop_assert!(!problem.message.is_empty()),
        }
    }
}
