//! Tests of a single process: the commands of its system calls, step by step.

use super::*;
use crate::Scenario;
use weir_core::{Contract, Waits};
use weir_model::load::Program;

const MIB: u64 = 1 << 20;

/// A process without a layer: the test completes its commands.
struct LoneProcess {
    process: Process,
    cache: Cache,
    write_back: WriteBack,
    program: LoadClient,
    meter: Meter,
    asked: Vec<ProcessCommand>,
    now: Instant,
}

impl LoneProcess {
    fn new(program: Program, buffered: Buffered, file: u64) -> Self {
        let drive =
            weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo());
        let mut scenario = Scenario::new("alone", drive, Span::from_secs(10));
        let spec = scenario.add_client_with_group("alone", Contract::DEFAULT, file, program);
        Self {
            process: Process::new(0, 1, spec, &buffered, 0, 1280 * 1024).unwrap(),
            cache: Cache::new(file / PAGE),
            write_back: WriteBack::new(&[]),
            program: LoadClient::new(&program, 1, spec.region).unwrap(),
            meter: Meter::new(0, 10_000_000_000),
            asked: Vec::new(),
            now: Instant::ZERO,
        }
    }

    /// Runs the process until it waits for a completion. Returns its new commands in pages, as `op
    /// first+pages`.
    fn run(&mut self) -> String {
        let mut commands = Vec::new();
        while let Continuation::At(at) = self.process.run(
            self.now,
            (&mut self.cache, &mut self.write_back),
            &mut self.program,
            &mut self.meter,
            &mut commands,
        ) {
            self.now = at;
        }
        let line = commands.iter().map(|c| {
            let (start, pages) = (c.offset / PAGE, u64::from(c.length) / PAGE);
            match c.op {
                Op::Read => format!("read {start}+{pages}"),
                Op::Write => format!("write {start}+{pages}"),
                _ => "flush".into(),
            }
        });
        let line = line.collect::<Vec<_>>().join(", ");
        self.asked.extend(commands);
        line
    }

    /// Completes the oldest command, 1 ms later.
    fn answer(&mut self, well: bool) {
        let command = self.asked.remove(0);
        self.now += Span::from_millis(1);
        let waits = Waits {
            drive: Span::from_millis(1),
            ..Waits::default()
        };
        let parts = Breakdown {
            waits,
            ..Breakdown::default()
        };
        let fetch = Fetch {
            client: 0,
            number: command.number,
        };
        self.process
            .on_answer(self.now, command.number, parts, well);
        if self.cache.complete_fetch(fetch, well) {
            self.process.on_fetched(self.now, fetch, parts, well);
        }
    }

    /// Completes the commands one by one, and returns the commands after each completion.
    fn table(&mut self, answers: u32) -> Vec<String> {
        let mut lines = vec![self.run()];
        for _ in 0..answers {
            self.answer(true);
            lines.push(self.run());
        }
        lines
    }
}

fn buffered(advice: Advice) -> Buffered {
    Buffered {
        advice,
        ..Buffered::default()
    }
}

#[test]
fn a_sequential_reader_of_4_kib_has_windows_of_16_kib_doubled_to_128_kib() {
    let program = Program::sequential_reads(4096, 1);
    let mut reader = LoneProcess::new(program, buffered(Advice::Normal), MIB);
    // The marker is on the second page of the first window, and on the first page of each further
    // window. When the process reaches a marker, it submits the next window before it waits for the
    // present one.
    let golden = [
        "read 0+4",
        "read 4+8, read 12+16",
        "read 28+32",
        "read 60+32",
        "read 92+32",
        "read 124+32",
        "read 156+32",
        "read 188+32",
        "read 220+32",
        "read 252+4",
        "",
    ];
    assert_eq!(reader.table(10), golden);
    // The program starts the file again with an empty cache.
    reader.answer(true);
    assert_eq!(reader.run(), "read 0+4");
    assert_eq!(reader.meter.requests(), 256);
    assert_eq!(reader.meter.bytes(), MIB);
}

#[test]
fn advice_doubles_the_read_ahead_window_or_disables_it() {
    let program = Program::sequential_reads(4096, 1);
    let mut reader = LoneProcess::new(program, buffered(Advice::Sequential), MIB);
    let golden = [
        "read 0+4",
        "read 4+8, read 12+16",
        "read 28+32",
        // The advice `sequential` doubles the maximum window from 32 to 64 pages.
        "read 60+64",
        "read 124+64",
        "read 188+64",
        "read 252+4",
    ];
    assert_eq!(reader.table(6), golden);
    let mut reader = LoneProcess::new(program, buffered(Advice::Random), MIB);
    assert_eq!(
        reader.table(3),
        ["read 0+1", "read 1+1", "read 2+1", "read 3+1"]
    );
}

#[test]
fn reads_of_other_sizes_open_other_windows() {
    let first = |size, read_ahead| {
        let program = Program::sequential_reads(size, 1);
        let buffered = Buffered {
            read_ahead,
            ..Buffered::default()
        };
        LoneProcess::new(program, buffered, 64 * MIB).table(2)
    };
    assert_eq!(
        first(16 << 10, 128 << 10),
        ["read 0+8", "read 8+16, read 24+32", "read 56+32"]
    );
    assert_eq!(
        first(128 << 10, 128 << 10),
        ["read 0+32", "read 32+32, read 64+32", "read 96+32"]
    );
    assert_eq!(first(1 << 20, 128 << 10)[..1], ["read 0+256"]);
    assert_eq!(first(4096, 0), ["read 0+1", "read 1+1", "read 2+1"]);
    assert_eq!(
        first(4096, 2 << 20),
        ["read 0+4", "read 4+16, read 20+64", "read 84+128"]
    );
}

#[test]
fn random_reads_fetch_single_pages_and_none_twice() {
    for advice in [Advice::Normal, Advice::Random] {
        let mut program = Program::random_reads(4096, 1);
        program.requests = Some(300);
        let mut reader = LoneProcess::new(program, buffered(advice), 1 << 30);
        let mut pages = BTreeSet::new();
        for _ in 0..300 {
            let line = reader.run();
            let page = line
                .strip_prefix("read ")
                .and_then(|l| l.strip_suffix("+1"));
            assert!(pages.insert(page.map(str::to_owned)), "{line}");
            reader.answer(true);
        }
        assert_eq!(reader.run(), "");
        assert_eq!(reader.meter.requests(), 300);
        assert_eq!(
            reader.meter.latency().min(),
            1_001_000,
            "1 ms, and 1 us to copy"
        );
        assert_eq!(reader.meter.split().drive.min(), 1_000_000);
    }
}

#[test]
fn cache_hits_take_their_time_and_issue_no_read() {
    let mut program = Program::random_reads(4096, 1);
    program.requests = Some(10_000);
    let mut reader = LoneProcess::new(program, buffered(Advice::Random), 10 * PAGE);
    for _ in 0..10 {
        assert!(reader.run().starts_with("read "));
        reader.answer(true);
    }
    assert_eq!(reader.run(), "");
    assert_eq!(reader.process.free, Instant::ZERO + Span::from_millis(20));
    let meter = &reader.meter;
    assert_eq!((meter.requests(), meter.latency().min()), (10_000, 1_000));
}

/// A program that writes records of `size` bytes one after the other, and makes each durable before
/// the next.
fn log(size: u32) -> Program {
    let mut program = Program::sequential_reads(size, 1);
    program.writes = 100;
    program.sync = SyncMode::Fdatasync(1);
    program
}

#[test]
fn fdatasync_writes_then_flushes_then_goes_on() {
    let mut program = log(4096);
    let mut writer = LoneProcess::new(program, buffered(Advice::Normal), MIB);
    assert_eq!(
        writer.table(5),
        [
            "write 0+1",
            "flush",
            "write 1+1",
            "flush",
            "write 2+1",
            "flush"
        ]
    );
    assert!(writer.asked.iter().all(|c| c.flags.has(Flags::SYNC)));
    assert_eq!(writer.meter.bytes(), 3 * PAGE);
    // Three records are contiguous. At the end of the file, pages 0, 1 and 3 are dirty. They become
    // two requests, and the flush waits for both.
    program.sync = SyncMode::Fdatasync(3);
    let mut writer = LoneProcess::new(program, buffered(Advice::Normal), 4 * PAGE);
    assert_eq!(
        writer.table(5),
        [
            "write 0+3",
            "flush",
            "write 0+2, write 3+1",
            "",
            "flush",
            "write 0+1, write 2+2"
        ]
    );
}

#[test]
fn a_failed_read_is_repeated() {
    let mut program = Program::sequential_reads(4096, 1);
    program.requests = Some(2);
    let mut reader = LoneProcess::new(program, buffered(Advice::Random), PAGE);
    assert_eq!(reader.run(), "read 0+1");
    reader.answer(false);
    assert_eq!(reader.run(), "read 0+1");
    reader.answer(true);
    assert_eq!(reader.run(), "");
    assert_eq!((reader.meter.failures(), reader.meter.requests()), (1, 1));
}

#[test]
fn programs_that_cannot_be_buffered_are_refused_with_their_key() {
    type Spoil = fn(&mut Program, &mut Buffered);
    let bad: [(&str, Spoil); 7] = [
        ("depth", |p, _| p.depth = 2),
        ("fua", |p, _| p.fua = true),
        ("sync", |p, _| {
            (p.writes, p.sync) = (1, SyncMode::Fdatasync(65_537));
        }),
        ("read_ahead", |_, b| b.read_ahead = 4095),
        ("read_ahead", |_, b| b.read_ahead = (16 << 20) + 4096),
        ("copy", |_, b| b.copy = Span::ZERO),
        ("dirty_bytes", |_, b| b.dirty_bytes = (1 << 20) - 1),
    ];
    for (key, spoil) in bad {
        let (mut program, mut buffered) = (Program::random_reads(4096, 1), Buffered::default());
        spoil(&mut program, &mut buffered);
        let drive =
            weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo());
        let mut scenario = Scenario::new("bad", drive, Span::from_secs(1));
        let spec = scenario.add_client_with_group("bad", Contract::DEFAULT, MIB, program);
        let error = Process::new(0, 1, spec, &buffered, 0, 4096).unwrap_err();
        assert!(
            matches!(error, SimError::Buffered { key: k, .. } if k == key),
            "{error}"
        );
    }
}

/// A log of records of 2300 bytes. Each write dirties the pages that it touches, and the next
/// record begins in the page in which the last one ended. A reader of such records reads each page
/// once.
#[test]
fn calls_that_end_within_a_page_have_the_whole_page() {
    let mut writer = LoneProcess::new(log(2300), buffered(Advice::Normal), MIB);
    assert_eq!(
        writer.table(5),
        [
            "write 0+1",
            "flush",
            "write 0+2",
            "flush",
            "write 1+1",
            "flush"
        ]
    );
    assert_eq!(writer.meter.bytes(), 3 * 2300);
    let mut program = Program::sequential_reads(1000, 1);
    program.requests = Some(65);
    let mut reader = LoneProcess::new(program, buffered(Advice::Normal), 16 * PAGE);
    assert_eq!(reader.table(2), ["read 0+4", "read 4+8, read 12+4", ""]);
}
