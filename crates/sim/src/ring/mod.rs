//! Virtual machines and their back end: rings between the clients and the layer.
//!
//! Each guest has a processor. On it, the guest's block driver puts requests into a ring of its
//! own, is interrupted, and takes responses out of the ring. Each thread of the back end serves the
//! rings of some guests. It is woken by a guest's notification (a *kick*), takes requests, submits
//! them to the layer, and puts responses into the ring, of which it notifies the guest (a *call*).
//! A processor does one task at a time, and each task takes the time that the scenario states in
//! [`Cost`].
//!
//! The rings are those of the server ([`weir_wire::ring`]), in plain memory, with both halves of
//! each in this process. As in the server, [`weir_wire::notify`] decides when to check a ring and
//! when to call.

mod back;
mod count;
mod front;
mod notify;
mod queue;

use back::{BackEndThread, GuestBack};
use count::Count;
use front::GuestFront;
use std::collections::VecDeque;
use weir_config::scenario::{Cost, Guest, Scenario, Threads};
use weir_core::{Done, Instant, Request, Span};
use weir_measure::Rings as Counted;

/// An effect of the rings on the rest of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RingOutput {
    /// The back end submits a request to the layer.
    Submit(Request),
    /// A guest delivers a response to its client.
    Deliver(Done),
}

/// All guests, and all threads of the back end.
#[derive(Debug)]
pub(crate) struct Rings {
    guests: Vec<GuestFront>,
    backs: Vec<GuestBack>,
    threads: Vec<BackEndThread>,
    /// The guest of each client, and of each request by cookie.
    of: Vec<u32>,
    by_cookie: Vec<u32>,
    /// Requests in rings or below, and the answers of completed ones, by cookie.
    requests: Vec<Option<Request>>,
    answers: Vec<Option<Done>>,
    /// The number of the present batch, to which new requests belong.
    batch: u64,
    /// Notifications in transit, in order of arrival.
    events: VecDeque<(Instant, RingNotification)>,
    storms: Vec<Storm>,
    /// True if a request was sent or answered since the last call of `run`.
    changed: bool,
    cost: Cost,
    count: Count,
}

/// A notification in transit. All notifications take the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RingNotification {
    /// A kick from a guest to the back end.
    Kick(usize),
    /// A call from the back end to a guest.
    Call(usize),
}

/// A guest that sends kicks without requests, at a constant rate.
#[derive(Debug)]
struct Storm {
    guest: usize,
    each: Span,
    next: Instant,
}

impl Storm {
    /// The empty kicks of a guest, if any of its clients sends them.
    fn new(scenario: &Scenario, guest: usize) -> Option<Self> {
        let mine = scenario.clients.iter();
        let mine = mine.filter(|client| client.guest as usize == guest);
        let rate: u64 = mine.map(|client| u64::from(client.empty_kicks)).sum();
        // A rate of zero has no interval, and then there is no storm.
        let each = 1_000_000_000_u64.checked_div(rate)?;
        let each = Span::from_nanos(each.max(1));
        Some(Self {
            guest,
            each,
            next: Instant::ZERO + each,
        })
    }
}

/// The state that all parts share while they run.
struct RingContext<'a> {
    now: Instant,
    cost: &'a Cost,
    count: &'a mut Count,
    requests: &'a mut Vec<Option<Request>>,
    answers: &'a mut Vec<Option<Done>>,
    events: &'a mut VecDeque<(Instant, RingNotification)>,
    out: &'a mut Vec<RingOutput>,
}

impl RingContext<'_> {
    /// Sends a notification, which arrives after the latency of an inter-processor interrupt.
    fn send(&mut self, event: RingNotification) {
        (self.events).push_back((self.now + self.cost.ipi, event));
    }
}

impl Rings {
    /// Creates the guests of a scenario. `requests` is the maximum number of requests and parts at
    /// a time.
    pub(crate) fn new(scenario: &Scenario, guest: &Guest, requests: u32) -> Self {
        let of: Vec<u32> = scenario.clients.iter().map(|c| c.guest).collect();
        let count = of.iter().max().map_or(0, |last| last + 1) as usize;
        let (mut guests, mut backs) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let (front, back) = queue::ring(guest.ring, guest.slots, requests);
            guests.push(GuestFront::new(front, guest.plug));
            backs.push(GuestBack::new(back, guest));
        }
        let threads = match guest.threads {
            Threads::Each => (0..count)
                .map(|g| BackEndThread::new(vec![g], false))
                .collect(),
            Threads::One => vec![BackEndThread::new((0..count).collect(), true)],
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

    /// Begins a new batch if `apart` is true. Requests of different batches are not published
    /// together, unless the ring was full.
    pub(crate) fn next_batch(&mut self, apart: bool) {
        self.batch += u64::from(apart);
    }

    /// Passes a request, or a part of one, to the guest's block driver.
    pub(crate) fn send(&mut self, client: u32, request: Request) {
        let guest = self.of[client as usize] as usize;
        self.requests[request.cookie as usize] = Some(request);
        self.by_cookie[request.cookie as usize] = guest as u32;
        self.guests[guest].send(request.cookie, self.batch);
        self.changed = true;
    }

    /// Passes an answer of the layer, or of the back end itself, to the thread that serves the
    /// guest.
    pub(crate) fn answer(&mut self, done: Done) {
        let guest = self.by_cookie[done.cookie as usize] as usize;
        self.answers[done.cookie as usize] = Some(done);
        let thread = self.thread_of(guest);
        self.threads[thread].answer(guest, done.cookie);
        self.changed = true;
    }

    /// The time of the next event. It is `now` if a request was sent or answered since the last
    /// call of `run`.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        if self.changed {
            return Some(now);
        }
        let guests = self.guests.iter().filter_map(GuestFront::next);
        // The end of a processor's task is an event as well, because another side may then be able
        // to continue.
        let threads = self.threads.iter().filter_map(BackEndThread::next);
        // A timer that is due while its thread is busy waits for the end of the task.
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

    /// Processes all events up to `now`.
    pub(crate) fn run(&mut self, now: Instant, out: &mut Vec<RingOutput>) {
        self.changed = false;
        for storm in &mut self.storms {
            if storm.next <= now {
                storm.next = now + storm.each;
                self.count.kick(now);
                self.backs[storm.guest].on_kick(now);
            }
        }
        while let Some(&(_, event)) = self.events.front().filter(|e| e.0 <= now) {
            self.events.pop_front();
            match event {
                RingNotification::Kick(guest) => self.backs[guest].on_kick(now),
                RingNotification::Call(guest) => self.guests[guest].on_call(),
            }
        }
        let mut cx = RingContext {
            now,
            cost: &self.cost,
            count: &mut self.count,
            requests: &mut self.requests,
            answers: &mut self.answers,
            events: &mut self.events,
            out,
        };
        // The step of one side may let another side continue at the same instant. The loop ends
        // when no side can continue.
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
        debug_assert_eq!(
            self.sleeping_guest_with_work(),
            None,
            "asleep with work at {now:?}"
        );
    }

    /// The counters up to `until`.
    pub(crate) fn counted(&self, until: Instant) -> Counted {
        self.count.counted(until)
    }

    /// The first guest with work for a side that sleeps although no event is in transit. Such a
    /// guest would hang, so there must be none, whatever the costs and policies.
    fn sleeping_guest_with_work(&self) -> Option<usize> {
        let on_way =
            |wanted: RingNotification| self.events.iter().any(|(_, event)| *event == wanted);
        (0..self.guests.len()).find(|&guest| {
            let (front, back) = (&self.guests[guest], &self.backs[guest]);
            let thread = &self.threads[self.thread_of(guest)];
            if front.next().is_some() || thread.next().is_some() || back.is_look_pending() {
                return false;
            }
            let requests = front.pushed() > back.taken() && back.in_flight() == 0;
            let responses = back.answered() > front.taken();
            let kicked = requests && !on_way(RingNotification::Kick(guest));
            let called =
                responses && !on_way(RingNotification::Call(guest)) && !back.is_call_pending();
            kicked || called
        })
    }

    /// The thread that serves a guest: its own, or the only one.
    fn thread_of(&self, guest: usize) -> usize {
        guest.min(self.threads.len() - 1)
    }
}
