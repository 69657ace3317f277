//! The demo on a real server: in this process, on a socket of its own, with real clients.

use super::host::{self, Busy, Host};
use super::storage::Storage;
use super::told::Told;
use super::waits::Counted;
use super::{Priority, directory};
use crate::failure::Failure;
use crate::leftovers::Leftovers;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_client::{Fleet, Member};
use weir_config::{Address, Policy, Server as Config, ThreadPriority, profile};
use weir_measure::promise::{self, Beside, Fate, Rate, Terms};
use weir_measure::{Meter, Place, Record, Run, SplitUs, TOTAL};
use weir_serve::Server;
use weir_sim::Alone;

/// An answer that takes longer than this is taken for a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is played, and on what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) scenario: &'a weir_sim::Scenario,
    pub(crate) storage: &'a Storage,
    pub(crate) leftovers: &'a Leftovers,
    pub(crate) priority: Priority,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Live {
    policy: Policy,
    /// What each client saw.
    meters: Vec<Meter>,
    /// What the server said meanwhile.
    waits: Waits,
    /// How long the threads waited for a processor meanwhile.
    host: Host,
    /// What the server said kept clients from more.
    told: Told,
    /// Whether the server's threads were raised above those of other programs.
    raised: bool,
}

/// What is shown of a run under a policy.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) policy: Policy,
    pub(crate) records: Vec<Record>,
    /// What a busy machine did to it.
    pub(crate) busy: Option<Busy>,
    /// Whether the server's threads were raised above those of other programs; `None` where there are none.
    pub(crate) raised: Option<bool>,
}

/// Plays a scenario under a policy on a server of its own. `None`: it was abandoned for an interrupt.
pub(crate) fn play(
    stage: Stage<'_>,
    policy: &Policy,
    mut progress: impl FnMut(Duration),
) -> Result<Option<Live>, Failure> {
    let directory = directory::private(stage.leftovers)?;
    let socket = directory.path().join("nbd.sock");
    let config = config(stage, policy, &socket)?;
    let server = Server::start(&config, &weir_serve::Options::default()).map_err(Failure::run)?;
    let fleet = fleet(stage.scenario, socket);
    let (mut waits, mut host, mut told) = (Waits::default(), Host::default(), Told::default());
    let raised = host::is_raised();
    let interrupt = stage.leftovers.interrupt();
    let outcomes = fleet.run_while(|passed| {
        host.watch(fleet.warm_up, passed);
        waits.watch(&fleet, &server, passed);
        told.watch(fleet.warm_up, passed, &server);
        progress(passed);
        interrupt.signal().is_none()
    });
    let outcomes = outcomes.map_err(Failure::run)?;
    if !server.shutdown() {
        return Err(Failure::Run("the server failed; see the log".into()));
    }
    let Some(outcomes) = outcomes else {
        return Ok(None);
    };
    let mut meters = Vec::new();
    for (outcome, member) in outcomes.into_iter().zip(&fleet.members) {
        if let Some(error) = outcome.error {
            let (name, policy) = (&member.name, &policy.name);
            return Err(Failure::Run(format!("{name} under {policy}: {error}")));
        }
        meters.push(outcome.meter);
    }
    Ok(Some(Live {
        policy: policy.clone(),
        meters,
        waits,
        host,
        told,
        raised,
    }))
}

/// The result records of all runs, as the simulator gives them. `alone` is what each client gets with the drive to itself, without the
/// way to the server, where that is known.
pub(crate) fn records(stage: Stage<'_>, runs: &[Live], alone: &[Option<Alone>]) -> Vec<Shown> {
    let clients = 0..stage.scenario.clients.len();
    let known = |at: usize| alone.get(at).copied().flatten();
    let least: Vec<Option<promise::Alone>> =
        clients.map(|at| unloaded(runs, at, known(at))).collect();
    let each = runs.iter().map(|run| {
        let mut records = run.records(stage, alone, &least);
        run.waits.busy(&mut records);
        let clients = stage.scenario.clients.iter();
        let busy = run.host.busy(clients.map(|client| client.name.as_str()));
        if busy.is_some_and(Busy::is_invalid) {
            let promises = records.iter_mut().filter_map(|r| r.promise.as_mut());
            promises.for_each(|fate| *fate = Fate::Invalid);
        }
        Shown {
            policy: run.policy.clone(),
            records,
            busy,
            raised: Some(run.raised),
        }
    });
    each.collect()
}

/// A request of a client with the drive to itself, its way to the server included: it takes as long as the fastest of all took, which was
/// there on a busy machine, too, and not less than the drive takes.
fn unloaded(runs: &[Live], client: usize, alone: Option<Alone>) -> Option<promise::Alone> {
    let meters = runs.iter().map(|run| &run.meters[client]);
    let answered: Vec<&Meter> = meters.filter(|m| m.requests() > 0).collect();
    let least = answered.iter().map(|m| m.latency().min()).min()?;
    let sum = |count: fn(&Meter) -> u64| answered.iter().map(|m| count(m)).sum::<u64>();
    Some(promise::Alone {
        latency_ns: least.max(alone.map_or(0, |alone| alone.request.latency_ns)),
        bytes: sum(Meter::bytes) / sum(Meter::requests),
    })
}

/// What the server says of its waits when the measurement begins, and when it ends.
#[derive(Debug, Default)]
struct Waits {
    begin: Option<Counted>,
    end: Option<Counted>,
}

impl Waits {
    /// Asks the server when it is time.
    fn watch(&mut self, fleet: &Fleet, server: &Server, passed: Duration) {
        let (at, counted) = match &self.begin {
            None => (fleet.warm_up, &mut self.begin),
            Some(_) => (fleet.warm_up + fleet.length, &mut self.end),
        };
        if passed < at || counted.is_some() {
            return;
        }
        // The demo goes on without.
        *counted = server.watch().figures().map(Counted::of);
    }

    /// Where the time of a client's requests went.
    fn of(&self, client: &str) -> Option<SplitUs> {
        self.end.as_ref()?.since(self.begin.as_ref()?, client)
    }

    /// Adds to the record of the total for how much of the time the drive was busy.
    fn busy(&self, records: &mut [Record]) {
        if let (Some(begin), Some(end)) = (&self.begin, &self.end) {
            let total = records.iter_mut().filter(|r| r.client == TOTAL);
            total.for_each(|total| total.drive_busy_percent = end.busy_percent(begin));
        }
    }
}

/// A configuration of the server as one would write it: a volume for each client with its contract.
fn config(stage: Stage<'_>, policy: &Policy, socket: &Path) -> Result<Config, Failure> {
    let Stage {
        scenario, storage, ..
    } = stage;
    let mut text = String::from("[drive.demo]\n");
    let model = match storage {
        Storage::Model(profile) => Some(profile::inline(&profile.drive)),
        Storage::File(_) | Storage::Device(_) => None,
    };
    if let Some(model) = &model {
        text.extend(["model = ", model, "\n"]);
    }
    text += "[listen]\nnbd = [\"unix:/nbd.sock\"]\n";
    for client in &scenario.clients {
        let size = scenario.spaces[client.space.0 as usize];
        let memory = if model.is_some() {
            ""
        } else {
            "memory = true\n"
        };
        let written = write!(
            text,
            "[volume.{}]\ndrive = \"demo\"\nsize = \"{size}B\"\n{memory}",
            client.name
        );
        written.expect("memory takes every byte");
    }
    let parsed = weir_config::parse("", &text);
    let mut config = parsed.map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::Run(lines.join("\n"))
    })?;
    config.listen.nbd = vec![Address::Unix(socket.to_owned())];
    config.priority = match stage.priority {
        Priority::Auto => ThreadPriority::Auto,
        Priority::Normal => ThreadPriority::Normal,
        Priority::High => ThreadPriority::High,
    };
    let drive = &mut config.drives[0];
    drive.policy = policy.clone();
    drive.capacity = scenario.capacity;
    for (client, spec) in scenario.clients.iter().enumerate() {
        let volume = config.volumes.iter_mut().find(|v| v.name == spec.name);
        let volume = volume.expect("every client has a volume");
        volume.contract = scenario.contract(client);
        if let Storage::File(path) | Storage::Device(path) = storage {
            volume.size = None;
            volume.read_only = true;
            volume.storage = match storage {
                Storage::Device(_) => weir_config::Storage::Device(path.clone()),
                _ => weir_config::Storage::File(path.clone()),
            };
        }
    }
    Ok(config)
}

fn fleet(scenario: &weir_sim::Scenario, socket: PathBuf) -> Fleet {
    let members = scenario.clients.iter().map(|client| Member {
        name: client.name.clone(),
        export: client.name.clone(),
        program: client.program,
        region: Some(client.region),
        seed: weir_load::seed(&scenario.name, 0, client.sequence),
    });
    Fleet {
        address: weir_client::Address::Unix(socket),
        members: members.collect(),
        warm_up: Duration::from_nanos(scenario.warm_up.as_nanos()),
        length: Duration::from_nanos(scenario.duration.as_nanos()),
        patience: PATIENCE,
    }
}

impl Live {
    fn records(
        &self,
        stage: Stage<'_>,
        alone: &[Option<Alone>],
        unloaded: &[Option<promise::Alone>],
    ) -> Vec<Record> {
        let scenario = stage.scenario;
        let run = Run {
            scenario: scenario.name.clone(),
            drive: stage.storage.name(),
            case: scenario.case.clone(),
            policy: self.policy.name.clone(),
            repeat: 0,
            place: Some(Place::Serve),
            seed: Some(weir_load::seed(&scenario.name, 0, 0)),
        };
        let (start, length) = (scenario.warm_up.as_nanos(), scenario.duration.as_nanos());
        let total = Meter::total(start, length, &self.meters);
        let names: Vec<String> = scenario.clients.iter().map(|c| c.name.clone()).collect();
        let mut records = Vec::new();
        for (client, meter) in self.meters.iter().enumerate() {
            let spec = &scenario.clients[client];
            let mut record = run.record(&spec.name, meter);
            record = record.with_series(meter.plot(), meter.end_ns());
            record.split_us = self.waits.of(&spec.name);
            let contract = scenario.contract(client);
            if let Some(rate) = Rate::of(&contract) {
                let mb_per_s = alone.get(client).copied().flatten().map(|a| a.mb_per_s);
                let alone = unloaded[client];
                let terms = Terms { rate, alone };
                let beside = Beside {
                    host_ns: &self.host.late_ns(&spec.name),
                    told: &self.told.of(&spec.name, &names),
                    names: &names,
                    ..Beside::new(total.seconds())
                };
                record = record.with_promise(&terms, mb_per_s, meter, &beside);
            }
            records.push(record.with_limit(meter.think_us(spec.program.depth)));
        }
        let record = run.record(TOTAL, &total);
        records.push(record.with_series(total.plot(), total.end_ns()));
        records
    }
}
