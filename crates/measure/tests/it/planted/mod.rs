//! Random runs in virtual time, some with a planted cause, and independent measurements of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use weir_core::random::Rng;
use weir_core::record::{Call, Observer};
use weir_core::{Capacity, Contract, GroupId, Instant, Layer, Max, Outcome, Output, Span};
use weir_measure::explain::{Cause, Explanation, JudgingJournal};
use weir_model::drive::null;
use weir_model::load::{Arrival, Program};
use weir_sim::{CpuStall, Path, Policy, Scenario, SimRun};
use weir_verify::search::batch::{DrawOptions, draw_case};

/// The bytes of the journals of these runs.
pub(crate) const JOURNAL: usize = 16 << 20;

/// The causes that are planted.
pub(crate) const CAUSES: [Cause; 5] = [
    Cause::Neighbour,
    Cause::OwnMax,
    Cause::OwnDepth,
    Cause::SlowDrive,
    Cause::HostBusy,
];

/// An auditor that does not use the journal. It measures latencies from outside of the layer, from
/// the call that submitted a request to the call that completed it.
#[derive(Debug, Default)]
pub(crate) struct LatencyAuditor {
    sent: HashMap<(u64, u64), Instant>,
    groups: HashMap<u64, GroupId>,
    /// The number of requests that completed without an error, and the sum of their latencies in
    /// nanoseconds, by group.
    pub(crate) all: BTreeMap<GroupId, (u64, u64)>,
}

impl Observer for LatencyAuditor {
    fn call(&mut self, now: Instant, call: &Call<'_>, _layer: &mut Layer) {
        match *call {
            Call::Open {
                spec,
                result: Ok(stream),
            } => {
                self.groups.insert(stream.to_bits(), spec.group);
            }
            Call::Submit { batch, result } => {
                let accepted = result.map_or_else(|r| r.accepted, |()| batch.len());
                for request in &batch[..accepted] {
                    self.sent
                        .insert((request.stream.to_bits(), request.cookie), now);
                }
            }
            Call::Poll { outputs, .. } => {
                for output in outputs {
                    let Output::Done(done) = output else { continue };
                    let sent = self.sent.remove(&(done.stream.to_bits(), done.cookie));
                    let Some(sent) = sent.filter(|_| done.outcome == Outcome::Ok) else {
                        continue;
                    };
                    let group = self.groups[&done.stream.to_bits()];
                    let (count, sum) = self.all.entry(group).or_default();
                    (*count, *sum) = (*count + 1, *sum + now.since(sent).as_nanos());
                }
            }
            _ => {}
        }
    }
}

/// A journal that receives the time without a CPU from the simulated machine, as the live server
/// receives it from the kernel.
#[derive(Debug)]
struct StallReporter {
    watch: Rc<RefCell<JudgingJournal>>,
    stalls: Vec<CpuStall>,
    looked: Instant,
}

/// The interval at which the live server asks the kernel.
const LOOK: Span = Span::from_millis(10);

impl Observer for StallReporter {
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        let mut watch = self.watch.borrow_mut();
        if now.since(self.looked) >= LOOK {
            self.looked = now;
            let over = self.stalls.iter().map(|stall| {
                let passed = now.as_nanos().saturating_sub(stall.at.as_nanos());
                passed.min(stall.length.as_nanos())
            });
            watch.journal().waited(now, over.sum());
        }
        watch.call(now, call, layer);
    }
}

/// Plays a run, and returns the explanation of each group with the measurements of it.
pub(crate) fn play(
    scenario: &Scenario,
    policy: &Policy,
    journal: usize,
) -> Vec<(GroupId, Explanation, (u64, u64))> {
    let watch = Rc::new(RefCell::new(JudgingJournal::new(journal)));
    let mut told = StallReporter {
        watch: Rc::clone(&watch),
        stalls: scenario.machine.stalls.clone(),
        looked: Instant::ZERO,
    };
    let mut measured = LatencyAuditor::default();
    let end = scenario.ends().1;
    let views: Vec<_> = {
        let observers: Vec<&mut dyn Observer> = vec![&mut told, &mut measured];
        let mut run = SimRun::observed(scenario, policy, 0, observers).expect("it can be played");
        run.advance(end).expect("it makes progress");
        let mut watch = watch.borrow_mut();
        let groups: Vec<GroupId> = watch.groups().map(|g| g.0).collect();
        groups
            .into_iter()
            .filter_map(|group| watch.view(end, run.layer(), group))
            .collect()
    };
    let name = |group: GroupId| {
        let mut clients = scenario.clients.iter();
        let client = clients.find(|client| client.group == group);
        client.map_or_else(
            || format!("group-{}", group.0),
            |client| client.name.clone(),
        )
    };
    let groups: Vec<GroupId> = watch.borrow().groups().map(|g| g.0).collect();
    let explained = views.iter().map(|view| view.explain(None, &name));
    let of = |group: &GroupId| measured.all.get(group).copied().unwrap_or_default();
    groups
        .iter()
        .zip(explained)
        .map(|(group, e)| (*group, e, of(group)))
        .collect()
}

/// Returns the largest relative difference between the sum of an explanation's parts and the
/// measured latency. `None` if nothing was measured.
pub(crate) fn off_by(played: &[(GroupId, Explanation, (u64, u64))]) -> Option<f64> {
    let off = played
        .iter()
        .filter(|(.., measured)| measured.0 > 0)
        .map(|(_, e, (count, sum))| {
            let measured = *sum as f64 / *count as f64 / 1e3;
            let parts: f64 = e.parts.iter().map(|part| part.us).sum();
            assert_eq!(e.requests, *count, "{}: every request is counted", e.volume);
            (parts - measured).abs() / measured.max(1e-9)
        });
    off.reduce(f64::max)
}

/// Returns a random run, as the search for promises would play it.
pub(crate) fn random(seed: u64) -> Option<(Scenario, Policy)> {
    let mut rng = Rng::new(seed);
    let case = draw_case(seed, DrawOptions::default()).ok()?;
    let names = [
        "none",
        "contract",
        "bfq",
        "contract",
        "mq-deadline",
        "kyber",
    ];
    let name = names[rng.range(0, names.len() as u64 - 1) as usize];
    let policy = weir_config::policy::find(name).ok()?;
    Some((case.scenario, policy))
}

fn kib(rng: &mut Rng, low: u32, high: u32) -> u32 {
    4096 << rng.range(u64::from(low), u64::from(high))
}

/// Returns a drive on which a cause can be planted. Its service time and its link differ from run
/// to run.
fn drive(rng: &mut Rng) -> null::NullConfig {
    null::NullConfig {
        service: Span::from_micros(rng.range(20, 200)),
        link: rng.range(100, 600) * 1_000_000,
        ..null::NullConfig::demo()
    }
}

pub(crate) fn promised(min: u64) -> Contract {
    Contract {
        min,
        ..Contract::DEFAULT
    }
}

/// Adds clients with little load.
fn add_quiet(scenario: &mut Scenario, rng: &mut Rng) {
    for number in 0..rng.range(0, 3) {
        let program = Program {
            arrival: Arrival::Closed {
                think: Span::from_millis(rng.range(5, 20)),
            },
            ..Program::random_reads(kib(rng, 0, 3), 1)
        };
        scenario.add_client_with_group(
            format!("quiet-{number}"),
            Contract::DEFAULT,
            1 << 30,
            program,
        );
    }
}

/// Returns a run in which `alpha` suffers from `cause`.
pub(crate) fn plant(cause: Cause, seed: u64) -> (Scenario, Policy) {
    let mut rng = Rng::new(seed);
    let rng = &mut rng;
    let mut config = drive(rng);
    let policy = match rng.range(0, 1) {
        0 if cause == Cause::Neighbour => Policy::none(),
        _ => Policy::contract(),
    };
    if cause == Cause::SlowDrive {
        config.service = Span::from_micros(rng.range(20, 60));
    }
    let length = Span::from_secs(rng.range(3, 5));
    let mut scenario = Scenario::new(
        "planted",
        weir_model::drive::DriveConfig::Null(config),
        length,
    );
    let capacity = scenario.capacity.map_or(0, |c| c.bytes());
    match cause {
        Cause::Neighbour => plant_neighbour(&mut scenario, &policy, rng),
        Cause::OwnMax => {
            let max = Max {
                bandwidth: capacity * rng.range(3, 30) / 100,
                ..Max::NONE
            };
            let program = Program::random_reads(kib(rng, 0, 4), rng.range(4, 32) as u32);
            let contract = Contract {
                max,
                min: max.bandwidth * rng.range(0, 1) / 2,
                ..Contract::DEFAULT
            };
            scenario.add_client_with_group("alpha", contract, 1 << 30, program);
            add_quiet(&mut scenario, rng);
        }
        Cause::OwnDepth => {
            let size = kib(rng, 0, 1);
            let alone = f64::from(size)
                / (config.service.as_nanos() as f64 / 1e9 + f64::from(size) / config.link as f64);
            // The min is 1.2 to 2 times the bandwidth that a depth of 1 reaches without contention.
            let min = (alone * rng.range(12, 20) as f64 / 10.0) as u64;
            let program = Program::random_reads(size, 1);
            scenario.add_client_with_group(
                "alpha",
                promised(min.min(capacity * 8 / 10)),
                1 << 30,
                program,
            );
            add_quiet(&mut scenario, rng);
        }
        Cause::SlowDrive => plant_slow(&mut scenario, capacity, rng),
        _ => plant_late(&mut scenario, capacity, rng),
    }
    (scenario, policy)
}

/// Adds `alpha` and a neighbour with heavy load. Under a fair policy, `alpha` has a queue depth of
/// 1, because with more requests the later ones would be behind its own.
fn plant_neighbour(scenario: &mut Scenario, policy: &Policy, rng: &mut Rng) {
    let depth = if policy.keeps_min() {
        1
    } else {
        rng.range(1, 4)
    };
    let program = Program::random_reads(kib(rng, 0, 2), depth as u32);
    scenario.add_client_with_group("alpha", Contract::DEFAULT, 1 << 30, program);
    let heavy = Program::sequential_reads(128 << 10, rng.range(8, 32) as u32);
    scenario.add_client_with_group("beta", Contract::DEFAULT, 1 << 30, heavy);
    add_quiet(scenario, rng);
}

/// Promises more to all clients together than the drive can do, which is less than its stated
/// capacity.
fn plant_slow(scenario: &mut Scenario, capacity: u64, rng: &mut Rng) {
    let times = rng.range(20, 50);
    let stated = capacity * times / 10;
    scenario.capacity = Some(Capacity {
        read: stated,
        write: stated,
        ..Capacity::NONE
    });
    let clients = rng.range(2, 5);
    let min = stated * rng.range(70, 88) / 100 / clients;
    for number in 0..clients {
        let name = if number == 0 {
            "alpha".to_owned()
        } else {
            format!("tenant-{number}")
        };
        let size = kib(rng, 2, 5);
        let program = match rng.range(0, 1) {
            0 => Program::random_reads(size, rng.range(8, 32) as u32),
            _ => Program::sequential_reads(size, rng.range(8, 32) as u32),
        };
        scenario.add_client_with_group(name, promised(min), 1 << 30, program);
    }
}

/// Stalls the server's thread for much of the time.
fn plant_late(scenario: &mut Scenario, capacity: u64, rng: &mut Rng) {
    let min = capacity * rng.range(10, 40) / 100;
    let program = Program::random_reads(kib(rng, 1, 3), rng.range(4, 16) as u32);
    scenario.add_client_with_group("alpha", promised(min), 1 << 30, program);
    add_quiet(scenario, rng);
    scenario.path = Path {
        latency: Span::from_micros(10),
        turn: Span::from_micros(5),
        processor: Span::from_micros(2),
    };
    let mut at = Span::from_millis(rng.range(1, 50));
    while at < scenario.duration {
        let length = Span::from_millis(rng.range(30, 120));
        scenario.machine.stalls.push(CpuStall {
            at: Instant::ZERO + at,
            length,
        });
        at = at + length + Span::from_millis(rng.range(10, 60));
    }
}

/// Returns true if the explanation names the cause, and the right neighbour if the cause is a
/// neighbour.
pub(crate) fn is_named(e: &Explanation, cause: Cause) -> bool {
    let neighbour = e.neighbours.first().map(|n| n.name.as_str());
    e.cause == Some(cause) && (cause != Cause::Neighbour || neighbour == Some("beta"))
}
