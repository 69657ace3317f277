//! Contracts kept on a modelled drive: every request takes 30 us in parallel with the others, then its bytes cross a link of
//! 250 MB/s one after the other.

mod flush;
mod learn;
mod pace;
mod remote;
mod rest;
mod shallow;

use super::*;
use crate::elevator;
use crate::layer::{Config as LayerConfig, Layer, Output};
use crate::shape::DriveShape;
use crate::{
    Capacity, Completion, Contract, Edit, Flags, Max, Priority, ROOT, Request, SpaceId, Span,
    StreamId, StreamSpec, Tag,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::vec::Vec;

const KIB: u32 = 1024;
const SECOND: u64 = 1_000_000_000;
const LINK: u64 = 250_000_000;
const SERVICE: u64 = 30_000;
const CAPACITY: Capacity = Capacity {
    read: LINK,
    write: LINK,
    iops: 0,
    ..Capacity::NONE
};

/// The drive, and what is stated of it.
#[derive(Clone, Copy, Debug)]
struct Pipe {
    stated: Option<Capacity>,
    /// Bytes a second of the link.
    link: u64,
    /// Nanoseconds of a request before it.
    service: u64,
    /// A request takes up to this much longer than that.
    jitter: u64,
    tags: u16,
    /// From when to when nothing crosses the link.
    frozen: [u64; 2],
    /// A write takes this much longer, beside whatever else the drive does.
    program: u64,
}

const PIPE: Pipe = Pipe {
    stated: Some(CAPACITY),
    link: LINK,
    service: SERVICE,
    jitter: 0,
    tags: 64,
    frozen: [0; 2],
    program: 0,
};

/// A closed-loop client: `depth` requests of `size` outstanding, the next one `think` after an answer.
#[derive(Clone, Copy)]
struct Client {
    contract: Contract,
    size: u32,
    depth: u32,
    think: u64,
    from: u64,
    until: u64,
    /// Every `n`th request is a write; 0: none is. Perhaps it has to be on stable storage when it is answered.
    writes_every: u64,
    stable: bool,
}

const READER: Client = Client {
    contract: Contract::DEFAULT,
    size: 128 * KIB,
    depth: 2,
    think: 0,
    from: 0,
    until: u64::MAX,
    writes_every: 0,
    stable: false,
};

fn min(min: u64) -> Contract {
    Contract {
        min,
        ..Contract::DEFAULT
    }
}

fn share(share: u16) -> Contract {
    Contract {
        share,
        ..Contract::DEFAULT
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A piece comes to the link, by the order in which they were sent: its length, and how much longer it takes beyond the link.
    Cross(u64, Tag, u32, u64),
    Complete(Tag),
    Submit(usize),
}

/// Bytes that each client got in each tenth of a second, and its longest wait.
struct Run {
    tenths: Vec<Vec<u64>>,
    longest: Vec<u64>,
    pieces: u64,
    requests: u64,
}

impl Run {
    fn total(&self, client: usize) -> u64 {
        self.tenths[client].iter().sum()
    }

    fn all(&self) -> u64 {
        (0..self.tenths.len()).map(|c| self.total(c)).sum()
    }

    /// The worst second that begins at a tenth, of those wholly in `from..until` tenths.
    fn worst(&self, client: usize, from: usize, until: usize) -> u64 {
        self.tenths[client][from..until]
            .windows(10)
            .map(|w| w.iter().sum())
            .min()
            .unwrap()
    }
}

struct Host {
    layer: Layer,
    clients: Vec<Client>,
    streams: Vec<StreamId>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    pipe: Pipe,
    link_free: u64,
    random: u64,
    asked: Vec<u64>,
    run: Run,
}

impl Host {
    fn new(elevator: elevator::Config, pipe: Pipe, clients: &[Client], seconds: u64) -> Self {
        let drive = DriveShape {
            capacity: pipe.stated,
            tags: pipe.tags,
            ..DriveShape::default()
        };
        let mut layer = Layer::new(LayerConfig {
            drive,
            ..LayerConfig::of(elevator)
        })
        .unwrap();
        let mut edits = std::vec![Edit::SetSpace {
            id: SpaceId(0),
            size: Some(1 << 40)
        }];
        for (i, client) in clients.iter().enumerate() {
            edits.push(Edit::AddGroup {
                id: GroupId(i as u32 + 1),
                parent: ROOT,
                contract: client.contract,
            });
        }
        layer.change(Instant::ZERO, &edits).unwrap();
        let spec = |i: usize| StreamSpec {
            group: GroupId(i as u32 + 1),
            priority: Priority::default(),
        };
        let streams = (0..clients.len())
            .map(|i| layer.open(Instant::ZERO, spec(i)).unwrap())
            .collect();
        let mut events = BinaryHeap::new();
        for (i, client) in clients.iter().enumerate() {
            for _ in 0..client.depth {
                events.push(Reverse((client.from, Event::Submit(i))));
            }
        }
        let tenths = std::vec![std::vec![0; seconds as usize * 10]; clients.len()];
        let run = Run {
            tenths,
            longest: std::vec![0; clients.len()],
            pieces: 0,
            requests: 0,
        };
        Self {
            layer,
            clients: clients.to_vec(),
            streams,
            events,
            pipe,
            link_free: 0,
            random: 1,
            asked: Vec::new(),
            run,
        }
    }

    fn run(mut self, seconds: u64) -> Run {
        self.play(seconds);
        let counters = self.layer.counters();
        (self.run.pieces, self.run.requests) = (counters.dispatched, counters.accepted);
        self.run
    }

    fn play(&mut self, seconds: u64) {
        self.play_until(seconds * SECOND);
    }

    fn play_until(&mut self, end: u64) {
        self.asked.resize(self.clients.len(), 0);
        let mut out = Vec::new();
        while self.events.peek().is_some_and(|next| next.0.0 < end) {
            let Some(Reverse((now, event))) = self.events.pop() else {
                break;
            };
            let at = Instant::from_nanos(now);
            match event {
                Event::Cross(_, tag, length, after) => {
                    self.cross(now, tag, length, after);
                    continue;
                }
                Event::Complete(tag) => self.layer.complete(at, &[Completion::ok(tag)]),
                Event::Submit(i) => {
                    self.asked[i] += 1;
                    let Client {
                        writes_every: every,
                        stable,
                        ..
                    } = self.clients[i];
                    let writes = every > 0 && self.asked[i].is_multiple_of(every);
                    let op = if writes { Op::Write } else { Op::Read };
                    let flags = if writes && stable {
                        Flags::SYNC.with(Flags::FUA)
                    } else {
                        Flags::SYNC
                    };
                    let request = Request {
                        stream: self.streams[i],
                        space: SpaceId(0),
                        op,
                        flags,
                        offset: 0,
                        length: self.clients[i].size,
                        cookie: i as u64,
                        within: 0,
                    };
                    self.layer.submit(at, &[request]).unwrap();
                }
            }
            self.layer.poll(at, &mut out);
            for output in out.drain(..) {
                self.carry_out(now, output);
            }
        }
    }

    fn cross(&mut self, now: u64, tag: Tag, length: u32, after: u64) {
        let mut begin = self.link_free.max(now);
        let [from, until] = self.pipe.frozen;
        if (from..until).contains(&begin) {
            begin = until;
        }
        self.link_free = begin + u64::from(length) * SECOND / self.pipe.link;
        let done = self.link_free + after;
        self.events.push(Reverse((done, Event::Complete(tag))));
    }

    fn carry_out(&mut self, now: u64, output: Output) {
        match output {
            Output::Dispatch(d) => {
                self.random = self
                    .random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let extra = ((self.random >> 33) * self.pipe.jitter) >> 31;
                let program = if d.op == Op::Write {
                    self.pipe.program
                } else {
                    0
                };
                let at = now + self.pipe.service + extra;
                self.run.pieces += 1;
                let number = self.run.pieces;
                self.events.push(Reverse((
                    at,
                    Event::Cross(number, d.tag, d.length, program),
                )));
            }
            Output::Done(d) => {
                let i = d.cookie as usize;
                self.run.tenths[i][(now / (SECOND / 10)) as usize] += u64::from(d.length);
                let waited = now - d.submitted.as_nanos();
                self.run.longest[i] = self.run.longest[i].max(waited);
                let next = now + self.clients[i].think;
                if next < self.clients[i].until {
                    self.events.push(Reverse((next, Event::Submit(i))));
                }
            }
            Output::Pause(_) | Output::Resume(_) => {}
        }
    }
}

fn run(elevator: elevator::Config, clients: &[Client], seconds: u64) -> Run {
    Host::new(elevator, PIPE, clients, seconds).run(seconds)
}

fn contract(clients: &[Client], seconds: u64) -> Run {
    contract_on(PIPE, clients, seconds)
}

fn contract_on(pipe: Pipe, clients: &[Client], seconds: u64) -> Run {
    let elevator = elevator::Config::Contract(Config::default());
    Host::new(elevator, pipe, clients, seconds).run(seconds)
}

/// A client that reads 4 KiB at a time at random and fifteen that stream; each was promised 10 MB/s.
fn demo(think: u64) -> Vec<Client> {
    let target = Client {
        size: 4 * KIB,
        depth: 1,
        think,
        contract: min(10_000_000),
        ..READER
    };
    let reader = Client {
        contract: min(10_000_000),
        ..READER
    };
    core::iter::once(target)
        .chain(core::iter::repeat_n(reader, 15))
        .collect()
}

#[test]
fn the_random_reader_gets_its_min_in_every_second_and_the_drive_stays_busy() {
    let none = run(elevator::Config::None, &demo(0), 4);
    assert!(
        none.worst(0, 0, 40) < 1_000_000,
        "without control it starves: {}",
        none.worst(0, 0, 40)
    );
    let kept = contract(&demo(0), 10);
    assert!(
        kept.worst(0, 0, 100) >= 10_000_000,
        "its worst second: {}",
        kept.worst(0, 0, 100)
    );
    for reader in 1..16 {
        assert!(
            kept.worst(reader, 0, 100) >= 10_000_000,
            "reader {reader}: {}",
            kept.worst(reader, 0, 100)
        );
    }
    assert!(
        kept.all() * 4 >= none.all() * 10 * 95 / 100,
        "{} of {}",
        kept.all() / 10,
        none.all() / 4
    );
}

#[test]
fn a_client_that_takes_its_time_between_requests_still_gets_its_min() {
    for think in [20_000, 80_000, 150_000] {
        let kept = contract(&demo(think), 5);
        assert!(
            kept.worst(0, 0, 50) >= 10_000_000,
            "think {think}: {}",
            kept.worst(0, 0, 50)
        );
        assert!(
            kept.all() >= 5 * LINK * 85 / 100,
            "think {think}: {}",
            kept.all() / 5
        );
    }
}

#[test]
fn equals_are_not_idled_for() {
    let reader = Client {
        size: 4 * KIB,
        depth: 1,
        contract: min(10_000_000),
        ..READER
    };
    let none = run(elevator::Config::None, &[reader; 16], 3);
    let kept = contract(&[reader; 16], 3);
    assert!(
        kept.all() * 100 >= none.all() * 95,
        "{} of {}",
        kept.all(),
        none.all()
    );
    assert!((0..16).all(|c| kept.worst(c, 0, 30) >= 10_000_000));
}

#[test]
fn shares_are_kept_over_ten_seconds_and_in_every_one() {
    let clients = [1, 2, 4, 8].map(|s| Client {
        contract: share(s * 100),
        ..READER
    });
    let kept = contract(&clients, 10);
    for (client, part) in [1u64, 2, 4, 8].into_iter().enumerate() {
        let fair = 10 * LINK * part / 15;
        let got = kept.total(client);
        assert!(
            got.abs_diff(fair) * 100 <= fair * 2,
            "client {client}: {got} of {fair}"
        );
        for second in kept.tenths[client]
            .chunks(10)
            .map(|c| c.iter().sum::<u64>())
        {
            assert!(
                second.abs_diff(fair / 10) * 100 <= fair,
                "client {client}: {second} of {}",
                fair / 10
            );
        }
    }
}

#[test]
fn a_realtime_client_is_answered_at_once() {
    let max = Max {
        bandwidth: 10_000_000,
        burst: Span::from_millis(10),
        ..Max::NONE
    };
    let realtime = Contract {
        class: Class::Realtime,
        max,
        ..Contract::DEFAULT
    };
    // Fifty small reads a second among fifteen streams.
    let target = Client {
        size: 4 * KIB,
        depth: 1,
        think: 20_000_000,
        contract: realtime,
        ..READER
    };
    let clients: Vec<_> = core::iter::once(target)
        .chain(core::iter::repeat_n(READER, 15))
        .collect();
    let kept = contract(&clients, 5);
    assert!(
        kept.longest[0] < 20_000_000,
        "its first: {}",
        kept.longest[0]
    );
    assert!(kept.all() >= 5 * LINK * 90 / 100);
}

#[test]
fn a_realtime_client_that_asks_for_less_than_its_max_waits_for_no_promise() {
    let realtime = |bandwidth, burst| Contract {
        class: Class::Realtime,
        max: Max {
            bandwidth,
            burst,
            ..Max::NONE
        },
        ..Contract::DEFAULT
    };
    // Thirty small reads a second, beside a realtime client that has all of its max and mins that a drive at half of its speed cannot keep.
    let paced = Client {
        size: 4 * KIB,
        depth: 1,
        think: 30_000_000,
        contract: realtime(10_000_000, Span::from_millis(10)),
        ..READER
    };
    let greedy = Client {
        depth: 4,
        contract: realtime(40_000_000, Span::ZERO),
        ..READER
    };
    let promised = Client {
        depth: 16,
        contract: min(80_000_000),
        ..READER
    };
    let slow = Pipe {
        link: LINK / 2,
        ..PIPE
    };
    let kept = contract_on(slow, &[paced, greedy, promised, promised], 5);
    assert!(kept.longest[0] < 20_000_000, "{}", kept.longest[0]);
    // The drive keeps its half of each promise.
    for (client, promise) in [(1, 40_000_000), (2, 80_000_000), (3, 80_000_000)] {
        let got = kept.worst(client, 10, 50);
        assert!(got >= promise / 2, "client {client}: {got}");
    }
}

#[test]
fn a_min_holds_while_others_come_and_go_and_what_is_unused_is_shared() {
    let brief = Client {
        from: 2 * SECOND,
        until: 4 * SECOND,
        depth: 16,
        ..READER
    };
    let promised = Client {
        contract: Contract {
            share: 1,
            ..min(100_000_000)
        },
        ..READER
    };
    let other = Client {
        contract: share(1000),
        ..READER
    };
    let kept = contract(&[promised, other, brief], 6);
    assert!(
        kept.worst(0, 0, 60) >= 100_000_000,
        "{}",
        kept.worst(0, 0, 60)
    );
    let alone = contract(&[promised], 2);
    assert!(alone.all() >= 2 * LINK * 95 / 100);
}

#[test]
fn the_idle_class_gets_what_is_left_and_never_nothing() {
    let idle = Client {
        contract: Contract {
            class: Class::Idle,
            ..Contract::DEFAULT
        },
        ..READER
    };
    let kept = contract(&[READER, READER, idle], 4);
    assert!(
        kept.total(2) >= 4 * 4 * u64::from(READER.size),
        "{}",
        kept.total(2)
    );
    assert!(kept.total(2) * 20 < kept.all());
    assert!(kept.longest[2] <= 500_000_000);
}

#[test]
fn what_costs_a_request_however_small_is_not_cut_smaller() {
    // 125 us a request, 140 MB/s: all of 16 KiB costs no more than 4 KiB of it.
    let capacity = Capacity {
        read: 140_000_000,
        write: 140_000_000,
        iops: 8_000,
        ..Capacity::NONE
    };
    let mut host = Host::new(elevator::Config::Contract(Config::default()), PIPE, &[], 1);
    let group = |id, contract| Edit::AddGroup {
        id: GroupId(id),
        parent: ROOT,
        contract,
    };
    let edits = [
        Edit::SetCapacity(Some(capacity)),
        group(1, min(20_000_000)),
        group(2, share(100)),
    ];
    host.layer.change(Instant::ZERO, &edits).unwrap();
    for (i, size) in [4 * KIB, 16 * KIB].into_iter().enumerate() {
        let spec = StreamSpec {
            group: GroupId(i as u32 + 1),
            priority: Priority::default(),
        };
        host.streams
            .push(host.layer.open(Instant::ZERO, spec).unwrap());
        host.clients.push(Client { size, ..READER });
        host.run.tenths.push(std::vec![0; 10]);
        host.run.longest.push(0);
        host.events.extend([
            Reverse((0, Event::Submit(i))),
            Reverse((0, Event::Submit(i))),
        ]);
    }
    let kept = host.run(1);
    assert!(kept.total(1) > 0);
    assert!(
        kept.pieces <= kept.requests,
        "{} pieces of {} requests",
        kept.pieces,
        kept.requests
    );
}

#[test]
fn tenants_divide_before_their_volumes_do() {
    let mut host = Host::new(elevator::Config::Contract(Config::default()), PIPE, &[], 1);
    let group = |id, parent, contract| Edit::AddGroup {
        id: GroupId(id),
        parent,
        contract,
    };
    let tenant = GroupId(1);
    let edits = [
        group(1, ROOT, share(300)),
        group(2, ROOT, share(100)),
        group(3, tenant, share(100)),
        group(4, tenant, share(200)),
    ];
    host.layer.change(Instant::ZERO, &edits).unwrap();
    for (i, id) in [2u32, 3, 4].into_iter().enumerate() {
        let spec = StreamSpec {
            group: GroupId(id),
            priority: Priority::default(),
        };
        host.streams
            .push(host.layer.open(Instant::ZERO, spec).unwrap());
        host.clients.push(READER);
        host.run.tenths.push(std::vec![0; 20]);
        host.run.longest.push(0);
        host.events.extend([
            Reverse((0, Event::Submit(i))),
            Reverse((0, Event::Submit(i))),
        ]);
    }
    let kept = host.run(2);
    let parts = [0, 1, 2].map(|c| kept.total(c) * 100 / kept.all());
    assert!(
        parts[0].abs_diff(25) <= 1 && parts[1].abs_diff(25) <= 1 && parts[2].abs_diff(50) <= 1,
        "{parts:?}"
    );
}
