//! The choice of the next request: priorities, batches and deadlines.

use super::queue::{Direction, MqDeadlineQueue};
use super::{MqDeadline, PRIORITIES};
use crate::table::Table;
use crate::time::Instant;

impl MqDeadline {
    /// Returns the request whose next piece is dispatched now (Linux: `dd_dispatch_request`).
    pub(super) fn choose(&mut self, now: Instant) -> Option<u32> {
        if let Some(request) = self.choose_aged(now) {
            return Some(request);
        }
        for priority in 0..PRIORITIES {
            let request = self.choose_at(priority, now);
            // A busy priority without a dispatchable request still blocks the lower ones, as in
            // Linux.
            if request.is_some() || self.is_busy(priority) {
                return request;
            }
        }
        None
    }

    /// Returns a request that higher priorities have delayed for too long (Linux:
    /// `dd_dispatch_prio_aged_requests`).
    fn choose_aged(&mut self, now: Instant) -> Option<u32> {
        // With one busy priority there is no other that could delay it.
        let busy = (0..PRIORITIES).filter(|&p| self.is_busy(p)).count();
        if busy < 2 {
            return None;
        }
        let age = self.config.prio_aging_expire;
        // As in Linux, `choose_at` may have begun or ended a batch even if its request has not
        // waited for that long.
        (1..PRIORITIES).find_map(|priority| {
            let chosen = self.choose_at(priority, now);
            chosen.filter(|&request| self.waiting.arrival_time(request) + age <= now)
        })
    }

    /// Returns a request of this priority (Linux: `__dd_dispatch_request`).
    fn choose_at(&mut self, priority: usize, now: Instant) -> Option<u32> {
        let queue = self.queues[priority];
        match queue.next(self.direction) {
            Some(next) if self.sent < self.config.fifo_batch => Some(next),
            _ => self.begin_batch(&queue, now),
        }
    }

    /// Chooses the direction of a new batch, and its first request.
    fn begin_batch(&mut self, queue: &MqDeadlineQueue, now: Instant) -> Option<u32> {
        let (reads, writes) = (
            queue.oldest(Direction::Read),
            queue.oldest(Direction::Write),
        );
        let direction = match (reads, writes) {
            (None, None) => return None,
            (Some(_), None) => Direction::Read,
            (Some(_), Some(_)) if self.reads_go_first() => Direction::Read,
            (_, Some(_)) => Direction::Write,
        };
        // Reads come first `writes_starved` times again after each batch of writes.
        if direction == Direction::Write {
            self.starved = 0;
        }
        let oldest = queue.oldest(direction)?;
        // The batch begins where the last one of this direction ended, unless its oldest request is
        // overdue.
        let request = match queue.next(direction) {
            Some(next) if !self.is_overdue(oldest, direction, now) => next,
            _ => oldest,
        };
        self.direction = direction;
        self.sent = 0;
        Some(request)
    }

    /// Returns true if reads come first although both directions have requests. That is so
    /// `writes_starved` times.
    fn reads_go_first(&mut self) -> bool {
        let first = self.starved < self.config.writes_starved;
        self.starved += 1;
        first
    }

    /// Returns true if the oldest request of a direction is overdue (Linux: `deadline_check_fifo`).
    fn is_overdue(&self, oldest: u32, direction: Direction, now: Instant) -> bool {
        let expire = match direction {
            Direction::Read => self.config.read_expire,
            Direction::Write => self.config.write_expire,
        };
        self.waiting.arrival_time(oldest) + expire <= now
    }

    /// Prefetches the requests behind the first one of a batch, because the batch most likely
    /// continues with them.
    pub(super) fn look_ahead(&mut self, table: &Table, request: u32) {
        let queue = &self.queues[self.waiting.priority(request)];
        let batch = self.config.fifo_batch as usize;
        self.waiting.look_behind(queue, request, batch, table);
    }

    /// Accounts for a piece that is dispatched.
    pub(super) fn send(&mut self, request: u32, last: bool) {
        let priority = self.waiting.priority(request);
        (self.waiting).on_dispatch(&mut self.queues[priority], request, last);
        self.in_drive[priority] += 1;
        self.sent += 1;
    }
}
