//! The demo in virtual time.

use super::Policy;
use crate::failure::Failure;
use std::time::Duration;
use weir_measure::Record;

/// Plays a scenario under a policy in virtual time.
pub(crate) fn play(
    scenario: &weir_sim::Scenario,
    policy: Policy,
    mut progress: impl FnMut(Duration),
) -> Result<Vec<Record>, Failure> {
    let policy = policy.build(scenario);
    let run = weir_sim::Run::new(scenario, &policy, 0).map_err(Failure::run)?;
    let results = run.run(|at| progress(Duration::from_nanos(at.now.as_nanos())));
    Ok(results.map_err(Failure::run)?.records())
}
