//! The host of a scene, which runs clients, the audited layer and the drive in virtual time.

use super::{SceneClient, SceneOutcome, SceneStep, SceneWatch, SteadyScene};
use crate::audit::random::{DecisionSource, RandomDecisions};
use crate::audit::{Audited, Witness};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_core::{
    Completion, Edit, Flags, GroupId, Instant, Op, Output, Priority, Request, SpaceId, StreamId,
    StreamSpec, Tag,
};

/// The next event. The order of the variants makes completions the first of simultaneous events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum SceneEvent {
    /// The drive completes a piece.
    Complete(Tag, DriveAnswer),
    /// The step of the scene's script with this index.
    Step(u32),
    /// A client submits a request, in the given one of its lives.
    Submit(u32, u32),
}

/// The kind of a completion, by which the drive answers a piece.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum DriveAnswer {
    Ok,
    Error,
    Busy,
}

pub(super) struct SceneHost<'a> {
    scene: &'a SteadyScene,
    random: &'a mut RandomDecisions,
    layer: Audited,
    now: u64,
    wake: Option<u64>,
    events: BinaryHeap<Reverse<(u64, SceneEvent)>>,
    /// The stream of each client while it is connected.
    streams: Vec<Option<StreamId>>,
    /// The number of times that each client has left. A submission of an earlier life is void.
    lives: Vec<u32>,
    positions: Vec<u64>,
    link_free: u64,
    cookie: u64,
    out: Vec<Output>,
    completions: Vec<Completion>,
    requests: Vec<Request>,
    outcome: SceneOutcome,
}

/// The part of the space that each client has to itself, in bytes.
const REGION: u64 = 1 << 34;

impl<'a> SceneHost<'a> {
    pub(super) fn new(scene: &'a SteadyScene, random: &'a mut RandomDecisions) -> Self {
        let layer = set_up(scene);
        let clients = scene.clients.len();
        let mut host = Self {
            scene,
            layer,
            now: 0,
            wake: None,
            events: BinaryHeap::new(),
            streams: vec![None; clients],
            lives: vec![0; clients],
            positions: Vec::new(),
            random,
            link_free: 0,
            cookie: 0,
            out: Vec::new(),
            completions: Vec::new(),
            requests: Vec::new(),
            outcome: SceneOutcome {
                bytes: vec![0; clients],
                ..SceneOutcome::default()
            },
        };
        for client in 0..clients as u32 {
            // Clients begin within the first millisecond, not all at the same time.
            let from = host.random.below(1_000_000);
            host.connect_client(client, from);
        }
        // Positions are multiples of 1 MiB. Clients near each other share the first 8 MiB.
        let place =
            |random: &mut RandomDecisions| random.below(if scene.near { 8 } else { REGION >> 21 });
        host.positions = (0..clients).map(|_| place(host.random) << 20).collect();
        let steps = scene.script.iter().enumerate();
        host.events.extend(
            steps.map(|(i, step)| Reverse((step.0.as_nanos(), SceneEvent::Step(i as u32)))),
        );
        host
    }

    /// Runs to the scene's end, or until an auditor finds a violation.
    pub(super) fn run(&mut self) {
        let end = self.scene.duration.as_nanos();
        while self.layer.observer().audit.found().is_empty() {
            let next = self.events.peek().map(|e| e.0.0);
            let Some(now) = [next, self.wake]
                .into_iter()
                .flatten()
                .min()
                // Events after the end of the scene do not happen.
                .filter(|&n| n < end)
            else {
                return;
            };
            self.now = now;
            self.take_events();
            self.poll();
        }
    }

    /// Returns the results, and the layer with the violations.
    pub(super) fn into_parts(self) -> (SceneOutcome, Audited) {
        (self.outcome, self.layer)
    }

    fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Passes everything that happens at the present time to the layer.
    fn take_events(&mut self) {
        while let Some(&Reverse((at, event))) = self.events.peek()
            && at <= self.now
        {
            self.events.pop();
            match event {
                SceneEvent::Complete(tag, answer) => self.completions.push(match answer {
                    DriveAnswer::Ok => Completion::ok(tag),
                    DriveAnswer::Error => Completion::error(tag, 5),
                    DriveAnswer::Busy => Completion::busy(tag),
                }),
                // A step may depend on completions of the same instant, which therefore reach the
                // layer first.
                SceneEvent::Step(at) => {
                    self.complete();
                    self.step(self.scene.script[at as usize].1);
                }
                SceneEvent::Submit(client, life) if life == self.lives[client as usize] => {
                    let request = self.request(client);
                    self.requests.push(request);
                }
                SceneEvent::Submit(..) => {}
            }
        }
        self.complete();
        if !self.requests.is_empty() {
            self.layer
                .submit(self.instant(), &self.requests)
                .expect("scenes have room for all requests");
            self.requests.clear();
        }
    }

    fn complete(&mut self) {
        if !self.completions.is_empty() {
            self.layer.complete(self.instant(), &self.completions);
            self.completions.clear();
        }
    }

    fn step(&mut self, step: SceneStep) {
        let now = self.instant();
        match step {
            SceneStep::Change(id, contract) => {
                self.layer
                    .change(now, &[Edit::SetContract { id, contract }])
                    .expect("scenes promise what can be kept");
            }
            SceneStep::Connect(client) => self.connect_client(client, self.now),
            SceneStep::Disconnect(client) => {
                if let Some(stream) = self.streams[client as usize].take() {
                    self.lives[client as usize] += 1;
                    self.layer.close(now, stream);
                }
            }
            SceneStep::Hold(client, held) => {
                if let Some(stream) = self.streams[client as usize] {
                    self.layer.hold(now, stream, held);
                }
            }
            SceneStep::Cancel(client) => {
                let model = self.layer.observer().audit.model();
                let stream = self.streams[client as usize].and_then(|s| model.stream(s));
                // The newest request is least likely to be in the drive already.
                let newest = stream.and_then(|s| model.requests_of(s).last());
                if let Some(request) = newest.map(|slot| model.request(slot).request) {
                    self.layer.cancel(now, request.stream, request.cookie);
                }
            }
        }
    }

    /// Connects a client, which starts to submit at `from`.
    fn connect_client(&mut self, client: u32, from: u64) {
        let SceneClient { group, depth, .. } = self.scene.clients[client as usize];
        let spec = StreamSpec {
            group: GroupId(group),
            priority: Priority::default(),
        };
        let stream = self.layer.open(self.instant(), spec);
        self.streams[client as usize] = Some(stream.expect("scenes have room for their clients"));
        let life = self.lives[client as usize];
        self.events
            .extend((0..depth).map(|_| Reverse((from, SceneEvent::Submit(client, life)))));
    }

    fn request(&mut self, client: u32) -> Request {
        let SceneClient {
            size,
            random,
            write_in,
            ..
        } = self.scene.clients[client as usize];
        let position = &mut self.positions[client as usize];
        if random {
            *position = self.random.below((REGION - u64::from(size)) >> 12) << 12;
        // A sequential client starts again at the beginning of its region.
        } else if *position + 2 * u64::from(size) > REGION {
            *position = 0;
        } else {
            *position += u64::from(size);
        }
        self.cookie += 1;
        let writes = write_in > 0 && self.random.once_in(write_in);
        Request {
            stream: self.streams[client as usize].expect("a client that asks is here"),
            space: SpaceId(0),
            op: if writes { Op::Write } else { Op::Read },
            flags: Flags::NONE,
            offset: if self.scene.near {
                *position
            } else {
                u64::from(client) * REGION + *position
            },
            length: size,
            // The lower bits tell the client, so that completions need no table.
            cookie: self.cookie << 16 | u64::from(client),
            within: 0,
        }
    }

    fn poll(&mut self) {
        let mut out = std::mem::take(&mut self.out);
        let wake = self.layer.poll(self.instant(), &mut out);
        self.wake = wake.map(|w| w.at.as_nanos());
        for output in out.drain(..) {
            match output {
                Output::Dispatch(d) => {
                    let (at, answer) = self.serve(d.op, d.length);
                    self.events
                        .push(Reverse((at, SceneEvent::Complete(d.tag, answer))));
                }
                Output::Done(done) => {
                    self.outcome.done += 1;
                    let client = (done.cookie & 0xFFFF) as u32;
                    self.outcome.bytes[client as usize] += u64::from(done.length);
                    // A completion of an earlier life of the client starts no new request.
                    if self.streams[client as usize] == Some(done.stream) {
                        let at = self.scene.clients[client as usize].next(self.now);
                        let life = self.lives[client as usize];
                        self.events
                            .push(Reverse((at, SceneEvent::Submit(client, life))));
                    }
                }
                Output::Pause(_) | Output::Resume(_) => {}
            }
        }
        self.out = out;
    }

    /// Serves a piece in the drive. Returns the time of its completion in nanoseconds, and the
    /// kind.
    fn serve(&mut self, op: Op, length: u32) -> (u64, DriveAnswer) {
        let drive = &self.scene.drive;
        let arrives = self.now + drive.service.as_nanos();
        if drive.busy_in > 0 && self.random.once_in(drive.busy_in) {
            // A refusal takes a microsecond.
            return (self.now + 1_000, DriveAnswer::Busy);
        }
        let a_kib = if op == Op::Write {
            drive.write_ns_per_kib
        } else {
            drive.read_ns_per_kib
        };
        let crossing = (u64::from(length) * a_kib / 1024).max(drive.request_ns);
        // The link moves one request at a time, in the order of submission.
        self.link_free = self.link_free.max(arrives) + crossing;
        let fails = drive.error_in > 0 && self.random.once_in(drive.error_in);
        let answer = if fails {
            DriveAnswer::Error
        } else {
            DriveAnswer::Ok
        };
        (self.link_free, answer)
    }
}

/// Creates the layer with the scene's groups and auditors.
fn set_up(scene: &SteadyScene) -> Audited {
    let mut layer = Witness::audited_layer(scene.config.clone(), false)
        .expect("scenes have valid configurations");
    let size = Some(REGION * scene.clients.len() as u64);
    let mut edits = vec![Edit::SetSpace {
        id: SpaceId(0),
        size,
    }];
    for (i, &(parent, contract)) in scene.groups.iter().enumerate() {
        edits.push(Edit::AddGroup {
            id: GroupId(i as u32 + 1),
            parent,
            contract,
        });
    }
    layer
        .change(Instant::ZERO, &edits)
        .expect("scenes promise what can be kept");
    let audit = &mut layer.observer_mut().audit;
    for watch in &scene.watch {
        match *watch {
            SceneWatch::Shares { lag, owed, skip } => audit.watch_shares(lag, owed, skip),
            SceneWatch::Waits { bound } => audit.watch_waits(bound),
            SceneWatch::Promises { from, least } => audit.watch_promises(from, least),
            SceneWatch::Realtime { bound } => audit.watch_realtime(bound),
            SceneWatch::Idle => audit.watch_idle(),
        }
    }
    layer
}

impl SceneClient {
    /// Returns the time at which the client submits its next request after a completion at `now`,
    /// in nanoseconds.
    fn next(&self, now: u64) -> u64 {
        let then = now + self.think;
        // The position within the period of activity and pause.
        let into = then % (self.on + self.off).max(1);
        if self.off == 0 || into < self.on {
            then
        } else {
            then - into + self.on + self.off
        }
    }
}
