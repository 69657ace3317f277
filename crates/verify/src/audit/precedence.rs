//! Audits precedence: a client without a promise is not served before a client or tenant whose
//! promise is behind.
//!
//! A group goes before all groups without a promise if it has had something to send throughout a
//! second and was not sent its min in it (99 %, and a piece in flight). This holds for every drive:
//! if the drive was too slow for the promise, it was too slow for others as well. So the rule can
//! be checked with random operations. The idle class is exempt, because it is served from time to
//! time.
//!
//! The elevator does not see requests that wait for a scheduler tag. While such requests may exist,
//! nothing is checked.

use crate::audit::account::{AccountWindow, OwedAccount};
use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::LayerModel;
use crate::audit::promised::{PromisedRate, mark_groups, may_wait_for_tags, rate, units_of_piece};
use weir_core::{Class, Config, Dispatch, GroupId, Instant, Op, elevator};

/// The part of the min that suffices, in thousandths.
const KEPT: u64 = 990;

/// A group with a min, and the account of the requests that were sent for it.
#[derive(Debug)]
struct PromisedGroup {
    group: GroupId,
    rate: PromisedRate,
    account: OwedAccount,
    /// The largest number of units of one of its pieces.
    longest: u64,
}

/// The auditor of precedence, see the module's documentation.
#[derive(Debug)]
pub struct Precedence {
    /// True if the elevator keeps contracts.
    watches: bool,
    promised: Vec<PromisedGroup>,
    sendable: Vec<bool>,
    last: Instant,
}

impl Precedence {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            watches: matches!(config.elevator, elevator::Config::Contract(_)),
            promised: Vec::new(),
            sendable: Vec::new(),
            last: Instant::ZERO,
        }
    }

    /// Applies changed contracts. The accounts of unchanged mins continue.
    fn set(&mut self, model: &LayerModel) {
        let mut before = std::mem::take(&mut self.promised);
        for (id, group) in model.tree.iter() {
            // Realtime clients go before all others, and the auditor
            // [`Realtime`](crate::audit::Realtime) checks their service.
            let Some(rate) =
                rate(&group.contract).filter(|_| group.contract.class == Class::BestEffort)
            else {
                continue;
            };
            // An account continues only if the rate is the same, because owed amounts cannot be
            // converted.
            let known = before.iter().position(|p| p.group == id && p.rate == rate);
            self.promised.push(match known {
                Some(at) => before.swap_remove(at),
                None => PromisedGroup {
                    group: id,
                    rate,
                    account: OwedAccount::default(),
                    longest: 0,
                },
            });
        }
    }

    /// Advances the time, in the state after the last call.
    fn pass(&mut self, model: &LayerModel) {
        mark_groups(model, &mut self.sendable, |s| s.sendable > 0);
        let crowded = may_wait_for_tags(model);
        for promised in &mut self.promised {
            // A gap in the wait ends the second, since the rule applies only to clients that wait
            // throughout.
            if crowded || !self.sendable[promised.group.0 as usize] {
                promised.account.clear();
            } else if model.now > self.last {
                let rate = promised.rate.a_second;
                promised.account.advance(self.last, model.now, rate, true);
            }
        }
        self.last = model.now;
    }

    fn dispatched(
        &mut self,
        model: &LayerModel,
        piece: &Dispatch,
        slot: u32,
        found: &mut Violations,
    ) {
        let live = model.request(slot);
        let path = || model.tree.path(live.group);
        // A group is excused if it or a group above it has a promise, or is of another class.
        let excused = path().any(|id| {
            model.tree.get(id).is_some_and(|g| {
                g.contract.class != Class::BestEffort || rate(&g.contract).is_some()
            })
        });
        for promised in &mut self.promised {
            if path().any(|g| g == promised.group) {
                let amount = units_of_piece(promised.rate.units, piece, live);
                promised.account.serve(amount);
                promised.longest = promised.longest.max(amount);
            } else if !excused && let Some(stretch) = promised.behind(model) {
                found.add(format_args!(
                    "{:?}, which is promised nothing, goes before {:?}, which was sent {} of {} since {:?}",
                    piece.stream, promised.group, stretch.got, stretch.owed, stretch.from
                ));
                promised.account.clear();
            }
        }
    }
}

impl PromisedGroup {
    /// Returns the second in which the group was not sent its min, if it still has something to
    /// send.
    fn behind(&mut self, model: &LayerModel) -> Option<AccountWindow> {
        let stretch = self.account.latest_window(model.now)?;
        // The piece at the end of the second may be in flight without being counted.
        let sent = u128::from(stretch.got) + u128::from(self.longest);
        if sent * 1_000 >= u128::from(stretch.owed) * u128::from(KEPT) {
            return None;
        }
        let within = |group| model.tree.path(group).any(|g| g == self.group);
        let mut streams = model.streams();
        streams
            .any(|s| s.sendable > 0 && within(s.group))
            .then_some(stretch)
    }
}

impl Auditor for Precedence {
    const NAME: &'static str = "precedence";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        if !self.watches {
            return;
        }
        match *fact {
            Fact::Changed(_, Ok(_)) => self.set(model),
            _ if self.promised.is_empty() => self.last = model.now,
            Fact::Begin(_) => self.pass(model),
            Fact::Dispatched(Some(slot), piece, false) if piece.op != Op::Flush => {
                self.dispatched(model, piece, slot, found);
            }
            _ => {}
        }
    }
}
