//! The path of requests and answers between clients and the layer.

use crate::{CpuStall, Machine, Path};
use std::collections::VecDeque;
use weir_core::{Done, Instant, Request, Span};

/// Requests and answers in transit. All have the same latency, so that both directions keep their
/// order.
#[derive(Debug)]
pub(crate) struct Transit {
    path: Path,
    machine: Machine,
    /// The number of turns so far, and of stalls that have ended. They are positions in the
    /// machine's lists.
    woken: usize,
    stalled: usize,
    /// The time at which the server's present turn ends.
    busy: Instant,
    /// The number of requests received and answered in the present turn.
    moved: u64,
    requests: VecDeque<(Instant, Request)>,
    /// Answers of the present turn, which leave at its end.
    leaving: Vec<Done>,
    answers: VecDeque<(Instant, Done)>,
}

impl Transit {
    /// Creates a path with space for `capacity` requests and as many answers.
    pub(crate) fn new(path: Path, machine: &Machine, capacity: u32) -> Self {
        // Clients that call the layer directly never have anything in transit.
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

    /// Returns true if clients call the layer directly, so that nothing is ever in transit.
    #[inline]
    pub(crate) fn is_direct(&self) -> bool {
        self.path == Path::DIRECT
    }

    /// Sends a request of a client to the server.
    pub(crate) fn send(&mut self, now: Instant, request: Request) {
        (self.requests).push_back((now + self.path.latency, request));
    }

    /// Adds an answer of the layer to those of the present turn.
    pub(crate) fn answer(&mut self, done: Done) {
        self.moved += 1;
        self.leaving.push(done);
    }

    /// The time at which the server's next turn begins. The cause is an arriving request, work that
    /// must be done `at_once`, or the drive or a timer that is due at `due`.
    pub(crate) fn next_turn(
        &self,
        due: Option<Instant>,
        at_once: Option<Instant>,
    ) -> Option<Instant> {
        let due = due.map(|due| {
            // Only a sleeping thread notices its wake-up late. A thread that is still busy at that
            // time needs none.
            let asleep = due > self.busy;
            due + if asleep {
                self.wake_up_delay()
            } else {
                Span::ZERO
            }
        });
        let request = self.requests.front().map(|r| r.0);
        // A busy server begins its next turn when the present one ends, whatever the cause.
        let first = [due, at_once, request].into_iter().flatten().min()?;
        let begin = first.max(self.busy);
        // Stalls are in order, so only the next one can cover the beginning.
        let stall = self.stall().filter(|stall| stall.at <= begin);
        Some(stall.map_or(begin, |stall| begin.max(stall.at + stall.length)))
    }

    /// The delay of the thread's next wake-up. The list of the machine is used cyclically.
    fn wake_up_delay(&self) -> Span {
        let late = &self.machine.late;
        late.get(self.woken % late.len().max(1))
            .copied()
            .unwrap_or(Span::ZERO)
    }

    /// The next stall, or the one that has not ended yet.
    fn stall(&self) -> Option<CpuStall> {
        self.machine.stalls.get(self.stalled).copied()
    }

    /// Ends the server's turn that began at `now`: computes its length and sends its answers.
    pub(crate) fn end_turn(&mut self, now: Instant) {
        // The processor time is that of a request with its answer, and `moved` counts the two
        // separately.
        let work = self.path.processor.as_nanos() * self.moved / 2;
        self.busy = now + self.path.turn + Span::from_nanos(work);
        self.woken += 1;
        while let Some(stall) = self.stall().filter(|stall| stall.at < self.busy) {
            // A stall during the turn makes it longer. A stall before the turn has delayed its
            // beginning.
            if stall.at >= now {
                self.busy += stall.length;
            }
            self.stalled += 1;
        }
        self.moved = 0;
        let arrival = self.busy + self.path.latency;
        (self.answers).extend(self.leaving.drain(..).map(|done| (arrival, done)));
    }

    /// The time at which the next answer arrives at its client.
    #[inline]
    pub(crate) fn next_answer(&self) -> Option<Instant> {
        self.answers.front().map(|a| a.0)
    }

    /// Removes and returns the next request that has reached the server by `now`.
    #[inline]
    pub(crate) fn pop_request(&mut self, now: Instant) -> Option<Request> {
        self.requests.front().filter(|r| r.0 <= now)?;
        self.moved += 1;
        self.requests.pop_front().map(|r| r.1)
    }

    /// Removes and returns the next answer that has reached its client by `now`.
    #[inline]
    pub(crate) fn pop_answer(&mut self, now: Instant) -> Option<Done> {
        self.answers.front().filter(|a| a.0 <= now)?;
        self.answers.pop_front().map(|a| a.1)
    }
}
