//! Clients, layer and drive in virtual time.

use std::collections::BTreeSet;

use weir_core::{
    Completion, Config, Contract, Dispatch, Done, DriveShape, Edit, GroupId, Instant, Knobs, Layer,
    Output, Request, Sizes, SpaceId, Span, StreamId, StreamSpec, Tag, control, elevator,
};

use crate::client::Client;
use crate::drive::{Drive, Kind, SIZE};
use crate::listing::sampled;

/// A drive, a policy, and who does what.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) says: &'static str,
    pub(crate) drive: Kind,
    pub(crate) shape: DriveShape,
    pub(crate) sizes: Sizes,
    pub(crate) controllers: control::Config,
    pub(crate) elevator: elevator::Config,
    /// Number, parent, contract and target for latency of each group.
    pub(crate) groups: Vec<(u32, GroupId, Contract, Span)>,
    pub(crate) clients: Vec<Client>,
    pub(crate) millis: u64,
}

/// Something that was decided: a piece was sent to the drive, or a request was answered.
pub(crate) enum Decision {
    Sent(u64, usize, Dispatch),
    Answered(u64, usize, Done),
    /// What could be sampled.
    Sampled(u64, Vec<u64>),
}

/// Nanoseconds between two samples.
const SAMPLE_EVERY: u64 = 5_000_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Ended(u32),
    Asks(usize),
    Called,
}

struct Host<'a> {
    clients: &'a [Client],
    streams: Vec<StreamId>,
    asked: Vec<u64>,
    due: BTreeSet<(u64, u64, Due)>,
    serial: u64,
    decisions: Vec<Decision>,
}

/// Runs the scene.
pub(crate) fn run(scene: &Scene) -> Vec<Decision> {
    let mut layer = layer(scene);
    let mut drive = Drive::new(scene.drive);
    let mut host = Host::new(scene, &mut layer);
    let mut sample_at = 0;
    while let Some(now) = host.due.first().map(|due| due.0) {
        if now >= scene.millis * 1_000_000 {
            break;
        }
        let mut ended = Vec::new();
        let mut requests = Vec::new();
        while let Some(&(_, _, due)) = host.due.first().filter(|due| due.0 == now) {
            host.due.pop_first();
            match due {
                Due::Ended(tag) => ended.push(Completion::ok(Tag(tag))),
                Due::Asks(client) => requests.extend(host.request(client, now)),
                Due::Called => {}
            }
        }
        let at = Instant::from_nanos(now);
        if !ended.is_empty() {
            layer.complete(at, &ended);
        }
        if !requests.is_empty() {
            layer.submit(at, &requests).expect("there is room");
        }
        let mut out = Vec::new();
        let wake = layer.poll(at, &mut out);
        if now >= sample_at {
            sample_at = now + SAMPLE_EVERY;
            host.decisions.push(Decision::Sampled(now, sampled(&layer)));
        }
        for output in out {
            host.take(now, output, &mut drive);
        }
        if let Some(wake) = wake {
            host.add(wake.at.as_nanos().max(now + 1), Due::Called);
        }
    }
    host.decisions
}

fn layer(scene: &Scene) -> Layer {
    let config = Config {
        sizes: scene.sizes,
        drive: scene.shape,
        controllers: scene.controllers,
        merge: weir_core::merge::Config::OFF,
        elevator: scene.elevator.clone(),
    };
    let mut layer = Layer::new(config).unwrap();
    let space = Edit::SetSpace {
        id: SpaceId(0),
        size: Some(SIZE),
    };
    let mut edits = vec![space];
    for &(id, parent, contract, latency) in &scene.groups {
        let id = GroupId(id);
        edits.push(Edit::AddGroup {
            id,
            parent,
            contract,
        });
        let knobs = Knobs {
            latency,
            ..Knobs::NONE
        };
        edits.push(Edit::SetKnobs { id, knobs });
    }
    layer.change(Instant::ZERO, &edits).unwrap();
    layer
}

impl<'a> Host<'a> {
    fn new(scene: &'a Scene, layer: &mut Layer) -> Self {
        let mut host = Self {
            clients: &scene.clients,
            streams: Vec::new(),
            asked: vec![0; scene.clients.len()],
            due: BTreeSet::new(),
            serial: 0,
            decisions: Vec::new(),
        };
        for (number, client) in scene.clients.iter().enumerate() {
            let spec = StreamSpec {
                group: client.group,
                priority: client.priority,
            };
            host.streams.push(layer.open(Instant::ZERO, spec).unwrap());
            for _ in 0..client.depth {
                host.add(client.from * 1_000_000, Due::Asks(number));
            }
        }
        host
    }

    fn add(&mut self, at: u64, due: Due) {
        self.serial += 1;
        self.due.insert((at, self.serial, due));
    }

    fn request(&mut self, client: usize, now: u64) -> Option<Request> {
        let c = &self.clients[client];
        if now / 1_000_000 >= c.until {
            return None;
        }
        let (op, offset, length) = c.request(self.asked[client]);
        self.asked[client] += 1;
        Some(Request {
            stream: self.streams[client],
            space: SpaceId(0),
            op,
            flags: c.flags,
            offset,
            length,
            cookie: client as u64,
        })
    }

    fn take(&mut self, now: u64, output: Output, drive: &mut Drive) {
        match output {
            Output::Dispatch(piece) => {
                self.add(drive.take(now, &piece), Due::Ended(piece.tag.0));
                self.decisions
                    .push(Decision::Sent(now, piece.cookie as usize, piece));
            }
            Output::Done(done) => {
                let client = done.cookie as usize;
                self.add(
                    now + 1 + 1_000 * self.clients[client].think,
                    Due::Asks(client),
                );
                self.decisions.push(Decision::Answered(now, client, done));
            }
            Output::Pause(_) | Output::Resume(_) => {}
        }
    }
}
