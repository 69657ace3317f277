//! Virtual machines and their back end: rings between the clients and the layer.
//!
//! Each guest has a processor, on which its block driver puts requests into a ring of its own, is interrupted, and takes responses
//! out. Each thread of the back end serves the rings of some guests: it is woken by a guest's notification (a *kick*), takes requests,
//! hands them to the layer, and puts responses into the ring, of which it notifies the guest (a *call*). A processor does one thing at a
//! time, and everything takes the time that the scenario says ([`Cost`]).
//!
//! The rings are the ones that the server speaks ([`weir_wire::ring`]), in plain memory, with both halves of each in this process; when to
//! look and when to call is what [`weir_wire::notify`] decides there and here.

mod back;
mod count;
mod front;
mod notify;
mod queue;

use back::{Back, Thread};
use count::Count;
use front::Front;
use std::collections::VecDeque;
use weir_config::scenario::{Cost, Guest, Scenario, Threads};
use weir_core::{Done, Instant, Request, Span};
use weir_measure::Rings as Counted;

/// What comes out of the rings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Out {
    /// The back end submits a request.
    Submit(Request),
    /// A guest has its response.
    Deliver(Done),
}

/// All guests, and all threads of the back end.
#[derive(Debug)]
pub(crate) struct Rings {
    guests: Vec<Front>,
    backs: Vec<Back>,
    threads: Vec<Thread>,
    /// The guest of each client, and of each request.
    of: Vec<u32>,
    by_cookie: Vec<u32>,
    /// Requests in rings or below, and the answers of those that are done, by the cookie.
    requests: Vec<Option<Request>>,
    answers: Vec<Option<Done>>,
    /// The number of the batch that what is sent now is in.
    batch: u64,
    /// Events on their way, in the order in which they arrive.
    events: VecDeque<(Instant, Event)>,
    storms: Vec<Storm>,
    /// Something was sent or answered since they ran.
    changed: bool,
    cost: Cost,
    count: Count,
}

/// A notification on its way. All take as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// To the back end, of a guest.
    Kick(usize),
    /// To a guest.
    Call(usize),
}

/// A guest that kicks without a request.
#[derive(Debug)]
struct Storm {
    guest: usize,
    each: Span,
    next: Instant,
}

impl Storm {
    /// The kicks of a guest without a request, if it sends any.
    fn new(scenario: &Scenario, guest: usize) -> Option<Self> {
        let mine = scenario.clients.iter();
        let mine = mine.filter(|client| client.guest as usize == guest);
        let rate: u64 = mine.map(|client| u64::from(client.empty_kicks)).sum();
        let each = 1_000_000_000_u64.checked_div(rate)?;
        let each = Span::from_nanos(each.max(1));
        Some(Self {
            guest,
            each,
            next: Instant::ZERO + each,
        })
    }
}

/// What the parts of a run have in common when they run.
struct Cx<'a> {
    now: Instant,
    cost: &'a Cost,
    count: &'a mut Count,
    requests: &'a mut Vec<Option<Request>>,
    answers: &'a mut Vec<Option<Done>>,
    events: &'a mut VecDeque<(Instant, Event)>,
    out: &'a mut Vec<Out>,
}

impl Cx<'_> {
    /// An event leaves.
    fn send(&mut self, event: Event) {
        (self.events).push_back((self.now + self.cost.ipi, event));
    }
}

impl Rings {
    /// The guests of a scenario. `requests`: as many as there can be at a time.
    pub(crate) fn new(scenario: &Scenario, guest: &Guest, requests: u32) -> Self {
        let of: Vec<u32> = scenario.clients.iter().map(|c| c.guest).collect();
        let count = of.iter().max().map_or(0, |last| last + 1) as usize;
        let (mut guests, mut backs) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let (front, back) = queue::ring(guest.ring, guest.slots, requests);
            guests.push(Front::new(front, guest.plug));
            backs.push(Back::new(back, guest));
        }
        let threads = match guest.threads {
            Threads::Each => (0..count).map(|g| Thread::new(vec![g], false)).collect(),
            Threads::One => vec![Thread::new((0..count).collect(), true)],
        };
        let storms = (0..count).filter_map(|number| Storm::new(scenario, number));
        let start = Instant::ZERO + scenario.warm_up;
        Self {
            guests,
            backs,
            threads,
            of,
            by_cookie: vec![0; requests as usize],
            requests: vec![None; requests as usize],
            answers: vec![None; requests as usize],
            batch: 0,
            events: VecDeque::new(),
            storms: storms.collect(),
            changed: false,
            cost: guest.cost,
            count: Count::new(start),
        }
    }

    /// What is sent from now on may not be pushed together with what was sent before, if it is `apart`.
    pub(crate) fn next_batch(&mut self, apart: bool) {
        self.batch += u64::from(apart);
    }

    /// A request, or a piece of one, goes to the guest's block driver.
    pub(crate) fn send(&mut self, client: u32, request: Request) {
        let guest = self.of[client as usize] as usize;
        self.requests[request.cookie as usize] = Some(request);
        self.by_cookie[request.cookie as usize] = guest as u32;
        self.guests[guest].send(request.cookie, self.batch);
        self.changed = true;
    }

    /// The layer, or the back end for it, answers a request.
    pub(crate) fn answer(&mut self, done: Done) {
        let guest = self.by_cookie[done.cookie as usize] as usize;
        self.answers[done.cookie as usize] = Some(done);
        let thread = self.thread_of(guest);
        self.threads[thread].answer(guest, done.cookie);
        self.changed = true;
    }

    /// When something happens next: `now`, if something was sent or answered since they ran.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        if self.changed {
            return Some(now);
        }
        let guests = self.guests.iter().filter_map(Front::next);
        let threads = self.threads.iter().filter_map(Thread::next);
        // What is due while its thread is busy waits for that.
        let busy = |guest: usize| self.threads[self.thread_of(guest)].next().is_some();
        let timers = self.backs.iter().enumerate();
        let timers = timers.filter_map(|(guest, back)| Some((guest, back.next()?)));
        let timers = timers.filter(|(guest, at)| *at > now || !busy(*guest));
        let timers = timers.map(|(_, at)| at);
        let storms = self.storms.iter().map(|s| s.next);
        let event = self.events.front().map(|e| e.0);
        guests
            .chain(threads)
            .chain(timers)
            .chain(storms)
            .chain(event)
            .min()
    }

    /// Everything up to `now`.
    pub(crate) fn run(&mut self, now: Instant, out: &mut Vec<Out>) {
        self.changed = false;
        for storm in &mut self.storms {
            if storm.next <= now {
                storm.next = now + storm.each;
                self.count.kick(now);
                self.backs[storm.guest].kicked(now);
            }
        }
        while let Some(&(_, event)) = self.events.front().filter(|e| e.0 <= now) {
            self.events.pop_front();
            match event {
                Event::Kick(guest) => self.backs[guest].kicked(now),
                Event::Call(guest) => self.guests[guest].called(),
            }
        }
        let mut cx = Cx {
            now,
            cost: &self.cost,
            count: &mut self.count,
            requests: &mut self.requests,
            answers: &mut self.answers,
            events: &mut self.events,
            out,
        };
        // What one of them does another may see at once, and be the sooner done: until nobody can go on.
        loop {
            let mut went_on = false;
            for (number, guest) in self.guests.iter_mut().enumerate() {
                went_on |= guest.run(number, &mut cx);
            }
            for thread in &mut self.threads {
                went_on |= thread.run(&mut self.backs, &mut cx);
            }
            if !went_on {
                break;
            }
        }
        debug_assert_eq!(self.forgotten(), None, "asleep with work at {now:?}");
    }

    /// What was counted up to `until`.
    pub(crate) fn counted(&self, until: Instant) -> Counted {
        self.count.counted(until)
    }

    /// The first guest with work for a side that sleeps, and no event on its way. Whatever costs and policies, there is none.
    fn forgotten(&self) -> Option<usize> {
        let on_way = |wanted: Event| self.events.iter().any(|(_, event)| *event == wanted);
        (0..self.guests.len()).find(|&guest| {
            let (front, back) = (&self.guests[guest], &self.backs[guest]);
            let thread = &self.threads[self.thread_of(guest)];
            if front.next().is_some() || thread.next().is_some() || back.is_going_to_look() {
                return false;
            }
            let requests = front.pushed() > back.taken() && back.in_flight() == 0;
            let responses = back.answered() > front.taken();
            let kicked = requests && !on_way(Event::Kick(guest));
            let called = responses && !on_way(Event::Call(guest)) && !back.is_going_to_call();
            kicked || called
        })
    }

    /// The thread that serves a guest: its own, or the only one.
    fn thread_of(&self, guest: usize) -> usize {
        guest.min(self.threads.len() - 1)
    }
}
