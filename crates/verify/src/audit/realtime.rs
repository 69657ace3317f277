//! Audits the realtime class: a request that has passed its limits goes before everything except
//! requests that other promises need.
//!
//! While a realtime client has something to send, the following rules hold:
//!
//! - No client without a promise gets a piece dispatched, except that each client of the idle class
//!   is served once per timeout of the idle class.
//! - A client with a promise gets at most the amount that is promised for that time and for the
//!   time that it may catch up (`catch_up`), an eighth more, and a piece.
//! - On request, the realtime client does not wait longer than a stated bound for a dispatch.
//!
//! The first two rules bound the requests that may overtake it, whatever the drive does.
//! [`crate::audit::PromiseAuditor`] checks that promises are kept alongside it.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::LayerModel;
use crate::audit::promised::{PromisedRate, mark_groups, may_wait_for_tags, rate, units_of_piece};
use weir_core::{Class, Config, Dispatch, GroupId, Instant, Op, Span, elevator};

/// A group of the realtime class.
#[derive(Debug)]
struct RealtimeClient {
    group: GroupId,
    /// The time from which on it has had something to send.
    since: Option<Instant>,
    /// The start of its wait for a dispatch. It is the later of `since` and the last dispatch.
    waits: Instant,
    /// The amounts that others were sent in the meantime, by group: units of the group's promise
    /// or, for the idle class, pieces.
    passed: Vec<(GroupId, u64)>,
}

/// The auditor of the realtime class, see the module's documentation.
#[derive(Debug)]
pub struct Realtime {
    /// The configuration of the elevator, if the elevator keeps contracts.
    config: Option<elevator::contract::Config>,
    clients: Vec<RealtimeClient>,
    sendable: Vec<bool>,
    /// The maximum wait for a dispatch, if it is checked.
    bound: Option<Span>,
    longest: Span,
}

impl Realtime {
    pub(crate) fn new(config: &Config) -> Self {
        let config = match config.elevator {
            elevator::Config::Contract(config) => Some(config),
            _ => None,
        };
        Self {
            config,
            clients: Vec::new(),
            sendable: Vec::new(),
            bound: None,
            longest: Span::ZERO,
        }
    }

    /// Starts to check that no realtime client with something to send waits longer than `bound` for
    /// a dispatch.
    pub(crate) fn watch(&mut self, bound: Span) {
        self.bound = Some(bound);
    }

    /// Returns the longest wait so far.
    pub fn longest(&self) -> Span {
        self.longest
    }

    fn set(&mut self, model: &LayerModel) {
        let realtime = model.tree.iter();
        let realtime = realtime.filter(|(_, g)| g.contract.class == Class::Realtime);
        self.clients = realtime
            .map(|(group, _)| RealtimeClient {
                group,
                since: None,
                waits: model.now,
                passed: Vec::new(),
            })
            .collect();
    }

    /// Updates which clients have something to send, and checks their waits.
    fn check_waits(&mut self, model: &LayerModel, found: &mut Violations) {
        mark_groups(model, &mut self.sendable, |s| s.sendable > 0);
        let crowded = may_wait_for_tags(model);
        for client in &mut self.clients {
            if crowded || !self.sendable[client.group.0 as usize] {
                client.since = None;
                continue;
            }
            if client.since.is_none() {
                (client.since, client.waits) = (Some(model.now), model.now);
                client.passed.clear();
            }
            let waited = model.now.since(client.waits);
            // While the drive is busy and refuses commands, nothing is dispatched.
            if model.busy > 0 {
                continue;
            }
            self.longest = self.longest.max(waited);
            if self.bound.is_some_and(|bound| waited > bound) {
                client.waits = model.now;
                found.add(format_args!("{:?} has waited for {waited:?}", client.group));
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
        let Some(config) = self.config else { return };
        let live = model.request(slot);
        let within =
            |client: &RealtimeClient, group| model.tree.path(group).any(|g| g == client.group);
        let realtime = self.clients.iter().any(|c| within(c, live.group));
        for client in &mut self.clients {
            let Some(since) = client.since else { continue };
            if within(client, live.group) {
                client.waits = model.now;
                continue;
            }
            let mut streams = model.streams();
            if realtime || !streams.any(|s| s.sendable > 0 && within(client, s.group)) {
                continue;
            }
            let time = model.now.since(since);
            let mut path = model.tree.path(live.group);
            // The dispatch is allowed if one of the groups on the path is allowed to get it.
            let may = path.any(|id| {
                let contract = &model.tree.get(id).expect("it is on a path").contract;
                let (amount, allowed) = match rate(contract) {
                    Some(rate) => {
                        let amount = units_of_piece(rate.units, piece, live);
                        // A promise may also use the time for which it may catch up.
                        let span = (time + config.catch_up).as_nanos();
                        (amount, owed_with_headroom(rate, span) + amount)
                    }
                    None if contract.class == Class::Idle => {
                        let timeout = config.idle_class_timeout.as_nanos();
                        // A client of the idle class is served once per timeout, and possibly at
                        // once. A timeout of zero serves it never.
                        (1, time.as_nanos().checked_div(timeout).map_or(0, |n| n + 1))
                    }
                    None => return false,
                };
                let passed = client.passed(id);
                *passed += amount;
                *passed <= allowed
            });
            if !may {
                client.since = None;
                found.add(format_args!(
                    "{:?} goes before {:?}, which is realtime and has had something to send for {time:?}",
                    piece.stream, client.group
                ));
            }
        }
    }
}

/// Returns the amount that a promise is worth in this many nanoseconds, and an eighth more. The
/// reservation is a little larger than the promise.
fn owed_with_headroom(rate: PromisedRate, nanos: u64) -> u64 {
    let owed = u128::from(rate.a_second) * u128::from(nanos) / 1_000_000_000;
    u64::try_from(owed + owed / 8).unwrap_or(u64::MAX / 2)
}

impl RealtimeClient {
    fn passed(&mut self, group: GroupId) -> &mut u64 {
        let at = self.passed.iter().position(|p| p.0 == group);
        let at = at.unwrap_or_else(|| {
            self.passed.push((group, 0));
            self.passed.len() - 1
        });
        &mut self.passed[at].1
    }
}

impl Auditor for Realtime {
    const NAME: &'static str = "realtime";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        if self.config.is_none() {
            return;
        }
        match *fact {
            Fact::Changed(_, Ok(_)) => self.set(model),
            _ if self.clients.is_empty() => {}
            Fact::Begin(_) | Fact::Polled(..) => self.check_waits(model, found),
            Fact::Dispatched(Some(slot), piece, false) if piece.op != Op::Flush => {
                self.dispatched(model, piece, slot, found);
            }
            _ => {}
        }
    }
}
