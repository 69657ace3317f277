//! Recorded loads of real programs, played in the simulator with as many requests of each kind and
//! size as other programs count in the same files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_config::scenario::{self, Choice, Scenario};
use weir_core::{Op, Span};
use weir_sim::{LoadRecord, Policy, Results, SimRun};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../config/tests/traces")
        .join(name)
}

fn scenario(name: &str) -> Scenario {
    let script = scenario::load(&fixture(name)).unwrap_or_else(|p| panic!("{p:#?}"));
    let drive = weir_config::profile::find("samsung-970-pro").unwrap().drive;
    let mut scenario = script.scenario(&Choice::new(&drive, None, "none")).unwrap();
    // The reads of the run-in would be counted too.
    scenario.run_in = Span::ZERO;
    scenario
}

/// The number of requests by operation and length.
type Counts = BTreeMap<(Op, u64), u64>;

/// Plays a scenario and counts the requests of its client.
fn played(scenario: &Scenario) -> (Counts, LoadRecord, Results) {
    let mut load = LoadRecord::new();
    let run = SimRun::observed(scenario, &Policy::none(), 0, vec![&mut load]).unwrap();
    let results = run.run(|_| {}).unwrap();
    let mut counts = Counts::new();
    for sent in load.sent() {
        *counts.entry((sent.op, sent.length.into())).or_default() += 1;
    }
    (counts, load, results)
}

/// Reads lines of a kind, a length and a count. `kind` returns the operation for the first word.
fn counted(name: &str, kind: impl Fn(&str) -> Op) -> Counts {
    let text = std::fs::read_to_string(fixture(name)).unwrap();
    let mut counts = Counts::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        *counts.entry((kind(words[0]), number(1))).or_default() += number(2);
    }
    counts
}

/// The iolog is of fio 3.33, which counts 75 reads and 85 writes, both when it records the load and
/// when it plays the iolog. It does not count its 24 calls of `fdatasync` as requests.
#[test]
fn an_iolog_of_fio_plays_as_many_requests_of_each_kind_and_size() {
    let scenario = scenario("fio.fio");
    let (counts, load, results) = played(&scenario);
    let expected = counted("fio.txt", |word| match word {
        "read" => Op::Read,
        "write" => Op::Write,
        "datasync" => Op::Flush,
        other => panic!("{other}"),
    });
    assert_eq!(counts, expected);
    let of = |op| -> u64 { counts.iter().filter(|c| c.0.0 == op).map(|c| c.1).sum() };
    assert_eq!([Op::Read, Op::Write, Op::Flush].map(of), [75, 85, 24]);
    // All of them complete within the time of the scenario.
    assert_eq!(results.unanswered, 0);
    assert_eq!(results.clients[0].issued, 184);
    // The requests are sent at their recorded times, because the drive is fast enough.
    let text = std::fs::read_to_string(fixture("fio.iolog")).unwrap();
    let requests = text
        .lines()
        .skip(1)
        .filter(|line| line.split(' ').count() == 5);
    let micros: Vec<u64> = requests
        .map(|line| line.split(' ').next().unwrap().parse().unwrap())
        .collect();
    let begin = weir_core::Instant::ZERO;
    let sent: Vec<u64> = load.sent().map(|r| r.at.since(begin).as_nanos()).collect();
    let late = sent.iter().zip(&micros);
    let late = late
        .filter(|(sent, micros)| **sent != **micros * 1_000)
        .count();
    // A request waits only while eight others are in flight.
    assert!(late * 4 < sent.len(), "{late} of {}", sent.len());
    assert!(
        sent.iter()
            .zip(&micros)
            .all(|(sent, micros)| *sent >= micros * 1_000)
    );
}

/// The trace is of Linux 6.1, and `blkparse` 1.2.0 counts the requests in it. Its kinds are a
/// letter for the operation, after an F for a flush ahead of it and before an F for a durable
/// write.
#[test]
fn a_trace_of_blktrace_plays_as_many_requests_of_each_kind_and_size() {
    let expected = counted("linux.txt", |word| match word.as_bytes()[0] {
        b'R' => Op::Read,
        b'W' => Op::Write,
        b'D' => Op::Discard,
        b'F' => Op::Flush,
        _ => panic!("{word}"),
    });
    let merged = played(&scenario("linux.fio"));
    assert_eq!(merged.0, expected);
    let fast = scenario("linux.toml");
    let parts = played(&fast);
    assert_eq!(parts.0, expected);
    for (name, load) in [("recorded", &merged.1), ("fast", &parts.1)] {
        let most = load.sent().map(|r| r.outstanding).max();
        let last = load.sent().map(|r| r.at).max().unwrap();
        // The trace lasted 98 ms. Without its times, it takes less.
        let took = last.since(weir_core::Instant::ZERO);
        match name {
            "fast" => assert!(
                most == Some(2) && took < Span::from_millis(50),
                "{took:?} {most:?}"
            ),
            _ => assert!(took > Span::from_millis(98), "{took:?}"),
        }
    }
    assert_eq!(parts.2.unanswered, 0);
}
