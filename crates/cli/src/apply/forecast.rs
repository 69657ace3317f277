//! Predicts the promises that the kernel will not keep, before anything is written. The contracts
//! are played on a model of the drive, under the chosen policy and under `contract`.

use crate::check;
use crate::failure::Failure;
use crate::output;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use weir_config::Policy;
use weir_config::apply::{CgroupContract, KernelDrive, KernelHost};
use weir_config::scenario::{self, Choice};
use weir_config::{ContractText, units::BytesPerSecond};
use weir_lab::report::{Column, ReportTable};
use weir_measure::Record;
use weir_measure::promise::Fate;
use weir_sim::SimRun;

/// The length of a run in seconds of virtual time.
const SECONDS: u32 = 5;

/// The description of the assumed load, for the user.
const LOAD: &str = "played for 5 virtual seconds, all at once: a cgroup that is promised something reads 64 KiB at random places, \
                    the others 512 KiB in sequence, 16 requests at a time each";

/// Prints the prediction for each drive that has a model and promises. A drive without a model gets
/// a note.
pub(super) fn show(host: &KernelHost) -> Result<(), Failure> {
    for drive in &host.drives {
        let promises = drive.members.iter().filter(|m| is_promised(m)).count();
        // A policy that keeps every min needs no prediction.
        if promises == 0 || drive.policy.keeps_min() {
            continue;
        }
        let Some(model) = &drive.model else {
            output::print_message(&format!(
                "note: the kernel does not guarantee a min; set a model in drive.{} (model = \"...\") to have `weir apply` predict the result",
                drive.name
            ));
            continue;
        };
        output::print(&of(drive, model)?)?;
    }
    Ok(())
}

fn is_promised(member: &CgroupContract) -> bool {
    member.contract.min > 0 || member.contract.min_iops > 0
}

/// Returns the members that have processes of their own, which are those that are not tenants.
fn leaves(drive: &KernelDrive) -> impl Iterator<Item = (usize, &CgroupContract)> {
    let tenants: BTreeSet<usize> = drive.members.iter().filter_map(|m| m.parent).collect();
    let all = drive.members.iter().enumerate();
    all.filter(move |(place, _)| !tenants.contains(place))
}

/// Returns the table of the prediction for one drive.
fn of(drive: &KernelDrive, model: &weir_model::drive::DriveConfig) -> Result<String, Failure> {
    // `contract` shows the result that Weir's own server would have.
    let policies = [drive.policy.clone(), Policy::contract()];
    let mut results = Vec::new();
    for policy in &policies {
        results.push(played(drive, model, policy)?);
    }
    let mut table = ReportTable::new([
        Column::text("cgroup"),
        Column::number("promised"),
        Column::number(&drive.policy.name),
        Column::number("worst second"),
        Column::text("its min"),
        Column::number("contract"),
        Column::number("worst second"),
        Column::text("its min"),
    ]);
    for (at, (_, member)) in leaves(drive).enumerate() {
        let mut row = vec![member.name.clone(), promised(member)];
        for result in &results {
            let record = result.get(at);
            row.push(record.map_or(String::new(), |r| mb_per_s(r.bandwidth_mb_per_s)));
            let worst = record.and_then(|r| r.worst_second_mb_per_s);
            row.push(worst.map_or(String::new(), mb_per_s));
            row.push(record.map_or(String::new(), kept));
        }
        table.row(row);
    }
    let text = table.text(output::width());
    Ok(format!(
        "drive.{}: what the kernel cannot promise, by its model ({LOAD})\n{text}\n",
        drive.name
    ))
}

fn promised(member: &CgroupContract) -> String {
    match (member.contract.min, member.contract.min_iops) {
        (0, 0) => "nothing".to_owned(),
        (0, iops) => format!("{iops}/s"),
        (rate, _) => BytesPerSecond(rate).to_string(),
    }
}

fn mb_per_s(rate: f64) -> String {
    format!("{rate:.1} MB/s")
}

/// Returns the fraction of the seconds in which a promise was kept, among those in which it
/// applied, as text.
fn kept(record: &Record) -> String {
    match (record.promise, record.windows_met) {
        (Some(Fate::OutOfReach), _) => "out of reach of this load".to_owned(),
        (Some(_), Some(met)) => format!("kept in {:.0} %", met * 100.0),
        _ => String::new(),
    }
}

/// Plays the contracts of a drive under a policy. Returns the records of the members without
/// tenants.
fn played(
    drive: &KernelDrive,
    model: &weir_model::drive::DriveConfig,
    policy: &Policy,
) -> Result<Vec<Record>, Failure> {
    let refuse = |problems: Vec<_>| check::refuse(&problems);
    let script = scenario::parse(&text(drive), "forecast").map_err(refuse)?;
    let choice = Choice {
        capacity: drive.capacity,
        seconds: Some(SECONDS),
        ..Choice::new(model, None, &policy.name)
    };
    let scenario = script.scenario(&choice).map_err(refuse)?.under(policy);
    let alone = weir_sim::measure_alone(&scenario).map_err(Failure::run)?;
    let run = SimRun::new(&scenario, policy, 0).map_err(Failure::run)?;
    let results = run.run(|_| {}).map_err(Failure::run)?;
    Ok(results.records(&alone))
}

/// Returns a scenario with one client for each member that is not a tenant. Members are named by
/// their numbers, because their names in the file can be any text.
fn text(drive: &KernelDrive) -> String {
    let mut text = String::from("host = { nr_requests = \"linux\" }\n");
    for (place, member) in drive.members.iter().enumerate() {
        let _ = writeln!(text, "[[group]]\nname = \"g{place}\"");
        if let Some(parent) = member.parent {
            let _ = writeln!(text, "parent = \"g{parent}\"");
        }
        let _ = write!(text, "{}", ContractText(&member.contract));
    }
    for (place, member) in leaves(drive) {
        let reads = if is_promised(member) {
            "rw = \"randread\"\nbs = \"64KiB\""
        } else {
            "rw = \"read\"\nbs = \"512KiB\""
        };
        let _ = writeln!(
            text,
            "[[client]]\nname = \"c{place}\"\ngroup = \"g{place}\"\n{reads}\niodepth = 16\ndirect = true\nsize = \"1GiB\""
        );
    }
    text
}
