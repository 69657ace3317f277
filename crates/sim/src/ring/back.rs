//! The back end: its threads, and their half of each ring.

use super::notify::{self, Calls};
use super::queue::BackHalf;
use super::{Cx, Event, Out};
use std::collections::VecDeque;
use weir_config::scenario::Guest;
use weir_core::{Instant, Span};
use weir_wire::notify::{Kicks, Plan};

/// The back end's side of one guest.
#[derive(Debug)]
pub(super) struct Back {
    ring: BackHalf,
    kicks: Kicks,
    calls: Calls,
    /// The thread is at the ring: it takes, spins, or is about to ask for the next kick.
    open: bool,
    /// A kick was heard that changes nothing, and has still to be looked at.
    noise: bool,
    /// Requests that were seen and not taken yet, and those taken since it was opened.
    left: u32,
    found: u32,
    taken: u64,
    answered: u64,
}

/// A thread of the back end, with a processor of its own.
#[derive(Debug)]
pub(super) struct Thread {
    guests: Vec<usize>,
    /// What the drive has done wakes it, too. Otherwise responses are made in the drive's interrupt, on the same processor.
    wakes_for_answers: bool,
    awake: bool,
    /// What its processor does, and until when.
    task: Option<(Instant, Task)>,
    /// Guest and cookie of what is done.
    answers: VecDeque<(usize, u64)>,
    /// Whose turn it is.
    turn: usize,
    /// Since when it spins.
    spins: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum Task {
    Wake,
    Look(usize),
    Take(u64),
    Answer(usize, u64),
    Call(usize),
}

impl Back {
    pub(super) fn new(ring: BackHalf, guest: &Guest) -> Self {
        Self {
            ring,
            kicks: notify::kicks(guest.kicks),
            calls: Calls::new(guest.calls),
            open: false,
            noise: false,
            left: 0,
            found: 0,
            taken: 0,
            answered: 0,
        }
    }

    /// A kick has arrived. While the thread is at the ring, it is heard afterwards.
    pub(super) fn kicked(&mut self, now: Instant) {
        if self.open {
            self.noise = true;
        } else {
            self.kicks.kicked(now, now);
        }
    }

    /// When it has to be looked at, or a call to be sent, if nothing happens before.
    pub(super) fn next(&self) -> Option<Instant> {
        let look = notify::instant(&self.kicks);
        [look, self.calls.next()].into_iter().flatten().min()
    }

    /// The ring is looked at, or going to be.
    pub(super) fn is_going_to_look(&self) -> bool {
        self.open || !matches!(self.kicks.plan(), Plan::Arm | Plan::Nothing)
    }

    /// The thread has to come to the ring: because of a kick, or since the time has come.
    fn is_due(&mut self, now: Instant) -> bool {
        if !self.open {
            self.kicks.timer(now);
        }
        !self.open && self.kicks.plan() == Plan::Look
    }

    /// The guest is going to be called.
    pub(super) fn is_going_to_call(&self) -> bool {
        self.calls.next().is_some()
    }

    /// Requests taken, responses given, and those in between, from the beginning on.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    pub(super) fn answered(&self) -> u64 {
        self.answered
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.taken - self.answered
    }

    /// Sees what is in the ring now; what comes later is for the next look.
    fn look(&mut self) {
        self.left = self.ring.look();
    }

    /// Takes the next request of those that were seen.
    fn take(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let cookie = self.ring.take()?;
        self.taken += 1;
        self.found += 1;
        Some(cookie)
    }
}

impl Thread {
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

    /// When its processor is done with what it does.
    pub(super) fn next(&self) -> Option<Instant> {
        self.task.map(|task| task.0)
    }

    /// Ends what is over by now and begins the next. True if something happened.
    pub(super) fn run(&mut self, backs: &mut [Back], cx: &mut Cx<'_>) -> bool {
        let mut happened = false;
        loop {
            if let Some((until, task)) = self.task {
                if until > cx.now {
                    return happened;
                }
                self.task = None;
                self.end(task, backs, cx);
            } else if let Some((length, task)) = self.begin(backs, cx) {
                self.spun(cx);
                cx.count.backend(cx.now, length);
                self.task = Some((cx.now + length, task));
            } else {
                return happened;
            }
            happened = true;
        }
    }

    /// The time that it span, up to now, was time of its processor.
    fn spun(&mut self, cx: &mut Cx<'_>) {
        if let Some(since) = self.spins.take() {
            cx.count.backend(since, cx.now.since(since));
        }
    }

    fn end(&mut self, task: Task, backs: &mut [Back], cx: &mut Cx<'_>) {
        let now = cx.now;
        match task {
            Task::Wake => self.awake = true,
            Task::Look(guest) => {
                backs[guest].open = true;
                backs[guest].look();
            }
            Task::Take(cookie) => {
                let request = cx.requests[cookie as usize];
                cx.out.extend(request.map(Out::Submit));
            }
            Task::Answer(guest, cookie) => {
                let back = &mut backs[guest];
                back.ring.answer(cookie);
                back.answered += 1;
                let wanted = back.ring.publish();
                // What was seen in the ring and not taken yet is in flight, too.
                let in_flight = back.in_flight() + u64::from(back.left);
                back.calls.answered(now, in_flight, wanted);
                if back.ring.answered() {
                    // The re-arm of before 2011 has found a request, and nobody is going to kick for it.
                    back.kicked(now);
                }
            }
            Task::Call(guest) => {
                cx.count.call(now);
                cx.send(Event::Call(guest));
            }
        }
    }

    /// What its processor does next, and for how long.
    fn begin(&mut self, backs: &mut [Back], cx: &mut Cx<'_>) -> Option<(Span, Task)> {
        let (now, cost) = (cx.now, cx.cost);
        for &guest in &self.guests {
            if backs[guest].calls.take(now) {
                return Some((cost.event, Task::Call(guest)));
            }
        }
        let asleep = self.wakes_for_answers && !self.awake;
        if !asleep && let Some((guest, cookie)) = self.answers.pop_front() {
            return Some((cost.answer, Task::Answer(guest, cookie)));
        }
        if !self.awake {
            let due = |g: &usize| backs[*g].is_due(now);
            if self.answers.is_empty() && !self.guests.iter().any(due) {
                return None;
            }
            cx.count.wakeup(now);
            return Some((cost.wake, Task::Wake));
        }
        let mut spins = false;
        for turn in 0..self.guests.len() {
            let at = (self.turn + turn) % self.guests.len();
            let guest = self.guests[at];
            if let Some(task) = backs[guest].work(guest, now, &mut spins) {
                self.turn = at + 1;
                let length = match task {
                    Task::Look(_) => cost.look,
                    _ => cost.take,
                };
                return Some((length, task));
            }
        }
        if spins {
            self.spins.get_or_insert(now);
        } else {
            self.spun(cx);
            self.awake = false;
        }
        None
    }
}

impl Back {
    /// What was seen is taken. Returns a request that has come meanwhile; says if the thread `spins` for this ring.
    fn rest(&mut self, now: Instant, spins: &mut bool) -> Option<u64> {
        while self.open {
            let found = std::mem::take(&mut self.found);
            match self.kicks.plan() {
                _ if found > 0 => {
                    self.kicks.looked(now, found);
                }
                Plan::Look => {
                    self.kicks.looked(now, 0);
                }
                Plan::Spin(until) if until <= now => {
                    self.kicks.timer(now);
                }
                Plan::Spin(_) => {
                    self.look();
                    *spins |= self.left == 0;
                    return self.take();
                }
                Plan::Arm if self.ring.drained() => {
                    self.look();
                    return self.take();
                }
                Plan::Arm | Plan::Wait(_) | Plan::Nothing => self.open = false,
            }
        }
        None
    }

    /// What there is to do: the next request of those that were seen, the next look, or nothing; then the thread may spin.
    fn work(&mut self, guest: usize, now: Instant, spins: &mut bool) -> Option<Task> {
        if let Some(cookie) = self.take() {
            return Some(Task::Take(cookie));
        }
        if let Some(cookie) = self.rest(now, spins) {
            return Some(Task::Take(cookie));
        }
        let heard = std::mem::take(&mut self.noise);
        if self.open {
            // It spins: a kick interrupts it.
            return heard.then_some(Task::Look(guest));
        }
        if heard {
            self.kicks.kicked(now, now);
        }
        self.is_due(now).then_some(Task::Look(guest))
    }
}
