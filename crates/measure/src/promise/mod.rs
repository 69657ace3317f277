//! Was a promise kept? The one place where that is decided: for the server's metrics, for the demo and for comparisons.
//!
//! A promise is so many bytes, or requests, a second. Every whole second in which it is in force is a *promised* second, and exactly
//! one of
//!
//! - *kept*: the client got what it was owed,
//! - *short*: it did not, by so much, and [for this reason](Short),
//! - *excused*: nothing was owed, [for this reason](Excuse).
//!
//! What is owed is the min for as long as a request of the client waited. A gap in which nothing waited takes its own time out of the
//! second, and no more. A second may lack a hundredth of the min, of all of it however short a part of the second somebody asked, and the
//! one request that is under way when it ends; that one then counts for this second, not for the next.
//!
//! Between a short second and an excused one it is decided in this order. The client is excused where its requests were held by a max for
//! more than half of their time, and where it asked for so little at a time that it would not have got its min with the drive to itself,
//! if it got at least half of what it would have got so. Else the second is short.
//!
//! [`Watch`] turns what happens into [`Second`]s, [`Judge`] decides about each, [`Seconds`] adds them up, and [`Promise`] is all three for
//! a promise that is in force while it is watched. Discards count as 512 bytes, and flushes neither count nor wait.

mod judge;
mod watch;

pub use judge::{Alone, Excuse, Judge, Judged, Seconds, Short, Terms, Verdict};
pub use watch::{Second, Watch};

use crate::{SECOND_NS, Waits, Window};

/// What a promise is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Units {
    /// Bytes.
    Bytes,
    /// Requests.
    Requests,
}

impl Units {
    /// So much of it was done.
    pub fn of(self, done: Window) -> u64 {
        match self {
            Self::Bytes => done.bytes,
            Self::Requests => done.requests,
        }
    }
}

/// A min.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// What it is counted in.
    pub units: Units,
    /// So many a second.
    pub a_second: u64,
}

impl Rate {
    /// The min of a contract that promises so many bytes or so many requests a second; `None` if it promises nothing.
    pub fn new(bytes: u64, requests: u64) -> Option<Self> {
        let (units, a_second) = match (bytes, requests) {
            (0, 0) => return None,
            (0, requests) => (Units::Requests, requests),
            (bytes, _) => (Units::Bytes, bytes),
        };
        Some(Self { units, a_second })
    }

    /// What it comes to in so many nanoseconds, rounded down.
    pub fn during(&self, ns: u64) -> u64 {
        let amount = u128::from(self.a_second) * u128::from(ns) / u128::from(SECOND_NS);
        u64::try_from(amount).unwrap_or(u64::MAX)
    }
}

/// A promise in force, and how it fares: fed with what happens, in the order in which it happens.
///
/// Seconds are whole seconds of the caller's clock. One in which the promise was not in force from its beginning to its end is no
/// promised second; if only the amount changed, each part of the second is owed at its own rate.
#[derive(Debug, Clone)]
pub struct Promise {
    watch: Watch,
    judge: Judge,
    rate: Option<Rate>,
    /// It was in force when the second under way began.
    whole: bool,
    /// What was owed before the rate changed within the second under way, and the time waited by then.
    before: (u64, u64),
    /// The mean of the last requests alone in the drive, and how many there were, [`ALONE`] at the most.
    alone: (Alone, u64),
}

/// So many requests alone in the drive say what one takes, and with each new one so much is forgotten: an eighth. Fewer excuse nobody: one
/// may have met a host that was late.
const ALONE: u64 = 8;

impl Promise {
    /// One in force from `now_ns` on, or none yet.
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
        }
    }

    /// From now on this is promised. Time has [passed](Self::pass) up to now.
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

    /// What is promised.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// How it has fared in the seconds that are over.
    pub fn seconds(&self) -> &Seconds {
        self.judge.seconds()
    }

    /// Requests that wait, whether they are held or not.
    pub fn live(&self) -> u32 {
        self.watch.live()
    }

    /// Nothing was answered in the second under way, though there are requests: it matters whether they are held by a limit.
    pub fn is_still(&self) -> bool {
        self.rate.is_some() && self.watch.is_still()
    }

    /// Time passes up to `now_ns`. All clients of the drive together were served `drive` in the second that was under way, and so many of
    /// this one's requests are held back by a limit now.
    #[inline]
    pub fn pass(&mut self, now_ns: u64, drive: Window, limited: u32) {
        if now_ns < self.watch.ends() {
            self.watch.advance(now_ns);
        } else {
            self.end(now_ns, drive, limited);
        }
    }

    fn end(&mut self, now_ns: u64, mut drive: Window, limited: u32) {
        while self.watch.ends() <= now_ns {
            let mut second = self.watch.end();
            second.limited = limited.min(second.live);
            second.others = Window {
                bytes: drive.bytes.saturating_sub(second.done.bytes),
                requests: drive.requests.saturating_sub(second.done.requests),
            };
            let owed = self.owed(second.waited_ns);
            if let Some(rate) = self.rate.filter(|_| self.whole) {
                let (mean, count) = self.alone;
                let alone = (count == ALONE).then_some(mean);
                let terms = Terms { rate, alone };
                self.judge.second(&second, &terms, owed);
            }
            (self.whole, self.before) = (self.rate.is_some(), (0, 0));
            // What was done was done in the first of them.
            drive = Window::default();
        }
        self.watch.advance(now_ns);
    }

    /// What the client is owed in the second under way if it has waited for so long.
    fn owed(&self, waited_ns: u64) -> u64 {
        let (owed, until) = self.before;
        let since = self.rate.map_or(0, |r| r.during(waited_ns - until));
        owed.saturating_add(since)
    }

    /// A request begins to wait; `held` if its client does not read its answers. Here and below, time has passed up to now.
    #[inline]
    pub fn sent(&mut self, held: bool) {
        self.watch.sent(held);
    }

    /// A request that was [sent](Self::sent) is over, however it ended.
    #[inline]
    pub fn over(&mut self, held: bool) {
        self.watch.over(held);
    }

    /// A part of a request, or all of it, was served: so many bytes.
    #[inline]
    pub fn served(&mut self, bytes: u64) {
        self.watch.served(bytes);
    }

    /// A request was answered without error after these waits.
    #[inline]
    pub fn answered(&mut self, waits: Waits) {
        self.watch.answered(waits);
    }

    /// A request of so many bytes failed.
    pub fn failed(&mut self, bytes: u64) {
        self.watch.failed(bytes);
    }

    /// A client does not read its answers, or does so again (or is gone): so many requests are held for it, or no longer.
    pub fn suspend(&mut self, requests: u32, held: bool) {
        self.watch.suspend(requests, held);
    }

    /// A request of so many bytes had the drive to itself and took so long there.
    pub fn alone(&mut self, drive_ns: u64, bytes: u64) {
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
