//! Plays repetitions on a real server in this process, with real clients over NBD on a private Unix
//! socket, in real time.
//!
//! [`LiveServers::measure`] starts a server and plays one repetition. [`judge`] makes the records
//! of all repetitions when the last one has ended.

mod directory;
mod host;
mod supported;
mod told;

pub(in crate::compare) use host::MachineLoad;
pub(super) use supported::unsupported;

use crate::compare::on::RunPlace;
use crate::compare::work::{Cell, ComparisonPlan, PlayedCells, Repetition, RunOutcome};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::leftovers::Leftovers;
use host::ThreadWaits;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use told::ServerFigures;
use weir_config::scenario::Scenario;
use weir_config::{ListenAddress, Policy, Server as Config, Storage, ThreadPriority, profile};
use weir_measure::promise::{self, Fate, PromisedRate, RunContext, Terms};
use weir_measure::{Meter, Record, RecordPlace, RunId, TOTAL};
use weir_model::client::{Fleet, FleetMember};
use weir_model::load::Region;
use weir_serve::LiveServer;
use weir_sim::PerformanceAlone;

/// The longest time for a reply. A client that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The unit and smallest length of a client's part of an image or device, in bytes.
pub(in crate::compare) const GRAIN: u64 = 1 << 20;

/// The number of clients in a measurement, and the largest number of clients in a built-in
/// scenario.
pub(in crate::compare) const CLIENTS: u32 = 16;

/// The parameters of the servers of a comparison. Each run starts a server of its own.
#[derive(Debug)]
pub(in crate::compare) struct LiveServers {
    /// The image or device that clients read, and its size in bytes. `None` stands for the model of
    /// the drive.
    pub(in crate::compare) storage: Option<(Storage, u64)>,
    pub(in crate::compare) priority: ThreadPriority,
    pub(in crate::compare) leftovers: Leftovers,
}

/// The measurements of one run. The records are made from them after all runs.
#[derive(Debug)]
pub(in crate::compare) struct LiveMeasurements {
    /// The measurements of each client.
    pub(in crate::compare) meters: Vec<Meter>,
    /// The figures of the server during the measurement.
    told: ServerFigures,
    /// The times for which threads waited for a processor during the measurement.
    host: ThreadWaits,
    /// The extent to which a busy machine disturbed the run, if it was noticeable.
    pub(in crate::compare) busy: Option<MachineLoad>,
    /// True if the server's threads had a higher priority than other programs.
    pub(in crate::compare) raised: bool,
}

impl LiveServers {
    /// Gives each client a part of its own of an image or device.
    ///
    /// # Errors
    /// The storage is too small for the number of clients.
    pub(in crate::compare) fn divide(&self, scenario: &mut Scenario) -> Result<(), Failure> {
        let Some((_, size)) = self.storage else {
            return Ok(());
        };
        // Parts have the same size in every scenario of up to [`CLIENTS`] clients, so that their
        // results can be compared.
        let clients = (scenario.clients.len() as u64).max(CLIENTS.into());
        let part = size / clients / GRAIN * GRAIN;
        if part == 0 {
            let least = GRAIN * clients;
            let reason = format!(
                "the storage is too small: it has {size} bytes, and {clients} clients need at least {least}"
            );
            return Err(Failure::Run(reason));
        }
        for (client, number) in scenario.clients.iter_mut().zip(0..) {
            client.region = Region {
                start: number * part,
                length: part,
            };
        }
        Ok(())
    }

    /// Plays a repetition of a scenario under a policy on a new server. Returns `None` if an
    /// interrupt has ended it early.
    pub(in crate::compare) fn measure(
        &self,
        (scenario, policy, repetition): (&Scenario, &Policy, u32),
        interrupt: &Interrupt,
        mut progress: impl FnMut(Duration),
    ) -> Result<Option<LiveMeasurements>, Failure> {
        let directory = directory::private(&self.leftovers)?;
        let socket = directory.path().join("nbd.sock");
        let config = self.config(scenario, policy, &socket)?;
        let server = LiveServer::start(&config, &weir_serve::ServerOptions::default())
            .map_err(Failure::run)?;
        let fleet = fleet(scenario, repetition, socket);
        let (mut host, mut told) = (ThreadWaits::default(), ServerFigures::default());
        let raised = host::is_raised();
        let outcomes = fleet.run_while(|passed| {
            host.watch(fleet.warm_up, passed);
            told.poll_server(fleet.warm_up, passed, &server);
            progress(passed);
            interrupt.signal().is_none()
        });
        let outcomes = outcomes.map_err(Failure::run)?;
        // The server is stopped in any case. If its thread has failed, the measurements cannot be
        // trusted.
        if !server.shutdown() {
            return Err(Failure::Run("the server failed; see the log".into()));
        }
        let Some(outcomes) = outcomes else {
            return Ok(None);
        };
        let mut meters = Vec::new();
        for (outcome, member) in outcomes.into_iter().zip(&fleet.members) {
            if let Some(error) = outcome.error {
                return Err(Failure::Run(format!("{}: {error}", member.name)));
            }
            meters.push(outcome.meter);
        }
        let names = fleet.members.iter().map(|member| member.name.as_str());
        Ok(Some(LiveMeasurements {
            busy: host.busy(names),
            meters,
            told,
            host,
            raised,
        }))
    }

    /// Returns the configuration of the server, as a user would write it: a volume for each client,
    /// with the client's contract.
    fn config(
        &self,
        scenario: &Scenario,
        policy: &Policy,
        socket: &Path,
    ) -> Result<Config, Failure> {
        let mut text = String::from("[drive.demo]\n");
        // Without a model, the volumes are in memory until their storage is replaced below.
        let mut memory = "memory = true\n";
        if self.storage.is_none() {
            memory = "";
            text.extend(["model = ", &profile::inline(&scenario.drive), "\n"]);
        }
        text += "[listen]\nnbd = [\"unix:/nbd.sock\"]\n";
        for client in &scenario.clients {
            let size = scenario.spaces[client.space.0 as usize];
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
        // The socket's path and the policy are set as values, so that the text need not quote
        // or name them.
        config.listen.nbd = vec![ListenAddress::Unix(socket.to_owned())];
        config.process.priority = self.priority;
        let drive = &mut config.drives[0];
        drive.policy = policy.clone();
        drive.capacity = scenario.capacity;
        for (client, spec) in scenario.clients.iter().enumerate() {
            let volume = config.volumes.iter_mut().find(|v| v.name == spec.name);
            let volume = volume.expect("every client has a volume");
            volume.contract = scenario.contract(client);
            if let Some((storage, _)) = &self.storage {
                // The size is that of the storage. The demo only reads, so the storage is opened
                // read-only.
                volume.size = None;
                volume.read_only = true;
                volume.storage = storage.clone();
            }
        }
        Ok(config)
    }
}

/// Returns the NBD clients of a repetition. Their random numbers are those of the simulator.
fn fleet(scenario: &Scenario, repetition: u32, socket: PathBuf) -> Fleet {
    let members = scenario.clients.iter().map(|client| FleetMember {
        name: client.name.clone(),
        export: client.name.clone(),
        program: client.program,
        trace: client.trace.clone(),
        region: Some(client.region),
        seed: weir_model::load::seed(&scenario.name, repetition, client.sequence),
    });
    Fleet {
        address: weir_model::client::Address::Unix(socket),
        members: members.collect(),
        warm_up: Duration::from_nanos(scenario.warm_up.as_nanos()),
        length: Duration::from_nanos(scenario.duration.as_nanos()),
        patience: PATIENCE,
    }
}

/// Plays a repetition on a server. Returns `None` if an interrupt has ended it early.
pub(super) fn play(
    live: &LiveServers,
    mut played: Repetition<'_>,
) -> Result<Option<RunOutcome>, String> {
    played.run.place = Some(RecordPlace::Serve);
    let Repetition {
        scenario, passed, ..
    } = played;
    let whole = (scenario.warm_up + scenario.duration).as_nanos() as f64 / 1e9;
    let run = (scenario, played.policy, played.run.repeat);
    let measured = live.measure(run, played.interrupt, |at| {
        passed(f64::min(at.as_secs_f64() / whole, 1.0));
    });
    let measured = measured.map_err(|failure| match failure {
        Failure::Run(reason) => reason,
        other => format!("{other:?}"),
    })?;
    Ok(measured.map(|measured| {
        let target = &measured.meters[played.target];
        // The records are made by [`judge`] when all runs have ended.
        let mut outcome = played.outcome(Vec::new(), target);
        outcome.live = Some(measured);
        outcome
    }))
}

/// Returns one or two notes on how to read results of real servers.
pub(in crate::compare) fn notes(outcomes: &[&RunOutcome]) -> impl Iterator<Item = String> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let place = format!(
        "A real server and real NBD clients in one process, over a Unix socket, in real time on a machine with {processors} processors. What \
         else the machine does shows."
    );
    let live = outcomes.iter().find_map(|outcome| outcome.live.as_ref());
    let raised = live.map(|live| {
        let threads = if live.raised {
            "The server's threads ran at nice -10, before those of other programs; the clients' did not."
        } else {
            "The server's threads ran at the usual priority (raising them was not wanted, or takes CAP_SYS_NICE or a RLIMIT_NICE of 30)."
        };
        threads.to_owned()
    });
    [place].into_iter().chain(raised)
}

/// Makes the records of all runs on real servers. It must be called after the last run, because the
/// fastest request of all runs is the estimate for a request without contention.
pub(in crate::compare) fn judge(
    plan: &ComparisonPlan,
    cells: &mut PlayedCells,
) -> Result<(), Failure> {
    let is_live = |cell: &Cell| matches!(plan.on[cell.on], RunPlace::Serve(_));
    let mut played: BTreeMap<(usize, usize), Vec<&LiveMeasurements>> = BTreeMap::new();
    for (cell, outcomes) in cells.iter().filter(|(cell, _)| is_live(cell)) {
        let all = played.entry((cell.drive, cell.case)).or_default();
        all.extend(outcomes.iter().filter_map(|outcome| outcome.live.as_ref()));
    }
    let fastest = |runs: Vec<&LiveMeasurements>| {
        let clients = 0..runs[0].meters.len();
        let fastest = clients.map(|client| fastest(&runs, client));
        fastest.collect::<Vec<Option<promise::AloneRequest>>>()
    };
    let fastest: BTreeMap<_, _> = played
        .into_iter()
        .map(|(place, runs)| (place, fastest(runs)))
        .collect();
    for (cell, outcomes) in cells {
        for outcome in outcomes {
            if let Some(live) = &outcome.live {
                let scenario = &outcome.scenario;
                let alone = plan.drives[cell.drive].alone(scenario);
                let alone = alone.map_err(|error| Failure::run(error.message_for(scenario)))?;
                let fastest = &fastest[&(cell.drive, cell.case)];
                outcome.records = live.records(&outcome.run, scenario, &alone, fastest);
            }
        }
    }
    Ok(())
}

/// Returns the fastest request of a client in all runs. It includes the path to the server, and the
/// fastest one was delayed least by other programs on the machine.
fn fastest(runs: &[&LiveMeasurements], client: usize) -> Option<promise::AloneRequest> {
    let meters = runs.iter().map(|run| &run.meters[client]);
    let answered: Vec<&Meter> = meters.filter(|m| m.requests() > 0).collect();
    let sum = |count: fn(&Meter) -> u64| answered.iter().map(|m| count(m)).sum::<u64>();
    Some(promise::AloneRequest {
        latency_ns: answered.iter().map(|m| m.latency().min()).min()?,
        // A request without contention has the mean length of the client's requests.
        bytes: sum(Meter::bytes) / sum(Meter::requests),
    })
}

impl LiveMeasurements {
    /// Returns the measurements of all clients together.
    pub(in crate::compare) fn total(&self, scenario: &Scenario) -> Meter {
        let (start, length) = (scenario.warm_up.as_nanos(), scenario.duration.as_nanos());
        Meter::total(start, length, &self.meters)
    }

    /// Returns the records of the run, in the form that the simulator returns.
    ///
    /// `alone` has the results of each client without contention on the drive model, without the
    /// path to the server. `fastest` has the fastest request of each client with that path. A
    /// request without contention is assumed to take the longer of the two times.
    fn records(
        &self,
        run: &RunId,
        scenario: &Scenario,
        alone: &[Option<PerformanceAlone>],
        fastest: &[Option<promise::AloneRequest>],
    ) -> Vec<Record> {
        let total = self.total(scenario);
        let names: Vec<String> = scenario.clients.iter().map(|c| c.name.clone()).collect();
        let mut records = Vec::new();
        for (client, meter) in self.meters.iter().enumerate() {
            let spec = &scenario.clients[client];
            let mut record = run.record(&spec.name, meter);
            record = record.with_series(meter.plot(), meter.end_ns());
            record.split_us = self.told.split(&spec.name);
            if let Some(rate) = PromisedRate::of(&scenario.contract(client)) {
                let known = alone.get(client).copied().flatten();
                let mb_per_s = known.map(|a| a.mb_per_s);
                // The model cannot complete a request faster than this, whatever the clock of the
                // client shows.
                let least = known.map_or(0, |alone| alone.request.latency_ns);
                let alone = fastest[client].map(|request| promise::AloneRequest {
                    latency_ns: request.latency_ns.max(least),
                    ..request
                });
                let terms = Terms { rate, alone };
                let beside = RunContext {
                    host_ns: &self.host.late_ns(&spec.name),
                    reported_causes: &self.told.blames(&spec.name, &names),
                    names: &names,
                    ..RunContext::new(total.seconds())
                };
                record = record.with_promise(&terms, mb_per_s, meter, &beside);
                if self.busy.is_some_and(MachineLoad::is_invalid) {
                    // The policy cannot be judged if the server itself had no processor.
                    record.promise = Some(Fate::Invalid);
                }
            }
            records.push(record.with_limit(meter.think_us(spec.program.depth)));
        }
        let mut record = run.record(TOTAL, &total);
        record.drive_busy_percent = self.told.busy_percent();
        records.push(record.with_series(total.plot(), total.end_ns()));
        records
    }
}
