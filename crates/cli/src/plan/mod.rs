//! `weir plan`: how many drives clients need under each policy, so that what they are promised is kept.

mod fleet;
mod search;

use crate::failure::Failure;
use crate::jobs::Jobs;
use crate::leftovers::Leftovers;
use crate::modelled::Drive;
use crate::output::{self, Draft};
use crate::policies;
use crate::progress::Progress;
use crate::scenario;
use crate::whole;
use clap::Args;
use fleet::Fleet;
use search::{Found, Packed};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_config::Policy;
use weir_measure::Interval;
use weir_report::{PlanReport, PlanRow, plan_page, plan_table};

/// Who is to be served, on what, and how it is found out.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What the clients do and are promised: a scenario's name (see `weir scenarios`) or its file
    #[arg(value_name = "CONTRACTS")]
    scenario: String,
    /// The drive they are to share, several of one kind: by name (see `weir drives`) or its profile's file [default: the scenario's first]
    #[arg(long, value_name = "DRIVE")]
    drive: Option<String>,
    /// The case of the scenario [default: its first]
    #[arg(long, value_name = "CASE")]
    case: Option<String>,
    /// A policy, as for `weir compare`; may be given several times [default: those that the scenario is about]
    #[arg(long = "policy", value_name = "POLICY")]
    policies: Vec<String>,
    /// Of a hundred seconds in which a client's promise applies, so many must be kept
    #[arg(long, value_name = "N", default_value = "99", value_parser = |n: &str| whole::number(n, 1..=100))]
    keep: u32,
    /// How often the search is repeated, with other random numbers and other times of activity, 1 to 10000 [default: what the scenario
    /// says, else 10]
    #[arg(long, value_name = "N", value_parser = |n: &str| whole::number(n, 1..=10_000))]
    repetitions: Option<u32>,
    /// Seconds measured in each run, 1 to 3600 [default: those of the scenario]
    #[arg(long, value_name = "N", value_parser = |n: &str| whole::number(n, 1..=3600))]
    seconds: Option<u32>,
    #[command(flatten)]
    jobs: Jobs,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let began = Instant::now();
    if options.html.as_ref().is_some_and(|p| p.as_os_str() == "-") {
        return Err(Failure::Usage("--html writes a file".into()));
    }
    let script = scenario::find(&options.scenario)?;
    let drive = options.drive.as_ref().or_else(|| script.drives().first());
    let drive = drive.ok_or_else(|| Failure::Usage("--drive: the scenario names none".into()))?;
    let drive = Drive::find(drive)?;
    let all = match &options.policies[..] {
        [] => policies::all(script.policies())?,
        some => policies::all(some)?,
    };
    let asked: Vec<String> = options.case.iter().cloned().collect();
    let case = scenario::cases(&script, &asked)?.swap_remove(0);
    let fleet = Fleet::new(&script, &drive, case, options.seconds)?;
    let leftovers = Leftovers::watch()?;
    let page = (options.html.as_ref()).map(|path| Draft::open(path, &leftovers));
    let page = page.transpose()?;
    if let (None, Some(line)) = (&options.drive, scenario::drive_of_jobs(&script)) {
        output::print(&(line + "\n\n"))?;
    }
    let repetitions = options.repetitions.unwrap_or_else(|| script.repetitions());
    let asked = search::Asked {
        fleet: &fleet,
        policies: &all,
        repetitions,
        keep: options.keep,
    };
    let second = |n: usize| Duration::from_secs(n as u64);
    let searches = (all.len() + 1) * repetitions as usize;
    let work = format!("{searches} searches");
    let mut progress = Progress::new(second(searches), work.clone());
    progress.name(script.name(), &work);
    let found = search::all(&asked, options.jobs.count(), |done| {
        progress.set(second(done));
    });
    progress.clear();
    let report = report(&asked, script.load(), &drive, &found?)?;
    let written = page.map(|page| page.write(&plan_page(&report)));
    output::print(&plan_table(&report, output::width()))?;
    if let Some(path) = written.transpose()? {
        output::tell(&format!("wrote {}", path.display()));
    }
    let took = began.elapsed().as_secs_f64();
    output::tell(&format!("{searches} searches in {took:.1} s"));
    Ok(())
}

/// What the table and the page show. The first of what was found is a drive for each client.
fn report(
    asked: &search::Asked<'_>,
    load: &str,
    drive: &Drive,
    found: &[Found],
) -> Result<PlanReport, Failure> {
    let peak = drive.peak()? as f64 / 1e6;
    let names = asked.policies.iter().map(|p: &Policy| p.name.clone());
    let names = ["a drive each".to_owned()].into_iter().chain(names);
    let each = asked.repetitions as usize;
    let rows = names.zip(found.chunks(each)).map(|(policy, found)| {
        let packed: Vec<&Packed> = found.iter().filter_map(Option::as_ref).collect();
        let over = |of: &dyn Fn(&Packed) -> f64| {
            let all = packed.len() == found.len();
            let values: Vec<f64> = packed.iter().map(|p| of(p)).collect();
            all.then(|| Interval::of(&values)).flatten()
        };
        PlanRow {
            policy,
            drives: over(&|p| p.drives as f64),
            utilization: over(&|p| p.total_mbps / (peak * p.drives as f64)),
            average_mbps: over(&|p| p.average_mbps),
        }
    });
    let clients = asked.fleet.clients();
    Ok(PlanReport {
        scenario: asked.fleet.name().to_owned(),
        load: load.to_owned(),
        drive: format!("{}: {}", drive.name, drive.about),
        peak_mbps: peak,
        clients,
        promised_mbps: asked.fleet.promised_mbps(),
        rows: rows.collect(),
        notes: vec![
            format!(
                "Drives: the least number on which every client's promise is kept in {} of 100 seconds in which it applies, clients dealt out \
                 in turn, so that all kinds are on each drive; found by doubling and halving. Mean of {} searches with other random numbers and \
                 other times of activity, and the half-width of its 95 % confidence interval.",
                asked.keep, asked.repetitions
            ),
            "Used: bytes served, of what one sequential reader at full depth gets of so many drives. Average: what a client gets while it is \
             active, mean of all."
                .into(),
            "A policy without a number does not keep the promises even with a drive for each client. In virtual time; drives are models.".into(),
        ],
    })
}
