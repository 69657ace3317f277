//! `weir demo` compares policies for one scenario on one drive, and shows the results in a table
//! and on a page of its own.
//!
//! It is a comparison with one repetition, by default on a real server. Instead of a drive model,
//! the server can read an image or device.

mod best;
mod report;
mod storage;

use super::on::serve::LiveServers;
use super::on::{self, RunPlace};
use super::runs::EarlyEnd;
use super::work::{ComparisonPlan, PlayedPlans};
use super::{lines, play};
use crate::drive;
use crate::drives;
use crate::failure::Failure;
use crate::leftovers::Leftovers;
use crate::modelled::PlayedDrive;
use crate::output::{self, OutputFile, OutputFiles};
use crate::policies;
use crate::scenario;
use crate::unkept;
use crate::whole;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::sync::Arc;
use weir_config::{Storage, ThreadPriority};
use weir_lab::report::{demo_page, demo_table};

/// The name of the drive model that is used by default.
const EMBEDDED: &str = "demo";

/// The arguments of `weir demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoOptions {
    /// Seconds that are measured under each policy, 1 to 3600 [default: those of the scenario]
    #[arg(long, value_name = "N", value_parser = |n: &str| whole::number(n, 1..=3600))]
    seconds: Option<u32>,
    /// A policy: a name that `weir policies` lists, a combination such as "bfq + io.latency", or a
    /// file. Can be repeated [default: the policies of the scenario]
    #[arg(long = "policy", value_name = "POLICY")]
    policies: Vec<String>,
    /// The load: the name of a scenario (see `weir scenarios`), a scenario file, or a job file of
    /// fio (.fio)
    #[arg(long, default_value = "contract", value_name = "SCENARIO")]
    scenario: String,
    /// Read from this file instead of the embedded drive, bypassing the page cache. It is created
    /// with 1 GiB of data if it does not exist
    #[arg(long, value_name = "PATH", conflicts_with = "device")]
    file: Option<PathBuf>,
    /// Use this block device instead of the embedded drive. It is opened read-only
    #[arg(long, value_name = "PATH")]
    device: Option<PathBuf>,
    /// Use this modelled drive instead of the embedded one: a name (see `weir drives`) or a profile
    /// file
    #[arg(long, value_name = "DRIVE", conflicts_with_all = ["file", "device"])]
    drive: Option<String>,
    /// The place of the run: a real server in real time, or the simulator in virtual time
    #[arg(long, value_enum, default_value = "serve", value_name = "PLACE")]
    on: DemoPlace,
    /// The priority of the real server's threads (`priority` in `[server]`). `auto` raises it if
    /// that is permitted. The clients' priority does not change
    #[arg(long, value_enum, default_value = "auto", value_name = "PRIORITY")]
    priority: DemoPriority,
    /// Write the results of each client in each run as a line of JSON to this file. With -, write
    /// only this to standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The file to which the HTML page is written
    #[arg(long, value_name = "FILE", default_value = "weir-demo.html")]
    html: PathBuf,
    /// Show a row for every client, even for identical clients
    #[arg(long)]
    all: bool,
}

/// The name of the place in which the demo is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DemoPlace {
    Serve,
    Sim,
}

/// The priority of the server's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DemoPriority {
    Auto,
    Normal,
    High,
}

/// The number of parallel runs in virtual time. It is 1, so that the progress bar can name the run.
const JOBS: usize = 1;

impl DemoOptions {
    /// Returns the image or device that replaces the modelled drive, if the user has named one.
    fn storage(&self) -> Option<Storage> {
        let file = self.file.clone().map(Storage::File);
        file.or_else(|| self.device.clone().map(Storage::Device))
    }

    /// Returns the plan: one scenario on a modelled drive, with one run under each policy. An image
    /// or device replaces the drive later.
    fn plan(&self, live: LiveServers) -> Result<ComparisonPlan, Failure> {
        let script = scenario::find(&self.scenario)?;
        let policies = match &self.policies[..] {
            [] => policies::all(script.policies())?,
            some => policies::all(some)?,
        };
        let drive = drives::find(self.drive.as_deref().unwrap_or(EMBEDDED))?;
        let usage = |reason: &str| Err(Failure::Usage(reason.into()));
        if self.on == DemoPlace::Sim && self.storage().is_some() {
            return usage(
                "--on sim supports modelled drives only; use --on serve with --file or --device",
            );
        }
        if !script.cases().is_empty() {
            let name = script.name();
            return usage(&format!(
                "--scenario {name}: the demo does not support cases; use `weir compare` to play it"
            ));
        }
        if self.on == DemoPlace::Sim && self.priority == DemoPriority::High {
            return usage("--priority requires a real server; remove it, or use --on serve");
        }
        // A drive without a capacity cannot have promises. This is reported before any file is
        // opened.
        drive::capacity(&drive.drive)?;
        let plan = ComparisonPlan {
            script,
            drives: PlayedDrive::of_all(vec![drive])?,
            cases: vec![None],
            policies,
            on: Arc::new(vec![match self.on {
                DemoPlace::Serve => RunPlace::Serve(live),
                DemoPlace::Sim => RunPlace::Sim,
            }]),
            repetitions: Some(1),
            seconds: self.seconds,
            audit: false,
        };
        on::check(&plan)?;
        Ok(plan)
    }
}

pub(crate) fn run(options: &DemoOptions) -> Result<(), Failure> {
    // The page is always written, so it must not replace the table on standard output.
    output::check_page(Some(&options.html))?;
    output::check_apart([
        ("--json", options.json.as_deref()),
        ("--html", Some(&options.html)),
    ])?;
    let leftovers = Leftovers::watch()?;
    let live = |storage| LiveServers {
        storage,
        priority: match options.priority {
            DemoPriority::Auto => ThreadPriority::Auto,
            DemoPriority::Normal => ThreadPriority::Normal,
            DemoPriority::High => ThreadPriority::High,
        },
        leftovers: leftovers.clone(),
    };
    let mut plan = options.plan(live(None))?;
    // All files are opened before the storage is created or measured, which takes seconds.
    let files = OutputFiles::open([options.json.as_deref()], None, &leftovers)?;
    let page = OutputFile::open(&options.html, &leftovers).map_err(|failure| match failure {
        Failure::Run(reason) => Failure::Run(format!("{reason}; use another path with --html")),
        other => other,
    })?;
    let files = files.with_page(page);
    let storage = options.storage().map(|storage| {
        let size = storage::prepare(&storage, &leftovers)?;
        Ok((storage, size))
    });
    let storage = storage.transpose()?;
    unkept::print_notes(plan.played());
    // An image or device is measured before the runs, because its capacity is not known.
    if let Some(storage) = storage {
        let live = live(Some(storage));
        let name = [&options.file, &options.device]
            .into_iter()
            .flatten()
            .next();
        let name = name.map_or_else(String::new, |path| path.display().to_string());
        let capacity = storage::measure(&live, &name)?;
        // From here on, the plan uses the measured storage instead of the model.
        plan.drives = vec![PlayedDrive::measured(name, capacity)?];
        plan.on = Arc::new(vec![RunPlace::Serve(live)]);
    }
    let interrupt = leftovers.interrupt();
    let plans = [plan];
    let PlayedPlans { cells: all, failed } = play(plans[0].script.name(), &plans, JOBS, interrupt)?;
    let early = EarlyEnd::find(&plans, &all, failed, interrupt);
    let mut shown = Ok(());
    if !all[0].is_empty() {
        let mut report = report::report(&plans[0], &all[0]);
        if let Some(note) = early.as_ref().and_then(|early| early.note.clone()) {
            report.notes.insert(0, note);
        }
        let table = || demo_table(&report, output::width(), options.all);
        shown = files.write(|| demo_page(&report), [&|| lines(&all[0])], table);
    }
    match early {
        Some(early) => Err(early.reason.beside(shown)),
        None => shown,
    }
}
