//! The plan of a run under a kernel: the settings of the kernel, and the jobs of fio.

use crate::play::{PlayJobs, PlayRefusal};
use crate::{ContractGroup, KnobSetting, translate};
use serde::{Deserialize, Serialize};
use weir_config::Policy;
use weir_config::apply::Queue;
use weir_config::scenario::{NrRequests, Scenario};
use weir_core::DriveShape;

/// The maximum number of scheduler tags of a queue (the kernel's `MAX_SCHED_RQ`).
const TAGS_MAX: u32 = 2048;

/// The settings and the jobs of a run. It is serialised for the process that plays it, which can be
/// in a guest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlayPlan {
    /// The jobs of the clients.
    pub jobs: PlayJobs,
    /// The groups of the scenario as paths below the root cgroup. The first one is group 1.
    pub groups: Vec<String>,
    /// The settings of the kernel, in the order in which they are made.
    pub settings: Vec<KnobSetting>,
    /// True if the states that the kernel reports are recorded. As in the simulator, they are those
    /// of the first repetition.
    pub observed: bool,
}

/// The reason why a scenario has no plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlayPlanError {
    /// fio cannot play the scenario.
    #[error(transparent)]
    Scenario(#[from] PlayRefusal),
    /// The kernel cannot do what the policy does.
    #[error(transparent)]
    Policy(#[from] crate::TranslationRefusal),
}

impl PlayPlan {
    /// Makes the plan of a repetition of a scenario as it is [under](Scenario::under) the policy.
    /// Also returns the differences between the kernel and the policy, a sentence for each.
    ///
    /// `shape` is the shape of the drive if the device is a model. A real device keeps the kernel's
    /// own number of requests.
    ///
    /// # Errors
    /// Returns an error if fio or the kernel cannot play the scenario.
    pub fn new(
        scenario: &Scenario,
        policy: &Policy,
        repetition: u32,
        shape: Option<&DriveShape>,
    ) -> Result<(Self, Vec<String>), PlayPlanError> {
        let jobs = PlayJobs::new(scenario, repetition)?;
        let group = |g: &weir_config::scenario::GroupSpec| ContractGroup {
            parent: (g.parent.0 as usize).checked_sub(1),
            contract: g.contract,
            knobs: g.knobs,
        };
        let groups: Vec<ContractGroup> = scenario.groups.iter().map(group).collect();
        let queue = queue(scenario, policy, shape);
        let translation = translate(policy, &queue, (scenario.capacity, shape), &groups)?;
        let mut paths: Vec<String> = Vec::new();
        for (place, group) in groups.iter().enumerate() {
            let above = group.parent.map_or("", |parent| &paths[parent]);
            // Group 0 is the root, so that the others are numbered from 1.
            paths.push(format!("{above}/weir-{}", place + 1));
        }
        let plan = Self {
            jobs,
            groups: paths,
            settings: translation.settings,
            observed: repetition == 0,
        };
        Ok((plan, translation.notes))
    }
}

/// Returns the settings of the queue that do not come from the policy.
fn queue(scenario: &Scenario, policy: &Policy, shape: Option<&DriveShape>) -> Queue {
    let elevator = &policy.elevator;
    let nr_requests = match (scenario.adapter.nr_requests, shape) {
        (NrRequests::Linux, None) => None,
        (NrRequests::Unbounded, _) if elevator.kind().name == "none" => None,
        // A queue has at least BLKDEV_MIN_RQ (4) requests.
        (NrRequests::Unbounded, _) => Some(scenario.sizes(policy).requests.clamp(4, TAGS_MAX)),
        (NrRequests::Linux | NrRequests::Each(_), shape) => {
            let shape = shape.copied().unwrap_or_default();
            scenario.adapter.nr_requests.tags(&shape, elevator)
        }
    };
    // Read-ahead is an attribute of the whole device. The first buffered client decides.
    let buffered = scenario.clients.iter().find_map(|c| c.buffered);
    Queue {
        nr_requests,
        read_ahead: buffered.map(|b| b.read_ahead.into()),
        nomerges: Some(scenario.merging.nomerges),
        ..Queue::default()
    }
}
