//! Readers whose requests interleave, as in the S suite's `interleaved_io`.
//!
//! Each of several readers reads every n-th 16 KiB of a disk. The other readers read the parts in
//! between, so that together the requests are sequential, if the elevator detects it.

use weir_core::elevator::{self, bfq};
use weir_core::{
    Config, Edit, Flags, Instant, Op, Output, Priority, ROOT, Request, SpaceId, StreamId,
    StreamSpec, merge,
};
use weir_model::drive::{DriveModel, hdd};
use weir_verify::audit::{Audited, Witness};

const CHUNK: u32 = 16 * 1024;
const SECOND: u64 = 1_000_000_000;
const SPACE: u64 = 100 << 30;

/// A host with readers of 16 KiB, each with a queue depth of 1.
struct Readers {
    layer: Audited,
    disk: hdd::Hdd,
    now: u64,
    wake: Option<Instant>,
    /// The readers: stream, next offset, distance of reads, stop time in nanoseconds, and bytes
    /// read.
    readers: Vec<(StreamId, u64, u64, u64, u64)>,
}

impl Readers {
    fn new(elevator: elevator::Config, merge: merge::Config) -> Self {
        let disk = hdd::HddConfig::generic().build().unwrap();
        let config = Config {
            drive: disk.shape(),
            merge,
            ..Config::of(elevator)
        };
        let mut layer = Witness::audited_layer(config, false).unwrap();
        let space = Edit::SetSpace {
            id: SpaceId(0),
            size: Some(SPACE),
        };
        layer.change(Instant::ZERO, &[space]).unwrap();
        Self {
            layer,
            disk,
            now: 0,
            wake: None,
            readers: Vec::new(),
        }
    }

    fn at(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Adds a reader that reads every `stride` bytes from `start` on.
    fn add(&mut self, start: u64, stride: u64, stop: u64) -> usize {
        let spec = StreamSpec {
            group: ROOT,
            priority: Priority::default(),
        };
        let stream = self.layer.open(self.at(), spec).unwrap();
        self.readers.push((stream, start, stride, stop, 0));
        self.ask(self.readers.len() - 1);
        self.readers.len() - 1
    }

    /// Adds this number of readers, whose reads interleave.
    fn interleave(&mut self, readers: u64) {
        let chunk = u64::from(CHUNK);
        for i in 0..readers {
            self.add(i * chunk, readers * chunk, u64::MAX);
        }
    }

    fn ask(&mut self, reader: usize) {
        let now = self.at();
        let (stream, next, stride, stop, _) = &mut self.readers[reader];
        if now.as_nanos() >= *stop {
            return;
        }
        let request = Request {
            stream: *stream,
            space: SpaceId(0),
            op: Op::Read,
            flags: Flags::NONE,
            offset: *next,
            length: CHUNK,
            cookie: reader as u64,
            within: 0,
        };
        *next = (*next + *stride) % (SPACE - u64::from(CHUNK));
        self.layer.submit(now, &[request]).unwrap();
    }

    fn poll(&mut self) {
        let mut out = Vec::new();
        self.wake = self.layer.poll(self.at(), &mut out).map(|w| w.at);
        for output in out {
            match output {
                Output::Dispatch(d) => self.disk.submit(self.at(), &d).unwrap(),
                Output::Done(d) => {
                    let reader = d.cookie as usize;
                    assert_eq!(d.stream, self.readers[reader].0);
                    self.readers[reader].4 += u64::from(d.length);
                    self.ask(reader);
                }
                Output::Pause(_) | Output::Resume(_) => {}
            }
        }
    }

    fn run(&mut self, until: u64) {
        while self.now < until {
            self.poll();
            // Requests that were sent upon an answer are dispatched at the same instant.
            self.poll();
            let next = [self.disk.next_completion(), self.wake];
            let next = next.into_iter().flatten().min();
            self.now = next.map_or(until, |at| at.as_nanos().clamp(self.now, until));
            let mut ended = Vec::new();
            while let Some(command) = self.disk.pop(self.at()) {
                ended.push(command.completion);
            }
            self.layer.complete(self.at(), &ended);
        }
    }

    /// The rate of each reader from now on, in kB/s. The auditors must not report anything.
    fn rates(&mut self, seconds: u64) -> Vec<u64> {
        let before: Vec<u64> = self.readers.iter().map(|r| r.4).collect();
        self.run(self.now + seconds * SECOND);
        assert_eq!(self.layer.observer().audit.found().violations(), []);
        let read = self.readers.iter().zip(before);
        read.map(|(r, before)| (r.4 - before) / seconds / 1_000)
            .collect()
    }
}

fn bfq(merge: bool) -> elevator::Config {
    elevator::Config::Bfq(bfq::Config {
        low_latency: false,
        merge,
        ..bfq::Config::default()
    })
}

/// The rate of each of several interleaving readers, in kB/s.
fn interleaved(elevator: elevator::Config, readers: u64) -> Vec<u64> {
    let mut host = Readers::new(elevator, merge::Config::OFF);
    host.interleave(readers);
    host.rates(5)
}

#[test]
fn interleaved_readers_reach_90_percent_of_a_single_reader() {
    let alone: u64 = interleaved(bfq(true), 1).iter().sum();
    for readers in [3, 5] {
        let merged = interleaved(bfq(true), readers);
        let apart = interleaved(bfq(false), readers);
        let none = interleaved(elevator::Config::None, readers);
        println!("{readers}: alone {alone}, merged {merged:?}, apart {apart:?}, none {none:?}");
        let (merged, apart): (u64, u64) = (merged.iter().sum(), apart.iter().sum());
        assert!(merged * 100 >= alone * 90, "{merged} of {alone} kB/s");
        assert!(merged >= 2 * apart, "{merged} beside {apart} kB/s");
    }
}

/// With BFQ's defaults in Linux, including `low_latency`, readers keep separate queues for long.
/// Merged requests compensate for that.
#[test]
fn requests_of_interleaved_readers_are_merged_into_commands_of_several() {
    let alone: u64 = interleaved(bfq(true), 1).iter().sum();
    for readers in [3, 5] {
        let run = |merge| {
            let linux = elevator::Config::Bfq(bfq::Config::default());
            let mut host = Readers::new(linux, merge);
            host.interleave(readers);
            let rate: u64 = host.rates(5).iter().sum();
            let counters = host.layer.layer().counters();
            (rate, counters.done as f64 / counters.dispatched as f64)
        };
        let (off, single) = run(merge::Config::OFF);
        let (on, each) = run(merge::Config::LINUX);
        println!(
            "{readers}: alone {alone} kB/s, not merged {off}, merged {on}, {each:.2} a command"
        );
        assert!(single <= 1.0);
        assert!(on * 100 >= alone * 90, "{on} of {alone} kB/s");
        assert!(each >= 2.0, "{each:.2} requests a command");
    }
}

/// Three interleaving readers whose queues have been merged.
fn three() -> Readers {
    let mut host = Readers::new(bfq(true), merge::Config::OFF);
    host.interleave(3);
    host.run(SECOND);
    host
}

#[test]
fn a_reader_of_a_shared_queue_may_be_on_hold_for_a_while() {
    let mut host = three();
    let stream = host.readers[1].0;
    host.layer.hold(host.at(), stream, true);
    // Requests in the drive are still answered.
    host.run(host.now + SECOND / 10);
    let held = host.rates(1);
    assert_eq!(held[1], 0);
    assert!(held[0] > 20_000 && held[2] > 20_000, "{held:?} kB/s");
    host.layer.hold(host.at(), stream, false);
    // The reader is now far behind the others. Of one queue, the nearest request is served, or the
    // oldest one once it is overdue.
    let later = host.rates(2);
    assert!(later[1] > 100, "{later:?} kB/s");
}

#[test]
fn a_reader_of_a_shared_queue_may_cancel_and_leave() {
    let mut host = three();
    for leaver in [2, 0] {
        let stream = host.readers[leaver].0;
        // The reader's request ends wherever it is, and the reader sends no more.
        host.readers[leaver].3 = 0;
        host.layer.cancel(host.at(), stream, leaver as u64);
        host.layer.close(host.at(), stream);
        host.run(host.now + SECOND);
    }
    let rates = host.rates(2);
    assert_eq!((rates[0], rates[2]), (0, 0));
    assert!(rates[1] > 20_000, "{rates:?} kB/s");
    // A new reader gets a queue of its own, whatever queues existed before.
    let far = host.add(50 << 30, u64::from(CHUNK), u64::MAX);
    let rates = host.rates(2);
    assert!(rates[1] > 10_000 && rates[far] > 10_000, "{rates:?} kB/s");
    for reader in &mut host.readers {
        reader.3 = 0;
    }
    host.run(host.now + SECOND);
    assert_eq!(host.layer.layer().live(), 0);
}
