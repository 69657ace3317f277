//! Tests of merging against Linux, request by request. The submissions and queue runs of traces
//! from Linux 6.1 are replayed, and the commands of our layer are compared with those of Linux.
//!
//! The compressed traces are in `merging/`, and `zcat NAME.txt.gz` prints one. They were recorded
//! with Linux 6.1 as a user-mode program in virtual time (`time-travel=inf-cpu`, one processor),
//! and with `null_blk` (`nr_devices=1 queue_mode=2 irqmode=2 gb=64`, one queue, `hw_queue_depth=2
//! completion_nsec=200000`, or 1 and 500000 for the jobs of several threads), `max_sectors_kb` 127
//! and `max_segments` 128. The load was fio 3.33 with `--direct=1`. The traces contain the events
//! `block_bio_queue`, `block_bio_backmerge`, `block_bio_frontmerge`, `block_getrq`,
//! `block_rq_insert`, `block_rq_merge`, `block_plug`, `block_unplug`, `block_rq_issue`,
//! `block_rq_complete`, and `workqueue_execute_start` of `blk_mq_run_work_fn`. Their names stand
//! for these options of fio:
//!
//! ```text
//! plug-E-bB    --rw=read --bs=4k --ioengine=libaio --iodepth=32 --iodepth_batch=B --iodepth_batch_complete_min=B
//!              --iodepth_batch_complete_max=B   (64k: --bs=64k; nmN: nomerges N; rev: --rw=read:-8k)
//! seq-d32-E    --rw=read --bs=4k --ioengine=libaio --iodepth=32   (seqw: write; rev: --rw=read:-8k; rr: randread)
//! ilN-E-sS     --numjobs=N --thread --offset_increment=16k --rw=read:((N-1)*16)k --bs=16k --ioengine=libaio --iodepth=4; S is the
//!              sample, in which the job begins some milliseconds later or sooner
//! ilsN-E-sS    as that with --ioengine=psync
//! ```
//!
//! The first line of a trace has the elevator, R or W, the bytes of a request, the tags of the
//! drive, `nr_requests`, `nomerges`, and the number of threads. Every other line begins with the
//! microseconds since the line before:
//!
//! - `sT P...`: thread T submits requests, in one plug if there are several. Offsets are in units
//!   of a request's length, and `P+N` stands for N adjacent requests.
//! - `r`: the queue was run.
//! - `i P+N`: Linux sent a command.
//! - `c`: the oldest command in the drive completed.
//!
//! `bfq` is configured as in Linux, with `stable_merge` on.

use flate2::read::GzDecoder;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use weir_core::testing::{request, space, spec};
use weir_core::{
    Completion, Config, DriveShape, Flags, Instant, Layer, Op, Output, ROOT, Reason, Sizes,
    StreamId, Tag, elevator, merge,
};

/// The offset and the length of a command, in requests.
type Command = (u64, u64);

/// The replay of one trace.
struct MergeReplay {
    layer: Layer,
    threads: Vec<StreamId>,
    op: Op,
    size: u64,
    now: u64,
    cookie: u64,
    drive: VecDeque<Tag>,
    linux: Vec<Command>,
    ours: Vec<Command>,
}

/// Parses `P+N`, or `P` for a single request.
fn range(text: &str) -> Command {
    let (at, n) = text.split_once('+').unwrap_or((text, "1"));
    (at.parse().unwrap(), n.parse().unwrap())
}

impl MergeReplay {
    fn new(head: &str) -> Self {
        let words: Vec<&str> = head.split(' ').collect();
        let number = |i: usize| words[i].parse::<u32>().unwrap();
        let config = Config::of(match words[0] {
            "none" => elevator::Config::None,
            "bfq" => elevator::Config::Bfq(elevator::bfq::Config::default().stable_merge(true)),
            other => panic!("no elevator is called {other}"),
        })
        .sizes(Sizes::default().scheduler_tags(number(4)))
        .drive(
            DriveShape::default()
                .tags(number(3) as u16)
                .max_transfer(127 * 1024),
        )
        .merge(merge::Config::LINUX.nomerges(number(5) as u8));
        let mut layer = Layer::new(config).unwrap();
        let space = space(0, 64 << 30);
        layer.change(Instant::ZERO, &[space]).unwrap();
        let spec = spec(ROOT);
        let threads = (0..number(6)).map(|_| layer.open(Instant::ZERO, spec).unwrap());
        Self {
            threads: threads.collect(),
            layer,
            op: if words[1] == "R" { Op::Read } else { Op::Write },
            size: number(2).into(),
            now: 0,
            cookie: 0,
            drive: VecDeque::new(),
            linux: Vec::new(),
            ours: Vec::new(),
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.now * 1_000)
    }

    fn line(&mut self, line: &str) {
        let (after, what) = line.split_once(' ').unwrap();
        self.now += after.parse::<u64>().unwrap();
        match what.split_at(1) {
            ("s", rest) => self.submit(rest),
            ("r", _) => self.run(),
            ("i", rest) => self.linux.push(range(rest.trim())),
            ("c", _) => {
                if let Some(tag) = self.drive.pop_front() {
                    let now = self.now();
                    self.layer.complete(now, &[Completion::ok(tag)]);
                }
            }
            _ => panic!("not a line of a trace: {line}"),
        }
    }

    fn submit(&mut self, rest: &str) {
        let (thread, places) = rest.split_once(' ').unwrap();
        let stream = self.threads[thread.parse::<usize>().unwrap()];
        let mut batch = Vec::new();
        for place in places.split(' ') {
            let (at, n) = range(place);
            for at in at..at + n {
                self.cookie += 1;
                batch.push(
                    request(stream, self.op, self.cookie, self.size as u32)
                        .flags(Flags::SYNC)
                        .offset(at * self.size),
                );
            }
        }
        let now = self.now();
        self.layer.submit(now, &batch).unwrap();
    }

    fn run(&mut self) {
        let (now, mut out) = (self.now(), Vec::new());
        // The requests that followed the completions are in the trace already, so the poll can be
        // repeated at once.
        while self
            .layer
            .poll(now, &mut out)
            .is_some_and(|w| w.reason == Reason::Answers)
        {}
        for output in out {
            if let Output::Dispatch(d) = output {
                let (at, n) = (d.offset / self.size, u64::from(d.length) / self.size);
                self.ours.push((at, n));
                self.drive.push_back(d.tag);
            }
        }
    }
}

/// Returns the names and texts of all traces.
fn traces() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/merging");
    let files = fs::read_dir(folder).unwrap();
    let mut traces: Vec<(String, String)> = files
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let name = name.strip_suffix(".txt.gz").unwrap().to_owned();
            let packed = File::open(path).unwrap();
            (name, io::read_to_string(GzDecoder::new(packed)).unwrap())
        })
        .collect();
    traces.sort();
    traces
}

fn play(text: &str) -> MergeReplay {
    let mut lines = text.lines();
    let mut replay = MergeReplay::new(lines.next().unwrap());
    for line in lines {
        replay.line(line);
    }
    replay
}

/// The traces with plugs of several commands and no elevator. Linux 6.1 sends the last command of
/// such a plug first, and Weir the first one (see docs/evidence/deviations.md).
const LAST_FIRST: [&str; 4] = [
    "plug-none-b16-64k",
    "plug-none-b16-nm2",
    "plug-none-b32",
    "plug-none-rev",
];

#[test]
fn commands_match_the_commands_of_linux() {
    let mut wrong = Vec::new();
    for (name, text) in traces() {
        let MergeReplay {
            mut ours,
            mut linux,
            ..
        } = play(&text);
        let requests: u64 = ours.iter().map(|c| c.1).sum();
        println!("{name:18} {} commands of {requests} requests", ours.len());
        assert!(linux.len() >= 90, "{name} is cut short");
        if LAST_FIRST.contains(&name.as_str()) {
            assert_ne!(ours, linux, "{name}: take it out of the list");
            // These traces differ in the order of their commands only.
            ours.sort_unstable();
            linux.sort_unstable();
        }
        if ours != linux {
            let same = ours.iter().zip(&linux).take_while(|(a, b)| a == b).count();
            wrong.push((
                name,
                same,
                ours.get(same).copied(),
                linux.get(same).copied(),
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "trace, commands that are the same, our next, Linux's next: {wrong:#?}"
    );
}

/// Checks that the traces contain the intended cases: commands that grew at both ends, at once or
/// one by one, from one thread and from several.
#[test]
fn traces_are_of_requests_that_merge() {
    let all = traces();
    assert_eq!(all.len(), 34);
    for (name, text) in all {
        let replay = play(&text);
        let alone = ["seq-d32-none", "rr-d32", "64k", "nm2", "ilN4-none"];
        let alone = alone.iter().any(|part| name.contains(part));
        let most = replay.linux.iter().map(|c| c.1).max();
        // Only the traces in the list above have no merges.
        assert_eq!(most == Some(1), alone, "{name}");
    }
}

/// A request that waits for a tag takes the place of the last request in the plug, so later
/// requests of its batch join it.
#[test]
fn later_requests_of_a_batch_join_a_request_that_waits_for_a_tag() {
    for (elevator, one_by_one) in [("none", false), ("bfq", false), ("bfq", true)] {
        // The drive has one tag, and the elevator has room for one request.
        let mut replay = MergeReplay::new(&format!("{elevator} R 4096 1 1 0 1"));
        if one_by_one {
            for place in [100, 200, 201] {
                replay.line(&format!("0 s0 {place}"));
            }
        } else {
            replay.line("0 s0 100 200 201");
        }
        for _ in 0..3 {
            replay.line("0 r");
            replay.line("10 c");
        }
        let joined = [(100, 1), (200, 2)];
        let apart = [(100, 1), (200, 1), (201, 1)];
        let expected: &[Command] = if one_by_one { &apart } else { &joined };
        assert_eq!(replay.ours, expected, "{elevator}");
    }
}
