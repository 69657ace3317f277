//! The demo in virtual time.

use super::report::Played;
use crate::failure::Failure;
use std::time::Duration;
use weir_config::Policy;
use weir_measure::Record;
use weir_sim::Alone;

/// Plays a scenario under a policy in virtual time. `alone` is what each client gets with the drive to itself.
pub(crate) fn play(
    played: Played<'_>,
    policy: &Policy,
    alone: &[Option<Alone>],
    mut progress: impl FnMut(Duration),
) -> Result<Vec<Record>, Failure> {
    let scenario = played.scenario.clone().under(policy);
    let run = weir_sim::Run::new(&scenario, policy, 0).map_err(Failure::run)?;
    let results = run.run(|at| progress(Duration::from_nanos(at.now.as_nanos())));
    let mut results = results.map_err(Failure::run)?;
    results.run.drive = played.storage.name();
    Ok(results.records(alone))
}
