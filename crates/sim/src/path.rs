//! Requests and answers on their way between clients and the layer.

use crate::{Machine, Path, Stall};
use std::collections::VecDeque;
use weir_core::{Done, Instant, Request, Span};

/// Requests and answers on their way. With the same latency for all, both ways keep their order.
#[derive(Debug)]
pub(crate) struct Transit {
    path: Path,
    machine: Machine,
    /// Wake-ups and stalls that are over.
    woken: usize,
    stalled: usize,
    /// The server's turn lasts until then.
    busy: Instant,
    /// Requests taken in and answered in this turn.
    moved: u64,
    requests: VecDeque<(Instant, Request)>,
    /// Answers of this turn.
    leaving: Vec<Done>,
    answers: VecDeque<(Instant, Done)>,
}

impl Transit {
    /// Room for `capacity` requests and as many answers.
    pub(crate) fn new(path: Path, machine: &Machine, capacity: u32) -> Self {
        let room = if path == Path::DIRECT { 0 } else { capacity } as usize;
        Self {
            path,
            machine: machine.clone(),
            woken: 0,
            stalled: 0,
            busy: Instant::ZERO,
            moved: 0,
            requests: VecDeque::with_capacity(room),
            leaving: Vec::with_capacity(room),
            answers: VecDeque::with_capacity(room),
        }
    }

    /// True if nothing is ever on its way.
    #[inline]
    pub(crate) fn is_direct(&self) -> bool {
        self.path == Path::DIRECT
    }

    /// A client sends a request.
    pub(crate) fn send(&mut self, now: Instant, request: Request) {
        (self.requests).push_back((now + self.path.latency, request));
    }

    /// The layer has answered.
    pub(crate) fn answer(&mut self, done: Done) {
        self.moved += 1;
        self.leaving.push(done);
    }

    /// When the server's next turn begins: for a request that comes, for something that it has to do `at_once`, or for the drive
    /// or a timer, due at `due`.
    pub(crate) fn next_turn(
        &self,
        due: Option<Instant>,
        at_once: Option<Instant>,
    ) -> Option<Instant> {
        let due = due.map(|due| {
            let asleep = due > self.busy;
            due + if asleep { self.late() } else { Span::ZERO }
        });
        let request = self.requests.front().map(|r| r.0);
        let first = [due, at_once, request].into_iter().flatten().min()?;
        let begin = first.max(self.busy);
        let stall = self.stall().filter(|stall| stall.at <= begin);
        Some(stall.map_or(begin, |stall| begin.max(stall.at + stall.length)))
    }

    /// How late the thread is the next time.
    fn late(&self) -> Span {
        let late = &self.machine.late;
        late.get(self.woken % late.len().max(1))
            .copied()
            .unwrap_or(Span::ZERO)
    }

    /// The stall that is next, or not over yet.
    fn stall(&self) -> Option<Stall> {
        self.machine.stalls.get(self.stalled).copied()
    }

    /// The server's turn that began at `now` has done what there was to do.
    pub(crate) fn end_turn(&mut self, now: Instant) {
        let work = self.path.processor.as_nanos() * self.moved / 2;
        self.busy = now + self.path.turn + Span::from_nanos(work);
        self.woken += 1;
        while let Some(stall) = self.stall().filter(|stall| stall.at < self.busy) {
            // One in the midst of the turn makes it longer; one before delayed its beginning.
            if stall.at >= now {
                self.busy += stall.length;
            }
            self.stalled += 1;
        }
        self.moved = 0;
        let arrival = self.busy + self.path.latency;
        (self.answers).extend(self.leaving.drain(..).map(|done| (arrival, done)));
    }

    /// When the next answer arrives.
    #[inline]
    pub(crate) fn next_answer(&self) -> Option<Instant> {
        self.answers.front().map(|a| a.0)
    }

    /// The next request that has reached the server by `now`.
    #[inline]
    pub(crate) fn arrived(&mut self, now: Instant) -> Option<Request> {
        self.requests.front().filter(|r| r.0 <= now)?;
        self.moved += 1;
        self.requests.pop_front().map(|r| r.1)
    }

    /// The next answer that has reached its client by `now`.
    #[inline]
    pub(crate) fn answered(&mut self, now: Instant) -> Option<Done> {
        self.answers.front().filter(|a| a.0 <= now)?;
        self.answers.pop_front().map(|a| a.1)
    }
}
