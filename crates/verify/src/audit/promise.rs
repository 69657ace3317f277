//! Audits promises: a group with a min gets it, in bytes or in requests, at every level of the
//! tree.
//!
//! In every window of a second a client or a tenant gets its min, less the time in which it had no
//! request. Time counts while some member of the group has a request in the elevator or in the
//! drive. It does not count for requests that are throttled by limits or in favour of the latency
//! of another group, for a stream on hold, for a request that was given up, and for a flush. No
//! time counts while the drive is busy and refuses commands. If a contract changes within the
//! second, each part is owed at its own rate. A client that returns when the elevator has forgotten
//! it (`forget`) finds the drive filled by others. The time until those requests are done does not
//! count either.
//!
//! Bytes count when their piece completes, with or without an error. A request counts when it is
//! done. Requests that a client gives up count as served. Two amounts may be missing from a second:
//! the one piece that is in flight at its end, and a hundredth of the min. The hundredth is of the
//! whole min, however short the time in which the client had requests, because a promise per second
//! means little over ten milliseconds.
//!
//! The rule also depends on the drive and the clients: the drive must reach its stated capacity,
//! and a client must have enough requests outstanding. So this auditor runs on request, for
//! [`crate::audit::steady`]. For random operations, where the drive answers at random, see
//! [`crate::audit::Precedence`].

use crate::audit::account::OwedAccount;
use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::{LayerModel, ModelStream, StreamState};
use crate::audit::promised::{PromisedRate, Units, mark_groups, rate};
use weir_core::{Dispatch, GroupId, Instant, Op, Span, Tag, elevator};

/// The allowed shortfall: a second that lacks this fraction (a hundredth) of the min is no
/// violation.
const LACKING: u64 = 100;

/// A group, with the account of its promise.
#[derive(Debug, Default)]
struct PromiseAccount {
    rate: Option<PromisedRate>,
    account: OwedAccount,
    /// The largest number of units of one of its pieces.
    longest: u64,
    /// The time at which it last had a request.
    asked: Instant,
    /// The tags of others that were in flight when it returned after a long pause, and still are.
    before: Vec<Tag>,
}

/// The auditor of promises, see the module's documentation.
#[derive(Debug)]
pub struct PromiseAuditor {
    groups: Vec<PromiseAccount>,
    asking: Vec<bool>,
    /// The longest pause after which the elevator still knows a group.
    forget: Span,
    /// The time up to which everything is accounted for.
    last: Instant,
    /// The time before which seconds are not checked, because the elevator has yet to learn the
    /// drive.
    from: Instant,
    /// The part of the owed amount that must be kept in each second, in thousandths.
    least: u64,
    /// The worst second so far, in thousandths of the min.
    worst: u64,
}

impl PromiseAuditor {
    /// Checks that seconds that begin at `from` or later keep `least` thousandths of the owed
    /// amount. Use 1000 if the drive can keep its promises and the clients can use them.
    pub fn new(model: &LayerModel, from: Instant, least: u64) -> Self {
        let mut groups = Vec::new();
        groups.resize_with(model.config.sizes.groups as usize, PromiseAccount::default);
        let forget = match model.config.elevator {
            elevator::Config::Contract(config) => config.forget,
            _ => Span::ZERO,
        };
        let mut promise = Self {
            groups,
            forget,
            asking: Vec::new(),
            last: model.now,
            from,
            least,
            // No second was judged yet.
            worst: u64::MAX,
        };
        promise.set(model);
        promise
    }

    /// Returns the worst second, in thousandths of the promise.
    pub fn worst(&self) -> u64 {
        self.worst
    }

    fn set(&mut self, model: &LayerModel) {
        for (i, promised) in self.groups.iter_mut().enumerate() {
            let group = model.tree.get(GroupId(i as u32));
            let rate = group.and_then(|g| rate(&g.contract));
            let units = |rate: Option<PromisedRate>| rate.map(|r| r.units);
            // If only the rate of the min changes, the amount owed so far stays owed. Bytes and
            // requests cannot be added up.
            if units(promised.rate) != units(rate) {
                promised.account.clear();
                promised.longest = 0;
            }
            promised.rate = rate;
        }
    }

    /// Advances the time, in the state after the last call.
    fn pass(&mut self, model: &LayerModel, found: &mut Violations) {
        if model.now == self.last {
            return;
        }
        mark_groups(model, &mut self.asking, |s| asks(model, s));
        for i in 0..self.groups.len() {
            let promised = &mut self.groups[i];
            let Some(rate) = promised.rate else {
                continue;
            };
            let mut counts = false;
            if self.asking[i] {
                // The elevator has forgotten the group, so that the drive may be full of pieces of
                // others.
                if self.last.since(promised.asked) > self.forget {
                    promised.before = tags_of_others(model, GroupId(i as u32));
                }
                promised.asked = model.now;
                counts = model.busy == 0 && promised.before.is_empty();
            }
            let account = &mut promised.account;
            account.advance(self.last, model.now, rate.a_second, counts);
            self.check(i, rate.units, model.now, found);
        }
        self.last = model.now;
    }

    /// Checks the second that ends now, before the current event.
    fn check(&mut self, i: usize, units: Units, now: Instant, found: &mut Violations) {
        let promised = &mut self.groups[i];
        let Some(stretch) = promised.account.latest_window(now) else {
            return;
        };
        if stretch.owed == 0 || stretch.from < self.from {
            return;
        }
        // The longest piece may be in flight at the end, and a hundredth of the whole min may be
        // missing.
        let got = stretch.got + promised.longest + stretch.whole / LACKING;
        let kept = u128::from(got) * 1_000 / u128::from(stretch.owed);
        let kept = u64::try_from(kept).unwrap_or(u64::MAX);
        self.worst = self.worst.min(kept);
        if kept < self.least {
            found.add(format_args!(
                "group {i} got {} of the {} {} it was owed since {:?}",
                stretch.got,
                stretch.owed,
                match units {
                    Units::Bytes => "bytes",
                    Units::Requests => "requests",
                },
                stretch.from
            ));
            // A new account reports a long shortfall once per second instead of at every call.
            promised.account.clear();
        }
    }

    /// Counts an amount served to a group and to those above it, in a piece of `longest` units.
    fn serve(
        &mut self,
        model: &LayerModel,
        group: GroupId,
        units: Units,
        amount: u64,
        longest: u64,
    ) {
        for group in model.tree.path(group) {
            let promised = &mut self.groups[group.0 as usize];
            if promised.rate.is_some_and(|r| r.units == units) {
                promised.account.serve(amount);
                promised.longest = promised.longest.max(longest);
            }
        }
    }
}

/// Returns the tags in flight of other groups than this one.
fn tags_of_others(model: &LayerModel, group: GroupId) -> Vec<Tag> {
    let is_other = |piece: &Dispatch| {
        let stream = model.stream(piece.stream);
        stream.is_none_or(|s| model.tree.path(s.group).all(|g| g != group))
    };
    let out = model.tags.iter().flatten().map(|flight| flight.dispatch);
    out.filter(is_other).map(|piece| piece.tag).collect()
}

/// Returns true if a stream has a request in the elevator or in the drive for which its client
/// waits.
fn asks(model: &LayerModel, stream: &ModelStream) -> bool {
    stream.state == StreamState::Open
        && model.requests_of(stream).any(|slot| {
            let live = model.request(slot);
            let passed = live.released && !live.throttled;
            passed && !live.given_up && !live.over && live.request.op != Op::Flush
        })
}

impl Auditor for PromiseAuditor {
    const NAME: &'static str = "promise";

    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        match *fact {
            Fact::Begin(_) | Fact::End => self.pass(model, found),
            Fact::Changed(_, Ok(_)) => self.set(model),
            Fact::Returned(completion, Some(flight)) if completion.outcome.is_some() => {
                let piece = &flight.dispatch;
                for promised in &mut self.groups {
                    promised.before.retain(|&tag| tag != piece.tag);
                }
                if let Some(stream) = model.stream(piece.stream)
                    && piece.op != Op::Flush
                {
                    let bytes = piece.op.charge(piece.length.into());
                    self.serve(model, stream.group, Units::Bytes, bytes, bytes);
                }
            }
            Fact::Cancelled(Some(slot), true) => {
                let live = model.request(slot);
                // The client gave these bytes up, so that the promise no longer owes them.
                let left = live.request.length - live.issued;
                let left = live.request.op.charge(left.into());
                self.serve(model, live.group, Units::Bytes, left, 0);
            }
            Fact::Done(Some(slot), _) if model.request(slot).request.op != Op::Flush => {
                self.serve(model, model.request(slot).group, Units::Requests, 1, 1);
            }
            _ => {}
        }
    }
}
