//! What lies between clients and the layer.

use std::collections::VecDeque;
use weir_core::{Done, Instant, Request, Span};

/// The way from a client to the server and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Path {
    /// From the client to the server, and as long back.
    pub latency: Span,
    /// Time of the server's one processor that each request takes before the layer sees it, one after the other.
    pub processor: Span,
}

impl Path {
    /// No way at all: clients call the layer.
    pub const DIRECT: Self = Self {
        latency: Span::ZERO,
        processor: Span::ZERO,
    };
}

/// Requests and answers on their way. With the same latency for all, both ways keep their order.
#[derive(Debug)]
pub(crate) struct Transit {
    path: Path,
    /// The processor is busy until then.
    busy: Instant,
    requests: VecDeque<(Instant, Request)>,
    answers: VecDeque<(Instant, Done)>,
}

impl Transit {
    /// Room for `capacity` requests and as many answers.
    pub(crate) fn new(path: Path, capacity: u32) -> Self {
        let room = if path == Path::DIRECT { 0 } else { capacity };
        Self {
            path,
            busy: Instant::ZERO,
            requests: VecDeque::with_capacity(room as usize),
            answers: VecDeque::with_capacity(room as usize),
        }
    }

    /// True if nothing is ever on its way.
    #[inline]
    pub(crate) fn is_direct(&self) -> bool {
        self.path == Path::DIRECT
    }

    /// A client sends a request.
    pub(crate) fn send(&mut self, now: Instant, request: Request) {
        self.busy = self.busy.max(now + self.path.latency) + self.path.processor;
        self.requests.push_back((self.busy, request));
    }

    /// The layer has answered.
    pub(crate) fn answer(&mut self, now: Instant, done: Done) {
        self.answers.push_back((now + self.path.latency, done));
    }

    /// When the next request or answer arrives.
    #[inline]
    pub(crate) fn next(&self) -> Option<Instant> {
        let request = self.requests.front().map(|r| r.0);
        let answer = self.answers.front().map(|a| a.0);
        match (request, answer) {
            (Some(request), Some(answer)) => Some(request.min(answer)),
            (at, None) | (None, at) => at,
        }
    }

    /// The next request that has reached the layer by `now`.
    #[inline]
    pub(crate) fn arrived(&mut self, now: Instant) -> Option<Request> {
        self.requests.front().filter(|r| r.0 <= now)?;
        self.requests.pop_front().map(|r| r.1)
    }

    /// The next answer that has reached its client by `now`.
    #[inline]
    pub(crate) fn answered(&mut self, now: Instant) -> Option<Done> {
        self.answers.front().filter(|a| a.0 <= now)?;
        self.answers.pop_front().map(|a| a.1)
    }
}
