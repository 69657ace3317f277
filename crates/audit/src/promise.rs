//! Promises: whoever has a min gets it, in bytes or in requests, at every level of the tree.
//!
//! In every stretch of a second a client or a tenant gets its min, less the time in which it asked for nothing: time counts while
//! some member of it has a request in the elevator or in the drive. What its limits hold back and what is held for another's
//! latency does not count as asking, nor does a stream on hold, a request that was given up, or a flush. No time counts while the
//! drive refuses what it is given. A contract that changes within the second is owed its part before and its part after. Who comes
//! back after so long that the elevator has forgotten it (`forget`) finds the drive full of what others were given meanwhile: the time
//! until that is done does not count either.
//!
//! Bytes count when their piece comes back, whatever the drive made of it, a request when it is done; what a client gives up counts
//! as if it had been served. A second may lack the one piece that was under way at its end, and a hundredth of the min: of all of it,
//! however short a part of the second somebody asked, for a promise by the second says little of ten milliseconds.
//!
//! Whether that holds is a matter of the drive and the clients, too: the drive must do what its capacity says, and a client must ask for
//! enough at a time. So this auditor is on request, for [`crate::steady`]; among random operations, where the drive answers at
//! random, see [`crate::Precedence`].

use crate::account::Account;
use crate::auditor::{Auditor, Fact};
use crate::found::Found;
use crate::model::{Model, State, Stream};
use crate::promised::{Rate, Units, mark, moved};
use weir_core::{Dispatch, GroupId, Instant, Op, Span, Tag, elevator};

/// A second that lacks this part of the min is no violation.
const LACKING: u64 = 100;

/// One group.
#[derive(Debug, Default)]
struct Promised {
    rate: Option<Rate>,
    account: Account,
    /// The most that a piece of it counted.
    longest: u64,
    /// When it asked for something last.
    asked: Instant,
    /// Tags of others that were out when it came back after a long pause, and still are.
    before: Vec<Tag>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Promise {
    groups: Vec<Promised>,
    asking: Vec<bool>,
    /// After a pause longer than this it comes back as one who is new.
    forget: Span,
    /// Until here all is accounted for.
    last: Instant,
    /// Seconds that begin before this are not looked at: the elevator has yet to know the drive.
    from: Instant,
    /// What has to be kept of what a second is owed, in thousandths.
    least: u64,
    /// The worst second there was, in thousandths of the min.
    worst: u64,
}

impl Promise {
    /// Watches that in seconds that begin at `from` or later `least` thousandths of what is owed are kept: 1000 if the drive can keep
    /// its promises and the clients can use them.
    pub fn new(model: &Model, from: Instant, least: u64) -> Self {
        let mut groups = Vec::new();
        groups.resize_with(model.config.limits.groups as usize, Promised::default);
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
            let rate = group.and_then(|g| Rate::of(&g.contract));
            let units = |rate: Option<Rate>| rate.map(|r| r.units);
            // With another amount, what was owed so far stays owed.
            if units(promised.rate) != units(rate) {
                promised.account.restart();
                promised.longest = 0;
            }
            promised.rate = rate;
        }
    }

    /// Time has passed, in the state that the last call left.
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

    /// The second that ends now, before what is done now.
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
            found.add(
                Self::NAME,
                format_args!(
                    "group {i} got {} of the {} {} it was owed since {:?}",
                    stretch.got,
                    stretch.owed,
                    match units {
                        Units::Bytes => "bytes",
                        Units::Requests => "requests",
                    },
                    stretch.from
                ),
            );
            promised.account.restart();
        }
    }

    /// So much was done for a group and those above it, in one piece of `longest`.
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

/// Tags that are out for others than a group.
fn others_out(model: &Model, group: GroupId) -> Vec<Tag> {
    let is_other = |piece: &Dispatch| {
        let stream = model.stream(piece.stream);
        stream.is_none_or(|s| model.tree.path(s.group).all(|g| g != group))
    };
    let out = model.tags.iter().flatten().map(|flight| flight.dispatch);
    out.filter(is_other).map(|piece| piece.tag).collect()
}

/// A stream has a request in the elevator or in the drive that somebody waits for.
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
                    let bytes = moved(piece.op, piece.length).into();
                    self.serve(model, stream.group, Units::Bytes, bytes, bytes);
                }
            }
            Fact::Cancelled(Some(slot), true) => {
                let live = model.request(slot);
                let left = moved(live.request.op, live.request.length - live.issued);
                self.serve(model, live.group, Units::Bytes, left.into(), 0);
            }
            Fact::Done(Some(slot), _) if model.request(slot).request.op != Op::Flush => {
                self.serve(model, model.request(slot).group, Units::Requests, 1, 1);
            }
            _ => {}
        }
    }
}
