//! Promises: a group with a min gets it, in bytes or in requests, at every level of the tree.
//!
//! In every window of a second a client or a tenant gets its min, less the time in which it had no request: time counts while
//! some member of it has a request in the elevator or in the drive. Requests that are throttled by limits or in favour of another
//! group's latency do not count, nor does a stream on hold, a request that was given up, or a flush. No time counts while the
//! drive is busy and refuses commands. If a contract changes within the second, each part is owed at its own rate. A client that
//! returns when the elevator has forgotten it (`forget`) finds the drive filled by others; the time until those
//! requests are done does not count either.
//!
//! Bytes count when their piece completes, with or without an error, a request when it is done; what a client gives up counts as
//! served. Two things may be missing from a second: the one piece that is in flight at its end, and a hundredth of the min (of
//! the whole min, however short the time in which the client had requests, since a promise per second says little about ten
//! milliseconds).
//!
//! Whether this holds also depends on the drive and the clients: the drive must reach its stated capacity, and a client must have
//! enough requests outstanding. So this auditor is on request, for [`crate::audit::steady`]; for random operations, where the drive
//! answers at random, see [`crate::audit::Precedence`].

use crate::audit::account::Account;
use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Found;
use crate::audit::model::{Model, State, Stream};
use crate::audit::promised::{Rate, Units, mark, rate};
use weir_core::{Dispatch, GroupId, Instant, Op, Span, Tag, elevator};

/// A second that lacks this part of the min is no violation.
const LACKING: u64 = 100;

/// One group.
#[derive(Debug, Default)]
struct Promised {
    rate: Option<Rate>,
    account: Account,
    /// The most units of one of its pieces.
    longest: u64,
    /// When it last had a request.
    asked: Instant,
    /// Tags of others that were in flight when it came back after a long pause, and still are.
    before: Vec<Tag>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Promise {
    groups: Vec<Promised>,
    asking: Vec<bool>,
    /// After a longer pause than this it counts as new.
    forget: Span,
    /// Time up to which everything is accounted for.
    last: Instant,
    /// Seconds that begin before this are not checked, since the elevator has yet to learn the drive.
    from: Instant,
    /// The part of what a second is owed that must be kept, in thousandths.
    least: u64,
    /// The worst second so far, in thousandths of the min.
    worst: u64,
}

impl Promise {
    /// Checks that in seconds that begin at `from` or later `least` thousandths of what is owed are kept: 1000 if the drive can
    /// keep its promises and the clients can use them.
    pub fn new(model: &Model, from: Instant, least: u64) -> Self {
        let mut groups = Vec::new();
        groups.resize_with(model.config.sizes.groups as usize, Promised::default);
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
            worst: u64::MAX,
        };
        promise.set(model);
        promise
    }

    /// The worst second, in thousandths of what was promised.
    pub fn worst(&self) -> u64 {
        self.worst
    }

    fn set(&mut self, model: &Model) {
        for (i, promised) in self.groups.iter_mut().enumerate() {
            let group = model.tree.get(GroupId(i as u32));
            let rate = group.and_then(|g| rate(&g.contract));
            let units = |rate: Option<Rate>| rate.map(|r| r.units);
            // If the min changes, what was owed so far stays owed.
            if units(promised.rate) != units(rate) {
                promised.account.restart();
                promised.longest = 0;
            }
            promised.rate = rate;
        }
    }

    /// Advances the time, in the state after the last call.
    fn pass(&mut self, model: &Model, found: &mut Found) {
        if model.now == self.last {
            return;
        }
        mark(model, &mut self.asking, |s| asks(model, s));
        for i in 0..self.groups.len() {
            let promised = &mut self.groups[i];
            let Some(rate) = promised.rate else {
                continue;
            };
            let mut counts = false;
            if self.asking[i] {
                if self.last.since(promised.asked) > self.forget {
                    promised.before = others_out(model, GroupId(i as u32));
                }
                promised.asked = model.now;
                counts = model.busy == 0 && promised.before.is_empty();
            }
            let account = &mut promised.account;
            account.pass(self.last, model.now, rate.a_second, counts);
            self.check(i, rate.units, model.now, found);
        }
        self.last = model.now;
    }

    /// Checks the second that ends now, before the current event.
    fn check(&mut self, i: usize, units: Units, now: Instant, found: &mut Found) {
        let promised = &mut self.groups[i];
        let Some(stretch) = promised.account.stretch(now) else {
            return;
        };
        if stretch.owed == 0 || stretch.from < self.from {
            return;
        }
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
            promised.account.restart();
        }
    }

    /// A group and those above it were served, in one piece of `longest`.
    fn serve(&mut self, model: &Model, group: GroupId, units: Units, amount: u64, longest: u64) {
        for group in model.tree.path(group) {
            let promised = &mut self.groups[group.0 as usize];
            if promised.rate.is_some_and(|r| r.units == units) {
                promised.account.serve(amount);
                promised.longest = promised.longest.max(longest);
            }
        }
    }
}

/// Tags in flight of other groups than this one.
fn others_out(model: &Model, group: GroupId) -> Vec<Tag> {
    let is_other = |piece: &Dispatch| {
        let stream = model.stream(piece.stream);
        stream.is_none_or(|s| model.tree.path(s.group).all(|g| g != group))
    };
    let out = model.tags.iter().flatten().map(|flight| flight.dispatch);
    out.filter(is_other).map(|piece| piece.tag).collect()
}

/// Whether a stream has a request in the elevator or in the drive that its client waits for.
fn asks(model: &Model, stream: &Stream) -> bool {
    stream.state == State::Open
        && model.requests_of(stream).any(|slot| {
            let live = model.request(slot);
            let passed = live.released && !live.throttled;
            passed && !live.given_up && !live.over && live.request.op != Op::Flush
        })
}

impl Auditor for Promise {
    const NAME: &'static str = "promise";

    fn fact(&mut self, model: &Model, fact: &Fact<'_>, found: &mut Found) {
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
