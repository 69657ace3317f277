//! The demo in virtual time.

use super::report::Played;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::standings::standings;
use std::time::Duration;
use weir_config::Policy;
use weir_explain::Standings;
use weir_measure::Record;
use weir_sim::Alone;

/// Plays a scenario under a policy in virtual time. `alone` is what each client gets with the drive to itself. `None`: it was abandoned for an
/// interrupt.
pub(crate) fn play(
    played: Played<'_>,
    policy: &Policy,
    alone: &[Option<Alone>],
    interrupt: &Interrupt,
    mut progress: impl FnMut(Duration),
) -> Result<Option<Vec<Record>>, Failure> {
    let scenario = played.scenario.clone().under(policy);
    let mut standings = standings(&scenario);
    let mut observers: Vec<&mut dyn weir_sim::Observer> = Vec::new();
    observers.extend(standings.as_mut().map(|standings| standings as _));
    let run = weir_sim::Run::observed(&scenario, policy, 0, observers).map_err(Failure::run)?;
    let results = run.run_while(|at| {
        progress(Duration::from_nanos(at.now.as_nanos()));
        interrupt.signal().is_none()
    });
    let results = results.map_err(Failure::run)?;
    Ok(results.map(|mut results| {
        results.run.drive = played.storage.name();
        results.standings = standings.map(Standings::into_all).unwrap_or_default();
        results.records(alone)
    }))
}
