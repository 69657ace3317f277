//! Whoever listens changes nothing: a layer that somebody listens to sends every request through the whole chain, one that nobody
//! listens to lets most of them go by, and both say the same.

use std::num::NonZeroU64;
use weir_core::{
    Completion, Config, Contract, DriveShape, Edit, Flags, GroupId, Instant, Layer, Limits, Mask,
    Max, Op, Output, Priority, Request, SpaceId, StreamId, StreamSpec, Tag, control, elevator,
    merge,
};
use weir_random::Rng;

const GROUPS: u32 = 3;

struct Pair {
    rng: Rng,
    /// The first is listened to.
    layers: [Layer; 2],
    now: u64,
    streams: Vec<StreamId>,
    in_drive: Vec<Tag>,
    cookies: u64,
    /// Where the next request of each stream begins, mostly.
    at: u64,
}

impl Pair {
    fn new(config: &Config, seed: u64) -> Self {
        let mut layers = [(); 2].map(|()| Layer::new(config.clone()).unwrap());
        layers[0].listen(Mask::ALL);
        let mut edits = vec![Edit::SetSpace {
            id: SpaceId(0),
            size: Some(1 << 30),
        }];
        edits.extend((1..=GROUPS).map(|id| Edit::AddGroup {
            id: GroupId(id),
            parent: weir_core::ROOT,
            contract: Contract::DEFAULT,
        }));
        let mut pair = Self {
            rng: Rng::new(seed),
            now: 0,
            streams: Vec::new(),
            in_drive: Vec::new(),
            cookies: 0,
            at: 0,
            layers: {
                for layer in &mut layers {
                    layer.change(Instant::ZERO, &edits).unwrap();
                }
                layers
            },
        };
        for _ in 0..4 {
            pair.open();
        }
        pair
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.below(NonZeroU64::new(n).unwrap())
    }

    /// The same of both, which answer the same.
    fn both<T: PartialEq + std::fmt::Debug>(&mut self, f: impl Fn(&mut Layer, Instant) -> T) -> T {
        let now = Instant::from_nanos(self.now);
        let [told, untold] = &mut self.layers;
        let (first, second) = (f(told, now), f(untold, now));
        assert_eq!(first, second, "at {} ns", self.now);
        assert_eq!(told.counters(), untold.counters());
        first
    }

    fn open(&mut self) {
        let group = GroupId(1 + self.below(u64::from(GROUPS)) as u32);
        let priority = Priority::default();
        let spec = StreamSpec { group, priority };
        if let Ok(stream) = self.both(|layer, now| layer.open(now, spec)) {
            self.streams.push(stream);
        }
    }

    fn stream(&mut self) -> StreamId {
        let which = self.below(self.streams.len() as u64) as usize;
        self.streams[which]
    }

    fn submit(&mut self) {
        let mut batch = Vec::new();
        let mut stream = self.stream();
        for _ in 0..=self.below(6) {
            if self.below(4) == 0 {
                stream = self.stream();
            }
            if self.below(5) == 0 {
                self.at = self.below(1 << 18) * 4096;
            }
            let length = (1 + self.below(4) as u32) * 4096;
            let offset = match self.below(4) {
                0 => self.at.saturating_sub(u64::from(length)),
                _ => self.at,
            };
            self.at = (offset + u64::from(length)).min(1 << 29);
            let op = match self.below(40) {
                0 => Op::Flush,
                1 | 2 => Op::Discard,
                3..10 => Op::Write,
                _ => Op::Read,
            };
            self.cookies += 1;
            batch.push(Request {
                stream,
                space: SpaceId(0),
                op,
                flags: Flags::NONE,
                offset: if op == Op::Flush { 0 } else { offset },
                length: if op == Op::Flush { 0 } else { length },
                cookie: self.cookies,
            });
        }
        let _ = self.both(|layer, now| layer.submit(now, &batch));
    }

    fn poll(&mut self) {
        let (outputs, wake) = self.both(|layer, now| {
            let mut out = Vec::new();
            let wake = layer.poll(now, &mut out);
            (out, wake)
        });
        for output in outputs {
            if let Output::Dispatch(piece) = output {
                self.in_drive.push(piece.tag);
            }
        }
        if let Some(wake) = wake
            && self.in_drive.is_empty()
        {
            self.now = self.now.max(wake.at.as_nanos());
        }
    }

    fn complete(&mut self) {
        let mut batch = Vec::new();
        for _ in 0..=self.below(4) {
            if !self.in_drive.is_empty() {
                let which = self.below(self.in_drive.len() as u64) as usize;
                batch.push(if self.below(30) == 0 {
                    Completion::busy(self.in_drive[which])
                } else {
                    Completion::ok(self.in_drive.swap_remove(which))
                });
            }
        }
        let again = batch.iter().filter(|c| c.outcome.is_none());
        let again: Vec<Tag> = again.map(|c| c.tag).collect();
        self.in_drive.retain(|tag| !again.contains(tag));
        self.both(|layer, now| layer.complete(now, &batch));
    }

    fn limit(&mut self) {
        let id = GroupId(1 + self.below(u64::from(GROUPS)) as u32);
        let bandwidth = 1_000_000 + self.now % 7_000_000;
        let max = match self.below(2) {
            0 => Max::NONE,
            _ => Max {
                bandwidth,
                ..Max::NONE
            },
        };
        let contract = Contract {
            max,
            ..Contract::DEFAULT
        };
        let edit = Edit::SetContract { id, contract };
        let _ = self.both(|layer, now| layer.change(now, &[edit]));
    }

    fn step(&mut self) {
        self.now += self.below(40_000);
        match self.below(64) {
            0 => self.limit(),
            1 => {
                let (stream, held) = (self.stream(), self.below(2) == 0);
                self.both(|layer, now| layer.hold(now, stream, held));
            }
            2 => {
                let stream = self.stream();
                let cookie = self.cookies - self.below(self.cookies.clamp(1, 20));
                self.both(|layer, now| layer.cancel(now, stream, cookie));
            }
            3 if self.streams.len() > 1 => {
                let which = self.below(self.streams.len() as u64) as usize;
                let stream = self.streams.swap_remove(which);
                self.both(|layer, now| layer.close(now, stream));
            }
            4 => self.open(),
            5..30 => self.submit(),
            _ => self.complete(),
        }
        self.poll();
    }
}

#[test]
fn decisions_are_the_same_whether_or_not_somebody_listens() {
    for kind in elevator::KINDS {
        let mut merged = 0;
        for seed in 0..24 {
            let elevator = (kind.default)();
            let linux = merge::Config::LINUX;
            let merge = match seed % 4 {
                _ if !elevator.merges() => merge::Config::OFF,
                0 => merge::Config::OFF,
                1 => merge::Config {
                    nomerges: 1,
                    ..linux
                },
                _ => linux,
            };
            let config = Config {
                limits: Limits {
                    requests: 60,
                    streams: 8,
                    groups: GROUPS + 1,
                    spaces: 1,
                    per_stream: 14,
                    reserved: 3,
                    scheduler_tags: 4 + (seed as u32 % 3) * 10,
                    events: 1_000_000,
                },
                drive: DriveShape {
                    queues: 1 + (seed / 4 % 2) as u16,
                    tags: 4,
                    max_transfer: 64 << 10,
                    ..DriveShape::default()
                },
                controllers: control::Config::default(),
                merge,
                elevator,
            };
            let mut pair = Pair::new(&config, seed);
            for _ in 0..4_000 {
                pair.step();
            }
            let counted = pair.layers[1].counters();
            assert!(counted.done > 1_000, "{counted:?} of {}", kind.name);
            assert!(config.merge.is_on() || counted.merged == 0);
            merged += counted.merged;
        }
        assert_eq!(merged > 1_000, (kind.default)().merges(), "{}", kind.name);
    }
}
