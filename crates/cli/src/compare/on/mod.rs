//! Where a comparison is played: in the simulator, on a real server, under a kernel in a guest,
//! under this machine's kernel.

mod linux;
pub(super) mod serve;
mod sim;

use super::Options;
use super::work::{Outcome, Plan, Played, Repetition};
use crate::failure::Failure;
use crate::leftovers::Leftovers;
use crate::modelled::Drive;
use clap::ValueEnum;
use weir_config::policy::Controller;
use weir_config::profile::Profile;
use weir_config::{Policy, ThreadPriority};
use weir_linux::guest::Kernel;
use weir_linux::play::guest::Lab;
use weir_linux::play::{Jobs, measure};
use weir_measure::promise::Beside;
use weir_measure::{Place, Record, TOTAL};

use linux::Device;

/// A place, as it is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Word {
    /// The simulator, in virtual time
    Sim,
    /// A real server and real clients on the modelled drive, in real time
    Serve,
    /// An unmodified Linux in a guest, in virtual time, on the modelled drive
    Guest,
    /// The Linux of this machine, on a device
    Linux,
}

/// A place.
#[derive(Debug)]
pub(super) enum On {
    Sim,
    Serve(serve::Live),
    Guest(Lab),
    Linux(Device),
}

/// The places that are asked for.
///
/// # Errors
/// Options that do not go together, no kernel, a device that must not be used.
pub(super) fn all(options: &Options, leftovers: &Leftovers) -> Result<Vec<On>, Failure> {
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
            Word::Serve => all.push(On::Serve(serve::Live {
                storage: None,
                priority: ThreadPriority::Auto,
                leftovers: leftovers.clone(),
            })),
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
    let default = [weir_linux::guest::VERSIONS[0].0.to_owned()];
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
            Self::Serve(_) => " @serve".to_owned(),
            Self::Linux(_) => " @linux".to_owned(),
        }
    }

    /// Whether its time is virtual, so that another run of the same is the same.
    pub(super) fn is_virtual(&self) -> bool {
        matches!(self, Self::Sim | Self::Guest(_))
    }

    /// Whether it is known there where the time of requests goes: a kernel does not tell.
    pub(super) fn knows_waits(&self) -> bool {
        matches!(self, Self::Sim | Self::Serve(_))
    }

    /// Repetitions, unless some are asked for: those of the scenario, or one, which takes a minute of a guest.
    pub(super) fn repetitions(&self, of_scenario: u32) -> u32 {
        match self {
            Self::Sim => of_scenario,
            Self::Serve(_) | Self::Guest(_) | Self::Linux(_) => 1,
        }
    }

    /// Why a policy cannot be played there; `None`: it can.
    pub(super) fn refuses(&self, policy: &Policy) -> Option<String> {
        if self.knows_waits() {
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

    /// Plays a repetition. `None`: it was abandoned for an interrupt.
    pub(super) fn play(&self, mut played: Repetition<'_>) -> Result<Option<Outcome>, String> {
        let (scenario, policy, repeat) = (played.scenario, played.policy, played.run.repeat);
        let go_on = || played.interrupt.signal().is_none();
        let (place, ran) = match self {
            Self::Sim => return sim::play(played),
            Self::Serve(live) => return serve::play(live, played),
            Self::Guest(lab) => {
                let ran = lab.play(scenario, policy, repeat, go_on).map(|done| {
                    let kernel = lab.kernel();
                    let path = (done.path_ns as f64 / 1e3, done.left_ns as f64 / 1e3);
                    let path = kernel.program().is_none().then_some(path);
                    (done.played, kernel.release().to_owned(), path, done.notes)
                });
                (Place::Guest, ran.map_err(|error| error.to_string()))
            }
            Self::Linux(device) => {
                let ran = device.play(scenario, policy, repeat, &go_on);
                let ran = ran.map(|(ran, notes)| (ran, linux::release(), None, notes));
                (Place::Linux, ran)
            }
        };
        if ran.is_err() && !go_on() {
            return Ok(None);
        }
        let (ran, kernel, path, notes) = ran?;
        played.run.place = Some(place);
        let measured = measure(scenario, repeat, &ran.logs, ran.began_ns, played.step());
        let total = &measured.total;
        let clients = measured.clients.iter().enumerate();
        let records = clients.map(|(at, client)| {
            let alone = played.alone.get(at).copied().flatten();
            client.record(&played.run, alone, &Beside::new(total.seconds()))
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
        // Two runs on a real drive are never the same.
        let drew = !self.is_virtual() || weir_linux::play::draws(scenario);
        Ok(Some(Outcome {
            drew,
            notes,
            ..played.outcome(records, target)
        }))
    }
}

/// The device of this host, if one is used.
pub(super) fn device(on: &[On]) -> Option<&Device> {
    on.iter().find_map(|on| match on {
        On::Linux(device) => Some(device),
        On::Sim | On::Serve(_) | On::Guest(_) => None,
    })
}

/// The drive where a device of this host is used: itself, or the model of it that is played beside it.
///
/// # Errors
/// There is no such model, or none or several where one is needed.
pub(super) fn drives(
    device: &Device,
    on: &[On],
    profiles: &[Profile],
) -> Result<Vec<Drive>, Failure> {
    let others = on.iter().any(|on| !matches!(on, On::Linux(_)));
    match profiles {
        [_] => Drive::of_all(profiles.to_vec()),
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

/// Refuses what a place cannot play, before anything is played.
///
/// # Errors
/// A scenario that is not for a server or kernel, or no policy that a kernel has.
pub(super) fn check(plan: &Plan) -> Result<(), Failure> {
    if plan.on.iter().all(|on| matches!(on, On::Sim)) {
        return Ok(());
    }
    for (cell, (scenario, _)) in plan.built() {
        let refused = match &plan.on[cell.on] {
            On::Sim => None,
            On::Serve(_) => serve::unsupported(&scenario)
                .map(|why| format!("on a real server: {why}; use --on sim")),
            On::Guest(_) | On::Linux(_) => {
                let refused = Jobs::new(&scenario, 0).err();
                refused.map(|refused| format!("under Linux: {refused}"))
            }
        };
        if let Some(refused) = refused {
            let name = plan.script.name();
            return Err(Failure::Usage(format!("{name} cannot be played {refused}")));
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
            On::Serve(_) => {
                let said = serve::notes(&outcomes);
                notes.extend(said.map(|note| format!("{}: {note}", label.trim())));
                let busy = outcomes.iter().filter_map(|o| Some((o, o.live.as_ref()?.busy?)));
                let busy = busy.map(|(o, busy)| format!("{}{label}: {busy}", o.run.policy));
                notes.extend(busy);
            }
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
