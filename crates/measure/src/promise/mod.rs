//! Judges whether promises are kept. The server's metrics, the demo, comparisons and the search all
//! use this module.
//!
//! A promise is a number of bytes or requests per second. Every whole second in which it is in
//! force is a *promised* second, and is exactly one of:
//!
//! - *kept*: the client got the amount that it was owed
//! - *short*: the client got less, by some amount and for one [`Cause`]
//! - *excused*: the promise did not apply, for one reason ([`Excuse`])
//!
//! The client is owed the min for the time in which it had a request waiting. A gap without a
//! request reduces the owed amount by the length of the gap and no more. A client that got the
//! whole min is not owed more. Two amounts may be missing from a second: 1 % of the min (of the
//! whole min, however short the time in which the client waited), and the one request that is in
//! flight when the second ends. That request then counts for this second, and not for the next.
//!
//! A second that is not kept is excused in these cases:
//!
//! - The client had no request outstanding, or did not read its replies.
//!
//! - The client's requests were throttled by its max for more than half of their time.
//! - The queue depth was so low that the client would have missed its min even with the drive to
//!   itself, and it got at least half of the amount that it would have got then.
//! - The server of a remote storage was too slow or not reachable, and no other client got the
//!   missing amount.
//! - The client would have got the owed amount if a busy host had not kept it or its server
//!   waiting.
//!
//! Otherwise the second is short. The result over a whole run is the promise's [`Fate`].
//!
//! [`SecondWatch`] turns events into [`Second`]s, [`Judge`] gives each a verdict, [`Seconds`] adds
//! the verdicts up, and [`Promise`] combines the three for a promise that is watched while it is in
//! force. Discards count as 512 bytes. Flushes neither count nor wait.

mod cause;
mod fate;
mod judge;
mod watch;

pub use cause::{Blame, Cause, SecondWaits};
pub use fate::Fate;
pub use judge::{
    AloneRequest, Excuse, Judge, PromiseVerdict, RunContext, RunVerdicts, Seconds, ShortSecond,
    Terms,
};
pub use watch::{RemoteStorage, Second, SecondWatch, ServerTime};

use crate::{SECOND_NS, WindowTotals};
use weir_core::{Contract, Done, Outcome, Waits};

/// The units of a promise: bytes or requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Units {
    /// Bytes that are read and written.
    Bytes,
    /// Requests, whatever their length.
    Requests,
}

impl Units {
    /// Returns the amount in these units.
    pub fn of(self, done: WindowTotals) -> u64 {
        match self {
            Self::Bytes => done.bytes,
            Self::Requests => done.requests,
        }
    }
}

/// A guaranteed minimum rate (min).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromisedRate {
    /// The units of the rate.
    pub units: Units,
    /// The number of units per second.
    pub a_second: u64,
}

impl PromisedRate {
    /// Returns the rate of a contract that promises `bytes` or `requests` per second, or `None` if
    /// it promises neither.
    pub fn new(bytes: u64, requests: u64) -> Option<Self> {
        let (units, a_second) = match (bytes, requests) {
            (0, 0) => return None,
            (0, requests) => (Units::Requests, requests),
            (bytes, _) => (Units::Bytes, bytes),
        };
        Some(Self { units, a_second })
    }

    /// Returns the min of a contract, or `None` if the contract promises nothing.
    pub fn of(contract: &Contract) -> Option<Self> {
        Self::new(contract.min, contract.min_iops)
    }

    /// Returns true if `amount` units per second are less than the rate by more than the tolerance
    /// of a second.
    pub fn exceeds(&self, amount: f64) -> bool {
        let tolerated = self.a_second as f64 / judge::LACKING as f64;
        amount < self.a_second as f64 - tolerated
    }

    /// Returns the amount owed in `ns` nanoseconds, rounded down.
    pub fn during(&self, ns: u64) -> u64 {
        let amount = u128::from(self.a_second) * u128::from(ns) / u128::from(SECOND_NS);
        u64::try_from(amount).unwrap_or(u64::MAX)
    }
}

/// The verdict on a second that has ended, with its amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruling {
    /// The end of the second, in nanoseconds of the caller's clock.
    pub ends_ns: u64,
    /// The promise that was in force.
    pub rate: PromisedRate,
    /// The amount owed in the second, in the units of the promise.
    pub owed: u64,
    /// The amount served in the second, in the units of the promise.
    pub got: u64,
    /// The verdict on the second.
    pub verdict: PromiseVerdict,
    /// The nanoseconds in which at least one request waited.
    pub waited_ns: u64,
    /// True if the second was kept although the client got less than its min, because the client
    /// had nothing outstanding for more than half of it.
    pub unasked: bool,
}

/// A promise in force, with its verdicts. Events must be reported in the order in which they
/// happen.
///
/// Seconds are whole seconds of the caller's clock. A second in which the promise was not in force
/// from beginning to end is not promised. If only the rate changed, each part of the second is owed
/// at its own rate.
#[derive(Debug, Clone)]
pub struct Promise {
    watch: SecondWatch,
    judge: Judge,
    rate: Option<PromisedRate>,
    /// True if a promise in the same units has been in force since the current second began.
    whole: bool,
    /// The amount owed in the current second before the rate changed, and the time waited until
    /// then.
    before: (u64, u64),
    /// The mean of recent requests that were alone in the drive, and their number, at most
    /// [`ALONE`].
    alone: (AloneRequest, u64),
    /// The state of the storage, if it is on another machine.
    pool: RemoteStorage,
    /// The time of the thread that serves the client.
    server: ServerTime,
    /// The waits of requests in the second that ends next, and in those that end at the same call.
    standing: Option<[SecondWaits; 2]>,
    /// The cause that kept the client from getting more in the last second, and the nanoseconds in
    /// which it had a request waiting.
    last: (Option<Blame>, u64),
}

/// The number of requests alone in the drive from which on their latency is used. Each further
/// request replaces one eighth of the mean. With fewer requests, no second is excused for its queue
/// depth, because one of these requests may have met a late host.
const ALONE: u64 = 8;

impl Promise {
    /// Creates a promise that is in force from `now_ns` on, or `None` for no promise yet.
    pub fn new(now_ns: u64, rate: Option<PromisedRate>) -> Self {
        let mut watch = SecondWatch::new(0);
        watch.begin(now_ns);
        Self {
            watch,
            judge: Judge::default(),
            rate,
            whole: now_ns.is_multiple_of(SECOND_NS),
            before: (0, 0),
            alone: (
                AloneRequest {
                    latency_ns: 0,
                    bytes: 0,
                },
                0,
            ),
            pool: RemoteStorage::Fit,
            server: ServerTime::default(),
            standing: None,
            last: (None, 0),
        }
    }

    /// Changes the promise from now on. Time must have [passed](Self::pass) up to now.
    pub fn change(&mut self, rate: Option<PromisedRate>) {
        let units = |rate: Option<PromisedRate>| rate.map(|r| r.units);
        if rate == self.rate {
            return;
        }
        if units(rate) == units(self.rate) {
            let waited = self.watch.waited_ns();
            self.before = (self.owed(waited), waited);
        } else {
            // Amounts in different units cannot be added, so this second is not judged.
            self.whole = false;
            self.before = (0, 0);
            self.judge.forget();
        }
        self.rate = rate;
    }

    /// Returns the promised rate.
    pub fn rate(&self) -> Option<PromisedRate> {
        self.rate
    }

    /// Returns the verdicts on the seconds that have ended.
    pub fn seconds(&self) -> &Seconds {
        self.judge.seconds()
    }

    /// Returns the nanoseconds in which at least one request waited, whether the promise was in
    /// force or not.
    pub fn waited_ns(&self) -> u64 {
        self.watch.all_waited_ns()
    }

    /// Returns the number of outstanding requests, including those on hold.
    pub fn live(&self) -> u32 {
        self.watch.live()
    }

    /// Returns true if a promise is in force and no request completed in the current second
    /// although some are outstanding. Then it matters whether they are throttled.
    pub fn is_still(&self) -> bool {
        self.rate.is_some() && self.watch.is_still()
    }

    /// Advances the time to `now_ns`. `drive` is the amount that all clients of the drive together
    /// were served in the current second, and `limited` is the number of this client's requests
    /// that are throttled now.
    #[inline]
    pub fn pass(&mut self, now_ns: u64, drive: WindowTotals, limited: u32) {
        self.pass_with_rulings(now_ns, drive, limited, |_| {});
    }

    /// Advances the time like [`pass`](Self::pass), and reports the verdict on each second that
    /// ends.
    #[inline]
    pub fn pass_with_rulings(
        &mut self,
        now_ns: u64,
        drive: WindowTotals,
        limited: u32,
        tell: impl FnMut(Ruling),
    ) {
        if now_ns < self.watch.ends() {
            self.watch.advance(now_ns);
        } else {
            self.end(now_ns, drive, limited, tell);
        }
    }

    fn end(
        &mut self,
        now_ns: u64,
        mut drive: WindowTotals,
        limited: u32,
        mut tell: impl FnMut(Ruling),
    ) {
        while self.watch.ends() <= now_ns {
            let mut second = self.watch.end();
            // `limited` was counted now, and `live` at the end of the second.
            second.limited = limited.min(second.live);
            second.pool = self.pool;
            // `take` leaves zero for the further seconds that end at this call.
            second.server = std::mem::take(&mut self.server);
            // The first second has waits of its own, and all further ones share the second entry.
            second.standing = self.standing.map(|[first, _]| first);
            self.standing = self.standing.map(|[_, later]| [later; 2]);
            second.others = WindowTotals {
                bytes: drive.bytes.saturating_sub(second.done.bytes),
                requests: drive.requests.saturating_sub(second.done.requests),
            };
            let owed = self.owed(second.waited_ns);
            self.last = (second.limited_by(), second.waited_ns);
            if let Some(rate) = self.rate.filter(|_| self.whole) {
                let (mean, count) = self.alone;
                let alone = (count == ALONE).then_some(mean);
                let terms = Terms { rate, alone };
                let verdict = self.judge.second(&second, &terms, owed);
                let ruling = Ruling {
                    ends_ns: self.watch.ends() - SECOND_NS,
                    rate,
                    owed,
                    got: rate.units.of(second.done),
                    verdict,
                    waited_ns: second.waited_ns,
                    unasked: second.is_unasked(verdict, &rate),
                };
                match verdict {
                    PromiseVerdict::Short { why, .. } => self.last.0 = Some(why),
                    // An idle second keeps the cause that its requests indicate.
                    PromiseVerdict::Excused(Excuse::Idle) => {}
                    PromiseVerdict::Excused(why) => self.last.0 = Some(why.cause().into()),
                    PromiseVerdict::Kept if ruling.unasked => {
                        self.last.0 = Some(Cause::ClientIdle.into());
                    }
                    PromiseVerdict::Kept => {}
                }
                tell(ruling);
            }
            // The promise is in force for the whole of the next second, unless it changes again.
            (self.whole, self.before) = (self.rate.is_some(), (0, 0));
            // All that was served was served in the first of these seconds.
            drive = WindowTotals::default();
        }
        self.standing = None;
        self.watch.advance(now_ns);
    }

    /// Returns the amount that the client is owed in the current second after waiting for
    /// `waited_ns`.
    fn owed(&self, waited_ns: u64) -> u64 {
        let (owed, until) = self.before;
        let since = self.rate.map_or(0, |r| r.during(waited_ns - until));
        owed.saturating_add(since)
    }

    /// Records that a request begins to wait. `held` is true if its client does not read its
    /// replies. For this and the following methods, time must have passed up to now.
    #[inline]
    pub fn sent(&mut self, held: bool) {
        self.watch.sent(held);
    }

    /// Records that a request that was found just now has been waiting since `since_ns`. Only time
    /// in which no other request was outstanding is added. If the request continues to wait,
    /// [`sent`](Self::sent) must follow.
    pub fn waits_since(&mut self, since_ns: u64) {
        self.watch.waits_since(since_ns);
    }

    /// Records that the request that is [sent](Self::sent) is for `bytes`.
    #[inline]
    pub fn note_request_bytes(&mut self, bytes: u64) {
        self.watch.note_request_bytes(bytes);
    }

    /// Records that a request that was [sent](Self::sent) ended, with or without an error.
    #[inline]
    pub fn end_request(&mut self, held: bool) {
        self.watch.end_request(held);
    }

    /// Records that a request that was [sent](Self::sent) ended as described by `done`. `alone` is
    /// true if it had the drive to itself.
    #[inline]
    pub fn ended(&mut self, done: &Done, held: bool, alone: bool) {
        // The charge counts a discard as 512 bytes.
        let bytes = done.op.charge(done.length.into());
        self.end_request(held);
        match done.outcome {
            Outcome::Ok => {
                self.answered(done.waits);
                if alone {
                    self.alone(done.waits.drive.as_nanos(), bytes);
                }
            }
            Outcome::Error(_) => self.watch.failed(bytes),
            // Cancelled requests count neither as served nor as failed.
            Outcome::Cancelled => {}
        }
    }

    /// Records that `bytes` of a request were served.
    #[inline]
    pub fn served(&mut self, bytes: u64) {
        self.watch.served(bytes);
    }

    /// Records that a request completed without an error after these waits.
    #[inline]
    pub fn answered(&mut self, waits: Waits) {
        self.watch.answered(waits);
    }

    /// Sets the state of a storage on another machine in the seconds that end next.
    pub fn pool(&mut self, pool: RemoteStorage) {
        self.pool = pool;
    }

    /// Sets the time of the thread that serves the client, for the second that ends next.
    pub fn server(&mut self, time: ServerTime) {
        self.server = time;
    }

    /// Sets the waits of the client's requests in the second that ends next, and in each of the
    /// seconds that end at the same call.
    pub fn standing(&mut self, standing: Option<[SecondWaits; 2]>) {
        self.standing = standing;
    }

    /// Returns the cause that kept the client from getting more in the last whole second, promised
    /// or not. It is the reason of the verdict if the second was short, or excused for a reason
    /// other than [`Excuse::Idle`].
    pub fn last_cause(&self) -> Option<Blame> {
        self.last.0
    }

    /// Returns the fraction (0 to 1) of the last whole second in which the client had nothing
    /// outstanding.
    pub fn last_idle(&self) -> f64 {
        1.0 - (self.last.1 as f64 / SECOND_NS as f64).min(1.0)
    }

    /// Records that a client stops or resumes reading its replies, or has disconnected. `requests`
    /// of it are put on hold or released.
    pub fn suspend(&mut self, requests: u32, held: bool) {
        self.watch.suspend(requests, held);
    }

    /// Learns from a request of `bytes` that had the drive to itself and took `drive_ns` there.
    fn alone(&mut self, drive_ns: u64, bytes: u64) {
        let (mean, before) = self.alone;
        // The mean is a plain one up to [`ALONE`] requests, and then an exponential one.
        let count = (before + 1).min(ALONE);
        let mix = |mean: u64, value: u64| mean - mean / count + value / count;
        let mean = AloneRequest {
            latency_ns: mix(mean.latency_ns, drive_ns),
            bytes: mix(mean.bytes, bytes),
        };
        self.alone = (mean, count);
    }
}

#[cfg(test)]
mod tests;
