//! What the judge of a simulated run has to know of its promised seconds.

use weir_explain::Standings;
use weir_sim::Scenario;

/// An observer of a run of this scenario; `None` if nothing is promised in it.
pub(crate) fn standings(scenario: &Scenario) -> Option<Standings> {
    let groups = scenario.promised_groups()?;
    let stalls = scenario
        .machine
        .stalls
        .iter()
        .map(|stall| (stall.at, stall.length));
    Some(Standings::new(groups).stalled(stalls.collect()))
}
