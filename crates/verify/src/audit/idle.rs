//! Audits the idle class: each of its clients is served once per timeout of the idle class,
//! whatever other clients do, at every level of the tree.
//!
//! A client (or tenant) of the idle class is overdue if it has something to send and has not been
//! served for `idle_class_timeout`. From then on, the number of pieces of others that are
//! dispatched before one of its own is at most the number of the drive's tags plus the number of
//! clients in the idle class. So the client waits no longer than the timeout and the time that the
//! drive needs for these pieces. The rule can be checked with any drive, even one that answers at
//! random. While the drive receives nothing, no client can be served.
//!
//! The elevator does not see requests that wait for a scheduler tag. While such requests may exist,
//! nothing is checked.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::LayerModel;
use crate::audit::promised::{mark_groups, may_wait_for_tags};
use weir_core::{Class, Dispatch, GroupId, Instant, Op, Span, elevator};

/// A group of the idle class.
#[derive(Debug)]
struct IdleClient {
    group: GroupId,
    /// The time from which on it has waited: it has had something to send since then, or was last
    /// served then.
    since: Option<Instant>,
    /// The number of pieces of others since it became overdue.
    passed: u64,
}

/// The auditor of the idle class, see the module's documentation.
#[derive(Debug)]
pub struct Idle {
    /// The timeout of the idle class. Zero if the elevator promises nothing to the idle class.
    timeout: Span,
    clients: Vec<IdleClient>,
    sendable: Vec<bool>,
    most: u64,
}

impl Idle {
    /// Checks an elevator that keeps contracts. Other elevators are not checked.
    pub fn new(model: &LayerModel) -> Self {
        let timeout = match model.config.elevator {
            elevator::Config::Contract(config) => config.idle_class_timeout,
            // Other elevators have no timeout for an idle class.
            _ => Span::ZERO,
        };
        let mut idle = Self {
            timeout,
            clients: Vec::new(),
            sendable: Vec::new(),
            most: 0,
        };
        idle.set(model);
        idle
    }

    /// Returns the largest number of pieces of others that were dispatched before an overdue
    /// client.
    pub fn most(&self) -> u64 {
        self.most
    }

    fn set(&mut self, model: &LayerModel) {
        let idle = model.tree.iter();
        let idle = idle.filter(|(_, g)| g.contract.class == Class::Idle);
        self.clients = idle
            .map(|(group, _)| IdleClient {
                group,
                since: None,
                passed: 0,
            })
            .collect();
    }

    /// Updates which clients of the idle class have something to send.
    fn update_waits(&mut self, model: &LayerModel) {
        mark_groups(model, &mut self.sendable, |s| s.sendable > 0);
        let crowded = may_wait_for_tags(model);
        for client in &mut self.clients {
            if crowded || !self.sendable[client.group.0 as usize] {
                client.since = None;
            } else if client.since.is_none() {
                (client.since, client.passed) = (Some(model.now), 0);
            }
        }
    }

    fn dispatched(
        &mut self,
        model: &LayerModel,
        piece: &Dispatch,
        slot: u32,
        found: &mut Violations,
    ) {
        let group = model.request(slot).group;
        let allowed = (model.tags.len() + self.clients.len()) as u64;
        for client in &mut self.clients {
            let Some(since) = client.since else { continue };
            if model.tree.path(group).any(|g| g == client.group) {
                (client.since, client.passed) = (Some(model.now), 0);
                continue;
            }
            let waited = model.now.since(since);
            if waited < self.timeout {
                continue;
            }
            client.passed += 1;
            self.most = self.most.max(client.passed);
            // Restarting the wait reports a starved client once per timeout instead of once per
            // piece.
            if client.passed > allowed {
                (client.since, client.passed) = (None, 0);
                found.add(format_args!(
                    "{:?} of the idle class has waited for {waited:?} and {allowed} pieces of others, and {:?} goes",
                    client.group, piece.stream
                ));
            }
        }
    }
}

impl Auditor for Idle {
    const NAME: &'static str = "idle";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        if self.timeout == Span::ZERO {
            return;
        }
        match *fact {
            Fact::Changed(_, Ok(_)) => self.set(model),
            _ if self.clients.is_empty() => {}
            Fact::Begin(_) | Fact::Polled(..) => self.update_waits(model),
            Fact::Dispatched(Some(slot), piece, false) if piece.op != Op::Flush => {
                self.dispatched(model, piece, slot, found);
            }
            _ => {}
        }
    }
}
