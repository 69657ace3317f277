//! The places in which a comparison is played: the simulator, a real server, a kernel in a guest,
//! and the kernel of this machine.
//!
//! [`all`] returns the places that the options select, [`check`] refuses scenarios that a place
//! cannot play, and [`RunPlace::play`] plays one repetition.

mod linux;
pub(super) mod serve;
mod sim;

use super::CompareOptions;
use super::work::{ComparisonPlan, PlayedCells, Repetition, RunOutcome};
use crate::failure::Failure;
use crate::leftovers::Leftovers;
use crate::modelled::PlayedDrive;
use clap::ValueEnum;
use weir_config::policy::PolicyController;
use weir_config::profile::DriveProfile;
use weir_config::{Policy, ThreadPriority};
use weir_core::GroupId;
use weir_linux::guest::Kernel;
use weir_linux::play::guest::Lab;
use weir_linux::play::{Observations, PlayJobs, measure};
use weir_measure::promise::RunContext;
use weir_measure::{Record, RecordPlace, TOTAL, TracedState};
use weir_sim::Scenario;

use linux::TestDevice;

/// The name of a place on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PlaceName {
    /// The simulator, in virtual time
    Sim,
    /// A real server and real clients on the modelled drive, in real time
    Serve,
    /// An unmodified Linux in a guest, in virtual time, on the modelled drive
    Guest,
    /// The Linux of this machine, on a device
    Linux,
}

/// A place, with the resources that it needs for runs.
#[derive(Debug)]
pub(super) enum RunPlace {
    Sim,
    Serve(serve::LiveServers),
    Guest(Lab),
    Linux(TestDevice),
}

/// Returns the selected places.
///
/// # Errors
/// Options contradict each other, a kernel cannot be found, or the device must not be used.
pub(super) fn all(
    options: &CompareOptions,
    leftovers: &Leftovers,
) -> Result<Vec<RunPlace>, Failure> {
    let asked = |word| options.on.contains(&word);
    let usage = |reason: &str| Err(Failure::Usage(reason.to_owned()));
    // The options are checked before a kernel is searched for or a device is examined.
    if options.device.is_some() != asked(PlaceName::Linux) {
        return usage(
            "--on linux and --device require each other; write --on linux --device /dev/NAME",
        );
    }
    if !options.kernels.is_empty() && !asked(PlaceName::Guest) {
        return usage("--kernel requires --on guest");
    }
    if options.destroy.is_some() && options.destroy != options.device {
        return usage("--destroy must have the same value as --device");
    }
    let mut all = Vec::new();
    let mut words = options.on.clone();
    // The same place twice would only repeat its rows.
    words.dedup();
    if words.is_empty() {
        words.push(PlaceName::Sim);
    }
    for word in words {
        match word {
            PlaceName::Sim => all.push(RunPlace::Sim),
            PlaceName::Serve => all.push(RunPlace::Serve(serve::LiveServers {
                storage: None,
                priority: ThreadPriority::Auto,
                leftovers: leftovers.clone(),
            })),
            PlaceName::Guest => all.extend(guests(&options.kernels)?),
            PlaceName::Linux => {
                let device = options.device.iter();
                let devices = device.map(|path| TestDevice::new(path, options.destroy.is_some()));
                all.extend(
                    devices
                        .collect::<Result<Vec<_>, _>>()?
                        .into_iter()
                        .map(RunPlace::Linux),
                );
            }
        }
    }
    Ok(all)
}

/// Returns a guest for each kernel.
fn guests(kernels: &[String]) -> Result<Vec<RunPlace>, Failure> {
    let weir = std::env::current_exe();
    let weir =
        weir.map_err(|e| Failure::Run(format!("cannot find the path of this program: {e}")))?;
    // The first of the supported versions is the default.
    let default = [weir_linux::guest::VERSIONS[0].0.to_owned()];
    let kernels = if kernels.is_empty() {
        &default[..]
    } else {
        kernels
    };
    let labs = kernels.iter().map(|name| {
        let kernel = Kernel::find(name, crate::output::print_message);
        let kernel = kernel.map_err(|e| Failure::Run(format!("--kernel {name}: {e}")))?;
        Ok(RunPlace::Guest(Lab::new(kernel, weir.clone())))
    });
    labs.collect()
}

impl RunPlace {
    /// Returns the text after a policy's name in tables. It is empty for the simulator.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Sim => String::new(),
            Self::Guest(lab) => {
                let mut parts = lab.kernel().release().split(['.', '-']);
                let (major, minor) = (parts.next(), parts.next());
                let program = lab.kernel().program().map_or("", |_| "-program");
                format!(
                    " @{}.{}{program}",
                    major.unwrap_or("?"),
                    minor.unwrap_or("?")
                )
            }
            Self::Serve(_) => " @serve".to_owned(),
            Self::Linux(_) => " @linux".to_owned(),
        }
    }

    /// Returns true if the place uses virtual time, so that a repeated run gives the same results.
    pub(super) fn is_virtual(&self) -> bool {
        matches!(self, Self::Sim | Self::Guest(_))
    }

    /// Returns true if the place reports where requests spend their time. A kernel does not.
    pub(super) fn knows_waits(&self) -> bool {
        matches!(self, Self::Sim | Self::Serve(_))
    }

    /// Returns the number of repetitions if the user has not chosen one: that of the scenario in
    /// the simulator, and 1 in all other places. A run in a guest takes a minute.
    pub(super) fn repetitions(&self, of_scenario: u32) -> u32 {
        match self {
            Self::Sim => of_scenario,
            Self::Serve(_) | Self::Guest(_) | Self::Linux(_) => 1,
        }
    }

    /// Returns the reason why the place cannot play a policy, or `None` if it can.
    pub(super) fn refuses(&self, policy: &Policy) -> Option<String> {
        if self.knows_waits() {
            // The simulator and the server have all policies of Weir. A kernel only has its own.
            return None;
        }
        let queue = weir_config::apply::Queue::default();
        if let Err(refused) = weir_linux::translate(policy, &queue, (None, None), &[]) {
            return Some(refused.to_string());
        }
        if let Self::Linux(device) = self
            && let Some(why) = device.lacks(policy)
        {
            return Some(format!("policy \"{}\": {why}", policy.word()));
        }
        // A kernel that is built as a program can have controllers that distributions leave out.
        let is_program = matches!(self, Self::Guest(lab) if lab.kernel().program().is_some());
        let has = |controller| !is_program && policy.controllers.contains(&controller);
        let why = if has(PolicyController::Latency) && matches!(self, Self::Guest(_)) {
            "Debian's kernels are built without io.latency"
        } else if has(PolicyController::Low) {
            weir_linux::NO_LOW
        } else {
            return None;
        };
        Some(format!(
            "policy \"{}\": {why}; use a kernel built as a program (--on guest --kernel FILE)",
            policy.word()
        ))
    }

    /// Plays a repetition. Returns `None` if an interrupt has ended it early.
    pub(super) fn play(&self, mut played: Repetition<'_>) -> Result<Option<RunOutcome>, String> {
        let (scenario, policy, repeat) = (played.scenario, played.policy, played.run.repeat);
        let go_on = || played.interrupt.signal().is_none();
        let (place, ran) = match self {
            Self::Sim => return sim::play(played),
            Self::Serve(live) => return serve::play(live, played),
            Self::Guest(lab) => {
                let ran = lab.play(scenario, policy, repeat, go_on).map(|done| {
                    let kernel = lab.kernel();
                    let path = (done.path_ns as f64 / 1e3, done.left_ns as f64 / 1e3);
                    // A kernel that runs as a program has no path to the drive model of which the
                    // time could be measured.
                    let path = kernel.program().is_none().then_some(path);
                    (done.played, kernel.release().to_owned(), path, done.notes)
                });
                (RecordPlace::Guest, ran.map_err(|error| error.to_string()))
            }
            Self::Linux(device) => {
                let ran = device.play(scenario, policy, repeat, &go_on);
                let ran = ran.map(|(ran, notes)| (ran, linux::release(), None, notes));
                (RecordPlace::Linux, ran)
            }
        };
        // A run that an interrupt ends early returns an error, which is not reported.
        if ran.is_err() && !go_on() {
            return Ok(None);
        }
        let (ran, kernel, path, mut notes) = ran?;
        played.run.place = Some(place);
        let measured = measure(scenario, repeat, &ran.logs, ran.began_ns, played.step());
        let total = &measured.total;
        let clients = measured.clients.iter().enumerate();
        let records = clients.map(|(at, client)| {
            let alone = played.alone.get(at).copied().flatten();
            client.record(&played.run, alone, &RunContext::new(total.seconds()))
        });
        let mut of_all = played.run.record(TOTAL, total);
        of_all.processor_percent = Some(ran.processor_percent);
        let of_all = of_all.with_series(total.plot(), total.end_ns());
        let mut records: Vec<Record> = records.chain([of_all]).collect();
        for record in &mut records {
            record.kernel = Some(kernel.clone());
            record.path_us = path.map(|(path, _)| path);
            record.path_left_us = path.map(|(_, left)| left);
        }
        let target = &measured.clients[played.target].meter;
        let states = states(&ran.observed, scenario);
        notes.extend(ran.observed.notes);
        // The times of a real drive differ from run to run.
        let drew = !self.is_virtual() || weir_linux::play::is_random(scenario);
        let mut outcome = RunOutcome {
            drew,
            notes,
            ..played.outcome(records, target)
        };
        if let Some(course) = &mut outcome.over_time {
            course.states = states;
        }
        Ok(Some(outcome))
    }
}

/// Returns the quantities that a kernel has reported, with the names of clients and with times from
/// the start of the measurement, as the simulator has them.
fn states(observed: &Observations, scenario: &Scenario) -> Vec<TracedState> {
    let start = scenario.warm_up.as_nanos();
    // The kernel goes on for some milliseconds until the last request has completed.
    let ends = scenario.ends().1.as_nanos();
    let states = observed.series.iter().map(|series| {
        let measured = series.points.iter();
        let measured = measured.filter(|(at, _)| (start..=ends).contains(at));
        TracedState {
            state: series.state.clone(),
            of: series.group.map_or_else(
                || "drive".to_owned(),
                |group| weir_sim::group_label(GroupId(group), scenario),
            ),
            unit: series.unit.clone(),
            points: measured
                .map(|(at, value)| ((at - start) as f64 / 1e9, *value))
                .collect(),
        }
    });
    states.filter(|state| !state.points.is_empty()).collect()
}

/// Returns the device of this host that is used, if any.
pub(super) fn device(on: &[RunPlace]) -> Option<&TestDevice> {
    on.iter().find_map(|on| match on {
        RunPlace::Linux(device) => Some(device),
        RunPlace::Sim | RunPlace::Serve(_) | RunPlace::Guest(_) => None,
    })
}

/// Returns the drive for a comparison on a device of this host. It is the device itself, or its
/// model if another place plays as well.
///
/// # Errors
/// The model is unknown, or another place needs exactly one model and there are none or several.
pub(super) fn drives(
    device: &TestDevice,
    on: &[RunPlace],
    profiles: &[DriveProfile],
) -> Result<Vec<PlayedDrive>, Failure> {
    let others = on.iter().any(|on| !matches!(on, RunPlace::Linux(_)));
    match profiles {
        [_] => PlayedDrive::of_all(profiles.to_vec()),
        [] if !others => {
            let kind = ["demo", DISK][usize::from(device.is_rotational())];
            let name = device.path.display().to_string();
            let about = format!("{name} of this host.");
            Ok(vec![PlayedDrive::real(name, about, kind)?])
        }
        _ => Err(Failure::Usage(
            "--on linux together with another place requires one --drive, the model of the device"
                .to_owned(),
        )),
    }
}

/// The drive model that represents a rotating disk, for scenarios that differ between disks and
/// flash.
const DISK: &str = "hitachi-hts72755";

/// Refuses a plan that a place cannot play, before any run begins.
///
/// # Errors
/// A server or kernel cannot play the scenario, or a kernel supports none of the policies.
pub(super) fn check(plan: &ComparisonPlan) -> Result<(), Failure> {
    if plan.on.iter().all(|on| matches!(on, RunPlace::Sim)) {
        return Ok(());
    }
    for cell in plan.cells() {
        let (scenario, policy) = match plan.build(cell) {
            Ok(built) => built,
            // Runs on a device take long, so that nothing that can be refused is left for them.
            Err(failed) if matches!(plan.on[cell.on], RunPlace::Linux(_)) => return Err(failed),
            Err(_) => continue,
        };
        let under = |refused: String| format!("under Linux: {refused}");
        let refused = match &plan.on[cell.on] {
            RunPlace::Sim => None,
            RunPlace::Serve(_) => serve::unsupported(&scenario)
                .map(|why| format!("on a real server: {why}; use --on sim")),
            RunPlace::Guest(_) => {
                let refused = PlayJobs::new(&scenario, 0).err();
                refused.map(|refused| under(refused.to_string()))
            }
            RunPlace::Linux(device) => device.check(&scenario, &policy).err().map(under),
        };
        if let Some(refused) = refused {
            let name = plan.script.name();
            return Err(Failure::Usage(format!("{name} cannot be played {refused}")));
        }
    }
    for on in plan.on.iter() {
        let reasons: Vec<String> = plan.policies.iter().filter_map(|p| on.refuses(p)).collect();
        // Policies that a kernel lacks are left out with a note, as long as one policy remains.
        if reasons.len() == plan.policies.len() {
            return Err(Failure::Usage(format!(
                "Linux supports none of these policies: {}",
                reasons.join("; ")
            )));
        }
    }
    Ok(())
}

/// Returns notes on runs outside of the simulator: how to read their results, and which policies
/// are left out.
pub(super) fn notes(plan: &ComparisonPlan, cells: &PlayedCells) -> Vec<String> {
    let mut notes = Vec::new();
    for (at, on) in plan.on.iter().enumerate() {
        let label = on.label();
        let outcomes = cells.iter().filter(|(cell, _)| cell.on == at);
        let outcomes: Vec<&RunOutcome> = outcomes.flat_map(|(_, runs)| runs).collect();
        let Some(record) = outcomes.first().and_then(|o| o.records.first()) else {
            continue;
        };
        let kernel = record.kernel.as_deref().unwrap_or_default();
        match on {
            RunPlace::Sim => continue,
            RunPlace::Serve(_) => {
                let said = serve::notes(&outcomes);
                notes.extend(said.map(|note| format!("{}: {note}", label.trim())));
                let busy = outcomes.iter().filter_map(|o| Some((o, o.live.as_ref()?.busy?)));
                let busy = busy.map(|(o, busy)| format!("{}{label}: {busy}", o.run.policy));
                notes.extend(busy);
            }
            RunPlace::Guest(lab) if lab.kernel().program().is_some() => notes.push(format!(
                "{}: by Linux {kernel} as a program, in lockstep with the modelled drive: no path between the two, and processors that take no time.",
                label.trim()
            )),
            RunPlace::Guest(_) => notes.push(guest(label.trim(), kernel, &outcomes)),
            RunPlace::Linux(device) => notes.push(format!(
                "{}: by Linux {kernel} of this host on {}; another time it comes out otherwise.",
                label.trim(),
                device.path.display()
            )),
        }
        notes.extend(busy(label.trim(), &outcomes));
        let refused = plan.policies.iter().filter_map(|p| on.refuses(p));
        let said = outcomes.iter().flat_map(|o| &o.notes).cloned();
        for note in refused.map(|why| format!("Left out: {why}")).chain(said) {
            let note = format!("{}: {}.", label.trim(), note.trim_end_matches('.'));
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

/// The load of the processors, in percent, from which on they limit the rates instead of the drive.
const BUSY: u64 = 90;

/// Returns a note on runs in which the processors were busy all the time.
fn busy(label: &str, outcomes: &[&RunOutcome]) -> Option<String> {
    let busy = |o: &&&RunOutcome| {
        // The last record is that of the total, which has the load of the processors.
        let total = o.records.last();
        total
            .and_then(|r| r.processor_percent)
            .is_some_and(|p| p >= BUSY)
    };
    let names = outcomes.iter().filter(busy).map(|o| o.run.policy.as_str());
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!(
            "{label}: under {names} the processor was busy for {BUSY} % of the time or more: rates are its and not the drive's. Take fewer or larger requests."
        )
    })
}

/// Returns the note on runs in a guest, with the delay of the path between the kernel and the
/// model.
fn guest(label: &str, kernel: &str, outcomes: &[&RunOutcome]) -> String {
    let of = |get: fn(&Record) -> Option<f64>| {
        let records = outcomes.iter().filter_map(|o| o.records.first());
        records
            .filter_map(get)
            .fold((f64::MAX, f64::MIN), |(low, high), v| {
                (low.min(v), high.max(v))
            })
    };
    let (least, most) = of(|r| r.path_us);
    let (low, high) = of(|r| r.path_left_us);
    // The remainder can have either sign. The one that is further from 0 is shown.
    let left = if high > -low { high } else { low };
    let takes = if most - least < 0.05 {
        format!("{least:.1} us")
    } else {
        format!("{least:.1} to {most:.1} us")
    };
    format!(
        "{label}: by Linux {kernel} in a guest, in virtual time, fio's clients on the modelled drive. The path to the model takes {takes} a request; answers come \
         sooner by that, and {left:.1} us were left of it at most."
    )
}
