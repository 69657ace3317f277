//! Clients that are dealt out to drives of one kind.

use crate::check;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::modelled::Drive;
use std::num::NonZero;
use weir_config::Policy;
use weir_config::scenario::{Choice, Script};
use weir_core::random::Rng;
use weir_core::{Contract, GroupId, Promised, Span};
use weir_sim::{Alone, Scenario};

/// The clients, and what they share.
#[derive(Debug)]
pub(super) struct Fleet<'a> {
    pub(super) script: &'a Script,
    pub(super) drive: &'a Drive,
    case: Option<String>,
    seconds: Option<u32>,
    clients: usize,
    /// What each would get with a drive to itself.
    alone: Vec<Option<Alone>>,
    promised: Promised,
}

/// All clients as they are in one repetition under one policy.
#[derive(Debug)]
pub(super) struct Load {
    whole: Scenario,
    policy: Policy,
}

impl<'a> Fleet<'a> {
    /// The clients of a scenario's case.
    pub(super) fn new(
        script: &'a Script,
        drive: &'a Drive,
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
            promised: Promised::default(),
        };
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
            // One by one: what all are promised may be more than a drive can do.
            let part = load.part(&[client]);
            let alone = weir_sim::alone(&part);
            let alone = alone.map_err(|error| Failure::run(error.of(&part)))?;
            fleet.alone.extend(alone);
        }
        Ok(fleet)
    }

    /// How many clients there are.
    pub(super) fn clients(&self) -> usize {
        self.clients
    }

    /// What they are promised, all together.
    pub(super) fn promised(&self) -> Promised {
        self.promised
    }

    /// The case of the scenario; the scenario's name where it has none.
    pub(super) fn case(&self) -> &str {
        self.case.as_deref().unwrap_or_else(|| self.script.name())
    }

    /// What these would get with a drive to themselves.
    pub(super) fn alone(&self, members: &[usize]) -> Vec<Option<Alone>> {
        let alone = |at: &usize| self.alone.get(*at).copied().flatten();
        members.iter().map(alone).collect()
    }

    /// What all clients do and are promised under a policy, and the policy with what the scenario states of it.
    pub(super) fn played(&self, policy: &Policy) -> Result<(Scenario, Policy), Failure> {
        self.build(policy).map(|load| (load.whole, load.policy))
    }

    fn build(&self, policy: &Policy) -> Result<Load, Failure> {
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
        Ok(Load { whole, policy })
    }

    /// All clients in a repetition. Those that rest now and then begin at a time of their own, so that they are not all active at once; the
    /// measurement begins when all have begun.
    pub(super) fn load(&self, policy: &Policy, repetition: u32) -> Result<Load, Failure> {
        let mut load = self.build(policy)?;
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
            latest = latest.max(Span::from_nanos(round.get()));
        }
        load.whole.warm_up = load.whole.warm_up.max(latest);
        Ok(load)
    }
}

impl Load {
    /// The policy, with what the scenario states of it.
    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What a drive has to do on which only these clients are. Groups without clients promise nothing.
    pub(super) fn part(&self, members: &[usize]) -> Scenario {
        let mut part = self.whole.clone();
        part.clients = members
            .iter()
            .map(|&at| self.whole.clients[at].clone())
            .collect();
        part.awaits = None;
        part.exits = None;
        let mut used = vec![false; part.groups.len()];
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

/// A group's place in a scenario; `None` for the root.
fn index(group: GroupId) -> Option<usize> {
    (group.0 as usize).checked_sub(1)
}
