//! Explains equal results: finds the policies under which a case gave identical results, and the
//! reason.

use super::work::{CellRuns, ComparisonPlan, RunOutcome};
use crate::policies::is_none;
use weir_config::Policy;
use weir_core::{Contract, Knobs};
use weir_measure::Record;
use weir_measure::explain::list;
use weir_sim::Scenario;

/// Returns a line for each set of policies with equal results on one drive: the reason, and a
/// change of the scenario that would make them differ.
///
/// A scenario whose table shows only its target has no such lines, because its description already
/// states the result to expect.
pub(super) fn lines(plan: &ComparisonPlan, cells: &[&CellRuns]) -> Vec<String> {
    if !plan.script.shows_clients() {
        return Vec::new();
    }
    let mut sets: Vec<Vec<&CellRuns>> = Vec::new();
    for cell in cells {
        match sets.iter_mut().find(|set| is_equal(set[0], cell)) {
            Some(set) => set.push(cell),
            None => sets.push(vec![cell]),
        }
    }
    // If no request was served in any run, the results are equal for another reason.
    let served = |set: &&Vec<&CellRuns>| {
        set[0]
            .1
            .iter()
            .any(|o| o.records.iter().any(|r| r.requests > 0))
    };
    let several = sets.iter().filter(|set| set.len() > 1).filter(served);
    several.map(|set| line(plan, set)).collect()
}

/// Returns true if every client has the same figures in every run of both cells.
fn is_equal((a, one): &CellRuns, (b, other): &CellRuns) -> bool {
    let figures = |r: &Record| (r.requests, r.bytes, r.errors, r.latency_us);
    let same = |(one, other): (&RunOutcome, &RunOutcome)| {
        let (one, other) = (one.records.iter(), other.records.iter());
        one.map(figures).eq(other.map(figures))
    };
    (a.case, a.on) == (b.case, b.on)
        && one.len() == other.len()
        && !one.is_empty()
        && one.iter().zip(other).all(same)
}

fn line(plan: &ComparisonPlan, set: &[&CellRuns]) -> String {
    let (cell, outcomes) = set[0];
    let head = plan.case(*cell);
    let head = head.map_or_else(String::new, |case| format!("{case}: "));
    let names: Vec<String> = set.iter().map(|(cell, _)| plan.label(*cell)).collect();
    let names = list(&names);
    let policies: Vec<&Policy> = set.iter().map(|(cell, _)| plan.policy(*cell)).collect();
    let (why, add) = reason(&outcomes[0].scenario, &policies);
    format!("{head}{names} give equal results, because {why}. {add}.")
}

/// Returns the reason why these policies behave identically in a scenario, and a change of the
/// scenario that would make them differ.
fn reason(scenario: &Scenario, policies: &[&Policy]) -> (&'static str, &'static str) {
    let first = scenario.clients.first().map(|c| c.group);
    let mut groups = scenario.clients.iter().map(|c| Some(c.group));
    let states =
        |g: &weir_sim::GroupSpec| g.contract != Contract::DEFAULT || g.knobs != Knobs::NONE;
    let has_contract = scenario.groups.iter().any(states);
    let elevators = |p: &&Policy| !is_none(p) && p.controllers.is_empty();
    let (elevator, controller) = (
        policies.iter().copied().any(|p| elevators(&p)),
        policies.iter().any(|p| !p.controllers.is_empty()),
    );
    if has_contract {
        return (
            "they treat nothing differently that happened in this run",
            "Let more clients compete, or choose a lower max",
        );
    }
    if scenario.clients.len() == 1 {
        return (
            "there is one client, and they divide a drive among several",
            "Add a client that competes with it",
        );
    }
    // Controllers act on groups, so one group has no competitor.
    if groups.all(|group| group == first) && controller {
        return (
            "all clients are in one group, and controllers divide the drive among groups",
            "Write grouping = \"each\" in the scenario's file (`weir scenarios --from` prints one of a job file)",
        );
    }
    // There are several clients without contracts. The reason depends on the kinds of policies that
    // gave equal results.
    match (controller, elevator) {
        (true, false) => (
            "no client has a contract for them to act on",
            "Add max, min, latency or share to clients in the scenario's file (`weir scenarios --from` prints one of a job file)",
        ),
        (true, true) => (
            "no client has a contract for controllers to act on, and an elevator changes the order of requests only while more of them wait than the \
             drive takes",
            "Add max, min, latency or share to clients in the scenario's file (`weir scenarios --from` prints one of a job file), or raise iodepth",
        ),
        (false, _) => (
            "elevators change the order of requests only while more of them wait than the drive takes",
            "Raise iodepth, or add clients",
        ),
    }
}
