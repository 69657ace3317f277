//! Where a comparison is played: in the simulator, under a kernel in a guest, under this machine's kernel.

mod linux;

use super::Options;
use super::work::{Outcome, Plan, Played};
use crate::failure::Failure;
use crate::modelled::Drive;
use clap::ValueEnum;
use weir_config::Policy;
use weir_config::policy::Controller;
use weir_config::scenario::Scenario;
use weir_core::Span;
use weir_guest::Kernel;
use weir_measure::promise::Beside;
use weir_measure::{Place, Record, TOTAL};
use weir_play::guest::Lab;
use weir_play::{Jobs, measure};
use weir_sim::{Alone, ClientResult};

use linux::Device;

/// A place, as it is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Word {
    /// The simulator, in virtual time
    Sim,
    /// An unmodified Linux in a guest, in virtual time, on the modelled drive
    Guest,
    /// The Linux of this machine, on a device
    Linux,
}

/// A place.
#[derive(Debug)]
pub(super) enum On {
    Sim,
    Guest(Lab),
    Linux(Device),
}

/// What came of a run elsewhere than in the simulator.
pub(super) struct Ran {
    pub(super) clients: Vec<ClientResult>,
    pub(super) records: Vec<Record>,
    /// In what the kernel is not as the policy.
    pub(super) notes: Vec<String>,
}

/// The places that are asked for.
///
/// # Errors
/// Options that do not go together, no kernel, a device that must not be used.
pub(super) fn all(options: &Options) -> Result<Vec<On>, Failure> {
    let asked = |word| options.on.contains(&word);
    let usage = |reason: &str| Err(Failure::Usage(reason.to_owned()));
    if options.device.is_some() != asked(Word::Linux) {
        return usage(
            "--on linux and --device require each other; write --on linux --device /dev/NAME",
        );
    }
    if !options.kernels.is_empty() && !asked(Word::Guest) {
        return usage("--kernel requires --on guest");
    }
    if options.destroy.is_some() && options.destroy != options.device {
        return usage("--destroy must have the same value as --device");
    }
    let mut all = Vec::new();
    let mut words = options.on.clone();
    words.dedup();
    if words.is_empty() {
        words.push(Word::Sim);
    }
    for word in words {
        match word {
            Word::Sim => all.push(On::Sim),
            Word::Guest => all.extend(guests(&options.kernels)?),
            Word::Linux => {
                let device = options.device.iter();
                let devices = device.map(|path| Device::new(path, options.destroy.is_some()));
                all.extend(
                    devices
                        .collect::<Result<Vec<_>, _>>()?
                        .into_iter()
                        .map(On::Linux),
                );
            }
        }
    }
    Ok(all)
}

fn guests(kernels: &[String]) -> Result<Vec<On>, Failure> {
    let weir = std::env::current_exe();
    let weir =
        weir.map_err(|e| Failure::Run(format!("cannot find the path of this program: {e}")))?;
    let default = [weir_guest::VERSIONS[0].0.to_owned()];
    let kernels = if kernels.is_empty() {
        &default[..]
    } else {
        kernels
    };
    let labs = kernels.iter().map(|name| {
        let kernel = Kernel::find(name, crate::output::tell);
        let kernel = kernel.map_err(|e| Failure::Run(format!("--kernel {name}: {e}")))?;
        Ok(On::Guest(Lab::new(kernel, weir.clone())))
    });
    labs.collect()
}

impl On {
    /// What stands behind a policy's name in tables, unless only the simulator plays.
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
            Self::Linux(_) => " @linux".to_owned(),
        }
    }

    /// Whether it is a real drive.
    pub(super) fn is_real(&self) -> bool {
        matches!(self, Self::Linux(_))
    }

    /// Repetitions, unless some are asked for: those of the scenario, or one, which takes a minute of a guest.
    pub(super) fn repetitions(&self, of_scenario: u32) -> u32 {
        match self {
            Self::Sim => of_scenario,
            Self::Guest(_) | Self::Linux(_) => 1,
        }
    }

    /// Why a policy cannot be played there; `None`: it can.
    pub(super) fn refuses(&self, policy: &Policy) -> Option<String> {
        if matches!(self, Self::Sim) {
            return None;
        }
        let queue = weir_config::apply::Queue::default();
        if let Err(refused) = weir_linux::translate(policy, &queue, (None, None), &[]) {
            return Some(refused.to_string());
        }
        let is_program = matches!(self, Self::Guest(lab) if lab.kernel().program().is_some());
        let has = |controller| !is_program && policy.controllers.contains(&controller);
        let why = if has(Controller::Latency) && matches!(self, Self::Guest(_)) {
            "Debian's kernels are built without io.latency"
        } else if has(Controller::Low) {
            weir_linux::NO_LOW
        } else {
            return None;
        };
        Some(format!(
            "policy \"{}\": {why}; use a kernel built as a program (--on guest --kernel FILE)",
            policy.word()
        ))
    }

    /// Plays a repetition of a scenario under a policy. `None`: in the simulator, or it was abandoned.
    pub(super) fn play(
        &self,
        (scenario, policy, repetition): (&Scenario, &Policy, u32),
        drive: &str,
        alone: &[Option<Alone>],
        step: Option<Span>,
        go_on: impl Fn() -> bool,
    ) -> Result<Option<Ran>, String> {
        let mut run = weir_measure::Run {
            scenario: scenario.name.clone(),
            drive: drive.to_owned(),
            case: scenario.case.clone(),
            policy: policy.name.clone(),
            repeat: repetition,
            place: None,
            seed: Some(weir_load::seed(&scenario.name, repetition, 0)),
        };
        let (played, kernel, path, notes) = match self {
            Self::Sim => return Ok(None),
            Self::Guest(lab) => {
                run.place = Some(Place::Guest);
                match lab.play(scenario, policy, repetition, &go_on) {
                    Err(_) if !go_on() => return Ok(None),
                    Err(error) => return Err(error.to_string()),
                    Ok(done) => {
                        let kernel = lab.kernel();
                        let path = (done.path_ns as f64 / 1e3, done.left_ns as f64 / 1e3);
                        let path = kernel.program().is_none().then_some(path);
                        (done.played, kernel.release().to_owned(), path, done.notes)
                    }
                }
            }
            Self::Linux(device) => {
                run.place = Some(Place::Linux);
                match device.play(scenario, policy, repetition, &go_on) {
                    Err(_) if !go_on() => return Ok(None),
                    Err(error) => return Err(error),
                    Ok((played, notes)) => (played, linux::release(), None, notes),
                }
            }
        };
        let mut ran = records(scenario, &run, &played, alone, step);
        ran.notes = notes;
        if let Some(total) = ran.records.last_mut() {
            total.processor_percent = Some(played.processor_percent);
        }
        for record in &mut ran.records {
            record.kernel = Some(kernel.clone());
            record.path_us = path.map(|(path, _)| path);
            record.path_left_us = path.map(|(_, left)| left);
        }
        Ok(Some(ran))
    }
}

/// The device of this host, if one is used.
pub(super) fn device(on: &[On]) -> Option<&Device> {
    on.iter().find_map(|on| match on {
        On::Linux(device) => Some(device),
        On::Sim | On::Guest(_) => None,
    })
}

/// The drive where a device of this host is used: itself, or the model of it that is played beside it.
///
/// # Errors
/// There is no such model, or none or several where one is needed.
pub(super) fn drives(device: &Device, on: &[On], words: &[String]) -> Result<Vec<Drive>, Failure> {
    let others = on.iter().any(|on| !on.is_real());
    match words {
        [_] => Drive::all(words),
        [] if !others => {
            let kind = ["demo", DISK][usize::from(device.is_rotational())];
            let name = device.path.display().to_string();
            let about = format!("{name} of this host.");
            Ok(vec![Drive::real(name, about, kind)?])
        }
        _ => Err(Failure::Usage(
            "--on linux together with another place requires one --drive, the model of the device"
                .to_owned(),
        )),
    }
}

/// What stands for a disk where a scenario says what differs on disks.
const DISK: &str = "hitachi-hts72755";

/// Refuses what no place can play, before anything is played.
///
/// # Errors
/// A scenario that is not for a kernel, or no policy that one has.
pub(super) fn check(plan: &Plan) -> Result<(), Failure> {
    if plan.on.iter().all(|on| matches!(on, On::Sim)) {
        return Ok(());
    }
    for (cell, (scenario, _)) in plan.built() {
        if let (On::Guest(_) | On::Linux(_), Err(refused)) =
            (&plan.on[cell.on], Jobs::new(&scenario, 0))
        {
            let name = plan.script.name();
            return Err(Failure::Usage(format!(
                "{name} cannot be played under Linux: {refused}"
            )));
        }
    }
    for on in plan.on.iter() {
        let reasons: Vec<String> = plan.policies.iter().filter_map(|p| on.refuses(p)).collect();
        if reasons.len() == plan.policies.len() {
            return Err(Failure::Usage(format!(
                "Linux supports none of these policies: {}",
                reasons.join("; ")
            )));
        }
    }
    Ok(())
}

/// How to read what was played under a kernel, and what was not.
pub(super) fn notes(plan: &Plan, cells: &Played) -> Vec<String> {
    let mut notes = Vec::new();
    for (at, on) in plan.on.iter().enumerate() {
        let label = on.label();
        let outcomes = cells.iter().filter(|(cell, _)| cell.on == at);
        let outcomes: Vec<&Outcome> = outcomes.flat_map(|(_, runs)| runs).collect();
        let Some(record) = outcomes.first().and_then(|o| o.records.first()) else {
            continue;
        };
        let kernel = record.kernel.as_deref().unwrap_or_default();
        match on {
            On::Sim => continue,
            On::Guest(lab) if lab.kernel().program().is_some() => notes.push(format!(
                "{}: by Linux {kernel} as a program, in lockstep with the modelled drive: no path between the two, and processors that take no time.",
                label.trim()
            )),
            On::Guest(_) => notes.push(guest(label.trim(), kernel, &outcomes)),
            On::Linux(device) => notes.push(format!(
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

/// Per cent of processors' time from which on rates are theirs.
const BUSY: u64 = 90;

/// A note where processors were busy all the time.
fn busy(label: &str, outcomes: &[&Outcome]) -> Option<String> {
    let busy = |o: &&&Outcome| {
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

fn guest(label: &str, kernel: &str, outcomes: &[&Outcome]) -> String {
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

fn records(
    scenario: &Scenario,
    run: &weir_measure::Run,
    played: &weir_play::Played,
    alone: &[Option<Alone>],
    step: Option<Span>,
) -> Ran {
    let measured = measure(scenario, run.repeat, &played.logs, played.began_ns, step);
    let total = &measured.total;
    let clients = measured.clients.iter().enumerate();
    let records = clients.map(|(at, client)| {
        let alone = alone.get(at).copied().flatten();
        client.record(run, alone, &Beside::new(total.seconds()))
    });
    let of_all = run.record(TOTAL, total);
    let of_all = of_all.with_series(total.plot(), total.end_ns());
    Ran {
        records: records.chain([of_all]).collect(),
        clients: measured.clients,
        notes: Vec::new(),
    }
}
