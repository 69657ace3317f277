//! `weir demo`: the same clients on the same drive under several policies.

mod best;
mod directory;
mod judge;
mod live;
mod policy;
mod report;
mod scenario;
mod scrape;
mod storage;
mod twin;

pub(crate) use judge::busy;
pub(crate) use policy::Policy;
pub(crate) use scenario::Scenario;
use storage::Storage;

use crate::drive;
use crate::failure::Failure;
use crate::leftovers::Leftovers;
use crate::output::{self, Draft, Output};
use crate::progress::Progress;
use crate::whole;
use clap::{Args, ValueEnum};
use report::Played;
use std::path::PathBuf;
use std::time::Duration;
use weir_measure::{Record, to_line};
use weir_report::{DemoReport, demo_page, demo_table, demo_table_all};

/// What to play, where, and what to write.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Seconds measured under each policy, 1 to 3600
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = |n: &str| whole::number(n, 1..=3600))]
    seconds: u32,
    /// A policy to compare; may be given several times [default: all that the scenario is about]
    #[arg(long = "policy", value_name = "POLICY", value_enum)]
    policies: Vec<Policy>,
    /// What to play
    #[arg(long, value_enum, default_value = "contract", value_name = "SCENARIO")]
    scenario: Scenario,
    /// Read this file in place of the embedded drive, past the page cache; created with 1 GiB of data if it is not there
    #[arg(long, value_name = "PATH", conflicts_with = "device")]
    file: Option<PathBuf>,
    /// Read this block device in place of the embedded drive; it is opened for reading only
    #[arg(long, value_name = "PATH")]
    device: Option<PathBuf>,
    /// Play on this modelled drive instead of the embedded one: its name (see `weir drives`) or its profile's file
    #[arg(long, value_name = "DRIVE", conflicts_with_all = ["file", "device"])]
    drive: Option<String>,
    /// A real server in real time, or the simulator in virtual time
    #[arg(long, value_enum, default_value = "serve", value_name = "PLACE")]
    on: On,
    /// How the real server's threads stand to other programs (`[server] priority`); the clients' stay as they are
    #[arg(long, value_enum, default_value = "normal", value_name = "PRIORITY")]
    priority: Priority,
    /// Write every client of every run as a line of JSON; - for standard output, and nothing else there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to write the page
    #[arg(long, value_name = "FILE", default_value = "weir-demo.html")]
    html: PathBuf,
    /// A row for every client, also for those alike
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
    Normal,
    High,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let storage = Storage::new(options)?;
    if options.html.as_os_str() == "-" {
        let reason = "--html writes a file; only --json writes to standard output";
        return Err(Failure::Usage(reason.into()));
    }
    if options.on == On::Sim && options.priority == Priority::High {
        let reason = "--priority raises a real server's threads; leave it out with --on sim";
        return Err(Failure::Usage(reason.into()));
    }
    let leftovers = Leftovers::watch()?;
    let json = options
        .json
        .as_ref()
        .map(|path| Output::open(path, &leftovers))
        .transpose()?;
    let page = Draft::open(&options.html, &leftovers).map_err(|failure| match failure {
        Failure::Run(reason) => Failure::Run(format!("{reason}; name another place with --html")),
        other => other,
    })?;
    let size = storage.prepare(&leftovers)?;
    let policies = policies(options);
    let mut progress = progress(options, &policies, size.is_some());
    let scenario = scenario(options, &storage, size, &leftovers, &mut progress)?;
    let played = Played {
        kind: options.scenario,
        scenario: &scenario,
        storage: &storage,
        on: options.on,
        priority: options.priority,
    };
    let runs = play(played, &policies, &leftovers, &mut progress)?;
    progress.clear();
    let lines = json.is_some().then(|| lines(&runs));
    let report = report::report(played, runs);
    show(options, &report, json, page, lines)
}

/// A bar over everything that is going to be done.
fn progress(options: &Options, policies: &[Policy], measured: bool) -> Progress {
    let warm_up = Duration::from_nanos(scenario::WARM_UP.as_nanos());
    let each = warm_up + Duration::from_secs(options.seconds.into());
    let measuring = if measured {
        storage::MEASURING
    } else {
        Duration::ZERO
    };
    Progress::new(measuring + each * policies.len() as u32)
}

/// The scenario on the embedded drive, or on what was measured before.
fn scenario(
    options: &Options,
    storage: &Storage,
    size: Option<u64>,
    leftovers: &Leftovers,
    progress: &mut Progress,
) -> Result<weir_sim::Scenario, Failure> {
    if let Storage::Model(profile) = storage {
        return model(options, &profile.drive);
    }
    let size = size.unwrap_or_default();
    progress.name("measuring", "what the drive can do");
    let capacity = storage::measure(storage, size, leftovers, progress)?;
    let mut scenario = options.scenario.build(options.seconds, Some(capacity));
    storage::divide(&mut scenario, size);
    Ok(scenario)
}

/// The scenario on a modelled drive.
fn model(options: &Options, drive: &weir_drive::Config) -> Result<weir_sim::Scenario, Failure> {
    let embedded = options.scenario.build(options.seconds, None);
    if embedded.drive == *drive {
        return Ok(embedded);
    }
    let capacity = drive::capacity(drive)?;
    let mut scenario = options.scenario.build(options.seconds, Some(capacity));
    scenario.drive = drive.clone();
    Ok(scenario)
}

/// Plays the scenario under one policy after the other.
fn play(
    played: Played<'_>,
    policies: &[Policy],
    leftovers: &Leftovers,
    progress: &mut Progress,
) -> Result<Vec<(Policy, Vec<Record>)>, Failure> {
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
        priority: played.priority,
    };
    let (mut runs, mut live) = (Vec::new(), Vec::new());
    for (policy, number) in policies.iter().zip(1..) {
        progress.name(policy.name(), &format!("{number} of {}", policies.len()));
        match played.on {
            On::Sim => {
                let records = twin::play(played, *policy, &alone, |passed| progress.set(passed))?;
                runs.push((*policy, records));
            }
            On::Serve => live.push(live::play(stage, *policy, |passed| progress.set(passed))?),
        }
        progress.next(each);
    }
    runs.extend(live::records(stage, &live, &alone));
    Ok(runs)
}

/// The policies asked for, each once, in the order in which they were asked for.
fn policies(options: &Options) -> Vec<Policy> {
    let asked = match &options.policies[..] {
        [] => options.scenario.policies(),
        some => some,
    };
    let mut policies = Vec::new();
    for policy in asked {
        if !policies.contains(policy) {
            policies.push(*policy);
        }
    }
    policies
}

/// The records of all runs, a line each.
fn lines(runs: &[(Policy, Vec<Record>)]) -> String {
    let records = runs.iter().flat_map(|r| &r.1);
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
        let table = if options.all {
            demo_table_all
        } else {
            demo_table
        };
        output::print(&table(report, output::width()))?;
    }
    output::tell(&format!("wrote {}", path.display()));
    Ok(())
}
