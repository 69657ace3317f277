//! A guest: its processor and its half of the ring.

use super::queue::FrontHalf;
use super::{RingContext, RingNotification, RingOutput};
use std::collections::VecDeque;
use weir_core::{Instant, Span};

/// The block driver of one guest, with the guest's processor.
#[derive(Debug)]
pub(super) struct GuestFront {
    ring: FrontHalf,
    /// The maximum number of requests before a notification.
    plug: u32,
    /// Requests that are not in the ring yet: cookie and batch.
    queue: VecDeque<(u64, u64)>,
    /// The present task of the processor and the time at which it ends.
    task: Option<(Instant, GuestTask)>,
    /// True if a call has arrived and its interrupt has not been taken yet.
    called: bool,
    /// True while the interrupt handler takes responses.
    handling: bool,
    /// The number of requests in the ring that the back end cannot see yet, and the batch of the
    /// last one.
    unseen: u32,
    batch: u64,
    /// True if requests have waited for space in the ring. As soon as there is space, requests of
    /// all clients are pushed together.
    full: bool,
    pushed: u64,
    taken: u64,
}

#[derive(Clone, Copy, Debug)]
enum GuestTask {
    /// A request is prepared and put into the ring.
    Request(u64, u64),
    /// The back end is notified.
    Kick,
    Interrupt,
    /// A response is processed and delivered.
    Response(u64),
}

impl GuestFront {
    pub(super) fn new(ring: FrontHalf, plug: u32) -> Self {
        Self {
            ring,
            plug,
            queue: VecDeque::new(),
            task: None,
            called: false,
            handling: false,
            unseen: 0,
            batch: 0,
            full: false,
            pushed: 0,
            taken: 0,
        }
    }

    pub(super) fn send(&mut self, cookie: u64, batch: u64) {
        self.queue.push_back((cookie, batch));
    }

    /// Notes a call of the back end, which interrupts the guest.
    pub(super) fn on_call(&mut self) {
        self.called = true;
    }

    /// The time at which the processor completes its present task.
    pub(super) fn next(&self) -> Option<Instant> {
        self.task.map(|task| task.0)
    }

    /// The number of requests that the back end can see. `taken` is the number of responses taken.
    /// Both count since the beginning.
    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Completes the task that has ended by now and begins the next ones. Returns true if anything
    /// happened.
    pub(super) fn run(&mut self, number: usize, cx: &mut RingContext<'_>) -> bool {
        let mut happened = false;
        loop {
            if let Some((until, task)) = self.task {
                if until > cx.now {
                    return happened;
                }
                self.task = None;
                self.end(task, number, cx);
            } else if let Some((length, task)) = self.begin(cx) {
                cx.count.guest(cx.now, length);
                self.task = Some((cx.now + length, task));
            } else {
                return happened;
            }
            happened = true;
        }
    }

    fn end(&mut self, task: GuestTask, number: usize, cx: &mut RingContext<'_>) {
        match task {
            GuestTask::Request(cookie, batch) => {
                self.ring.push(cookie);
                self.unseen += 1;
                self.batch = batch;
            }
            GuestTask::Kick => {
                cx.count.kick(cx.now);
                cx.send(RingNotification::Kick(number));
            }
            GuestTask::Interrupt => self.handling = true,
            GuestTask::Response(cookie) => {
                cx.requests[cookie as usize] = None;
                let done = cx.answers[cookie as usize].take();
                cx.out.extend(done.map(RingOutput::Deliver));
            }
        }
    }

    /// Chooses the next task of the processor. Returns the task's length and the task.
    fn begin(&mut self, cx: &RingContext<'_>) -> Option<(Span, GuestTask)> {
        let cost = cx.cost;
        // Requests are published in groups, so that one notification serves several of them.
        if self.unseen > 0 && !self.continues_batch() {
            self.pushed += u64::from(std::mem::take(&mut self.unseen));
            // The ring returns false if the back end has not asked for a kick, so that it needs
            // none.
            if self.ring.publish() {
                return Some((cost.event, GuestTask::Kick));
            }
        }
        while self.handling {
            if let Some(cookie) = self.ring.take() {
                self.taken += 1;
                return Some((cost.response, GuestTask::Response(cookie)));
            }
            // After the last response, the handler asks for the next call and checks once more, so
            // that no response is missed in between.
            self.handling = self.ring.arm();
        }
        if self.called {
            self.called = false;
            return Some((cost.interrupt, GuestTask::Interrupt));
        }
        // Responses must free slots first.
        if !self.ring.has_room() {
            self.full |= !self.queue.is_empty();
            return None;
        }
        let Some((cookie, batch)) = self.queue.pop_front() else {
            self.full = false;
            return None;
        };
        Some((cost.request, GuestTask::Request(cookie, batch)))
    }

    /// Returns true if another request is pushed before the back end is notified.
    fn continues_batch(&self) -> bool {
        let same = |next: &(u64, u64)| self.full || next.1 == self.batch;
        self.unseen < self.plug && self.ring.has_room() && self.queue.front().is_some_and(same)
    }
}
