//! A client: the state machine that runs a program.

use crate::load::offset::Offsets;
use crate::load::pace::{ArrivalDue, ArrivalPace};
use crate::load::program::{Activity, Program, Region, SyncMode};
use crate::load::trace::{Trace, TraceTiming, TracedRequest};
use core::num::NonZeroU64;
use std::sync::Arc;
use weir_core::random::Rng;
use weir_core::rule::{self, RuleViolation};
use weir_core::{Flags, Instant, Op, Span, rules};

const PERCENT: NonZeroU64 = NonZeroU64::new(100).expect("not zero");

/// A client that runs a [`Program`], as a state machine.
///
/// Call [`Self::next`] for the next step: after each [`Step::Issue`] until it returns another step,
/// and again when the time of that step has come or a request has completed ([`Self::completed`]).
/// Times count from an origin that the caller chooses, as do the program's start and stop. They
/// must not decrease.
#[derive(Clone, Debug)]
pub struct LoadClient {
    program: Program,
    /// The part of the address space that a trace uses.
    region: Region,
    seed: u64,
    rng: Rng,
    offsets: Offsets,
    pace: ArrivalPace,
    /// The requests of a client that plays a recorded load.
    trace: Option<Arc<Trace>>,
    issued: u64,
    outstanding: u32,
    /// The number of writes since the last flush, if the program flushes.
    unsynced: u32,
    /// True while an `fdatasync` is in flight. Nothing else is issued until it completes.
    syncing: bool,
    /// True once the program's stop time has passed, or all its requests are issued.
    stopped: bool,
    /// The time of the client's last completion.
    answered: Instant,
}

/// A request that a client issues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// The number of requests that the client issued before this one.
    pub number: u64,
    /// The operation: a read, a write or a flush, and in a trace also a discard.
    pub op: Op,
    /// The flags of a request in a trace. Otherwise [`Flags::FUA`] for writes if the program
    /// requires it, and no flags for other requests.
    pub flags: Flags,
    /// The offset of the first byte, or zero for a flush.
    pub offset: u64,
    /// The length in bytes, or zero for a flush.
    pub length: u32,
    /// The time at which the request was due, from which its latency counts. In a closed loop, this
    /// is the time of issue. In an open loop, it can be earlier.
    pub due: Instant,
}

/// Adjacent reads of the same length (see [`LoadClient::streak`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Streak {
    /// The offset of the first read.
    pub offset: u64,
    /// The length of each read in bytes.
    pub length: u32,
    /// The maximum number of reads.
    pub count: u64,
}

/// The next step of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Issue this request. It is outstanding until [`LoadClient::completed`].
    Issue(Io),
    /// Wait until this time, or until a completion, which may change the step.
    WaitUntil(Instant),
    /// Wait until one of the client's requests completes.
    WaitForCompletion,
    /// Nothing is left: everything has been issued and has completed.
    Finished,
}

impl LoadClient {
    /// Creates a client at the start of its program.
    ///
    /// Its random choices depend only on `seed` (see [`seed`](crate::load::seed)).
    ///
    /// # Errors
    /// A parameter of the program is out of range, or the region is too small for it.
    pub fn new(program: &Program, seed: u64, region: Region) -> Result<Self, RuleViolation> {
        program.validate(region)?;
        let mut rng = Rng::new(seed);
        let program = with_random_start(program, &mut rng);
        Ok(Self {
            program,
            region,
            offsets: Offsets::new(&program, region),
            pace: ArrivalPace::new(&program, &mut rng),
            seed,
            rng,
            trace: None,
            issued: 0,
            outstanding: 0,
            unsynced: 0,
            syncing: false,
            stopped: false,
            answered: Instant::ZERO,
        })
    }

    /// Creates a client that plays a recorded load.
    ///
    /// The queue depth, the start, the stop and the number of requests are those of `program`. The
    /// offsets of the trace count from the beginning of `region`.
    ///
    /// # Errors
    /// A parameter of the program is out of range, or the region is too small for the trace.
    pub fn replay(
        program: &Program,
        trace: Arc<Trace>,
        region: Region,
    ) -> Result<Self, RuleViolation> {
        rule::check(rules! {
            "region.length", region.length, region.length >= trace.region().length,
                "at least the end of the trace's last range";
        })?;
        // A trace draws nothing, so that any seed has the same effect.
        let client = Self::new(program, 0, region)?;
        Ok(Self {
            region,
            trace: Some(trace),
            ..client
        })
    }

    /// Returns the step of the client at `now`, and issues the request if it is [`Step::Issue`].
    pub fn next(&mut self, now: Instant) -> Step {
        let start = Instant::ZERO + self.program.start;
        // A program whose stop is not after its start must not begin at all.
        self.stopped = self.stopped || self.is_past_end(now.max(start));
        if self.stopped {
            return self.wait_step();
        }
        if now < start {
            return Step::WaitUntil(start);
        }
        if let Some(at) = self.pause_end(now) {
            // If the program ends during the pause, the client need not wait for the end of the
            // pause.
            if !self.is_past_end(at) {
                return Step::WaitUntil(at);
            }
            self.stopped = true;
            return self.wait_step();
        }
        if self.outstanding == self.program.depth || self.must_drain() {
            return Step::WaitForCompletion;
        }
        if let Some(trace) = self.trace.clone() {
            return self.next_traced(&trace, now);
        }
        // A rate counts reads and writes, as in fio. A flush is due as soon as the writes that it
        // flushes have been issued.
        if self.pace.is_open() && self.must_flush() {
            return Step::Issue(self.issue(now));
        }
        match self.due(now) {
            ArrivalDue::Since(_) if self.pace.has_separate_arrivals() => {
                Step::Issue(self.issue_apart(now))
            }
            ArrivalDue::Since(due) => Step::Issue(self.issue(due)),
            ArrivalDue::At(at) if self.is_past_end(at) => {
                self.stopped = true;
                self.wait_step()
            }
            ArrivalDue::At(at) => Step::WaitUntil(at),
            ArrivalDue::AfterCompletion => Step::WaitForCompletion,
        }
    }

    /// Returns the step of a client that plays a trace, and issues the request that is due.
    fn next_traced(&mut self, trace: &Trace, now: Instant) -> Step {
        // The number of requests is checked before, so that there is a next one.
        let next = trace.requests()[self.issued as usize];
        let due = match trace.timing() {
            TraceTiming::Fast => now,
            TraceTiming::Recorded => Instant::ZERO + self.program.start + next.at,
        };
        if due <= now {
            let number = self.issued;
            self.issued += 1;
            self.outstanding += 1;
            return Step::Issue(Io {
                number,
                op: next.op,
                flags: next.flags,
                offset: match next.op {
                    Op::Flush => 0,
                    _ => self.region.start + next.offset,
                },
                length: next.length,
                due,
            });
        }
        if self.is_past_end(due) {
            self.stopped = true;
            return self.wait_step();
        }
        Step::WaitUntil(due)
    }

    /// Completes one of the client's requests, successfully or not.
    pub fn completed(&mut self, now: Instant) {
        debug_assert!(self.outstanding > 0, "a completion without a request");
        self.outstanding = self.outstanding.saturating_sub(1);
        self.syncing = self.syncing && self.outstanding > 0;
        self.pace.on_completion(now);
        self.answered = self.answered.max(now);
    }

    /// The sequential reads without pauses that the client issues from `now` on, if each is
    /// answered `each` (at least 1 ns) later.
    ///
    /// With them, the reads of a process that are in the page cache need no step each. Returns
    /// `None` if the next step is anything else.
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
        // One read begins at `now`, and one more after each read that ends before the limit.
        let within = |left: Span| left.as_nanos().div_ceil(each.as_nanos());
        let stop = program
            .stop
            .map(|stop| within((Instant::ZERO + stop).since(now)));
        let works = program
            .activity
            .map(|activity| within(active_time_left(activity, now.since(start))));
        let requests = self.limit().map(|n| n.saturating_sub(self.issued));
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

    /// Completes the first `count` reads of [`Self::streak`], the last of them at `now`.
    pub fn read_streak(&mut self, count: u64, now: Instant) {
        self.issued += count;
        self.offsets.skip(count);
        self.pace.complete_promptly(count);
        self.answered = self.answered.max(now);
    }

    /// The time that a program with a limited number of requests took, from its start to its last
    /// answer. `None` until all are answered.
    pub fn runtime(&self) -> Option<Span> {
        let start = Instant::ZERO + self.program.start;
        self.end_time().map(|ended| ended.since(start))
    }

    /// The time of the last answer of a program with a limited number of requests. `None` until all
    /// are answered.
    pub fn end_time(&self) -> Option<Instant> {
        let over = self.limit().is_some_and(|n| self.issued >= n);
        (over && self.outstanding == 0).then_some(self.answered)
    }

    /// The time from which the program can issue requests.
    pub fn time_start(&self) -> Instant {
        Instant::ZERO + self.program.start
    }

    /// The first instant after the client's own time (see [`Program::end`]). `None` while a request
    /// is outstanding at `now`.
    pub fn time_end(&self, now: Instant) -> Option<Instant> {
        if self.outstanding > 0 {
            return None;
        }
        let is_complete = self.end_time().is_some();
        self.program.end(is_complete, self.answered, now)
    }

    /// The number of requests of an open loop that were due by `at` but not issued. For random
    /// intervals, the mean interval is used.
    pub fn overdue(&self, at: Instant) -> u64 {
        let start = Instant::ZERO + self.program.start;
        let stop = self.program.stop.map(|stop| Instant::ZERO + stop);
        if at < start || stop.is_some_and(|stop| stop <= start) {
            return 0;
        }
        // A request that is due exactly at the stop is not issued.
        let last = |stop: Instant| Instant::from_nanos(stop.as_nanos() - 1);
        let at = stop.map_or(at, |stop| at.min(last(stop)));
        let at = match self.program.activity {
            Some(activity) => start + active_time(activity, at.since(start)),
            None => at,
        };
        let left = self.limit().map(|n| n.saturating_sub(self.issued));
        let waiting = match &self.trace {
            None => self.pace.waiting(at),
            Some(trace) if trace.timing() == TraceTiming::Fast => 0,
            Some(trace) => {
                let is_due = |r: &TracedRequest| start + r.at <= at;
                let due = trace.requests().partition_point(is_due) as u64;
                due.saturating_sub(self.issued)
            }
        };
        waiting.min(left.unwrap_or(u64::MAX))
    }

    /// The number of requests issued so far.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// The number of requests that are issued and not completed.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Returns true if the client has used a random number. Before that, its requests are the same
    /// with every seed.
    pub fn has_drawn(&self) -> bool {
        // The state of the generator shows it, because a state returns only after 2^256 - 1
        // numbers.
        self.rng != Rng::new(self.seed)
    }

    /// The program of the client, with its randomly delayed start.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The end of the present pause, if the client pauses at `now`.
    fn pause_end(&self, now: Instant) -> Option<Instant> {
        let activity = self.program.activity?;
        let start = Instant::ZERO + self.program.start;
        let round = activity.on.as_nanos() + activity.off.as_nanos();
        let inside = now.since(start).as_nanos() % round;
        (inside >= activity.on.as_nanos()).then(|| now + Span::from_nanos(round - inside))
    }

    /// The time at which the next request is due, for an active client.
    fn due(&self, now: Instant) -> ArrivalDue {
        match self.pace.due(self.clock(now)) {
            ArrivalDue::Since(due) => ArrivalDue::Since(self.time_of_clock(due)),
            ArrivalDue::At(at) => ArrivalDue::At(self.time_of_clock(at)),
            ArrivalDue::AfterCompletion => ArrivalDue::AfterCompletion,
        }
    }

    /// The clock by which requests become due. In an open loop, it advances only while the client
    /// is active.
    fn clock(&self, now: Instant) -> Instant {
        match self.program.activity.filter(|_| self.pace.is_open()) {
            None => now,
            Some(activity) => {
                let start = Instant::ZERO + self.program.start;
                start + active_time(activity, now.since(start))
            }
        }
    }

    /// Converts a time of [`Self::clock`] back: the time at which the clock shows `at`.
    fn time_of_clock(&self, at: Instant) -> Instant {
        let Some(Activity { on, off }) = self.program.activity.filter(|_| self.pace.is_open())
        else {
            return at;
        };
        let start = Instant::ZERO + self.program.start;
        let (on, round) = (on.as_nanos(), on.as_nanos() + off.as_nanos());
        let worked = at.since(start).as_nanos();
        start + Span::from_nanos((worked / on).saturating_mul(round) + worked % on)
    }

    /// The total number of requests. `None` for no limit.
    fn limit(&self) -> Option<u64> {
        let trace = self.trace.as_ref().map(|t| t.requests().len() as u64);
        [self.program.requests, trace].into_iter().flatten().min()
    }

    fn is_past_end(&self, at: Instant) -> bool {
        let stop = self.program.stop.map(|stop| Instant::ZERO + stop);
        stop.is_some_and(|stop| at >= stop) || self.limit().is_some_and(|n| self.issued >= n)
    }

    /// The step of a client that issues nothing any more.
    fn wait_step(&self) -> Step {
        if self.outstanding > 0 {
            Step::WaitForCompletion
        } else {
            Step::Finished
        }
    }

    /// Returns true if an `fdatasync` delays all requests: first until all earlier requests have
    /// completed, then until the `fdatasync` itself has.
    fn must_drain(&self) -> bool {
        match self.program.sync {
            SyncMode::Fdatasync(every) => {
                self.syncing || (self.unsynced >= every && self.outstanding > 0)
            }
            SyncMode::Never | SyncMode::Flush(_) => false,
        }
    }

    fn issue(&mut self, due: Instant) -> Io {
        // In an open loop, a flush is not one of the arrivals.
        if !(self.pace.is_open() && self.must_flush()) {
            self.pace.on_issue(&mut self.rng);
        }
        let number = self.issued;
        self.issued += 1;
        self.outstanding += 1;
        if let Some(flush) = self.flush(number, due) {
            return flush;
        }
        // If the offset does not depend on the operation, it is chosen first. The order of the
        // random numbers must not change, because recorded runs depend on it.
        let (op, (offset, length)) = if self.offsets.depends_on_op() {
            let op = self.read_or_write();
            (op, self.offsets.draw(op, &mut self.rng))
        } else {
            let place = self.offsets.draw(Op::Read, &mut self.rng);
            (self.read_or_write(), place)
        };
        self.unsynced = self.unsynced.saturating_add(u32::from(op == Op::Write));
        self.io(number, op, (offset, length), due)
    }

    /// Creates the request of a read or write.
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

    /// Issues a request if reads and writes have intervals of their own, and at least one kind is
    /// due.
    fn issue_apart(&mut self, now: Instant) -> Io {
        let drawn = self.read_or_write();
        let worked = self.clock(now);
        let chosen = self.pace.choose(drawn, worked, &mut self.rng);
        let (op, due) = chosen.unwrap_or((drawn, worked));
        let due = self.time_of_clock(due);
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

    /// Returns true if a flush is due because enough has been written since the last one.
    fn must_flush(&self) -> bool {
        match self.program.sync {
            SyncMode::Never => false,
            SyncMode::Flush(every) | SyncMode::Fdatasync(every) => self.unsynced >= every,
        }
    }

    /// Creates the flush that is due before the next read or write, if there is one.
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

/// The rest of the present active period after `passed` since the start. Zero during a pause.
fn active_time_left(activity: Activity, passed: Span) -> Span {
    let round = activity.on.as_nanos() + activity.off.as_nanos();
    activity
        .on
        .saturating_sub(Span::from_nanos(passed.as_nanos() % round))
}

/// The active time within the first `passed` of the program. During a pause, it is 1 ns short of
/// the end of the active period.
// At the end of the active period, the clock would show a time that belongs to the next period.
fn active_time(activity: Activity, passed: Span) -> Span {
    let (on, passed) = (activity.on.as_nanos(), passed.as_nanos());
    let round = on + activity.off.as_nanos();
    Span::from_nanos(passed / round * on + (passed % round).min(on - 1))
}

/// The program with its random delay. Without a spread, no random number is used, so that all later
/// random choices stay the same.
fn with_random_start(program: &Program, rng: &mut Rng) -> Program {
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
