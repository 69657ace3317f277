//! `io.low` in the whole layer: whatever clients do, every request that was accepted ends once.

use std::collections::BTreeSet;
use weir_core::testing::{child, min_iops, request, space, spec};
use weir_core::{
    Capacity, Completion, Config, DriveShape, Edit, GroupId, Instant, Knobs, Layer, LowKnobs, Op,
    Outcome, Output, ROOT, Request, Sample, Sizes, Span, StreamId, Tag, Wanted, control, elevator,
    merge,
};

/// A small generator: the test's own, so that it draws the same everywhere.
struct Draw(u64);

impl Draw {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

struct Host {
    layer: Layer,
    now: u64,
    streams: Vec<StreamId>,
    drive: Vec<Tag>,
    open: BTreeSet<(StreamId, u64)>,
    cookie: u64,
    held: u32,
    low: bool,
}

fn layer(draw: &mut Draw, merge: merge::Config) -> Layer {
    let low = control::low::Config {
        limits: [
            control::low::Directions::Both,
            control::low::Directions::Reads,
            control::low::Directions::Writes,
        ][draw.below(3) as usize],
        ..control::low::Config::default()
    };
    let rate = 1_000_000_000;
    let config = Config {
        sizes: Sizes::default(),
        drive: DriveShape {
            tags: 4,
            capacity: Some(Capacity {
                read: rate,
                write: rate,
                iops: 100_000,
                read_iops: 0,
                write_iops: 0,
            }),
            ..DriveShape::default()
        },
        controllers: control::Config {
            low: Some(low),
            ..control::Config::default()
        },
        merge,
        elevator: elevator::Config::None,
    };
    let mut layer = Layer::new(config).expect("a sound configuration");
    let add = |id, parent, iops| child(id, parent, min_iops(iops));
    let edits = [
        space(0, 1 << 30),
        add(1, ROOT, 20_000),
        add(2, ROOT, 500),
        add(3, GroupId(2), 100 + draw.below(200)),
        add(4, GroupId(2), 0),
    ];
    let mut edits = edits.to_vec();
    if draw.below(2) == 0 {
        let low = LowKnobs {
            read_iops: draw.below(400),
            write_iops: draw.below(400),
            write_bandwidth: draw.below(2) * 100_000,
            idle: Span::from_micros(draw.below(3_000)),
            latency: Span::from_micros(draw.below(300)),
            ..LowKnobs::NONE
        };
        let (id, latency) = (GroupId(3), Span::ZERO);
        let knobs = Knobs { latency, low };
        edits.push(Edit::SetKnobs { id, knobs });
    }
    layer.change(Instant::ZERO, &edits).expect("sound edits");
    layer
}

impl Host {
    fn new(draw: &mut Draw, merge: merge::Config) -> Self {
        let mut layer = layer(draw, merge);
        let streams = [1, 3, 3, 4].map(|group| {
            let spec = spec(GroupId(group));
            layer.open(Instant::ZERO, spec).expect("room for a stream")
        });
        Self {
            layer,
            now: 0,
            streams: streams.to_vec(),
            drive: Vec::new(),
            open: BTreeSet::new(),
            cookie: 0,
            held: 0,
            low: false,
        }
    }

    fn at(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    fn poll(&mut self) -> Option<u64> {
        let mut out = Vec::new();
        let wake = self.layer.poll(self.at(), &mut out);
        for output in out {
            match output {
                Output::Dispatch(dispatch) => self.drive.push(dispatch.tag),
                Output::Done(done) => {
                    assert!(self.open.remove(&(done.stream, done.cookie)), "{done:?}");
                }
                _ => {}
            }
        }
        self.layer
            .sample(Wanted::GROUPS, &mut |sample| match sample {
                Sample::Held { requests, .. } => self.held = self.held.max(requests),
                Sample::Low { limited, .. } => self.low |= limited,
                _ => {}
            });
        wake.map(|wake| wake.at.as_nanos())
    }

    fn act(&mut self, draw: &mut Draw) {
        let stream = self.streams[draw.below(4) as usize];
        match draw.below(16) {
            0..8 => {
                self.cookie += 1;
                let request = Request {
                    offset: draw.below(1 << 10) * 4096,
                    ..request(
                        stream,
                        [Op::Read, Op::Write, Op::Flush][draw.below(16) as usize / 7],
                        self.cookie,
                        4096,
                    )
                };
                let request = if request.op == Op::Flush {
                    Request {
                        offset: 0,
                        length: 0,
                        ..request
                    }
                } else {
                    request
                };
                if self.layer.submit(self.at(), &[request]).is_ok() {
                    self.open.insert((stream, self.cookie));
                }
            }
            8..14 => self.serve(draw),
            14 => self.layer.hold(self.at(), stream, draw.below(2) == 0),
            _ => {
                let mut own = self.open.iter().filter(|o| o.0 == stream);
                if let Some(&(stream, cookie)) = own.next_back() {
                    self.layer.cancel(self.at(), stream, cookie);
                }
            }
        }
    }

    fn serve(&mut self, draw: &mut Draw) {
        if self.drive.is_empty() {
            return;
        }
        let nth = draw.below(self.drive.len() as u64) as usize;
        let tag = self.drive.swap_remove(nth);
        let outcome = Some(Outcome::Ok);
        self.layer
            .complete(self.at(), &[Completion { tag, outcome }]);
    }
}

#[test]
fn every_request_ends_once() {
    let mut draw = Draw(0x2545_f491_4f6c_dd1d);
    let (mut held, mut low) = (0, false);
    for run in 0..40 {
        let merge = [merge::Config::OFF, merge::Config::LINUX][run % 2];
        let mut host = Host::new(&mut draw, merge);
        for _ in 0..4_000 {
            host.now += draw.below(200_000);
            host.act(&mut draw);
            host.poll();
        }
        for stream in host.streams.clone() {
            host.layer.hold(host.at(), stream, false);
        }
        for _ in 0..100_000 {
            let wake = host.poll();
            if host.open.is_empty() {
                break;
            }
            if host.drive.is_empty() {
                host.now = wake.expect("what waits is woken").max(host.now);
            }
            host.serve(&mut draw);
        }
        assert!(host.open.is_empty(), "run {run}: {} wait", host.open.len());
        (held, low) = (held.max(host.held), low || host.low);
    }
    assert!(held > 8 && low, "limits were felt: {held} held, {low}");
}
