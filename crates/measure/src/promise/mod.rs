//! Whether a promise was kept. The server's metrics, the demo, comparisons and the search all decide it here.
//!
//! A promise is a number of bytes or requests per second. Every whole second in which it is in force is a *promised* second, and is
//! exactly one of
//!
//! - *kept*: the client got what it was owed,
//! - *short*: it did not, by some amount, and [for this reason](Cause),
//! - *excused*: the promise did not apply, [for this reason](Excuse).
//!
//! The client is owed the min for the time in which it had a request waiting. A gap without one reduces the second by the gap's own
//! length and no more; a client that got the whole min is not owed more. Two things may be missing from a second: a hundredth of the
//! min (of the whole min, however short the time in which the client waited), and the one request that is in flight when the second
//! ends. That request then counts for this second, not for the next.
//!
//! A second that is not kept is excused if the client's requests were throttled by its max for more than half of their time. It is
//! also excused if the queue depth was so low that the client would have missed its min with the drive to itself, provided that it
//! got at least half of what it would have got then; and if the server of a remote storage was too slow or away, and nobody else got what
//! is missing. Otherwise the second is short.
//!
//! What became of a promise over a whole run is its [`Fate`].
//!
//! [`Watch`] turns events into [`Second`]s, [`Judge`] gives each a verdict, [`Seconds`] adds the verdicts up, and [`Promise`]
//! combines the three for a promise that is watched while it is in force. Discards count as 512 bytes; flushes neither count nor
//! wait.

mod cause;
mod fate;
mod judge;
mod watch;

pub use cause::{Blame, Cause, Standing};
pub use fate::Fate;
pub use judge::{Alone, Beside, Excuse, Judge, Judged, Seconds, ShortSecond, Terms, Verdict};
pub use watch::{Pool, Second, ServerTime, Watch};

use crate::{SECOND_NS, Window};
use weir_core::{Contract, Done, Outcome, Waits};

/// The units of a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Units {
    /// Bytes.
    Bytes,
    /// Requests.
    Requests,
}

impl Units {
    /// The amount in these units.
    pub fn of(self, done: Window) -> u64 {
        match self {
            Self::Bytes => done.bytes,
            Self::Requests => done.requests,
        }
    }
}

/// A guaranteed minimum rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Its units.
    pub units: Units,
    /// Units per second.
    pub a_second: u64,
}

impl Rate {
    /// The min of a contract that promises `bytes` or `requests` per second; `None` if it promises neither.
    pub fn new(bytes: u64, requests: u64) -> Option<Self> {
        let (units, a_second) = match (bytes, requests) {
            (0, 0) => return None,
            (0, requests) => (Units::Requests, requests),
            (bytes, _) => (Units::Bytes, bytes),
        };
        Some(Self { units, a_second })
    }

    /// The min of a contract; `None` if the contract promises nothing.
    pub fn of(contract: &Contract) -> Option<Self> {
        Self::new(contract.min, contract.min_iops)
    }

    /// Whether `amount` units per second are less than the rate by more than a second may lack.
    pub fn exceeds(&self, amount: f64) -> bool {
        let tolerated = self.a_second as f64 / judge::LACKING as f64;
        amount < self.a_second as f64 - tolerated
    }

    /// The amount owed in `ns` nanoseconds, rounded down.
    pub fn during(&self, ns: u64) -> u64 {
        let amount = u128::from(self.a_second) * u128::from(ns) / u128::from(SECOND_NS);
        u64::try_from(amount).unwrap_or(u64::MAX)
    }
}

/// The verdict about a second that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruling {
    /// When the second ended, in nanoseconds of the caller's clock.
    pub ends_ns: u64,
    /// The promise.
    pub rate: Rate,
    /// The amount owed in it, in the promise's units.
    pub owed: u64,
    /// The amount served in it, in the promise's units.
    pub got: u64,
    /// The verdict.
    pub verdict: Verdict,
    /// Nanoseconds in which at least one request waited.
    pub waited_ns: u64,
    /// It was kept although the client got less than its whole min, because the client had nothing outstanding for more than half of it.
    pub unasked: bool,
}

/// A promise in force and its verdicts. It must be told events in the order in which they happen.
///
/// Seconds are whole seconds of the caller's clock. A second in which the promise was not in force from beginning to end is not
/// promised; if only the rate changed, each part of the second is owed at its own rate.
#[derive(Debug, Clone)]
pub struct Promise {
    watch: Watch,
    judge: Judge,
    rate: Option<Rate>,
    /// It was in force when the current second began.
    whole: bool,
    /// What was owed in the current second before the rate changed, and the time waited until then.
    before: (u64, u64),
    /// The mean of the last requests that were alone in the drive, and their number, at most [`ALONE`].
    alone: (Alone, u64),
    /// What the storage does, where another machine has it.
    pool: Pool,
    /// What the thread does that serves the client.
    server: ServerTime,
    /// What the requests waited for in the second that ends next, and in those that end with it.
    standing: Option<[Standing; 2]>,
    /// What kept the client from more in the last second, and for how long it had a request waiting in it, nanoseconds.
    last: (Option<Blame>, u64),
}

/// The number of requests alone in the drive from which their latency is known; with each further one an eighth is forgotten. Fewer
/// excuse nothing, since one of them may have met a late host.
const ALONE: u64 = 8;

impl Promise {
    /// A promise in force from `now_ns` on, or `None` for no promise yet.
    pub fn new(now_ns: u64, rate: Option<Rate>) -> Self {
        let mut watch = Watch::new(0);
        watch.begin(now_ns);
        Self {
            watch,
            judge: Judge::default(),
            rate,
            whole: now_ns.is_multiple_of(SECOND_NS),
            before: (0, 0),
            alone: (
                Alone {
                    latency_ns: 0,
                    bytes: 0,
                },
                0,
            ),
            pool: Pool::Fit,
            server: ServerTime::default(),
            standing: None,
            last: (None, 0),
        }
    }

    /// Changes the promise from now on. Time has [passed](Self::pass) up to now.
    pub fn change(&mut self, rate: Option<Rate>) {
        let units = |rate: Option<Rate>| rate.map(|r| r.units);
        if rate == self.rate {
            return;
        }
        if units(rate) == units(self.rate) {
            let waited = self.watch.waited_ns();
            self.before = (self.owed(waited), waited);
        } else {
            self.whole = false;
            self.before = (0, 0);
            self.judge.forget();
        }
        self.rate = rate;
    }

    /// The promised rate.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// The verdicts about the seconds that have ended.
    pub fn seconds(&self) -> &Seconds {
        self.judge.seconds()
    }

    /// Nanoseconds in which at least one request waited, whether the promise was in force or not.
    pub fn waited_ns(&self) -> u64 {
        self.watch.all_waited_ns()
    }

    /// Requests outstanding, whether they are on hold or not.
    pub fn live(&self) -> u32 {
        self.watch.live()
    }

    /// No request completed in the current second though some are outstanding, so it matters whether they are throttled.
    pub fn is_still(&self) -> bool {
        self.rate.is_some() && self.watch.is_still()
    }

    /// Advances the time to `now_ns`. In the second that was current, all clients of the drive together were served `drive`;
    /// `limited` requests of this client are throttled now.
    #[inline]
    pub fn pass(&mut self, now_ns: u64, drive: Window, limited: u32) {
        self.pass_told(now_ns, drive, limited, |_| {});
    }

    /// As [`pass`](Self::pass), and tells the verdict about each second that ends thereby.
    #[inline]
    pub fn pass_told(
        &mut self,
        now_ns: u64,
        drive: Window,
        limited: u32,
        tell: impl FnMut(Ruling),
    ) {
        if now_ns < self.watch.ends() {
            self.watch.advance(now_ns);
        } else {
            self.end(now_ns, drive, limited, tell);
        }
    }

    fn end(&mut self, now_ns: u64, mut drive: Window, limited: u32, mut tell: impl FnMut(Ruling)) {
        while self.watch.ends() <= now_ns {
            let mut second = self.watch.end();
            second.limited = limited.min(second.live);
            second.pool = self.pool;
            second.server = std::mem::take(&mut self.server);
            second.standing = self.standing.map(|[first, _]| first);
            self.standing = self.standing.map(|[_, later]| [later; 2]);
            second.others = Window {
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
                    Verdict::Short { why, .. } => self.last.0 = Some(why),
                    Verdict::Excused(Excuse::Idle) => {}
                    Verdict::Excused(why) => self.last.0 = Some(why.cause().into()),
                    Verdict::Kept if ruling.unasked => {
                        self.last.0 = Some(Cause::ClientIdle.into());
                    }
                    Verdict::Kept => {}
                }
                tell(ruling);
            }
            (self.whole, self.before) = (self.rate.is_some(), (0, 0));
            // Everything was served in the first of these seconds.
            drive = Window::default();
        }
        self.standing = None;
        self.watch.advance(now_ns);
    }

    /// What the client is owed in the current second after waiting for `waited_ns`.
    fn owed(&self, waited_ns: u64) -> u64 {
        let (owed, until) = self.before;
        let since = self.rate.map_or(0, |r| r.during(waited_ns - until));
        owed.saturating_add(since)
    }

    /// A request begins to wait; `held` if its client does not read its replies. Here and below, time has passed up to now.
    #[inline]
    pub fn sent(&mut self, held: bool) {
        self.watch.sent(held);
    }

    /// A request that was found just now has been waiting since `since_ns`. Only time in which no other request was outstanding is
    /// added; [`sent`](Self::sent) follows if the request is to go on waiting.
    pub fn waits_since(&mut self, since_ns: u64) {
        self.watch.waits_since(since_ns);
    }

    /// The request that is [sent](Self::sent) is for `bytes`.
    #[inline]
    pub fn asks(&mut self, bytes: u64) {
        self.watch.asks(bytes);
    }

    /// A request that was [sent](Self::sent) ended, with or without an error.
    #[inline]
    pub fn over(&mut self, held: bool) {
        self.watch.over(held);
    }

    /// A request that was [sent](Self::sent) is over, as `done` says. `alone`: it had the drive to itself.
    #[inline]
    pub fn ended(&mut self, done: &Done, held: bool, alone: bool) {
        let bytes = done.op.charge(done.length.into());
        self.over(held);
        match done.outcome {
            Outcome::Ok => {
                self.answered(done.waits);
                if alone {
                    self.alone(done.waits.drive.as_nanos(), bytes);
                }
            }
            Outcome::Error(_) => self.watch.failed(bytes),
            Outcome::Cancelled => {}
        }
    }

    /// A request was served, wholly or in part: `bytes`.
    #[inline]
    pub fn served(&mut self, bytes: u64) {
        self.watch.served(bytes);
    }

    /// A request completed without error after these waits.
    #[inline]
    pub fn answered(&mut self, waits: Waits) {
        self.watch.answered(waits);
    }

    /// What a storage that another machine has did in the seconds that end next.
    pub fn pool(&mut self, pool: Pool) {
        self.pool = pool;
    }

    /// What the thread that serves the client did in the second that ends next.
    pub fn server(&mut self, time: ServerTime) {
        self.server = time;
    }

    /// What the client's requests waited for in the second that ends next, and in each of those that end at the same call, if several do.
    pub fn standing(&mut self, standing: Option<[Standing; 2]>) {
        self.standing = standing;
    }

    /// What kept the client from more in the last whole second, promised or not. It is the reason of the verdict if the second was short or
    /// excused.
    pub fn last_cause(&self) -> Option<Blame> {
        self.last.0
    }

    /// The part (0 to 1) of the last whole second in which the client had nothing outstanding.
    pub fn last_idle(&self) -> f64 {
        1.0 - (self.last.1 as f64 / SECOND_NS as f64).min(1.0)
    }

    /// A client stops or resumes reading its replies (or has gone): `requests` of it are put on hold or released.
    pub fn suspend(&mut self, requests: u32, held: bool) {
        self.watch.suspend(requests, held);
    }

    /// A request of `bytes` had the drive to itself and took `ns` there.
    fn alone(&mut self, drive_ns: u64, bytes: u64) {
        let (mean, before) = self.alone;
        let count = (before + 1).min(ALONE);
        let mix = |mean: u64, value: u64| mean - mean / count + value / count;
        let mean = Alone {
            latency_ns: mix(mean.latency_ns, drive_ns),
            bytes: mix(mean.bytes, bytes),
        };
        self.alone = (mean, count);
    }
}

#[cfg(test)]
mod tests;
