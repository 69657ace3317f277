//! Clients, layer and drive in virtual time.

use std::collections::BTreeSet;

use weir_core::{
    Completion, Config, Contract, Dispatch, Done, DriveShape, Edit, GroupId, Instant, Knobs, Layer,
    Output, Refusal, Request, Sizes, SpaceId, StreamId, StreamSpec, Tag, control, elevator, merge,
};

use crate::decisions::client::Client;
use crate::decisions::drive::{Drive, Kind, SIZE};
use crate::decisions::listing::sampled;

/// A drive, a policy, and its clients' loads.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) says: &'static str,
    pub(crate) drive: Kind,
    pub(crate) shape: DriveShape,
    pub(crate) sizes: Sizes,
    pub(crate) controllers: control::Config,
    pub(crate) merge: merge::Config,
    pub(crate) elevator: elevator::Config,
    /// Number, parent, contract and knobs of each group.
    pub(crate) groups: Vec<(u32, GroupId, Contract, Knobs)>,
    pub(crate) clients: Vec<Client>,
    /// What else happens, and after how many milliseconds.
    pub(crate) changes: Vec<(u64, Change)>,
    pub(crate) millis: u64,
}

/// Something that happens while clients are at work.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    /// The tree is changed, if that is allowed.
    Edit(Edit),
    /// A client leaves, and comes back as another stream.
    Reconnect(usize),
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
    Changes(usize),
    Called,
}

struct Host<'a> {
    clients: &'a [Client],
    streams: Vec<StreamId>,
    asked: Vec<u64>,
    /// Nanoseconds between an answer and the next request, beside what its client thinks.
    least_pause: u64,
    due: BTreeSet<(u64, u64, Due)>,
    serial: u64,
    decisions: Vec<Decision>,
}

/// Runs the scene.
pub(crate) fn run(scene: &Scene) -> Vec<Decision> {
    let mut layer = layer(scene).unwrap();
    let mut drive = Drive::new(scene.drive);
    let mut host = Host::new(scene, &mut layer);
    let mut sample_at = 0;
    while let Some(now) = host.due.first().map(|due| due.0) {
        if now >= scene.millis * 1_000_000 {
            break;
        }
        let mut ended = Vec::new();
        let mut asking = Vec::new();
        let at = Instant::from_nanos(now);
        while let Some(&(_, _, due)) = host.due.first().filter(|due| due.0 == now) {
            host.due.pop_first();
            match due {
                Due::Ended(tag) => ended.push(Completion::ok(Tag(tag))),
                Due::Asks(client) => asking.push(client),
                Due::Changes(number) => host.change(at, scene.changes[number].1, &mut layer),
                Due::Called => {}
            }
        }
        let requests: Vec<_> = (asking.into_iter())
            .filter_map(|client| host.request(client, now))
            .collect();
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

/// The scene's layer, or why nobody can promise that.
pub(crate) fn layer(scene: &Scene) -> Result<Layer, Refusal> {
    let config = Config {
        sizes: scene.sizes,
        drive: scene.shape,
        controllers: scene.controllers,
        merge: scene.merge,
        elevator: scene.elevator.clone(),
    };
    let mut layer = Layer::new(config).unwrap();
    let space = Edit::SetSpace {
        id: SpaceId(0),
        size: Some(SIZE),
    };
    let mut edits = vec![space];
    for &(id, parent, contract, knobs) in &scene.groups {
        let id = GroupId(id);
        edits.push(Edit::AddGroup {
            id,
            parent,
            contract,
        });
        edits.push(Edit::SetKnobs { id, knobs });
    }
    layer.change(Instant::ZERO, &edits)?;
    Ok(layer)
}

impl<'a> Host<'a> {
    fn new(scene: &'a Scene, layer: &mut Layer) -> Self {
        let mut host = Self {
            clients: &scene.clients,
            streams: Vec::new(),
            asked: vec![0; scene.clients.len()],
            least_pause: u64::from(!matches!(scene.drive, Kind::Even)),
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
        for (number, (after, _)) in scene.changes.iter().enumerate() {
            host.add(after * 1_000_000, Due::Changes(number));
        }
        host
    }

    fn add(&mut self, at: u64, due: Due) {
        self.serial += 1;
        self.due.insert((at, self.serial, due));
    }

    fn change(&mut self, now: Instant, change: Change, layer: &mut Layer) {
        match change {
            // A promise too many is refused, and nothing is changed.
            Change::Edit(edit) => drop(layer.change(now, &[edit])),
            Change::Reconnect(client) => {
                layer.close(now, self.streams[client]);
                let spec = StreamSpec {
                    group: self.clients[client].group,
                    priority: self.clients[client].priority,
                };
                self.streams[client] = layer.open(now, spec).unwrap();
            }
        }
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
            within: 0,
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
                let pause = self.least_pause + 1_000 * self.clients[client].think;
                self.add(now + pause, Due::Asks(client));
                self.decisions.push(Decision::Answered(now, client, done));
            }
            Output::Pause(_) | Output::Resume(_) => {}
        }
    }
}
