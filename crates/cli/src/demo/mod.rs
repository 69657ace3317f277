//! `weir demo`: the same clients on the same drive under several policies.

mod best;
mod directory;
mod host;
mod live;
mod playable;
mod report;
mod storage;
mod told;
mod twin;
mod waits;

use storage::Storage;

use crate::check;
use crate::drive;
use crate::failure::Failure;
use crate::judge;
use crate::leftovers::Leftovers;
use crate::output::{self, Draft, Output};
use crate::policies;
use crate::progress::Progress;
use crate::scenario;
use crate::unkept;
use crate::whole;
use clap::{Args, ValueEnum};
use live::Shown;
use report::Played;
use std::path::PathBuf;
use std::time::Duration;
use weir_config::Policy;
use weir_config::scenario::{Choice, Script};
use weir_core::Capacity;
use weir_measure::to_line;
use weir_report::{DemoReport, demo_page, demo_table};

/// What to play, where, and what to write.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Seconds that are measured under each policy, 1 to 3600 [default: those of the scenario]
    #[arg(long, value_name = "N", value_parser = |n: &str| whole::number(n, 1..=3600))]
    seconds: Option<u32>,
    /// A policy: a name that `weir policies` lists, a combination such as "bfq + io.latency", or a file. Can be repeated [default: the
    /// policies of the scenario]
    #[arg(long = "policy", value_name = "POLICY")]
    policies: Vec<String>,
    /// The load: the name of a scenario (see `weir scenarios`), a scenario file, or a job file of fio (.fio)
    #[arg(long, default_value = "contract", value_name = "SCENARIO")]
    scenario: String,
    /// Read from this file instead of the embedded drive, bypassing the page cache. It is created with 1 GiB of data if it does not
    /// exist
    #[arg(long, value_name = "PATH", conflicts_with = "device")]
    file: Option<PathBuf>,
    /// Use this block device instead of the embedded drive. It is opened read-only
    #[arg(long, value_name = "PATH")]
    device: Option<PathBuf>,
    /// Use this modelled drive instead of the embedded one: a name (see `weir drives`) or a profile file
    #[arg(long, value_name = "DRIVE", conflicts_with_all = ["file", "device"])]
    drive: Option<String>,
    /// The place of the run: a real server in real time, or the simulator in virtual time
    #[arg(long, value_enum, default_value = "serve", value_name = "PLACE")]
    on: On,
    /// The priority of the real server's threads (`priority` in `[server]`). `auto` raises it if that is permitted. The clients' priority
    /// does not change
    #[arg(long, value_enum, default_value = "auto", value_name = "PRIORITY")]
    priority: Priority,
    /// Write the results of each client in each run as a line of JSON to this file. With -, write only this to standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The file to which the HTML page is written
    #[arg(long, value_name = "FILE", default_value = "weir-demo.html")]
    html: PathBuf,
    /// Show a row for every client, even for identical clients
    #[arg(long)]
    all: bool,
}

/// Where the demo is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum On {
    Serve,
    Sim,
}

/// How the server's threads stand to other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Priority {
    Auto,
    Normal,
    High,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let script = scenario::find(&options.scenario)?;
    let policies = match &options.policies[..] {
        [] => policies::all(script.policies())?,
        some => policies::all(some)?,
    };
    let storage = Storage::new(options)?;
    playable::check(&script, options.on)?;
    if options.html.as_os_str() == "-" {
        let reason = "--html cannot write to standard output; write a file name";
        return Err(Failure::Usage(reason.into()));
    }
    if options.on == On::Sim && options.priority == Priority::High {
        let reason = "--priority requires a real server; remove it, or use --on serve";
        return Err(Failure::Usage(reason.into()));
    }
    let leftovers = Leftovers::watch()?;
    let json = options
        .json
        .as_ref()
        .map(|path| Output::open(path, &leftovers))
        .transpose()?;
    let page = Draft::open(&options.html, &leftovers).map_err(|failure| match failure {
        Failure::Run(reason) => Failure::Run(format!("{reason}; use another path with --html")),
        other => other,
    })?;
    let size = storage.prepare(&leftovers)?;
    let drive = weir_drive::Config::Null(weir_drive::null::Config::demo());
    let any = build(options, &script, &drive, None)?;
    unkept::tell(policies.iter().map(|policy| (any.clone(), policy.clone())));
    let mut progress = progress(&any, policies.len(), size.is_some());
    let scenario = scenario(options, &script, &storage, size, &leftovers, &mut progress)?;
    let played = Played {
        script: &script,
        scenario: &scenario,
        storage: &storage,
        on: options.on,
    };
    let interrupt = leftovers.interrupt();
    interrupt.hold();
    let runs = play(
        played,
        options.priority,
        &policies,
        &leftovers,
        &mut progress,
    );
    interrupt.release();
    progress.clear();
    let mut runs = runs?;
    find_starved(&mut runs);
    let missing = interrupt.signal().zip(missing(&policies, &runs));
    let mut shown = Ok(());
    if !runs.is_empty() {
        let lines = json.is_some().then(|| lines(&runs));
        let mut report = report::report(played, runs);
        if let Some((_, missing)) = &missing {
            report.notes.insert(0, format!("Interrupted: {missing}."));
        }
        shown = show(options, &report, json, page, lines);
    }
    match missing {
        Some((signal, missing)) => Err(Failure::Interrupted(signal, missing).beside(shown)),
        None => shown,
    }
}

/// Says of every client whether it starves, beside what it gets under no control.
fn find_starved(runs: &mut [Shown]) {
    let none = runs.iter().find(|run| policies::is_none(&run.policy));
    let none = none.map(|run| (run.policy.name.clone(), run.records.clone()));
    for run in runs {
        let beside = none.as_ref().filter(|(name, _)| *name != run.policy.name);
        judge::find_starved(&mut run.records, beside.map(|(_, records)| &records[..]));
    }
}

/// Which policies are missing after an interrupt, if any are.
fn missing(policies: &[Policy], runs: &[Shown]) -> Option<String> {
    // They are played in order.
    let missing = policies[runs.len()..].iter().map(|p| p.name.as_str());
    let missing: Vec<&str> = missing.collect();
    let (played, all) = (runs.len(), policies.len());
    let names = missing.join(", ");
    (played < all).then(|| format!("{played} of {all} policies; missing: {names}"))
}

/// A bar over everything that is going to be done under `policies` policies.
fn progress(scenario: &weir_sim::Scenario, policies: usize, measured: bool) -> Progress {
    let each = Duration::from_nanos((scenario.warm_up + scenario.duration).as_nanos());
    let measuring = if measured {
        storage::MEASURING
    } else {
        Duration::ZERO
    };
    let work = match policies {
        1 => "1 policy".to_owned(),
        n => format!("{n} policies"),
    };
    Progress::new(measuring + each * policies as u32, work)
}

/// The scenario on a drive with this capacity.
fn build(
    options: &Options,
    script: &Script,
    drive: &weir_drive::Config,
    capacity: Option<Capacity>,
) -> Result<weir_sim::Scenario, Failure> {
    let choice = Choice {
        drive,
        capacity,
        case: None,
        policy: "",
        seconds: options.seconds,
    };
    (script.scenario(&choice)).map_err(|problems| check::refuse(&problems))
}

/// The scenario on the embedded drive, or on what was measured before.
fn scenario(
    options: &Options,
    script: &Script,
    storage: &Storage,
    size: Option<u64>,
    leftovers: &Leftovers,
    progress: &mut Progress,
) -> Result<weir_sim::Scenario, Failure> {
    if let Storage::Model(profile) = storage {
        let capacity = drive::capacity(&profile.drive)?;
        return build(options, script, &profile.drive, Some(capacity));
    }
    let size = size.unwrap_or_default();
    progress.name("measuring", "what the drive can do");
    let capacity = storage::measure(storage, size, leftovers, progress)?;
    let drive = weir_drive::Config::Null(weir_drive::null::Config::demo());
    let mut scenario = build(options, script, &drive, Some(capacity))?;
    storage::divide(&mut scenario, size)?;
    Ok(scenario)
}

/// Plays the scenario under one policy after the other; after an interrupt, what there is.
fn play(
    played: Played<'_>,
    priority: Priority,
    policies: &[Policy],
    leftovers: &Leftovers,
    progress: &mut Progress,
) -> Result<Vec<Shown>, Failure> {
    let scenario = played.scenario;
    let each = Duration::from_nanos((scenario.warm_up + scenario.duration).as_nanos());
    let alone = match played.storage {
        Storage::Model(_) => weir_sim::alone(scenario).map_err(Failure::run)?,
        // Nobody knows.
        Storage::File(_) | Storage::Device(_) => Vec::new(),
    };
    let stage = live::Stage {
        scenario,
        storage: played.storage,
        leftovers,
        priority,
    };
    let interrupt = leftovers.interrupt();
    let (mut runs, mut live) = (Vec::new(), Vec::new());
    for (policy, number) in policies.iter().zip(1..) {
        progress.name(&policy.name, &format!("{number} of {}", policies.len()));
        match played.on {
            On::Sim => {
                let run = twin::play(played, policy, &alone, interrupt, |at| progress.set(at))?;
                let Some(records) = run else { break };
                runs.push(Shown {
                    policy: policy.clone(),
                    records,
                    busy: None,
                    raised: None,
                });
            }
            On::Serve => {
                let run = live::play(stage, policy, |passed| progress.set(passed))?;
                let Some(run) = run else { break };
                live.push(run);
            }
        }
        progress.next(each);
    }
    runs.extend(live::records(stage, &live, &alone));
    Ok(runs)
}

/// The records of all runs, a line each.
fn lines(runs: &[Shown]) -> String {
    let records = runs.iter().flat_map(|r| &r.records);
    records.map(|r| to_line(r) + "\n").collect()
}

/// Writes everything where it belongs: the table to standard output unless the records go there.
fn show(
    options: &Options,
    report: &DemoReport,
    json: Option<Output>,
    page: Draft,
    lines: Option<String>,
) -> Result<(), Failure> {
    let path = page.write(&demo_page(report))?;
    let only_records = json.as_ref().is_some_and(Output::is_standard);
    if let (Some(json), Some(lines)) = (json, lines) {
        json.write(&lines)?;
    }
    if !only_records {
        output::print(&demo_table(report, output::width(), options.all))?;
    }
    output::tell(&format!("wrote {}", path.display()));
    Ok(())
}
