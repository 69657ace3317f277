//! A client program being run.

use crate::load::offset::Offsets;
use crate::load::pace::{Due, Pace};
use crate::load::program::{Activity, Program, Region, SyncMode};
use core::num::NonZeroU64;
use weir_core::random::Rng;
use weir_core::rule::Broken;
use weir_core::{Flags, Instant, Op, Span};

const PERCENT: NonZeroU64 = NonZeroU64::new(100).expect("not zero");

/// A client that runs a [`Program`], as a state machine.
///
/// Call [`Self::next`] for what to do now: after every [`Step::Issue`] until it returns another step, and again when the time that
/// it named has come or a request has completed ([`Self::completed`]). Times count from an origin of the driver's choice, as do the
/// program's start and stop; they must not go back.
#[derive(Clone, Debug)]
pub struct Client {
    program: Program,
    seed: u64,
    rng: Rng,
    offsets: Offsets,
    pace: Pace,
    issued: u64,
    outstanding: u32,
    /// Writes since the last flush, where that matters.
    unsynced: u32,
    /// An `fdatasync` is in flight: nothing else is issued until it completes.
    syncing: bool,
    /// The program's stop time has passed.
    stopped: bool,
    /// When its last completion was.
    answered: Instant,
}

/// A request to be issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// The number of requests issued before it.
    pub number: u64,
    /// Read, write or flush.
    pub op: Op,
    /// [`Flags::FUA`] on writes if the program asks for it, otherwise none.
    pub flags: Flags,
    /// Offset of the first byte; zero for a flush.
    pub offset: u64,
    /// Length in bytes; zero for a flush.
    pub length: u32,
    /// When it was due; its latency counts from here. In a closed loop this is now, in an open one it may be earlier.
    pub due: Instant,
}

/// Reads of one length, one right behind the other: see [`Client::streak`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Streak {
    /// Offset of the first.
    pub offset: u64,
    /// Length of each in bytes.
    pub length: u32,
    /// How many there are at most.
    pub count: u64,
}

/// The client's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Issue this request. It is outstanding until [`Client::completed`].
    Issue(Io),
    /// Nothing is due before this time, though a completion before it may change that.
    WaitUntil(Instant),
    /// Nothing is due before one of its requests completes.
    WaitForCompletion,
    /// It has issued everything, and everything has completed.
    Finished,
}

impl Client {
    /// A client at the start of its program. Its random choices depend only on `seed`: see [`seed`](crate::load::seed).
    ///
    /// # Errors
    /// A parameter of the program is out of range, or the region is too small for it.
    pub fn new(program: &Program, seed: u64, region: Region) -> Result<Self, Broken> {
        program.validate(region)?;
        let mut rng = Rng::new(seed);
        let program = drawn(program, &mut rng);
        Ok(Self {
            program,
            offsets: Offsets::new(&program, region),
            pace: Pace::new(&program, &mut rng),
            seed,
            rng,
            issued: 0,
            outstanding: 0,
            unsynced: 0,
            syncing: false,
            stopped: false,
            answered: Instant::ZERO,
        })
    }

    /// The step at `now`.
    pub fn next(&mut self, now: Instant) -> Step {
        let start = Instant::ZERO + self.program.start;
        self.stopped = self.stopped || self.is_past_end(now.max(start));
        if self.stopped {
            return self.wait();
        }
        if now < start {
            return Step::WaitUntil(start);
        }
        if let Some(at) = self.rests_until(now) {
            if !self.is_past_end(at) {
                return Step::WaitUntil(at);
            }
            self.stopped = true;
            return self.wait();
        }
        if self.outstanding == self.program.depth || self.must_drain() {
            return Step::WaitForCompletion;
        }
        // A rate counts reads and writes, as fio's does: a flush is due as soon as what it flushes has been written.
        if self.pace.is_open() && self.must_flush() {
            return Step::Issue(self.issue(now));
        }
        match self.due(now) {
            Due::Since(_) if self.pace.is_apart() => Step::Issue(self.issue_apart(now)),
            Due::Since(due) => Step::Issue(self.issue(due)),
            Due::At(at) if self.is_past_end(at) => {
                self.stopped = true;
                self.wait()
            }
            Due::At(at) => Step::WaitUntil(at),
            Due::AfterCompletion => Step::WaitForCompletion,
        }
    }

    /// One of its requests completed, with or without an error.
    pub fn completed(&mut self, now: Instant) {
        debug_assert!(self.outstanding > 0, "a completion without a request");
        self.outstanding = self.outstanding.saturating_sub(1);
        self.syncing = self.syncing && self.outstanding > 0;
        self.pace.answered(now);
        self.answered = self.answered.max(now);
    }

    /// What it issues from `now` on if each request is answered `each` (at least 1 ns) later, as long as that is reads in sequence without a
    /// pause: what the cache of a process holds need not be asked for call by call. `None` where its next step is anything else.
    pub fn streak(&self, now: Instant, each: Span) -> Option<Streak> {
        let program = &self.program;
        let start = Instant::ZERO + program.start;
        let (offset, length, fit) = self.offsets.streak()?;
        if program.writes > 0
            || self.outstanding > 0
            || self.stopped
            || now < start
            || !self.pace.is_prompt()
        {
            return None;
        }
        // One begins at `now`, and one after each that has ended by then.
        let within = |left: Span| left.as_nanos().div_ceil(each.as_nanos());
        let stop = program
            .stop
            .map(|stop| within((Instant::ZERO + stop).since(now)));
        let works = program
            .activity
            .map(|activity| within(left(activity, now.since(start))));
        let requests = program.requests.map(|n| n.saturating_sub(self.issued));
        let most = [stop, works, requests]
            .into_iter()
            .flatten()
            .fold(fit, u64::min);
        Some(Streak {
            offset,
            length,
            count: most,
        })
    }

    /// It has issued the first `count` reads of its [`Self::streak`], and the last was answered at `now`.
    pub fn read_streak(&mut self, count: u64, now: Instant) {
        self.issued += count;
        self.offsets.pass(count);
        self.pace.answered_promptly(count);
        self.answered = self.answered.max(now);
    }

    /// How long a program with a number of requests took from its start on, once all of them are answered.
    pub fn took(&self) -> Option<Span> {
        let start = Instant::ZERO + self.program.start;
        self.ended().map(|ended| ended.since(start))
    }

    /// When the last request of a program with a number of requests was answered, once all of them are.
    pub fn ended(&self) -> Option<Instant> {
        let over = self.program.requests.is_some_and(|n| self.issued >= n);
        (over && self.outstanding == 0).then_some(self.answered)
    }

    /// When the program can issue its first request.
    pub fn begins(&self) -> Instant {
        Instant::ZERO + self.program.start
    }

    /// The first instant that no longer belongs to the client, once it has no request outstanding at `now`: see [`Program::end`].
    pub fn ends(&self, now: Instant) -> Option<Instant> {
        if self.outstanding > 0 {
            return None;
        }
        let is_complete = self.ended().is_some();
        self.program.end(is_complete, self.answered, now)
    }

    /// How many requests of an open loop were due by `at` and have not been issued. Where the intervals are random, the mean one is
    /// counted with.
    pub fn overdue(&self, at: Instant) -> u64 {
        let start = Instant::ZERO + self.program.start;
        let stop = self.program.stop.map(|stop| Instant::ZERO + stop);
        if at < start || stop.is_some_and(|stop| stop <= start) {
            return 0;
        }
        // What is due at the stop itself is not issued any more.
        let last = |stop: Instant| Instant::from_nanos(stop.as_nanos() - 1);
        let at = stop.map_or(at, |stop| at.min(last(stop)));
        let at = match self.program.activity {
            Some(activity) => start + worked(activity, at.since(start)),
            None => at,
        };
        let left = self.program.requests.map(|n| n.saturating_sub(self.issued));
        self.pace.waiting(at).min(left.unwrap_or(u64::MAX))
    }

    /// Requests issued so far.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// Requests issued and not completed.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Whether anything was drawn so far. Until then, its requests are the same with every seed.
    pub fn has_drawn(&self) -> bool {
        // The generator itself tells: it comes back to where it began after 2^256 - 1 numbers.
        self.rng != Rng::new(self.seed)
    }

    /// The program that it runs, with the start that was drawn for it.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// While it rests: when it works again.
    fn rests_until(&self, now: Instant) -> Option<Instant> {
        let activity = self.program.activity?;
        let start = Instant::ZERO + self.program.start;
        let round = activity.on.as_nanos() + activity.off.as_nanos();
        let inside = now.since(start).as_nanos() % round;
        (inside >= activity.on.as_nanos()).then(|| now + Span::from_nanos(round - inside))
    }

    /// When the next request is due, asked while it works. The clock of an open loop runs only then.
    fn due(&self, now: Instant) -> Due {
        match self.pace.due(self.clock(now)) {
            Due::Since(due) => Due::Since(self.back(due)),
            Due::At(at) => Due::At(self.back(at)),
            Due::AfterCompletion => Due::AfterCompletion,
        }
    }

    /// The clock that its arrivals go by: that of an open loop runs only while it works.
    fn clock(&self, now: Instant) -> Instant {
        match self.program.activity.filter(|_| self.pace.is_open()) {
            None => now,
            Some(activity) => {
                let start = Instant::ZERO + self.program.start;
                start + worked(activity, now.since(start))
            }
        }
    }

    /// The time at which [`Self::clock`] shows `at`.
    fn back(&self, at: Instant) -> Instant {
        let Some(Activity { on, off }) = self.program.activity.filter(|_| self.pace.is_open())
        else {
            return at;
        };
        let start = Instant::ZERO + self.program.start;
        let (on, round) = (on.as_nanos(), on.as_nanos() + off.as_nanos());
        let worked = at.since(start).as_nanos();
        start + Span::from_nanos((worked / on).saturating_mul(round) + worked % on)
    }

    fn is_past_end(&self, at: Instant) -> bool {
        let stop = self.program.stop.map(|stop| Instant::ZERO + stop);
        stop.is_some_and(|stop| at >= stop)
            || self.program.requests.is_some_and(|n| self.issued >= n)
    }

    /// The step while nothing can be issued any more.
    fn wait(&self) -> Step {
        if self.outstanding > 0 {
            Step::WaitForCompletion
        } else {
            Step::Finished
        }
    }

    /// True while an `fdatasync` holds everything back: until all earlier requests have completed, then until it has completed
    /// itself.
    fn must_drain(&self) -> bool {
        match self.program.sync {
            SyncMode::Fdatasync(every) => {
                self.syncing || (self.unsynced >= every && self.outstanding > 0)
            }
            SyncMode::Never | SyncMode::Flush(_) => false,
        }
    }

    fn issue(&mut self, due: Instant) -> Io {
        if !(self.pace.is_open() && self.must_flush()) {
            self.pace.issued(&mut self.rng);
        }
        let number = self.issued;
        self.issued += 1;
        self.outstanding += 1;
        if let Some(flush) = self.flush(number, due) {
            return flush;
        }
        // Where it does not matter the offset is drawn first, as ever: recorded runs depend on it.
        let (op, (offset, length)) = if self.offsets.depend_on_op() {
            let op = self.read_or_write();
            (op, self.offsets.draw(op, &mut self.rng))
        } else {
            let place = self.offsets.draw(Op::Read, &mut self.rng);
            (self.read_or_write(), place)
        };
        self.unsynced = self.unsynced.saturating_add(u32::from(op == Op::Write));
        self.io(number, op, (offset, length), due)
    }

    /// A read or a write.
    fn io(&self, number: u64, op: Op, (offset, length): (u64, u32), due: Instant) -> Io {
        Io {
            number,
            op,
            flags: if op == Op::Write && self.program.fua {
                Flags::FUA
            } else {
                Flags::NONE
            },
            offset,
            length,
            due,
        }
    }

    /// Issues a request where reads and writes arrive apart, at least one of which is due.
    fn issue_apart(&mut self, now: Instant) -> Io {
        let drawn = self.read_or_write();
        let worked = self.clock(now);
        let chosen = self.pace.choose(drawn, worked, &mut self.rng);
        let (op, due) = chosen.unwrap_or((drawn, worked));
        let due = self.back(due);
        let number = self.issued;
        self.issued += 1;
        self.outstanding += 1;
        let (offset, length) = self.offsets.draw(op, &mut self.rng);
        self.unsynced = self.unsynced.saturating_add(u32::from(op == Op::Write));
        self.io(number, op, (offset, length), due)
    }

    fn read_or_write(&mut self) -> Op {
        match self.program.writes {
            0 => Op::Read,
            100 => Op::Write,
            percent if self.rng.ratio(percent.into(), PERCENT) => Op::Write,
            _ => Op::Read,
        }
    }

    /// Enough has been written since the last flush.
    fn must_flush(&self) -> bool {
        match self.program.sync {
            SyncMode::Never => false,
            SyncMode::Flush(every) | SyncMode::Fdatasync(every) => self.unsynced >= every,
        }
    }

    /// The flush that is due before the next read or write.
    fn flush(&mut self, number: u64, due: Instant) -> Option<Io> {
        if !self.must_flush() {
            return None;
        }
        self.unsynced = 0;
        self.syncing = matches!(self.program.sync, SyncMode::Fdatasync(_));
        Some(Io {
            number,
            op: Op::Flush,
            flags: Flags::NONE,
            offset: 0,
            length: 0,
            due,
        })
    }
}

/// For how long a client goes on working when `passed` has passed since its start; nothing while it rests.
fn left(activity: Activity, passed: Span) -> Span {
    let round = activity.on.as_nanos() + activity.off.as_nanos();
    activity
        .on
        .saturating_sub(Span::from_nanos(passed.as_nanos() % round))
}

/// For how much of the time since its start a client has worked; while it rests, just short of the end of its work.
fn worked(activity: Activity, passed: Span) -> Span {
    let (on, passed) = (activity.on.as_nanos(), passed.as_nanos());
    let round = on + activity.off.as_nanos();
    Span::from_nanos(passed / round * on + (passed % round).min(on - 1))
}

/// The program with its start drawn. Without a spread nothing is drawn, so that all that is drawn after it stays.
fn drawn(program: &Program, rng: &mut Rng) -> Program {
    let spread = program.start_spread;
    if spread == Span::ZERO {
        return *program;
    }
    let later = Span::from_nanos(rng.range(0, spread.as_nanos()));
    Program {
        start: program.start + later,
        start_spread: Span::ZERO,
        stop: program.stop.map(|stop| stop + later),
        ..*program
    }
}

#[cfg(test)]
mod tests;
