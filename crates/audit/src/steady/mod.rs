//! A steady state: closed-loop clients on a modelled drive in virtual time, for the auditors of shares, waits and promises.
//!
//! Random operations ([`crate::random`]) show that nothing is lost, whatever happens; that everyone gets a fair part shows only when
//! many wait for long. Here drawn clients keep requests outstanding for seconds of virtual time on a drive whose requests take
//! `service` each, side by side, and then cross one link.

mod scene;

pub use scene::{Kind, Scene, Watch};

use crate::random::{Random, Source};
use crate::{Audited, Margins, Violation, Witness};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use weir_core::{
    Completion, Edit, Flags, GroupId, Instant, Op, Output, Priority, Request, SpaceId, Span,
    StreamId, StreamSpec, Tag,
};

/// What a client does: keeps `depth` requests of `size` outstanding, each `think` after the answer before.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The slot of its group.
    pub group: u32,
    /// Bytes a request.
    pub size: u32,
    /// Requests outstanding.
    pub depth: u32,
    /// Nanoseconds between an answer and the next request.
    pub think: u64,
    /// At random places, or one behind the other.
    pub random: bool,
    /// Asks for `on` nanoseconds, then for nothing for `off`, and so on. Zero `off`: all the time.
    pub on: u64,
    /// See there.
    pub off: u64,
}

/// How a run went.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// How near to their bounds things came.
    pub margins: Margins,
    /// Requests done.
    pub done: u64,
    /// Bytes of them, by client.
    pub bytes: Vec<u64>,
}

/// A run in which something was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What was found first.
    pub violations: Vec<Violation>,
    /// What ran.
    pub scene: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.scene)?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// Draws a scene of a kind from `seed` and runs it.
///
/// # Errors
/// An auditor found something.
pub fn run(kind: Kind, seed: u64) -> Result<Outcome, Box<Failure>> {
    let mut random = Random::new(seed);
    let scene = Scene::draw(kind, &mut random);
    run_scene(&scene, &mut random)
}

/// Runs a scene; `random` says at which places clients read.
///
/// # Errors
/// An auditor found something.
pub fn run_scene(scene: &Scene, random: &mut Random) -> Result<Outcome, Box<Failure>> {
    let mut host = Host::new(scene, random);
    host.run();
    let found = host.layer.observer().audit.found();
    if found.is_empty() {
        return Ok(Outcome {
            margins: host.layer.observer().audit.margins(),
            ..host.outcome
        });
    }
    Err(Box::new(Failure {
        violations: found.kept().to_vec(),
        scene: format!("{scene:?}"),
    }))
}

/// What happens next; at the same instant, completions first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Complete(Tag),
    Submit(u32),
}

struct Host<'a> {
    scene: &'a Scene,
    random: &'a mut Random,
    layer: Audited,
    now: u64,
    wake: Option<u64>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    streams: Vec<StreamId>,
    positions: Vec<u64>,
    link_free: u64,
    cookie: u64,
    out: Vec<Output>,
    completions: Vec<Completion>,
    requests: Vec<Request>,
    outcome: Outcome,
}

/// Each client has so much of the space to itself.
const REGION: u64 = 1 << 34;

impl<'a> Host<'a> {
    fn new(scene: &'a Scene, random: &'a mut Random) -> Self {
        let mut layer =
            Witness::beside(scene.config.clone(), false).expect("scenes have valid configurations");
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
        match scene.watch {
            Watch::Shares { lag, skip } => layer.observer_mut().audit.watch_shares(lag, skip),
            Watch::Waits { bound } => layer.observer_mut().audit.watch_waits(bound),
            Watch::Promises { from } => layer.observer_mut().audit.watch_promises(from),
        }
        let open = |client: &Client| {
            let spec = StreamSpec {
                group: GroupId(client.group),
                priority: Priority::default(),
            };
            layer
                .open(Instant::ZERO, spec)
                .expect("scenes have room for their clients")
        };
        let streams = scene.clients.iter().map(open).collect();
        let mut events = BinaryHeap::new();
        for (i, client) in scene.clients.iter().enumerate() {
            // Not all at the same instant.
            let from = random.below(1_000_000);
            events.extend((0..client.depth).map(|_| Reverse((from, Event::Submit(i as u32)))));
        }
        Self {
            scene,
            layer,
            now: 0,
            wake: None,
            events,
            streams,
            positions: scene
                .clients
                .iter()
                .map(|_| random.below(if scene.near { 8 } else { REGION >> 21 }) << 20)
                .collect(),
            random,
            link_free: 0,
            cookie: 0,
            out: Vec::new(),
            completions: Vec::new(),
            requests: Vec::new(),
            outcome: Outcome {
                bytes: vec![0; scene.clients.len()],
                ..Outcome::default()
            },
        }
    }

    fn run(&mut self) {
        let end = self.scene.duration.as_nanos();
        while self.layer.observer().audit.found().is_empty() {
            let next = self.events.peek().map(|e| e.0.0);
            let Some(now) = [next, self.wake]
                .into_iter()
                .flatten()
                .min()
                .filter(|&n| n < end)
            else {
                return;
            };
            self.now = now;
            self.take_events();
            self.poll();
        }
    }

    /// Everything that happens now goes to the layer.
    fn take_events(&mut self) {
        self.completions.clear();
        self.requests.clear();
        while let Some(&Reverse((at, event))) = self.events.peek()
            && at <= self.now
        {
            self.events.pop();
            match event {
                Event::Complete(tag) => self.completions.push(Completion::ok(tag)),
                Event::Submit(client) => {
                    let request = self.request(client);
                    self.requests.push(request);
                }
            }
        }
        let now = Instant::from_nanos(self.now);
        if !self.completions.is_empty() {
            self.layer.complete(now, &self.completions);
        }
        if !self.requests.is_empty() {
            self.layer
                .submit(now, &self.requests)
                .expect("scenes have room for all requests");
        }
    }

    fn request(&mut self, client: u32) -> Request {
        let Client { size, random, .. } = self.scene.clients[client as usize];
        let position = &mut self.positions[client as usize];
        if random {
            *position = self.random.below((REGION - u64::from(size)) >> 12) << 12;
        } else if *position + 2 * u64::from(size) > REGION {
            *position = 0;
        } else {
            *position += u64::from(size);
        }
        self.cookie += 1;
        Request {
            stream: self.streams[client as usize],
            space: SpaceId(0),
            op: Op::Read,
            flags: Flags::NONE,
            offset: if self.scene.near {
                *position
            } else {
                u64::from(client) * REGION + *position
            },
            length: size,
            cookie: self.cookie << 16 | u64::from(client),
        }
    }

    fn poll(&mut self) {
        self.out.clear();
        let wake = self
            .layer
            .poll(Instant::from_nanos(self.now), &mut self.out);
        self.wake = wake.map(|w| w.at.as_nanos());
        for output in &self.out {
            match *output {
                Output::Dispatch(d) => {
                    let crossing = u64::from(d.length) * self.scene.link_ns_per_kib / 1024;
                    self.link_free =
                        self.link_free.max(self.now + self.scene.service.as_nanos()) + crossing;
                    self.events
                        .push(Reverse((self.link_free, Event::Complete(d.tag))));
                }
                Output::Done(done) => {
                    self.outcome.done += 1;
                    let client = (done.cookie & 0xFFFF) as u32;
                    self.outcome.bytes[client as usize] += u64::from(done.length);
                    let at = self.scene.clients[client as usize].next(self.now);
                    self.events.push(Reverse((at, Event::Submit(client))));
                }
                Output::Pause(_) | Output::Resume(_) => {}
            }
        }
    }
}

impl Client {
    /// When it asks next after an answer at `now`.
    fn next(&self, now: u64) -> u64 {
        let then = now + self.think;
        let into = then % (self.on + self.off).max(1);
        if self.off == 0 || into < self.on {
            then
        } else {
            then - into + self.on + self.off
        }
    }
}

/// A rate in bytes a second as what a KiB takes.
const fn link(bytes_a_second: u64) -> u64 {
    1024 * Span::from_secs(1).as_nanos() / bytes_a_second
}
