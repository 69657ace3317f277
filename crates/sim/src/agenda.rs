//! What happens at which time.

use crate::{Action, Error, Policy, Scenario};
use std::collections::VecDeque;
use weir_core::{Edit, GroupId, Instant};

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Change(Vec<Edit>),
    Arrive(u32),
    Leave(u32),
    Hold(u32, bool),
    Cancel(u32),
}

/// Everything that happens, in order.
#[derive(Debug)]
pub(crate) struct Agenda {
    items: VecDeque<(Instant, Item)>,
}

impl Agenda {
    /// Comings, then goings, then contracts that change, then actions: of those at the same time, in this order and in that of the scenario.
    pub(crate) fn new(scenario: &Scenario, policy: &Policy) -> Result<Self, Error> {
        let mut items = Vec::new();
        for (client, spec) in (0..).zip(&scenario.clients) {
            items.push((Instant::ZERO + spec.arrives, Item::Arrive(client)));
        }
        for (client, spec) in (0..).zip(&scenario.clients) {
            let leaves = spec
                .leaves
                .map(|at| (Instant::ZERO + at, Item::Leave(client)));
            items.extend(leaves);
        }
        items.extend(changes(scenario, policy));
        let known = |client: usize| match scenario.clients.get(client) {
            Some(_) => Ok(client as u32),
            None => Err(Error::NoSuchClient(client)),
        };
        for scheduled in &scenario.actions {
            let item = match &scheduled.action {
                Action::Change(edits) => Item::Change(edits.clone()),
                Action::Hold { client, held } => Item::Hold(known(*client)?, *held),
                Action::Cancel { client } => Item::Cancel(known(*client)?),
            };
            items.push((Instant::ZERO + scheduled.at, item));
        }
        items.sort_by_key(|(at, _)| *at);
        Ok(Self {
            items: items.into(),
        })
    }

    /// When the next thing happens.
    #[inline]
    pub(crate) fn next(&self) -> Option<Instant> {
        self.items.front().map(|(at, _)| *at)
    }

    /// The next thing that happens by `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Item> {
        self.items.front().filter(|(at, _)| *at <= now)?;
        self.items.pop_front().map(|(_, item)| item)
    }
}

/// The contracts that change, as the policy has them: with those of others that follow from them.
fn changes(scenario: &Scenario, policy: &Policy) -> Vec<(Instant, Item)> {
    let mut by_time = scenario.changes.clone();
    by_time.sort_by_key(|change| change.at);
    let mut changed = scenario.clone();
    let mut before = scenario.set_up(policy).contracts().to_vec();
    let each = by_time.into_iter().map(|change| {
        changed.groups[change.group.0 as usize - 1].contract = change.contract;
        let now = changed.set_up(policy).contracts().to_vec();
        let told = (1..).map(GroupId).zip(before.iter().zip(&now));
        let told = told.filter(|(id, (before, now))| *id == change.group || before != now);
        let edits = told.map(|(id, (_, now))| Edit::SetContract { id, contract: *now });
        let item = Item::Change(edits.collect());
        before = now;
        (Instant::ZERO + change.at, item)
    });
    each.collect()
}
