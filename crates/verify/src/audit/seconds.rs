//! Audits the metrics' verdicts about promises: every promised second is kept, short or excused, in
//! agreement with a slow count.
//!
//! A [`Promise`] is maintained for each group as in the server, with the same calls at the same
//! times. In addition, the auditor keeps a list of all events of the current second. When a second
//! ends, it derives from the list how long requests waited, the amount that was owed for that time,
//! and the amount that was served. The slow count does not compute the reason why a second was not
//! kept. It only checks that no second is excused by a limit if no request was throttled.
//!
//! If the min changes within a second, both counts round the owed amount down for each part of the
//! second.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::LayerModel;
use crate::audit::promised::{PromisedRate, Units, rate};
use weir_core::{Config, Done, GroupId, Op, Outcome, Span, StreamId};
use weir_measure::promise::{Excuse, Promise, Seconds as Sums};
use weir_measure::{SECOND_NS, WindowTotals};

/// The auditor of the metrics' verdicts, see the module's documentation.
#[derive(Debug)]
pub struct SecondsAuditor {
    groups: Vec<GroupSeconds>,
    /// The streams, by slot.
    streams: Vec<PromisedStream>,
    /// The amount that all groups together were served in the current second.
    drive: WindowTotals,
    /// The end of the current second, in nanoseconds.
    ends: u64,
}

/// The groups of a stream and the number of its requests.
#[derive(Debug)]
struct PromisedStream {
    id: StreamId,
    /// The group of the stream, and those above.
    path: Vec<u32>,
    held: bool,
    /// The number of its live requests without flushes.
    live: u32,
}

/// The two counts of a group that are compared: that of the metrics and the slow one.
#[derive(Debug)]
struct GroupSeconds {
    promise: Promise,
    slow: SlowCount,
}

/// The slow count of a group.
#[derive(Debug, Default)]
struct SlowCount {
    /// The events of the current second, in order.
    events: Vec<(u64, SecondEvent)>,
    /// The number of waiting requests when the second began, without those of streams on hold.
    waiting: i64,
    /// The rate when the second began.
    rate: Option<PromisedRate>,
    /// True if the rate was in force from the beginning of the second on.
    whole: bool,
    /// The rate at the present time.
    now: Option<PromisedRate>,
    got: WindowTotals,
    /// The length in bytes of the longest request or piece so far.
    longest: u64,
    /// The amount of this second that was credited to the previous one.
    advanced: u64,
    /// True if a request was throttled by a limit.
    limited: bool,
    sums: VerdictCounts,
}

/// An event that changes the amount that a second is owed.
#[derive(Clone, Copy, Debug)]
enum SecondEvent {
    /// The number of waiting requests changes by this amount.
    Waits(i64),
    /// The rate of the promise changes to this one.
    Rate(Option<PromisedRate>),
}

/// The number of seconds by verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct VerdictCounts {
    promised: u64,
    kept: u64,
    /// Seconds that were not kept and in which no request waited.
    quiet: u64,
    /// All other seconds that were not kept.
    lacking: u64,
}

impl VerdictCounts {
    /// Sums up the verdicts of a promise.
    fn of(sums: &Sums) -> Self {
        let quiet = [Excuse::Idle, Excuse::Suspended].map(|e| sums.excused[e as usize]);
        let quiet = quiet.iter().sum();
        Self {
            promised: sums.promised,
            kept: sums.kept,
            quiet,
            lacking: sums.all_short() + sums.all_excused() - quiet,
        }
    }
}

impl SecondsAuditor {
    /// Creates the auditor of a layer with this configuration.
    pub fn new(config: &Config) -> Self {
        let group = || GroupSeconds {
            promise: Promise::new(0, None),
            slow: SlowCount::default(),
        };
        let mut groups = Vec::new();
        groups.resize_with(config.sizes.groups as usize, group);
        Self {
            groups,
            streams: Vec::new(),
            drive: WindowTotals::default(),
            ends: SECOND_NS,
        }
    }

    /// Returns the verdicts about all groups together.
    pub fn sums(&self) -> Sums {
        let mut all = Sums::default();
        for group in &self.groups {
            all.merge(group.promise.seconds());
        }
        all
    }

    /// Ends all seconds that are over at the present time, and compares their verdicts.
    fn pass(&mut self, model: &LayerModel, found: &mut Violations) {
        let now = model.now.as_nanos();
        if now < self.ends {
            return;
        }
        let limited = self.limited(model);
        for (id, (group, limited)) in self.groups.iter_mut().zip(limited).enumerate() {
            if let Some(fault) = group.end_seconds(now, self.ends, self.drive, limited) {
                found.add(format_args!("group {id}: {fault}"));
            }
        }
        self.drive = WindowTotals::default();
        // Several seconds may have passed without a call.
        self.ends = (now / SECOND_NS + 1) * SECOND_NS;
    }

    /// Returns the number of requests of each group that have not passed their limits.
    fn limited(&self, model: &LayerModel) -> Vec<u32> {
        let mut limited = vec![0; self.groups.len()];
        for stream in self.streams.iter().filter(|s| s.live > 0) {
            let Some(known) = model.stream(stream.id) else {
                continue;
            };
            let requests = model.requests_of(known).map(|slot| model.request(slot));
            let held = requests.filter(|live| !live.released).count();
            for group in &stream.path {
                limited[*group as usize] += held as u32;
            }
        }
        limited
    }

    fn stream(&mut self, id: StreamId) -> Option<&mut PromisedStream> {
        let stream = self.streams.get_mut(id.slot() as usize)?;
        (stream.id == id).then_some(stream)
    }

    /// Applies an event that happens now to the promises above a stream.
    fn apply_to_promises(
        &mut self,
        model: &LayerModel,
        id: StreamId,
        tell: impl Fn(&mut Promise, &mut SlowCount),
    ) {
        let Some(stream) = self.streams.get(id.slot() as usize) else {
            return;
        };
        if stream.id != id {
            return;
        }
        let now = model.now.as_nanos();
        for group in &stream.path {
            let group = &mut self.groups[*group as usize];
            group.promise.pass(now, WindowTotals::default(), 0);
            tell(&mut group.promise, &mut group.slow);
        }
    }

    fn opened(&mut self, model: &LayerModel, id: StreamId, group: GroupId) {
        let stream = PromisedStream {
            id,
            path: model.tree.path(group).map(|g| g.0).collect(),
            held: false,
            live: 0,
        };
        let slot = id.slot() as usize;
        if let Some(before) = self.streams.get(slot) {
            // The closed stream in this slot no longer suspends its requests.
            if before.held {
                let (gone, live) = (before.id, before.live);
                self.apply_to_promises(model, gone, |promise, _| promise.suspend(live, false));
            }
            self.streams[slot] = stream;
            return;
        }
        // The slots between were never opened, and their entries match no id.
        while self.streams.len() < slot {
            self.streams.push(PromisedStream {
                id: StreamId::from_bits(u64::MAX),
                path: Vec::new(),
                held: false,
                live: 0,
            });
        }
        self.streams.push(stream);
    }

    fn held(&mut self, model: &LayerModel, id: StreamId, held: bool) {
        let Some(stream) = self.stream(id) else {
            return;
        };
        if std::mem::replace(&mut stream.held, held) == held {
            return;
        }
        let live = stream.live;
        let now = model.now.as_nanos();
        let more = if held { -i64::from(live) } else { live.into() };
        self.apply_to_promises(model, id, |promise, slow| {
            promise.suspend(live, held);
            slow.events.push((now, SecondEvent::Waits(more)));
        });
    }

    fn accepted(&mut self, model: &LayerModel, slot: u32) {
        let live = model.request(slot);
        let id = live.request.stream;
        if live.request.op == Op::Flush {
            return;
        }
        let Some(stream) = self.stream(id) else {
            return;
        };
        stream.live += 1;
        let held = stream.held;
        let now = model.now.as_nanos();
        let asked = live.request.charge();
        self.apply_to_promises(model, id, |promise, slow| {
            promise.sent(held);
            promise.note_request_bytes(asked);
            slow.longest = slow.longest.max(asked);
            slow.events
                .push((now, SecondEvent::Waits(i64::from(!held))));
        });
    }

    fn done(&mut self, model: &LayerModel, slot: u32, done: &Done) {
        let request = &model.request(slot).request;
        let id = request.stream;
        if request.op == Op::Flush {
            return;
        }
        let Some(stream) = self.stream(id) else {
            return;
        };
        stream.live = stream.live.saturating_sub(1);
        let held = stream.held;
        let now = model.now.as_nanos();
        let ok = done.outcome == Outcome::Ok;
        self.drive.requests += u64::from(ok);
        self.apply_to_promises(model, id, |promise, slow| {
            promise.ended(done, held, false);
            slow.events
                .push((now, SecondEvent::Waits(-i64::from(!held))));
            slow.limited |= done.waits.limit > Span::ZERO;
            slow.got.requests += u64::from(ok);
        });
    }

    fn served(&mut self, model: &LayerModel, id: StreamId, bytes: u64) {
        self.drive.bytes += bytes;
        self.apply_to_promises(model, id, |promise, slow| {
            promise.served(bytes);
            slow.got.bytes += bytes;
            slow.longest = slow.longest.max(bytes);
        });
    }

    fn changed(&mut self, model: &LayerModel) {
        let now = model.now.as_nanos();
        for (id, group) in self.groups.iter_mut().enumerate() {
            let known = model.tree.get(GroupId(id as u32));
            let rate = known.and_then(|g| rate(&g.contract));
            if rate == group.slow.now {
                continue;
            }
            group.promise.pass(now, WindowTotals::default(), 0);
            group.promise.change(rate);
            group.slow.now = rate;
            group.slow.events.push((now, SecondEvent::Rate(rate)));
        }
    }
}

impl GroupSeconds {
    /// Ends the current second, at `ends`, and those after it up to `now`. Returns a description of
    /// the first disagreement.
    fn end_seconds(
        &mut self,
        now: u64,
        ends: u64,
        mut drive: WindowTotals,
        limited: u32,
    ) -> Option<String> {
        let slow = &mut self.slow;
        slow.limited |= limited > 0;
        let mut end = ends;
        while end <= now {
            self.promise.pass(end, drive, limited);
            // The second that just ended got the bytes, and those after it were empty.
            drive = WindowTotals::default();
            slow.end_second(end);
            let sums = self.promise.seconds();
            let counted = VerdictCounts::of(sums);
            let all = sums.kept + sums.all_short() + sums.all_excused();
            if sums.promised != all {
                return Some(format!("{sums:?} do not add up"));
            }
            if counted != slow.sums {
                // The slow count continues with the verdicts of the metrics, so that a disagreement
                // is reported once.
                let slow = std::mem::replace(&mut slow.sums, counted);
                return Some(format!(
                    "{sums:?} where {slow:?} were counted, up to {end} ns"
                ));
            }
            if sums.excused[Excuse::Limit as usize] > 0 && !slow.limited {
                return Some(format!("{sums:?}, and no limit held anything"));
            }
            end += SECOND_NS;
        }
        None
    }
}

impl SlowCount {
    /// Evaluates the second that ends at `end`.
    fn end_second(&mut self, end: u64) {
        let (mut at, mut rate, mut whole) = (end - SECOND_NS, self.rate, self.whole);
        // The amount that is owed at the previous rates, and the times with a waiting request: at
        // the current rate, and in all.
        let (mut owed, mut waited, mut all) = (0, 0, 0);
        let units = |rate: Option<PromisedRate>| rate.map(|r| r.units);
        let due = |rate: Option<PromisedRate>, ns: u64| {
            let amount = rate.map_or(0, |r| u128::from(r.a_second) * u128::from(ns));
            (amount / u128::from(SECOND_NS)) as u64
        };
        let last = (end, SecondEvent::Waits(0));
        for (when, event) in self.events.drain(..).chain([last]) {
            if self.waiting > 0 {
                waited += when - at;
                all += when - at;
            }
            at = when;
            match event {
                SecondEvent::Waits(more) => self.waiting += more,
                SecondEvent::Rate(other) => {
                    owed += due(rate, waited);
                    // Amounts in bytes and in requests cannot be compared, so that the promise
                    // begins again.
                    if units(rate) != units(other) {
                        whole = false;
                        self.advanced = 0;
                    }
                    (rate, waited) = (other, 0);
                }
            }
        }
        owed += due(rate, waited);
        let got = std::mem::take(&mut self.got);
        (self.rate, self.whole) = (rate, rate.is_some());
        if let Some(rate) = rate.filter(|_| whole) {
            self.judge(rate, owed, all, got);
        }
    }

    fn judge(&mut self, rate: PromisedRate, owed: u64, waited: u64, got: WindowTotals) {
        self.sums.promised += 1;
        let advanced = std::mem::take(&mut self.advanced);
        let (got, one) = match rate.units {
            Units::Bytes => (got.bytes, self.longest),
            Units::Requests => (got.requests, 1),
        };
        if waited == 0 {
            // The second is kept if its whole min was served although no request waited.
            let whole = rate.a_second - rate.a_second / 100 + advanced;
            let kept = u64::from(got > 0 && got >= whole);
            self.sums.kept += kept;
            self.sums.quiet += 1 - kept;
            return;
        }
        // One piece may be in flight at the end of the second. It is credited to this second and
        // owed by the next.
        let one = if self.waiting > 0 { one } else { 0 };
        let needs = owed.saturating_sub(rate.a_second / 100) + advanced;
        if got + one >= needs {
            self.advanced = needs.saturating_sub(got);
            self.sums.kept += 1;
        } else {
            self.advanced = one;
            self.sums.lacking += 1;
        }
    }
}

impl Auditor for SecondsAuditor {
    const NAME: &'static str = "seconds";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        match *fact {
            Fact::Begin(_) | Fact::End => self.pass(model, found),
            Fact::Opened(id, spec) => self.opened(model, id, spec.group),
            Fact::Held(id, held) => self.held(model, id, held),
            Fact::Accepted(slot) => self.accepted(model, slot),
            Fact::Done(Some(slot), done) => self.done(model, slot, done),
            Fact::Returned(completion, Some(flight)) if completion.outcome == Some(Outcome::Ok) => {
                let piece = &flight.dispatch;
                if piece.op != Op::Flush {
                    self.served(model, piece.stream, piece.op.charge(piece.length.into()));
                }
            }
            Fact::Changed(_, Ok(_)) => self.changed(model),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::Waits;

    /// Returns the disagreement for a group with this promise and one request of 1000 bytes at a
    /// time, which takes 100 ms. The slow count misses request `missed`.
    fn fault(min: u64, missed: u64) -> Option<String> {
        let mut group = GroupSeconds {
            promise: Promise::new(0, PromisedRate::new(min, 0)),
            slow: SlowCount {
                rate: PromisedRate::new(min, 0),
                whole: true,
                waiting: 1,
                ..SlowCount::default()
            },
        };
        group.promise.sent(false);
        // Three seconds of ten requests each.
        for n in 1..=30 {
            let now = n * SECOND_NS / 10;
            group.promise.pass(now - 1, WindowTotals::default(), 0);
            group.promise.served(1_000);
            group.promise.answered(Waits::default());
            group.slow.longest = 1_000;
            group.slow.got.bytes += if n == missed { 0 } else { 1_000 };
            if n % 10 == 0 {
                let found = group.end_seconds(now, now, WindowTotals::default(), 0);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    #[test]
    fn a_count_that_does_not_agree_is_found() {
        // Ten requests of 1,000 bytes per second: 10,000 bytes are kept, 20,000 are short, and both
        // counts agree. With 11,000, a missed request turns a kept second into a short one.
        assert_eq!(fault(10_000, 0), None);
        assert_eq!(fault(20_000, 0), None);
        assert!(fault(11_000, 5).is_some_and(|w| w.contains("were counted")));
    }
}
