//! The order in which Linux dispatches: traces of its own mq-deadline, decided again.
//!
//! The traces are in `linux/`, packed: `zcat FILE.txt.gz` shows one. They are of Linux 6.1 with
//! `null_blk` (`irqmode=2 completion_nsec=100000 hw_queue_depth=1`, one queue, `nr_requests` and
//! `async_depth` 128) and fio with libaio. They contain the events `block_rq_insert`,
//! `block_rq_issue` and `block_rq_complete`, with times in ticks of 4 ms, which is the unit of the
//! kernel's jiffies.
//!
//! Each line has events of one kind:
//!
//! - `t`: the tick,
//! - `i`: requests that enter (priority, direction, block of 4 KiB),
//! - `d`: requests that are dispatched, by number in the order of entry,
//! - `c`: requests that complete, by the same number,
//! - `r`: the queue is run and nothing is dispatched (a worker runs it, or a write has entered).
//!
//! The times of Linux's choices follow from these events. When the queue is run, Linux pulls
//! requests out of the elevator until it has pulled one for which the drive has no place. That
//! request waits aside. It is dispatched first when there is a place, and nothing else is pulled
//! until then.

use super::super::Config;
use crate::elevator::scripted::{self, BLOCK, layer};
use crate::layer::{Layer, Output};
use crate::testing::request;
use crate::{Completion, Instant, Op, PriorityClass, Span, StreamId, Tag};
use flate2::read::GzDecoder;
use std::collections::VecDeque;
use std::vec::Vec;

const PLACES: usize = 1;
const TICK: Span = Span::from_millis(4);

/// A different choice: the number of the dispatch, the request of Linux, and our request.
type Mismatch = (usize, u64, Option<u64>);

struct TraceReplay {
    layer: Layer,
    /// One stream of each priority.
    streams: [StreamId; 3],
    now: Instant,
    entered: u64,
    /// The tag of each request that was pulled.
    tags: Vec<Option<Tag>>,
    /// Requests that were pulled and have a place in the drive, but are not dispatched yet.
    chosen: VecDeque<u64>,
    /// The request that was pulled without a place in the drive.
    aside: Option<u64>,
    in_drive: usize,
    wrong: Vec<Mismatch>,
    sent: usize,
}

impl TraceReplay {
    fn new(config: &Config) -> Self {
        let mut layer = layer(*config, PLACES as u16 + 1, 4096);
        let streams = [
            PriorityClass::Realtime,
            PriorityClass::BestEffort,
            PriorityClass::Idle,
        ]
        .map(|class| scripted::open(&mut layer, class));
        Self {
            layer,
            streams,
            now: Instant::ZERO,
            entered: 0,
            tags: Vec::new(),
            chosen: VecDeque::new(),
            aside: None,
            in_drive: 0,
            wrong: Vec::new(),
            sent: 0,
        }
    }

    fn insert(&mut self, event: &str) {
        let (kind, block) = event.split_at(2);
        let stream = match &kind[..1] {
            "R" => self.streams[0],
            "B" => self.streams[1],
            _ => self.streams[2],
        };
        let op = match &kind[1..] {
            "r" => Op::Read,
            _ => Op::Write,
        };
        let request = request(stream, op, self.entered, BLOCK)
            .offset(block.parse::<u64>().unwrap() * u64::from(BLOCK));
        self.entered += 1;
        self.tags.push(None);
        self.layer.submit(self.now, &[request]).unwrap();
    }

    /// Runs the queue.
    fn look(&mut self) {
        if self.aside.is_none() && self.chosen.is_empty() {
            self.pull();
        }
    }

    fn pull(&mut self) {
        let mut out = Vec::new();
        self.layer.poll(self.now, &mut out);
        for output in out {
            let Output::Dispatch(d) = output else {
                continue;
            };
            self.tags[d.cookie as usize] = Some(d.tag);
            if self.in_drive + self.chosen.len() < PLACES {
                self.chosen.push_back(d.cookie);
            } else {
                assert_eq!(self.aside.replace(d.cookie), None);
            }
        }
    }

    /// Dispatches the request that Linux dispatched, and records a difference.
    fn send(&mut self, request: u64) {
        self.look();
        let from_aside = self.chosen.is_empty();
        let ours = self.chosen.pop_front().or_else(|| self.aside.take());
        if ours != Some(request) {
            self.wrong.push((self.sent, request, ours));
        }
        self.sent += 1;
        self.in_drive += 1;
        if from_aside {
            self.pull();
        }
    }

    fn complete(&mut self, request: u64) {
        self.in_drive -= 1;
        let tag = self.tags[request as usize].expect("it went");
        self.layer.complete(self.now, &[Completion::ok(tag)]);
    }

    /// Replays a trace up to the first difference.
    fn run(&mut self, trace: &str) {
        for line in trace.lines() {
            let mut words = line.split(' ');
            let kind = words.next();
            if kind == Some("r") {
                self.look();
            }
            for word in words {
                let number = || word.parse::<u64>().unwrap();
                match kind {
                    Some("t") => self.now = Instant::ZERO + TICK.saturating_mul(number()),
                    Some("i") => self.insert(word),
                    Some("d") => self.send(number()),
                    Some("c") => self.complete(number()),
                    _ => panic!("{line}"),
                }
                if !self.wrong.is_empty() {
                    return;
                }
            }
        }
    }
}

/// Replays a trace. Returns the number of dispatches, and the first difference.
fn replay(config: &Config, trace: &str) -> (usize, Vec<Mismatch>) {
    let mut replay = TraceReplay::new(config);
    replay.run(trace);
    (replay.sent, replay.wrong)
}

/// Checks that all requests are dispatched in Linux's order. With the default tunables the order
/// must differ, or the trace would not test the tunables.
fn check(config: &Config, packed: &[u8]) {
    let trace = &std::io::read_to_string(GzDecoder::new(packed)).unwrap();
    let (sent, wrong) = replay(config, trace);
    assert_eq!(wrong, [], "number, Linux's request, ours");
    assert!(sent > 1400, "{sent}");
    assert_ne!(replay(&Config::default(), trace).1, []);
}

#[test]
fn two_directions_with_deadlines_that_expire() {
    let config = Config::default()
        .read_expire(Span::from_millis(8))
        .write_expire(Span::from_millis(24));
    check(&config, include_bytes!("linux/two-directions.txt.gz"));
}

#[test]
fn three_priorities_that_age() {
    let config = Config::default().prio_aging_expire(Span::from_millis(20));
    check(&config, include_bytes!("linux/three-priorities.txt.gz"));
}

#[test]
fn writes_beside_reads_and_another_priority() {
    let config = Config::default()
        .fifo_batch(4)
        .prio_aging_expire(Span::from_millis(100));
    check(&config, include_bytes!("linux/beside-another.txt.gz"));
}
