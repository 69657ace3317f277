//! Random calls into a layer with drawn configurations: whatever happens, every request ends once and nobody starves.

use crate::elevator::bfq::{Charge, Config};
use crate::elevator::closed_loop::{self, Client, KIB, RANDOM, SECOND, STREAMER, ms, nth};
use crate::layer::{Config as LayerConfig, Layer, Output};
use crate::shape::{DriveShape, Sizes};
use crate::testing::{request, share, space};
use crate::{
    Completion, Cookie, Edit, Flags, GroupId, Instant, Op, Priority, PriorityClass, ROOT, Request,
    SpaceId, Span, StreamId, StreamSpec, Tag, elevator,
};
use std::collections::BTreeMap;
use std::vec::Vec;

const SPACE: u64 = 64 << 20;

/// Knuth's linear congruence (MMIX): the seeds named below depend on its numbers.
struct Random(u64);

impl Random {
    fn draw(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.draw(of.len() as u64) as usize]
    }

    fn config(&mut self) -> Config {
        Config {
            slice_idle: Span::from_micros(self.pick(&[0, 100, 8_000])),
            max_budget: self.pick(&[0, 1, 100, 1_500]),
            timeout_sync: Span::from_millis(self.pick(&[1, 20, 125])),
            strict_guarantees: self.draw(6) == 0,
            charge: self.pick(&[Charge::Linux, Charge::Service]),
            async_charge_factor: self.pick(&[1, 3]),
            seeky_threshold: self.pick(&[0, 4, 19, 32]),
            back_seek_max: self.pick(&[0, 16 * 1024]),
            fifo_expire_sync: Span::from_millis(self.pick(&[0, 125])),
            ..Config::default()
        }
        .bounded()
    }

    fn priority(&mut self) -> Priority {
        use PriorityClass::{BestEffort, Idle, Realtime};
        Priority {
            class: self.pick(&[Realtime, BestEffort, BestEffort, BestEffort, Idle]),
            level: self.draw(9) as u8,
        }
    }
}

struct Chaos {
    random: Random,
    layer: Layer,
    now: u64,
    streams: Vec<StreamId>,
    held: Vec<StreamId>,
    in_drive: Vec<Tag>,
    /// Bytes of each live request that the drive has seen.
    live: BTreeMap<Cookie, (u32, u32)>,
    changed: u32,
    /// Streams read, near to each other, so that they are merged and part again.
    near: bool,
    cookies: Cookie,
    wake: Option<u64>,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let tags = random.pick(&[1, 2, 32]);
        let mut heuristics = Random(!seed);
        let config = LayerConfig {
            sizes: Sizes {
                requests: 64,
                streams: 8,
                groups: 8,
                per_stream: 24,
                scheduler_tags: random.pick(&[3, 64]),
                ..Sizes::default()
            },
            drive: DriveShape {
                tags,
                max_transfer: 32 * KIB,
                rotational: random.draw(2) == 0,
                ..DriveShape::default()
            },
            ..LayerConfig::of(elevator::Config::Bfq(Config {
                low_latency: heuristics.draw(2) == 0,
                injection: heuristics.draw(2) == 0,
                merge: heuristics.draw(4) > 0,
                stable_merge: heuristics.draw(2) == 0,
                ..random.config()
            }))
        };
        let mut layer = Layer::new(config).unwrap();
        let space = |id| space(id, SPACE);
        layer.change(Instant::ZERO, &[space(0), space(1)]).unwrap();
        Self {
            random,
            layer,
            now: 0,
            streams: Vec::new(),
            held: Vec::new(),
            in_drive: Vec::new(),
            live: BTreeMap::new(),
            changed: 0,
            near: heuristics.draw(2) == 0,
            cookies: 0,
            wake: None,
        }
    }

    fn at(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    fn step(&mut self) {
        self.now += self.random.pick(&[0, 0, 20_000, 300_000, ms(9)]);
        match self.random.draw(24) {
            0 => self.open(),
            1 if !self.streams.is_empty() => {
                let i = self.random.draw(self.streams.len() as u64) as usize;
                let stream = self.streams.swap_remove(i);
                self.held.retain(|&h| h != stream);
                self.layer.close(self.at(), stream);
            }
            2 if !self.streams.is_empty() => {
                let stream = self.random.pick(&self.streams.clone());
                let hold = !self.held.contains(&stream);
                self.held.retain(|&h| h != stream);
                if hold {
                    self.held.push(stream);
                }
                self.layer.hold(self.at(), stream, hold);
            }
            3 if !self.streams.is_empty() => {
                let stream = self.random.pick(&self.streams.clone());
                let cookie = self.cookies.saturating_sub(self.random.draw(20));
                self.layer.cancel(self.at(), stream, cookie);
            }
            4 => self.regroup(),
            5..=12 => self.submit(),
            _ => self.complete(),
        }
        self.poll();
    }

    fn open(&mut self) {
        let group = match self.random.draw(3) {
            0 => ROOT,
            _ if self.near => ROOT,
            _ => GroupId(self.random.draw(8) as u32),
        };
        let spec = StreamSpec {
            group,
            priority: if self.near {
                Priority::default()
            } else {
                self.random.priority()
            },
        };
        if let Ok(stream) = self.layer.open(self.at(), spec) {
            self.streams.push(stream);
        }
    }

    /// Refused more often than not; what is accepted must do no harm.
    fn regroup(&mut self) {
        let id = GroupId(1 + self.random.draw(7) as u32);
        let contract = share(self.random.pick(&[1, 10, 100, 1_000]));
        let add = Edit::AddGroup {
            id,
            parent: GroupId(self.random.draw(8) as u32),
            contract,
        };
        let edits = match self.random.draw(4) {
            0 => std::vec![Edit::RemoveGroup(id)],
            1 => std::vec![Edit::RemoveGroup(id), add],
            2 => std::vec![Edit::SetContract { id, contract }],
            _ => std::vec![add],
        };
        if self.layer.change(self.at(), &edits).is_ok() {
            self.changed += 1;
        }
    }

    fn submit(&mut self) {
        if self.streams.is_empty() {
            return;
        }
        let stream = self.random.pick(&self.streams.clone());
        let op = self.random.pick(&[
            Op::Read,
            Op::Read,
            Op::Write,
            Op::Write,
            Op::Flush,
            Op::Discard,
            Op::WriteZeroes,
        ]);
        let op = if self.near && self.random.draw(4) > 0 {
            Op::Read
        } else {
            op
        };
        let length = match op {
            Op::Flush => 0,
            _ => self.random.pick(&[512, 4_096, 100_000, 600]),
        };
        self.cookies += 1;
        let request = Request {
            space: SpaceId(if self.near {
                0
            } else {
                self.random.draw(2) as u32
            }),
            flags: Flags::from_bits(self.random.draw(4) as u8),
            offset: if op == Op::Flush {
                0
            } else {
                let reach = if self.near { SPACE / 8 } else { SPACE };
                self.random.draw(reach - 100_000)
            },
            ..request(stream, op, self.cookies, length)
        };
        if self.layer.submit(self.at(), &[request]).is_ok() {
            self.live.insert(self.cookies, (length, 0));
        }
    }

    fn complete(&mut self) {
        for _ in 0..=self.random.draw(3) {
            if self.in_drive.is_empty() {
                return;
            }
            let i = self.random.draw(self.in_drive.len() as u64) as usize;
            let tag = self.in_drive[i];
            let busy = self.random.draw(16) == 0;
            let completion = if busy {
                Completion::busy(tag)
            } else {
                Completion::ok(tag)
            };
            self.in_drive.swap_remove(i);
            self.layer.complete(self.at(), &[completion]);
        }
    }

    fn poll(&mut self) {
        let mut out = Vec::new();
        let wake = self.layer.poll(self.at(), &mut out);
        self.wake = wake.map(|w| w.at.as_nanos());
        for output in out {
            match output {
                Output::Dispatch(d) => {
                    let (length, sent) = self.live.get_mut(&d.cookie).expect("it is live");
                    *sent = (*sent).max(d.within + d.length);
                    assert!(*sent <= *length);
                    assert!(!self.in_drive.contains(&d.tag));
                    self.in_drive.push(d.tag);
                }
                Output::Done(d) => {
                    let (length, sent) = self.live.remove(&d.cookie).expect("it ends once");
                    if d.outcome == crate::Outcome::Ok {
                        assert_eq!(length, sent, "all of it was served");
                    }
                }
                Output::Pause(_) | Output::Resume(_) => {}
            }
        }
    }

    /// Lets everybody go on, then nothing may be left after a while.
    fn drain(&mut self) {
        for stream in core::mem::take(&mut self.held) {
            self.layer.hold(self.at(), stream, false);
        }
        for _ in 0..5_000 {
            self.poll();
            if let Some(tag) = self.in_drive.pop() {
                self.now += 10_000;
                self.layer.complete(self.at(), &[Completion::ok(tag)]);
            } else if let Some(wake) = self.wake {
                self.now = self.now.max(wake);
            } else {
                break;
            }
        }
        assert!(self.live.is_empty(), "left over: {:?}", self.live);
        assert_eq!((self.layer.live(), self.layer.in_flight()), (0, 0));
    }
}

#[test]
fn nothing_is_lost_or_doubled() {
    let mut changed = 0;
    for seed in 0..150 {
        let mut chaos = Chaos::new(seed);
        for _ in 0..1_500 {
            chaos.step();
        }
        chaos.drain();
        changed += chaos.changed;
    }
    assert!(changed > 300, "few changes were accepted: {changed}");
}

/// Seconds that a mix of clients runs.
const RUN: u64 = 4;

/// The longest that each of a drawn mix of clients went without an answer, in milliseconds, and what it may be.
fn gaps(seed: u64) -> Vec<(u64, u64)> {
    let mut random = Random(seed);
    let config = Config {
        strict_guarantees: false,
        slice_idle: Span::from_millis(random.pick(&[0, 2, 8])),
        timeout_sync: Span::from_millis(random.pick(&[20, 125])),
        charge: Charge::Linux,
        low_latency: false,
        injection: false,
        ..random.config()
    };
    let turn = (config.timeout_sync + config.slice_idle).as_nanos() / 1_000_000 + 5;
    let charged = u64::from(config.async_charge_factor);
    // A turn may go beyond its budget by a request: a stream that sends 128 KiB pays for as many turns as fit in there of one that sends
    // 4 KiB. A budget that is not stated is far larger than either.
    let budget = u64::from(config.max_budget);
    let turns = if budget == 0 {
        1
    } else {
        (budget + 256).div_ceil(budget.max(8))
    };
    let shares = [1, 2, 4].map(|share| (share * 50, None));
    let mut host = closed_loop::host(elevator::Config::Bfq(config), &shares);
    let clients = 2 + random.draw(6);
    // One of k in the group of least share waits for one turn of each of the others there, and for seven of the other groups'
    // turns with each; a writer is charged several times for what it writes.
    let mut bounds = Vec::new();
    for _ in 0..clients {
        let client = random.pick(&[STREAMER, RANDOM]);
        let client = Client {
            depth: 1 + random.draw(8) as u32,
            think: random.pick(&[0, 0, ms(1), ms(5)]),
            op: random.pick(&[Op::Read, Op::Read, Op::Write]),
            ..client.of(nth(random.draw(3) as usize))
        };
        let charged = if client.op == Op::Write { charged } else { 1 };
        bounds.push(turn * turns * 7 * clients * charged);
        host.add(client);
    }
    host.run(RUN * SECOND);
    let gaps = (0..clients as usize).map(|c| host.gap_ms(c));
    gaps.zip(bounds).collect()
}

#[test]
fn nobody_starves() {
    let (mut telling, mut all) = (0, 0);
    for seed in 0..250 {
        for (gap, most) in gaps(seed) {
            assert!(gap <= most, "seed {seed}: {gap} of {most} ms");
            telling += u32::from(most < RUN * 1_000);
            all += 1;
        }
    }
    assert!(telling > all / 4, "few could starve: {telling} of {all}");
}
