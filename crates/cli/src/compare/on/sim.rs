//! Plays repetitions in the simulator, in virtual time.

use crate::compare::work::{Repetition, RunOutcome};
use weir_config::units::Time;
use weir_core::Instant;
use weir_measure::RecordPlace;
use weir_measure::explain::Standings;
use weir_sim::{Results, Scenario, SimRun};
use weir_verify::audit::Auditors;

/// Plays a repetition. Returns `None` if an interrupt has ended it early.
///
/// # Errors
/// The core refuses the scenario, or the auditors have found violations.
pub(super) fn play(mut played: Repetition<'_>) -> Result<Option<RunOutcome>, String> {
    let (scenario, policy) = (played.scenario, played.policy);
    let mut auditors = played.audit.then(Auditors::new);
    let mut standings = standings(scenario);
    let mut observers: Vec<&mut dyn weir_sim::Observer> = Vec::new();
    observers.extend(auditors.as_mut().map(|auditors| auditors as _));
    observers.extend(standings.as_mut().map(|standings| standings as _));
    let failed = |error: weir_sim::SimError| error.message_for(scenario);
    let run = SimRun::observed(scenario, policy, played.run.repeat, observers).map_err(failed)?;
    let run = match played.step() {
        Some(step) => run.followed(step),
        None => run,
    };
    let whole = (scenario.warm_up + scenario.duration).as_nanos() as f64;
    let results = run.run_while(|at| {
        (played.passed)(f64::min(at.now.as_nanos() as f64 / whole, 1.0));
        played.interrupt.signal().is_none()
    });
    let Some(mut results) = results.map_err(failed)? else {
        return Ok(None);
    };
    // The drive and the elevator can still have work when the run ends.
    if let Some(found) = auditors.map(|a| a.end(false)).filter(|f| !f.is_empty()) {
        let first = found.violations().first().map(ToString::to_string);
        return Err(format!(
            "the auditors found {} violations, first: {}",
            found.total(),
            first.unwrap_or_default()
        ));
    }
    results.standings = standings.map(Standings::into_all).unwrap_or_default();
    played.run.place = Some(RecordPlace::Sim);
    results.run = played.run.clone();
    let records = results.records(played.alone);
    let meter = &results.clients[played.target].meter;
    let mut outcome = played.outcome(records, meter);
    outcome.drew = results.used_random_numbers;
    outcome.notes = refused_changes(scenario, &results);
    if let Some((over, depth)) = outcome.over_time.as_mut().zip(results.depth.as_ref()) {
        over.depth = depth.means(meter.end_ns());
        over.states = results.states;
    }
    Ok(Some(outcome))
}

/// Returns the changes of contracts that were refused during a run, one sentence each.
fn refused_changes(scenario: &Scenario, results: &Results) -> Vec<String> {
    let of = |(at, refusal): &(Instant, weir_core::Refusal)| {
        let after = Time(at.since(Instant::ZERO));
        let why = weir_sim::SimError::Refused(*refusal).message_for(scenario);
        format!(
            "the [[change]] at {after} was refused, and the previous contract stays, because {why}"
        )
    };
    results.refusals.iter().map(of).collect()
}

/// Returns an observer of the promised seconds of a run, or `None` if the run has no promise.
fn standings(scenario: &Scenario) -> Option<Standings> {
    let groups = scenario.promised_groups()?;
    let stalls = scenario.machine.stalls.iter();
    let stalls = stalls.map(|stall| (stall.at, stall.length));
    Some(Standings::new(groups).stalled(stalls.collect()))
}
