//! The core and the drive in virtual time: several clients write, flush and read, and at one event the power goes.

use std::collections::BTreeMap;

use weir_core::{
    Completion, Config, DriveShape, Edit, Flags, Instant, Layer, Op, Outcome, Output, Priority,
    ROOT, Request, Sizes, SpaceId, Span, StreamId, StreamSpec, Wake, elevator, mutant,
};
use weir_uring::{AnyRing, Ring};

use super::super::file::bench::{Bench, Rng};
use super::super::{Backend, Context, Data, Finished, Job};
use super::ledger::{Ledger, Lost, SECTOR};
use super::{Drive, Power, PowerCut};

const SECTORS: u64 = 96;
/// Requests that a client has under way.
const DEPTH: u32 = 3;

/// What a client waits for.
#[derive(Debug)]
enum Sent {
    Write { number: usize, bytes: Vec<u8> },
    Flush { number: u64 },
    Read,
}

#[derive(Debug)]
struct Client {
    stream: StreamId,
    live: u32,
    /// When it sends its next request.
    next: Instant,
}

/// A whole server without sockets and threads.
struct World {
    rng: Rng,
    now: Instant,
    layer: Layer,
    wake: Option<Wake>,
    ring: AnyRing,
    power: Power,
    drive: Drive,
    clients: Vec<Client>,
    sent: BTreeMap<u64, Sent>,
    cookies: u64,
    finished: Vec<Finished>,
    ledger: Ledger,
}

/// What the layer is made from: a drive of some depth.
fn config(rng: &mut Rng) -> Config {
    let drive = DriveShape {
        tags: 1 + rng.below(16) as u16,
        max_transfer: 4096,
        ..DriveShape::default()
    };
    let sizes = Sizes {
        requests: 64,
        streams: 8,
        groups: 2,
        spaces: 2,
        per_stream: DEPTH,
        scheduler_tags: 64,
        events: 16,
        ..Sizes::default()
    };
    Config {
        sizes,
        drive,
        ..Config::of(elevator::Config::None)
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut layer = Layer::new(config(&mut rng)).unwrap();
        let size = Some(SECTORS * SECTOR as u64);
        let edit = Edit::SetSpace {
            id: SpaceId(0),
            size,
        };
        layer.change(Instant::ZERO, &[edit]).unwrap();
        let clients = 2 + rng.below(4);
        let open = |_| {
            let priority = Priority::default();
            let spec = StreamSpec {
                group: ROOT,
                priority,
            };
            Client {
                stream: layer.open(Instant::ZERO, spec).unwrap(),
                live: 0,
                next: Instant::ZERO,
            }
        };
        let clients = (0..clients).map(open).collect();
        let power = Power::new(SECTORS * SECTOR as u64, seed);
        power.state().on = true;
        let drive = PowerCut {
            power: power.clone(),
            size: SECTORS * SECTOR as u64,
            read_only: false,
        };
        let ring = weir_uring::Config {
            backend: weir_uring::Backend::Poll,
            arena_bytes: 1 << 20,
            in_flight: 1,
            ..weir_uring::Config::default()
        };
        Self {
            rng,
            now: Instant::ZERO,
            layer,
            wake: None,
            ring: AnyRing::open(&ring).unwrap(),
            power,
            drive: drive.drive(),
            clients,
            sent: BTreeMap::new(),
            cookies: 0,
            finished: Vec::new(),
            ledger: Ledger::default(),
        }
    }

    /// The next thing that happens: the drive ends something, the core wants to be asked, or a client sends.
    fn event(&mut self) {
        let waiting = self.clients.iter().filter(|c| c.live < DEPTH);
        let client = waiting.map(|c| c.next).min();
        let drive = self.drive.next_end();
        let core = self.wake.map(|w| w.at);
        let next = [drive, core, client].into_iter().flatten().min();
        self.now = self.now.max(next.expect("something always goes on"));
        if drive.is_some_and(|at| at <= self.now) {
            self.with_drive(Drive::expire);
        } else if let Some(client) = (0..self.clients.len())
            .find(|n| self.clients[*n].live < DEPTH && self.clients[*n].next <= self.now)
        {
            self.send(client);
        }
        self.turn();
    }

    fn with_drive(&mut self, call: impl FnOnce(&mut Drive, &mut Context<'_>)) {
        let mut cx = Context {
            now: self.now,
            ring: &mut self.ring,
            token: 0,
            finished: &mut self.finished,
            budget: u64::MAX,
            deferred: false,
        };
        call(&mut self.drive, &mut cx);
    }

    fn send(&mut self, client: usize) {
        let rng = &mut self.rng;
        let first = rng.below(SECTORS);
        let sectors = first..(first + 1 + rng.below(20)).min(SECTORS);
        let flags = [Flags::NONE, Flags::FUA][usize::from(rng.one_in(6))];
        let (op, sent) = match rng.below(8) {
            0 => (Op::Read, Sent::Read),
            1 | 2 => {
                let number = self.ledger.flush();
                (Op::Flush, Sent::Flush { number })
            }
            _ => {
                let number = self.ledger.write(sectors.clone(), flags.has(Flags::FUA));
                let bytes = Ledger::bytes(number, &sectors);
                (Op::Write, Sent::Write { number, bytes })
            }
        };
        let (offset, length) = match op {
            Op::Flush => (0, 0),
            _ => (
                sectors.start * SECTOR as u64,
                (sectors.end - sectors.start) as u32 * SECTOR as u32,
            ),
        };
        let client = &mut self.clients[client];
        client.live += 1;
        client.next = self.now + Span::from_nanos(rng.below(300_000));
        self.cookies += 1;
        self.sent.insert(self.cookies, sent);
        let request = Request {
            stream: client.stream,
            space: SpaceId(0),
            op,
            flags: if op == Op::Write { flags } else { Flags::NONE },
            offset,
            length,
            cookie: self.cookies,
        };
        self.layer.submit(self.now, &[request]).unwrap();
    }

    /// What a shard does in a turn.
    fn turn(&mut self) {
        loop {
            let ended: Vec<_> = self.finished.drain(..).collect();
            let ended: Vec<_> = ended
                .into_iter()
                .map(|Finished { tag, outcome, .. }| Completion { tag, outcome })
                .collect();
            self.layer.complete(self.now, &ended);
            let mut out = Vec::new();
            self.wake = self.layer.poll(self.now, &mut out);
            for output in out {
                match output {
                    Output::Dispatch(dispatch) => self.dispatch(dispatch),
                    Output::Done(done) => self.answer(done.stream, done.cookie, done.outcome),
                    Output::Pause(_) | Output::Resume(_) => {}
                }
            }
            if self.finished.is_empty() {
                return;
            }
        }
    }

    fn dispatch(&mut self, dispatch: weir_core::Dispatch) {
        let buf = |length: u32| self.ring.arena().alloc(length as usize).unwrap();
        let data = match &self.sent[&dispatch.cookie] {
            Sent::Write { bytes, .. } => {
                let mut buf = buf(dispatch.length);
                buf.copy_from_slice(&bytes[dispatch.within as usize..][..dispatch.length as usize]);
                Data::Write(buf.into_shared())
            }
            Sent::Read => Data::Read(buf(dispatch.length)),
            Sent::Flush { .. } => Data::None,
        };
        let job = Job {
            tag: dispatch.tag,
            stream: dispatch.stream,
            op: dispatch.op,
            flags: dispatch.flags,
            offset: dispatch.offset,
            length: dispatch.length,
            data,
        };
        self.with_drive(|drive, cx| drive.submit(job, cx));
    }

    fn answer(&mut self, stream: StreamId, cookie: u64, outcome: Outcome) {
        assert_eq!(outcome, Outcome::Ok, "the power is on");
        match self.sent.remove(&cookie) {
            Some(Sent::Write { number, .. }) => self.ledger.written(number),
            Some(Sent::Flush { number }) => self.ledger.flushed(number),
            Some(Sent::Read) => {}
            None => panic!("answered twice"),
        }
        let client = self.clients.iter_mut().find(|c| c.stream == stream);
        client.expect("it is open").live -= 1;
    }

    /// Cuts the power; what breaks a promise, and how many were made.
    fn cut(self) -> (Vec<Lost>, usize) {
        self.power.cut();
        let mut left = vec![0; SECTORS as usize * SECTOR];
        self.power.read(0, &mut left);
        (self.ledger.check_all(&left), self.ledger.promised())
    }
}

/// A bug that the process was started to show.
fn select() {
    #[cfg(feature = "mutants")]
    if let Ok(number) = std::env::var("WEIR_MUTANT") {
        mutant::select(number.parse().unwrap());
    }
    let _ = mutant::is(0);
}

#[test]
fn a_cut_at_any_event_loses_nothing_that_was_promised() {
    select();
    let mut promised = 0;
    for seed in 0..6 {
        for events in 0..150 {
            let mut world = World::new(seed);
            for _ in 0..events {
                world.event();
            }
            let (lost, kept) = world.cut();
            assert!(
                lost.is_empty(),
                "seed {seed}, event {events}: lost {lost:?}"
            );
            promised += kept;
        }
    }
    assert!(promised > 6 * 150 * 10, "{promised} promises were at stake");
}

/// Without a promise everything can be lost, else this drive would show no bug.
#[test]
fn what_was_not_promised_may_be_lost() {
    let mut lost = 0;
    for seed in 100..200 {
        let mut world = World::new(seed);
        for _ in 0..60 {
            world.event();
        }
        let unflushed = world.power.unflushed();
        let mut before = vec![0; SECTORS as usize * SECTOR];
        world.power.read(0, &mut before);
        let power = world.power.clone();
        world.cut();
        assert_eq!(power.unflushed(), 0);
        let mut after = vec![0; SECTORS as usize * SECTOR];
        power.read(0, &mut after);
        assert!(unflushed > 0 || before == after);
        lost += usize::from(before != after);
    }
    assert!(lost > 70, "{lost} of 100 cuts lost something");
}

#[test]
fn a_drive_outlives_its_server_and_fails_the_one_before() {
    let name = "a drive of this test";
    assert!(PowerCut::open(name, 1000, false, 1).is_err());
    let config = super::super::file::tests::ring(weir_uring::Backend::Auto);
    let bench = || {
        Bench::new(
            Box::new(PowerCut::open(name, 8192, false, 1).unwrap()),
            &config,
        )
    };
    let mut first = bench();
    assert_eq!(first.write(512, &[5; 512], Flags::FUA), Ok(()));
    let data = first.source(&[6; 512], |left| left).unwrap();
    let running = first.submit(Op::Write, Flags::NONE, 1024, 512, data);
    let power = Power::of(name).unwrap();
    power.cut();
    assert_eq!(first.wait(running).0, Err(5));
    assert_eq!(first.flush(), Err(5));
    let mut second = bench();
    assert_eq!(first.flush(), Err(5), "it belongs to the second now");
    assert_eq!(second.flush(), Ok(()));
    assert_eq!(second.read(512, 512), Ok(vec![5; 512]));
    let larger = PowerCut::open(name, 16_384, false, 1).unwrap_err();
    assert!(larger.to_string().contains("8192"), "{larger}");
}

/// Each bug in a process of its own, as a bug is switched on for all of a process.
#[cfg(feature = "mutants")]
#[test]
fn the_bugs_of_durability_are_caught() {
    let test = format!(
        "{}::a_cut_at_any_event_loses_nothing_that_was_promised",
        module_path!().split_once("::").unwrap().1
    );
    let bugs = [
        mutant::FLUSH_JOINS_RUNNING,
        mutant::FLUSH_IGNORED,
        mutant::FUA_IGNORED,
        mutant::FLUSH_OWN_CONNECTION,
        mutant::ANSWER_BEFORE_SYNC,
    ];
    for bug in [0].into_iter().chain(bugs) {
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &test])
            .env("WEIR_MUTANT", bug.to_string())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
        assert!(text.contains("running 1 test"), "{text}");
        assert_eq!(run.status.success(), bug == 0, "bug {bug}: {text}");
        assert!(bug == 0 || text.contains(": lost ["), "bug {bug}: {text}");
    }
}
