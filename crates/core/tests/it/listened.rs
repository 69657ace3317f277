//! Tests that a listener does not change decisions. With a listener, every request goes through the
//! whole chain. Without one, most requests take a shorter path. Both layers must produce the same
//! outputs.

use std::num::NonZeroU64;
use weir_core::random::Rng;
use weir_core::testing::{bandwidth, child, limit, request, space};
use weir_core::{
    Completion, Config, Contract, DriveShape, Edit, Flags, GroupId, Instant, Layer, Mask, Max, Op,
    Output, Priority, Sizes, Span, StreamId, StreamSpec, Tag, Wake, control, elevator, merge,
};

/// Two layers of the same configuration that receive the same random calls.
struct ListenerPair {
    groups: u32,
    rng: Rng,
    /// The first layer has a listener, and the second has none.
    layers: [Layer; 2],
    now: u64,
    streams: Vec<StreamId>,
    in_drive: Vec<Tag>,
    cookies: u64,
    /// The offset at which the next request usually begins.
    at: u64,
}

impl ListenerPair {
    fn new(config: &Config, seed: u64) -> Self {
        let mut layers = [(); 2].map(|()| Layer::new(config.clone()).unwrap());
        layers[0].listen(Mask::ALL);
        let mut edits = vec![space(0, 1 << 30)];
        let groups = config.sizes.groups - 1;
        edits.extend((1..=groups).map(|id| child(id, weir_core::ROOT, Contract::DEFAULT)));
        let mut pair = Self {
            groups,
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
        for _ in 0..config.sizes.streams / 2 {
            pair.open();
        }
        pair
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.below(NonZeroU64::new(n).unwrap())
    }

    /// Makes the same call into both layers and checks that the results are equal.
    fn both<T: PartialEq + std::fmt::Debug>(&mut self, f: impl Fn(&mut Layer, Instant) -> T) -> T {
        let now = Instant::from_nanos(self.now);
        let [told, untold] = &mut self.layers;
        let (first, second) = (f(told, now), f(untold, now));
        assert_eq!(first, second, "at {} ns", self.now);
        assert_eq!(told.counters(), untold.counters());
        first
    }

    fn open(&mut self) {
        let group = GroupId(1 + self.below(self.groups.into()) as u32);
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
            // One in five requests seeks, and the others are adjacent to the previous one, so that
            // some can be merged.
            if self.below(5) == 0 {
                self.at = self.below(1 << 18) * 4096;
            }
            let length = (1 + self.below(4) as u32) * 4096;
            let offset = match self.below(4) {
                // One in four goes back by its own length.
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
            batch.push(
                request(
                    stream,
                    op,
                    self.cookies,
                    if op == Op::Flush { 0 } else { length },
                )
                .offset(if op == Op::Flush { 0 } else { offset }),
            );
        }
        let _ = self.both(|layer, now| layer.submit(now, &batch));
    }

    fn poll(&mut self) -> Option<Wake> {
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
        wake
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
        // A command that was returned as busy is dispatched again with the same tag.
        let again = batch.iter().filter(|c| c.outcome.is_none());
        let again: Vec<Tag> = again.map(|c| c.tag).collect();
        self.in_drive.retain(|tag| !again.contains(tag));
        self.both(|layer, now| layer.complete(now, &batch));
    }

    fn limit(&mut self) {
        let id = GroupId(1 + self.below(self.groups.into()) as u32);
        let rate = 1_000_000 + self.now % 7_000_000;
        let max = match self.below(2) {
            0 => Max::NONE,
            _ => bandwidth(rate),
        };
        let contract = limit(max);
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
        // If nothing can complete, only the wake-up moves the time on.
        if let Some(wake) = self.poll()
            && self.in_drive.is_empty()
        {
            self.now = self.now.max(wake.at.as_nanos());
        }
    }
}

#[test]
fn listeners_do_not_change_decisions() {
    for kind in elevator::KINDS {
        let mut merged = 0;
        for seed in 0..24 {
            let elevator = (kind.default)();
            let linux = merge::Config::LINUX;
            // Each kind of merging is used with each elevator, in different seeds.
            let merge = match seed % 4 {
                _ if !elevator.merges() => merge::Config::OFF,
                0 => merge::Config::OFF,
                1 => linux.nomerges(1),
                _ => linux,
            };
            let config = Config::of(elevator)
                .sizes(Sizes {
                    requests: 60,
                    streams: 8,
                    groups: 4,
                    spaces: 1,
                    per_stream: 14,
                    reserved: 3,
                    // Few scheduler tags make requests wait in front of the elevator.
                    scheduler_tags: 4 + (seed as u32 % 3) * 10,
                    events: 1_000_000,
                    stalled: 0,
                })
                .drive(
                    DriveShape::default()
                        .queues(1 + (seed / 4 % 2) as u16)
                        .tags(4)
                        .max_transfer(64 << 10),
                )
                .merge(merge);
            let mut pair = ListenerPair::new(&config, seed);
            for _ in 0..4_000 {
                pair.step();
            }
            let counted = pair.layers[1].counters();
            // The load must not stall, or the comparison would show little.
            assert!(counted.done > 1_000, "{counted:?} of {}", kind.name);
            assert!(config.merge.is_on() || counted.merged == 0);
            merged += counted.merged;
        }
        // The runs must contain many merges under every elevator that can merge.
        assert_eq!(merged > 1_000, (kind.default)().merges(), "{}", kind.name);
    }
}

/// Most groups wait for their budget for several periods. `io.cost` skips such groups at the end of
/// a period, and asserts that skipping them has no effect.
#[test]
fn hundreds_of_groups_wait_under_io_cost() {
    const GROUPS: u32 = 200;
    let sizes = Sizes {
        requests: 4 * GROUPS,
        streams: GROUPS,
        groups: GROUPS + 1,
        spaces: 1,
        per_stream: 5,
        reserved: 4,
        scheduler_tags: 4 * GROUPS,
        events: 1_000_000,
        stalled: 0,
    };
    // The rate is fixed at that of the model, whatever the latency of the drive, and periods are
    // short.
    let cost = control::cost::Config::default()
        .qos(control::cost::Control::User)
        .min(10_000)
        .max(10_000)
        .rlat(Span::from_millis(1))
        .wlat(Span::from_millis(1));
    let controllers = control::Config::default().cost(Some(cost));
    let config = Config {
        sizes,
        drive: DriveShape::default(),
        controllers,
        merge: merge::Config::OFF,
        elevator: elevator::Config::None,
    };
    let mut pair = ListenerPair::new(&config, 1);
    while pair.streams.len() < GROUPS as usize {
        pair.open();
    }
    for step in 0..400_000 {
        // From time to time a stream writes metadata, which `io.cost` never throttles, or cancels a
        // request.
        let stream = pair.stream();
        let meta = step % 90_001 == 0;
        if step % 30_011 == 0 {
            let cookie = pair.cookies - pair.below(pair.cookies.clamp(1, 1_000));
            pair.both(|layer, now| layer.cancel(now, stream, cookie));
        }
        pair.cookies += 1;
        let request = request(
            stream,
            if meta { Op::Write } else { Op::Read },
            pair.cookies,
            4096 * (1 + pair.below(8) as u32),
        )
        .flags(if meta { Flags::META } else { Flags::NONE })
        .offset(pair.below(1 << 17) * 4096);
        let _ = pair.both(|layer, now| layer.submit(now, &[request]));
        let _ = pair.poll();
        pair.now += 10_000;
        let done: Vec<_> = pair.in_drive.drain(..).map(Completion::ok).collect();
        pair.both(|layer, now| layer.complete(now, &done));
        let _ = pair.poll();
    }
    let gauges = pair
        .streams
        .iter()
        .filter_map(|s| pair.layers[1].gauges(*s));
    let waiting: u32 = gauges.map(|gauges| gauges.live).sum();
    let counted = pair.layers[1].counters();
    assert!(
        counted.done > 5_000 && waiting > 2 * GROUPS,
        "{waiting} wait, {counted:?}"
    );
}
