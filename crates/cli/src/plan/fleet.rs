//! Clients that are distributed among drives of one kind.

use crate::check;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::modelled::PlayedDrive;
use std::num::NonZero;
use weir_config::Policy;
use weir_config::scenario::{Choice, Script};
use weir_core::random::Rng;
use weir_core::{Contract, GroupId, PromiseSums, Span};
use weir_sim::{PerformanceAlone, Scenario};

/// The clients of a scenario, and the kind of drives that they share.
#[derive(Debug)]
pub(super) struct PlanFleet<'a> {
    pub(super) script: &'a Script,
    pub(super) drive: &'a PlayedDrive,
    case: Option<String>,
    seconds: Option<u32>,
    clients: usize,
    /// The bandwidth and latency of each client without contention.
    alone: Vec<Option<PerformanceAlone>>,
    promised: PromiseSums,
}

/// The clients of one repetition under one policy.
#[derive(Debug)]
pub(super) struct FleetLoad {
    /// The scenario with all clients, of which each drive gets a part.
    whole: Scenario,
    policy: Policy,
}

impl<'a> PlanFleet<'a> {
    /// Prepares the clients of a scenario's case, and simulates each of them without contention.
    ///
    /// # Errors
    /// No client has a promise, a run failed, or an interrupt ended it.
    pub(super) fn new(
        script: &'a Script,
        drive: &'a PlayedDrive,
        case: Option<String>,
        seconds: Option<u32>,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        let mut fleet = Self {
            script,
            drive,
            case,
            seconds,
            clients: 0,
            alone: Vec::new(),
            promised: PromiseSums::default(),
        };
        // The policy `contract` keeps every kind of promise, so its scenario shows whether there
        // are any.
        let load = fleet.build(&Policy::contract())?;
        let whole = &load.whole;
        fleet.promised = whole.promised();
        fleet.clients = whole.clients.len();
        let promises = |at| {
            let contract: Contract = whole.contract(at);
            contract.min > 0 || contract.min_iops > 0
        };
        if !(0..fleet.clients).any(promises) {
            let reason = format!(
                "nothing to plan: no client in scenario {:?} has a promise under policy contract; set a `min`",
                script.name()
            );
            return Err(Failure::Usage(reason));
        }
        for client in 0..fleet.clients {
            if let Some(signal) = interrupt.signal() {
                let reason = "the rates of single clients are not complete";
                return Err(Failure::Interrupted(signal, reason.into()));
            }
            // Each client is simulated on its own. A drive might not admit the promises of all
            // clients together.
            let part = load.part(&[client]);
            let alone = weir_sim::measure_alone(&part);
            let alone = alone.map_err(|error| Failure::run(error.message_for(&part)))?;
            fleet.alone.extend(alone);
        }
        Ok(fleet)
    }

    /// Returns the number of clients.
    pub(super) fn clients(&self) -> usize {
        self.clients
    }

    /// Returns the sum of all promises.
    pub(super) fn promised(&self) -> PromiseSums {
        self.promised
    }

    /// Returns the case of the scenario, or the scenario's name if it has no cases.
    pub(super) fn case(&self) -> &str {
        self.case.as_deref().unwrap_or_else(|| self.script.name())
    }

    /// Returns the bandwidth and latency of these clients without contention.
    pub(super) fn alone(&self, members: &[usize]) -> Vec<Option<PerformanceAlone>> {
        let alone = |at: &usize| self.alone.get(*at).copied().flatten();
        members.iter().map(alone).collect()
    }

    /// Returns the scenario of all clients under a policy, and the policy with the settings that
    /// the scenario makes for it.
    pub(super) fn played(&self, policy: &Policy) -> Result<(Scenario, Policy), Failure> {
        self.build(policy).map(|load| (load.whole, load.policy))
    }

    /// Builds the scenario under a policy, without random starts of clients.
    fn build(&self, policy: &Policy) -> Result<FleetLoad, Failure> {
        let choice = Choice {
            drive: &self.drive.config,
            capacity: self.drive.capacity(),
            case: self.case.as_deref(),
            policy: &policy.name,
            seconds: self.seconds,
        };
        let refuse = |problems: Vec<_>| check::refuse(&problems);
        let whole = self.script.scenario(&choice).map_err(refuse)?;
        let mut policy = policy.clone();
        self.script.tune(&choice, &mut policy).map_err(refuse)?;
        let whole = whole.under(&policy);
        Ok(FleetLoad { whole, policy })
    }

    /// Returns the clients of one repetition. Clients that pause begin at random times, so that
    /// they are not all active at once. The measurement begins when all of them have begun.
    pub(super) fn load(&self, policy: &Policy, repetition: u32) -> Result<FleetLoad, Failure> {
        let mut load = self.build(policy)?;
        // The largest number is not that of a client, so these random numbers are independent of
        // those of the clients.
        let mut rng = Rng::new(weir_model::load::seed(
            self.script.name(),
            repetition,
            u32::MAX,
        ));
        let mut latest = Span::ZERO;
        for client in &mut load.whole.clients {
            let Some(activity) = client.program.activity else {
                continue;
            };
            let round = activity.on.as_nanos() + activity.off.as_nanos();
            let round = NonZero::new(round).expect("it works for a while");
            let later = Span::from_nanos(rng.below(round));
            client.program.start += later;
            // The start is random within one round of activity and pause, so all clients have begun
            // after the longest round.
            latest = latest.max(Span::from_nanos(round.get()));
        }
        load.whole.warm_up = load.whole.warm_up.max(latest);
        Ok(load)
    }
}

impl FleetLoad {
    /// Returns the policy with the settings that the scenario makes for it.
    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the scenario of one drive with these clients only. Groups without clients on this
    /// drive lose their contracts.
    pub(super) fn part(&self, members: &[usize]) -> Scenario {
        let mut part = self.whole.clone();
        part.clients = members
            .iter()
            .map(|&at| self.whole.clients[at].clone())
            .collect();
        // Requirements such as `await` and `exitall` refer to clients by number, and these numbers
        // have changed.
        part.awaits = None;
        part.exits = None;
        let mut used = vec![false; part.groups.len()];
        // The contracts of a client's groups apply on this drive, up to the root.
        for client in &part.clients {
            let mut at = client.group;
            while let Some(index) = index(at) {
                used[index] = true;
                at = part.groups[index].parent;
            }
        }
        let unused = part.groups.iter_mut().zip(used).filter(|(_, used)| !used);
        for (group, _) in unused {
            group.contract = Contract::DEFAULT;
        }
        part
    }
}

/// Returns the index of a group in a scenario, or `None` for the root.
fn index(group: GroupId) -> Option<usize> {
    (group.0 as usize).checked_sub(1)
}
