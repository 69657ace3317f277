//! Everything that is to be done under a kernel for a run: what is set, and what is played.

use crate::play::{Jobs, Refused};
use crate::{Group, Setting, translate};
use serde::{Deserialize, Serialize};
use weir_config::Policy;
use weir_config::apply::Queue;
use weir_config::scenario::{NrRequests, Scenario};
use weir_core::DriveShape;

/// Scheduler tags at most (`MAX_SCHED_RQ`).
const TAGS_MAX: u32 = 2048;

/// What is set, and what is played. Another process can read it back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The clients.
    pub jobs: Jobs,
    /// Groups of the scenario, by their paths below the root; the first is group 1.
    pub groups: Vec<String>,
    /// What is set, in order.
    pub settings: Vec<Setting>,
}

/// Why there is no plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// Fio has nothing for the scenario.
    #[error(transparent)]
    Scenario(#[from] Refused),
    /// The kernel has nothing for the policy.
    #[error(transparent)]
    Policy(#[from] crate::Refused),
}

impl Plan {
    /// The plan of a repetition of a scenario, as it is [under](Scenario::under) the policy. `shape`: of the drive, where the device is a model;
    /// a real device has the kernel's own number of requests. Returns what the kernel is not as the policy, too, a sentence each.
    ///
    /// # Errors
    /// It cannot be played.
    pub fn new(
        scenario: &Scenario,
        policy: &Policy,
        repetition: u32,
        shape: Option<&DriveShape>,
    ) -> Result<(Self, Vec<String>), Error> {
        let jobs = Jobs::new(scenario, repetition)?;
        let group = |g: &weir_config::scenario::GroupSpec| Group {
            parent: (g.parent.0 as usize).checked_sub(1),
            contract: g.contract,
            knobs: g.knobs,
        };
        let groups: Vec<Group> = scenario.groups.iter().map(group).collect();
        let queue = queue(scenario, policy, shape);
        let translation = translate(policy, &queue, (scenario.capacity, shape), &groups)?;
        let mut paths: Vec<String> = Vec::new();
        for (place, group) in groups.iter().enumerate() {
            let above = group.parent.map_or("", |parent| &paths[parent]);
            paths.push(format!("{above}/weir-{}", place + 1));
        }
        let plan = Self {
            jobs,
            groups: paths,
            settings: translation.settings,
        };
        Ok((plan, translation.notes))
    }
}

/// What the queue is set to beside the policy.
fn queue(scenario: &Scenario, policy: &Policy, shape: Option<&DriveShape>) -> Queue {
    let elevator = &policy.elevator;
    let nr_requests = match (scenario.adapter.nr_requests, shape) {
        (NrRequests::Linux, None) => None,
        (NrRequests::Unbounded, _) if elevator.kind().name == "none" => None,
        (NrRequests::Unbounded, _) => Some(scenario.sizes(policy).requests.clamp(4, TAGS_MAX)),
        (NrRequests::Linux | NrRequests::Each(_), shape) => {
            let shape = shape.copied().unwrap_or_default();
            scenario.adapter.nr_requests.tags(&shape, elevator)
        }
    };
    let buffered = scenario.clients.iter().find_map(|c| c.buffered);
    Queue {
        nr_requests,
        read_ahead: buffered.map(|b| b.read_ahead.into()),
        nomerges: Some(scenario.merging.nomerges),
        ..Queue::default()
    }
}
