//! The back end of the rings: its threads, and its half of each ring.

use super::notify::{self, CallState};
use super::queue::BackHalf;
use super::{RingContext, RingNotification, RingOutput};
use std::collections::VecDeque;
use weir_config::scenario::Guest;
use weir_core::{Instant, Span};
use weir_wire::notify::{Kicks, Plan};

/// The back end's side of one guest's ring.
#[derive(Debug)]
pub(super) struct GuestBack {
    ring: BackHalf,
    kicks: Kicks,
    calls: CallState,
    /// True while the thread is at the ring: it takes requests, spins, or is about to ask for the
    /// next kick.
    open: bool,
    /// True if a kick arrived while the thread was at the ring. It must still be processed.
    noise: bool,
    /// The number of requests that were seen and not taken yet, and the number taken since the last
    /// check of the ring was reported to `kicks`.
    left: u32,
    found: u32,
    taken: u64,
    answered: u64,
}

/// A thread of the back end with a processor of its own.
#[derive(Debug)]
pub(super) struct BackEndThread {
    guests: Vec<usize>,
    /// True if completions of the drive wake the thread. Otherwise responses are made in the
    /// drive's interrupt, on the same processor.
    wakes_for_answers: bool,
    awake: bool,
    /// The present task of the processor and the time at which it ends.
    task: Option<(Instant, BackEndTask)>,
    /// The guest and cookie of each completed request whose response is not in the ring yet.
    answers: VecDeque<(usize, u64)>,
    /// The position of the guest that is served next. Guests are served round-robin.
    turn: usize,
    /// The time since which the thread has been spinning.
    spins: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum BackEndTask {
    Wake,
    Look(usize),
    Take(u64),
    Answer(usize, u64),
    Call(usize),
}

impl GuestBack {
    pub(super) fn new(ring: BackHalf, guest: &Guest) -> Self {
        Self {
            ring,
            kicks: notify::kicks(guest.kicks),
            calls: CallState::new(guest.calls),
            open: false,
            noise: false,
            left: 0,
            found: 0,
            taken: 0,
            answered: 0,
        }
    }

    /// Processes a kick that has arrived. While the thread is at the ring, the kick is only noted.
    pub(super) fn on_kick(&mut self, now: Instant) {
        if self.open {
            self.noise = true;
        } else {
            self.kicks.on_kick(now, now);
        }
    }

    /// The time at which the ring must be checked or a call must be sent even if nothing happens
    /// before.
    pub(super) fn next(&self) -> Option<Instant> {
        let look = notify::instant(&self.kicks);
        [look, self.calls.next()].into_iter().flatten().min()
    }

    /// Returns true if the ring is being checked, or will be checked without another kick.
    pub(super) fn is_look_pending(&self) -> bool {
        self.open || !matches!(self.kicks.plan(), Plan::Arm | Plan::Nothing)
    }

    /// Returns true if the thread must check the ring now, because of a kick or a timer.
    fn is_due(&mut self, now: Instant) -> bool {
        if !self.open {
            self.kicks.on_timer(now);
        }
        !self.open && self.kicks.plan() == Plan::Look
    }

    /// Returns true if the guest will be called.
    pub(super) fn is_call_pending(&self) -> bool {
        self.calls.next().is_some()
    }

    /// The number of requests taken since the beginning.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    pub(super) fn answered(&self) -> u64 {
        self.answered
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.taken - self.answered
    }

    /// Sees the requests that are in the ring now. Later ones are left for the next look.
    fn look(&mut self) {
        self.left = self.ring.look();
    }

    /// Takes the next of the requests that were seen.
    fn take(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let cookie = self.ring.take()?;
        self.taken += 1;
        self.found += 1;
        Some(cookie)
    }
}

impl BackEndThread {
    pub(super) fn new(guests: Vec<usize>, wakes_for_answers: bool) -> Self {
        Self {
            guests,
            wakes_for_answers,
            awake: false,
            task: None,
            answers: VecDeque::new(),
            turn: 0,
            spins: None,
        }
    }

    pub(super) fn answer(&mut self, guest: usize, cookie: u64) {
        self.answers.push_back((guest, cookie));
    }

    /// The time at which the processor completes its present task.
    pub(super) fn next(&self) -> Option<Instant> {
        self.task.map(|task| task.0)
    }

    /// Completes the task that has ended by now and begins the next ones. Returns true if anything
    /// happened.
    pub(super) fn run(&mut self, backs: &mut [GuestBack], cx: &mut RingContext<'_>) -> bool {
        let mut happened = false;
        loop {
            if let Some((until, task)) = self.task {
                if until > cx.now {
                    return happened;
                }
                self.task = None;
                self.end(task, backs, cx);
            } else if let Some((length, task)) = self.begin(backs, cx) {
                // Spinning ends where a task begins, so that its time is not counted twice.
                self.count_spin_time(cx);
                cx.count.backend(cx.now, length);
                self.task = Some((cx.now + length, task));
            } else {
                return happened;
            }
            happened = true;
        }
    }

    /// Counts the time for which the thread has been spinning as time of its processor.
    fn count_spin_time(&mut self, cx: &mut RingContext<'_>) {
        if let Some(since) = self.spins.take() {
            cx.count.backend(since, cx.now.since(since));
        }
    }

    fn end(&mut self, task: BackEndTask, backs: &mut [GuestBack], cx: &mut RingContext<'_>) {
        let now = cx.now;
        match task {
            BackEndTask::Wake => self.awake = true,
            BackEndTask::Look(guest) => {
                backs[guest].open = true;
                backs[guest].look();
            }
            BackEndTask::Take(cookie) => {
                let request = cx.requests[cookie as usize];
                cx.out.extend(request.map(RingOutput::Submit));
            }
            BackEndTask::Answer(guest, cookie) => {
                let back = &mut backs[guest];
                back.ring.answer(cookie);
                back.answered += 1;
                let wanted = back.ring.publish();
                // Requests that were seen in the ring and not taken yet are in flight, too.
                let in_flight = back.in_flight() + u64::from(back.left);
                back.calls.answered(now, in_flight, wanted);
                if back.ring.answered() {
                    // The re-arm of rings before 2011 has found a request for which no kick will
                    // come. The back end must behave as if it had been kicked.
                    back.on_kick(now);
                }
            }
            BackEndTask::Call(guest) => {
                cx.count.call(now);
                cx.send(RingNotification::Call(guest));
            }
        }
    }

    /// Chooses the next task of the processor. Returns the task's length and the task.
    fn begin(
        &mut self,
        backs: &mut [GuestBack],
        cx: &mut RingContext<'_>,
    ) -> Option<(Span, BackEndTask)> {
        let (now, cost) = (cx.now, cx.cost);
        for &guest in &self.guests {
            if backs[guest].calls.take(now) {
                return Some((cost.event, BackEndTask::Call(guest)));
            }
        }
        let asleep = self.wakes_for_answers && !self.awake;
        if !asleep && let Some((guest, cookie)) = self.answers.pop_front() {
            return Some((cost.answer, BackEndTask::Answer(guest, cookie)));
        }
        // A sleeping thread first has to wake up, which costs time on its processor.
        if !self.awake {
            let due = |g: &usize| backs[*g].is_due(now);
            if self.answers.is_empty() && !self.guests.iter().any(due) {
                return None;
            }
            cx.count.wakeup(now);
            return Some((cost.wake, BackEndTask::Wake));
        }
        let mut spins = false;
        for turn in 0..self.guests.len() {
            let at = (self.turn + turn) % self.guests.len();
            let guest = self.guests[at];
            if let Some(task) = backs[guest].next_task(guest, now, &mut spins) {
                self.turn = at + 1;
                let length = match task {
                    BackEndTask::Look(_) => cost.look,
                    _ => cost.take,
                };
                return Some((length, task));
            }
        }
        if spins {
            self.spins.get_or_insert(now);
        } else {
            self.count_spin_time(cx);
            self.awake = false;
        }
        None
    }
}

impl GuestBack {
    /// Chooses the next step after all seen requests have been taken. Returns a request that has
    /// arrived in the meantime, and sets `spins` if the thread spins for this ring.
    fn finish_look(&mut self, now: Instant, spins: &mut bool) -> Option<u64> {
        while self.open {
            let found = std::mem::take(&mut self.found);
            match self.kicks.plan() {
                _ if found > 0 => {
                    self.kicks.on_checked(now, found);
                }
                Plan::Look => {
                    self.kicks.on_checked(now, 0);
                }
                Plan::Spin(until) if until <= now => {
                    self.kicks.on_timer(now);
                }
                Plan::Spin(_) => {
                    self.look();
                    *spins |= self.left == 0;
                    return self.take();
                }
                // Asking for the next kick includes another look (drained), because a request that
                // arrives just before it would not cause a kick.
                Plan::Arm if self.ring.drained() => {
                    self.look();
                    return self.take();
                }
                Plan::Arm | Plan::Wait(_) | Plan::Nothing => self.open = false,
            }
        }
        None
    }

    /// The next task for this ring: the next request that was seen, the next look, or none. In the
    /// last case, the thread may spin.
    fn next_task(&mut self, guest: usize, now: Instant, spins: &mut bool) -> Option<BackEndTask> {
        if let Some(cookie) = self.take() {
            return Some(BackEndTask::Take(cookie));
        }
        if let Some(cookie) = self.finish_look(now, spins) {
            return Some(BackEndTask::Take(cookie));
        }
        let heard = std::mem::take(&mut self.noise);
        if self.open {
            // The thread spins, and a kick interrupts it.
            return heard.then_some(BackEndTask::Look(guest));
        }
        if heard {
            self.kicks.on_kick(now, now);
        }
        self.is_due(now).then_some(BackEndTask::Look(guest))
    }
}
