//! The planned events of a run, in order of time.

use crate::{Action, Policy, Scenario, SimError};
use std::collections::VecDeque;
use weir_core::{Edit, GroupId, Instant};

/// A planned event of a run.
#[derive(Clone, Debug)]
pub(crate) enum AgendaItem {
    Change(Vec<Edit>),
    Arrive(u32),
    Leave(u32),
    Hold(u32, bool),
    Cancel(u32),
}

/// All planned events of a run, in the order in which they happen.
#[derive(Debug)]
pub(crate) struct Agenda {
    items: VecDeque<(Instant, AgendaItem)>,
}

impl Agenda {
    /// Collects the events of a scenario. At the same time, clients connect first, then clients
    /// disconnect, then contracts change, then actions happen. Within each kind, the order of the
    /// scenario applies.
    pub(crate) fn new(scenario: &Scenario, policy: &Policy) -> Result<Self, SimError> {
        let mut items = Vec::new();
        for (client, spec) in (0..).zip(&scenario.clients) {
            items.push((Instant::ZERO + spec.arrives, AgendaItem::Arrive(client)));
        }
        for (client, spec) in (0..).zip(&scenario.clients) {
            let leaves = spec
                .leaves
                .map(|at| (Instant::ZERO + at, AgendaItem::Leave(client)));
            items.extend(leaves);
        }
        items.extend(contract_changes(scenario, policy));
        let known = |client: usize| match scenario.clients.get(client) {
            Some(_) => Ok(client as u32),
            None => Err(SimError::NoSuchClient(client)),
        };
        for scheduled in &scenario.actions {
            let item = match &scheduled.action {
                Action::Change(edits) => AgendaItem::Change(edits.clone()),
                Action::Hold { client, held } => AgendaItem::Hold(known(*client)?, *held),
                Action::Cancel { client } => AgendaItem::Cancel(known(*client)?),
            };
            items.push((Instant::ZERO + scheduled.at, item));
        }
        // The sort is stable, so that events of the same time keep the order of insertion.
        items.sort_by_key(|(at, _)| *at);
        Ok(Self {
            items: items.into(),
        })
    }

    /// The time of the next event.
    #[inline]
    pub(crate) fn next(&self) -> Option<Instant> {
        self.items.front().map(|(at, _)| *at)
    }

    /// Removes and returns the next event that happens by `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<AgendaItem> {
        self.items.front().filter(|(at, _)| *at <= now)?;
        self.items.pop_front().map(|(_, item)| item)
    }
}

/// The changes of contracts. A policy can derive settings of other groups from a contract, so the
/// derived changes are part of the same event.
fn contract_changes(scenario: &Scenario, policy: &Policy) -> Vec<(Instant, AgendaItem)> {
    let mut by_time = scenario.changes.clone();
    by_time.sort_by_key(|change| change.at);
    let mut changed = scenario.clone();
    let mut before = scenario.set_up(policy).contracts().to_vec();
    let each = by_time.into_iter().map(|change| {
        // Group 0 is the root, so that group 1 has index 0 in the list.
        changed.groups[change.group.0 as usize - 1].contract = change.contract;
        let now = changed.set_up(policy).contracts().to_vec();
        let told = (1..).map(GroupId).zip(before.iter().zip(&now));
        // The group itself is always included, so that an event is never empty. Groups whose
        // settings are the same are left out.
        let told = told.filter(|(id, (before, now))| *id == change.group || before != now);
        let edits = told.map(|(id, (_, now))| Edit::SetContract { id, contract: *now });
        let item = AgendaItem::Change(edits.collect());
        before = now;
        (Instant::ZERO + change.at, item)
    });
    each.collect()
}
