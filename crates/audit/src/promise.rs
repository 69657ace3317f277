//! Promises: a client with a min gets it in every second in which it had a request waiting or in the drive throughout.
//!
//! A request counts when it is done; so a second may lack the one that was under way at its end. As the contract says, a second
//! with 99 % of the min is no violation.

use crate::auditor::{Auditor, Fact};
use crate::found::Found;
use crate::model::Model;
use std::collections::VecDeque;
use weir_core::{GroupId, Instant, Span};

const SECOND: Span = Span::from_secs(1);

/// One group with a min.
#[derive(Debug, Default)]
struct Promised {
    /// Bytes a second.
    min: u64,
    /// Live requests of its streams.
    live: u32,
    /// Since when there has been one at every moment. Who asks at the very instant of the answer before has made no pause.
    since: Instant,
    /// When the last of them ended.
    ended: Option<Instant>,
    /// What was done in the last second: when, and how much.
    done: VecDeque<(Instant, u64)>,
    sum: u64,
    longest: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Promise {
    groups: Vec<Promised>,
    /// Seconds that begin before this are not looked at: the elevator has yet to know the drive.
    from: Instant,
    /// The worst second there was, in thousandths of the min.
    worst: u64,
}

impl Promise {
    /// Watches seconds that begin at `from` or later. The drive must be able to keep its promises, and the clients to use them.
    pub fn new(model: &Model, from: Instant) -> Self {
        let mut groups = Vec::new();
        groups.resize_with(model.config.limits.groups as usize, Promised::default);
        let mut promise = Self {
            groups,
            from,
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
            let min = group.map_or(0, |g| g.contract.min);
            if min != promised.min {
                promised.since = model.now;
            }
            promised.min = min;
        }
    }

    /// The second that ends now, before what is done now.
    fn check(&mut self, i: usize, now: Instant, found: &mut Found) {
        let promised = &mut self.groups[i];
        let begin = now.back(SECOND);
        while let Some(&(at, bytes)) = promised.done.front()
            && at <= begin
        {
            promised.sum -= bytes;
            promised.done.pop_front();
        }
        if promised.live == 0 || promised.since > begin || self.from > begin {
            return;
        }
        let got = promised.sum + promised.longest;
        self.worst = self.worst.min(got * 1000 / promised.min);
        if got * 100 < promised.min * 99 {
            let min = promised.min;
            found.add(
                Self::NAME,
                format_args!(
                    "group {i} got {} bytes in a second, not {min}",
                    promised.sum
                ),
            );
            promised.since = now;
        }
    }
}

impl Auditor for Promise {
    const NAME: &'static str = "promise";

    fn fact(&mut self, model: &Model, fact: &Fact<'_>, found: &mut Found) {
        match *fact {
            Fact::Changed(_, Ok(_)) => self.set(model),
            Fact::Accepted(slot) => {
                let live = model.request(slot);
                for group in model.tree.path(live.group) {
                    let promised = &mut self.groups[group.0 as usize];
                    if promised.live == 0 && promised.ended != Some(model.now) {
                        promised.since = model.now;
                    }
                    promised.live += 1;
                    promised.longest = promised.longest.max(live.request.length.into());
                }
            }
            Fact::Done(Some(slot), done) => {
                let group = model.request(slot).group;
                for group in model.tree.path(group) {
                    let i = group.0 as usize;
                    if self.groups[i].min > 0 {
                        self.check(i, model.now, found);
                    }
                    let promised = &mut self.groups[i];
                    promised.live -= 1;
                    promised.ended = Some(model.now);
                    promised.sum += u64::from(done.length);
                    promised.done.push_back((model.now, done.length.into()));
                }
            }
            _ => {}
        }
    }
}
