//! Turns the records of all runs into the report that the table and the page show.

use super::best;
use crate::compare::on::RunPlace;
use crate::compare::on::serve::{self, MachineLoad};
use crate::compare::work::{ComparisonPlan, PlayedCells, RunOutcome};
use crate::judge::{self, JudgedRun};
use crate::policies::is_none;
use weir_core::Span;
use weir_lab::report::{DemoReport, PolicyResult};
use weir_measure::number::{percent, plain};
use weir_measure::promise::{Excuse, Fate};
use weir_measure::{PromiseSeconds, Record, TOTAL};
use weir_model::drive::{DriveConfig, null};
use weir_sim::Scenario;

/// Returns the report of a plan, in which each policy has one run.
pub(super) fn report(plan: &ComparisonPlan, cells: &PlayedCells) -> DemoReport {
    let runs: Vec<_> = cells
        .iter()
        .map(|(cell, runs)| (plan.policy(*cell), &runs[0]))
        .collect();
    let none = runs.iter().find(|(policy, _)| is_none(policy));
    let all = none.and_then(|(_, run)| total(&run.records));
    let others: Vec<_> = runs
        .iter()
        .map(|(policy, run)| (policy.name.as_str(), &run.records[..]))
        .collect();
    let policies = runs.iter().map(|(policy, run)| {
        let verdict = judge::verdict(JudgedRun {
            script: &plan.script,
            scenario: &run.scenario,
            records: &run.records,
            others: &others,
            cases: &[],
        });
        let busy = run.live.as_ref().and_then(|live| live.busy);
        let (fate, mut verdict) = on_host(busy, &run.records, verdict);
        if let (Some(all), Some(total), false) = (all, total(&run.records), is_none(policy)) {
            let part = percent(total / all);
            verdict.extend([" All together got ", &part, " of what they got under none."]);
        }
        PolicyResult {
            about: policy.summary().into(),
            policy: policy.name.clone(),
            fate,
            verdict,
            drive_busy: judge::busy(&run.records),
            records: run.records.clone(),
        }
    });
    let scenario = &runs[0].1.scenario;
    // The best possible figures follow from the parameters of a link. The capacity of other drives
    // is only a measurement, which a run can exceed.
    let linked = linked(plan, scenario);
    DemoReport {
        drive: drive(plan, scenario),
        load: load(plan, scenario),
        target: plan.script.target().into(),
        best: linked.map_or_else(Vec::new, |drive| {
            best::figures(&plan.script, scenario, drive)
        }),
        contracts: contracts(scenario),
        policies: policies.collect(),
        notes: notes(plan, &runs.iter().map(|(_, run)| *run).collect::<Vec<_>>()),
    }
}

/// Adds the effect of a busy machine to a verdict. If it excuses seconds of a promise, the promise
/// is not called kept, because the result without the disturbance is unknown.
fn on_host(
    busy: Option<MachineLoad>,
    records: &[Record],
    (fate, verdict): (Fate, String),
) -> (Fate, String) {
    let Some(busy) = busy else {
        return (fate, verdict);
    };
    if busy.is_invalid() {
        let text = format!(
            "Invalid: this says nothing about the policy. {busy} Run it on an idle machine, or in virtual time with weir demo --on sim."
        );
        return (Fate::Invalid, text);
    }
    let of_host = |s: &PromiseSeconds| s.excused_as(Excuse::Host);
    let mut seconds = records.iter().filter_map(|r| r.promise_seconds.as_ref());
    let excused = seconds.clone().map(of_host).max();
    let promised = seconds.next();
    match (fate, excused, promised) {
        // The promise was kept in all other seconds, so it is out of reach on this machine and not
        // broken.
        (Fate::Kept, Some(excused), Some(seconds)) if excused > 0 => {
            let all = seconds.promised;
            let others = if excused < all {
                " In the others everyone got it."
            } else {
                ""
            };
            let text = format!(
                "In {excused} of {all} seconds somebody got less than was promised, and not by the policy. {busy}{others}"
            );
            (Fate::OutOfReach, text)
        }
        (Fate::Broken, ..) => (fate, format!("{verdict} {busy}")),
        _ => (fate, verdict),
    }
}

/// Returns the contract of each client, by which the report distinguishes clients.
fn contracts(scenario: &Scenario) -> Vec<(String, String)> {
    let contract = |client: &weir_sim::ClientSpec| {
        // Groups are numbered from 1, and 0 is the root, which has no entry.
        let place = (client.group.0 as usize).checked_sub(1);
        let group = place.and_then(|place| scenario.groups.get(place));
        group.map_or_else(String::new, |g| format!("{:?}", g.contract))
    };
    let clients = scenario.clients.iter();
    clients.map(|c| (c.name.clone(), contract(c))).collect()
}

/// Returns the parameters of the drive if it is a model that consists of a service time and a link.
fn linked<'a>(plan: &ComparisonPlan, scenario: &'a Scenario) -> Option<&'a null::NullConfig> {
    match &scenario.drive {
        DriveConfig::Null(drive) if !plan.drives[0].is_real => {
            let plain = drive.tick == Span::ZERO && drive.wake == Span::ZERO;
            (plain && drive.link > 0).then_some(drive)
        }
        _ => None,
    }
}

fn total(records: &[Record]) -> Option<f64> {
    let total = records.iter().find(|r| r.client == TOTAL);
    total.map(|r| r.bandwidth_mb_per_s).filter(|t| *t > 0.0)
}

/// Returns sentences on the drive and its capacity.
fn drive(plan: &ComparisonPlan, scenario: &Scenario) -> String {
    let place = match plan.on[0] {
        RunPlace::Sim => "virtual time",
        _ => "real time that holds its data in memory",
    };
    if let Some(drive) = linked(plan, scenario) {
        return format!(
            "The drive is a model in {place}: every command is served for {} us, {} at a time, and its data crosses a link of {} MB/s.",
            plain(drive.service.as_nanos() as f64 / 1e3),
            drive.tags,
            plain(drive.link as f64 / 1e6),
        );
    }
    let drive = &plan.drives[0];
    let (rate, iops) = scenario.capacity.map_or((0, 0), |c| (c.read, c.iops));
    let rate = plain(rate as f64 / 1e6);
    if drive.is_real {
        return format!(
            "The drive is {}, read past the page cache; before the runs it gave {rate} MB/s to sixteen streams, and {iops} requests of 4 KiB a \
             second.",
            drive.name
        );
    }
    format!(
        "The drive is a model in {place}: {}. It gives {rate} MB/s to one client that reads in sequence, and {iops} requests of 4 KiB a second.",
        drive.about.trim_end_matches('.')
    )
}

/// Returns sentences on the load, with the promise if it is the same for all clients.
fn load(plan: &ComparisonPlan, scenario: &Scenario) -> String {
    let groups = &scenario.groups;
    let min = groups.first().map_or(0, |g| g.contract.min);
    let load = plan.script.load();
    match min {
        0 => load.to_owned(),
        // If the promises differ, the tables show them.
        _ if groups.iter().any(|g| g.contract.min != min) => load.to_owned(),
        min => format!(
            "{load} Each is promised at least {} MB/s.",
            plain(min as f64 / 1e6)
        ),
    }
}

fn notes(plan: &ComparisonPlan, runs: &[&RunOutcome]) -> Vec<String> {
    let mut notes: Vec<String> = match plan.on[0] {
        RunPlace::Sim => vec![
            "Played in virtual time by the simulator, with the same core and the same client programs as in the server: the \
             same figures on every machine. There is no network between the clients and the core."
                .into(),
        ],
        _ => serve::notes(runs).collect(),
    };
    notes.push(
        "Under bfq and bfq-bytes promises are given as weights, for it knows no others. bfq is Linux's with low_latency \
         off; bfq-bytes charges bytes, never time, and its budgets are so small that a second holds ten turns of everyone."
            .into(),
    );
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_that_a_busy_machine_excuses_seconds_of_is_not_called_kept() {
        let host = |server: f64| MachineLoad {
            server,
            worst: 0.3,
            client: 0.1,
        };
        let judged = |excused: u64, busy: Option<f64>, fate: Fate| {
            let seconds = PromiseSeconds {
                promised: 4,
                kept: 4 - excused,
                excused,
                excused_by: [("host-busy".to_owned(), excused)].into(),
                ..PromiseSeconds::default()
            };
            let records = [Record {
                promise_seconds: Some(seconds),
                ..Record::default()
            }];
            on_host(busy.map(host), &records, (fate, "As judged.".to_owned()))
        };
        let busy = host(0.03).to_string();
        // 3 % are tolerated, but one of four seconds is excused.
        let (fate, text) = judged(1, Some(0.03), Fate::Kept);
        let said = format!(
            "In 1 of 4 seconds somebody got less than was promised, and not by the policy. {busy} In the others everyone got it."
        );
        assert_eq!((fate, text), (Fate::OutOfReach, said));
        // No second was kept, so the text must not refer to the others.
        let (_, text) = judged(4, Some(0.03), Fate::Kept);
        assert!(text.ends_with(&busy), "{text}");
        // Without excused seconds, the verdict stays as it is.
        let kept = (Fate::Kept, "As judged.".to_owned());
        assert_eq!(judged(0, Some(0.03), Fate::Kept), kept);
        assert_eq!(judged(0, None, Fate::Kept), kept);
        // A broken promise stays broken, but the load of the machine is mentioned.
        let broken = (Fate::Broken, format!("As judged. {busy}"));
        assert_eq!(judged(1, Some(0.03), Fate::Broken), broken);
        // 8 % are more than the 4 % that are tolerated.
        for fate in [Fate::Kept, Fate::Broken] {
            let (fate, text) = judged(1, Some(0.08), fate);
            assert_eq!(fate, Fate::Invalid);
            assert!(
                text.starts_with("Invalid: ") && text.ends_with("--on sim."),
                "{text}"
            );
        }
    }
}
