//! The null drive: a fixed service time and a link.
//!
//! Each command takes [`NullConfig::service`], in parallel with all other commands in the drive.
//! After that, its bytes cross one serial link, in the order in which the services ended. Discards
//! and zeroing transfer no bytes and end with their service. A flush waits for its own service and
//! for all commands submitted before it. The drive has no other state, and offsets do not matter.
//!
//! With [`NullConfig::wake`], completions are visible only at multiples of a time. With
//! [`NullConfig::tick`], the link is replaced by a budget of bytes that is refilled every tick and
//! applies *before* the service, as in Linux's `null_blk`.

mod config;
mod ticks;

pub use config::NullConfig;

use crate::drive::link::SerialLink;
use crate::drive::ring::FixedQueue;
use crate::drive::{DriveModel, QueueFull, TimedCompletion};
use ticks::Ticks;
use weir_core::{Completion, Dispatch, DriveShape, Instant, Op, Span, Tag};

/// A null drive (see the description of the module).
///
/// Every call takes constant time. All commands have the same service time, so commands with data
/// end in the order of submission, and so do commands without data. Two queues therefore keep all
/// completions in order.
#[derive(Debug)]
pub struct Null {
    config: NullConfig,
    bandwidth: Bandwidth,
    /// Reads, writes and flushes, in the order in which they end.
    transfers: FixedQueue<CommandInFlight>,
    /// Discards, zeroing and queries of extents, in the order in which they end.
    others: FixedQueue<CommandInFlight>,
    /// The number of commands in each hardware queue.
    queued: Vec<u16>,
    now: Instant,
    /// The time at which the last of `transfers` ends.
    last: Instant,
    submitted: u64,
    in_flight: u32,
}

#[derive(Debug)]
enum Bandwidth {
    Unbounded,
    Serial(SerialLink),
    Lumps(Ticks),
}

#[derive(Clone, Copy, Debug)]
struct CommandInFlight {
    at: Instant,
    /// The start of service: the end minus the time that the command takes on an idle drive.
    began: Instant,
    sequence: u64,
    tag: Tag,
    queue: u16,
}

impl Null {
    /// Creates a drive from a validated configuration.
    fn new(config: &NullConfig) -> Self {
        // All commands can be of one kind, so each of the two queues has space for all tags.
        let room = usize::from(config.queues) * usize::from(config.tags);
        let blank = CommandInFlight {
            at: Instant::ZERO,
            began: Instant::ZERO,
            sequence: 0,
            tag: Tag(0),
            queue: 0,
        };
        // A tick requires a link (see `NullConfig::validate`), so it is checked first.
        let bandwidth = if config.tick > Span::ZERO {
            Bandwidth::Lumps(Ticks::new(config.tick, config.bytes_per_tick()))
        } else if config.link > 0 {
            Bandwidth::Serial(SerialLink::new(config.link))
        } else {
            Bandwidth::Unbounded
        };
        Self {
            config: *config,
            bandwidth,
            transfers: FixedQueue::new(room, blank),
            others: FixedQueue::new(room, blank),
            queued: std::vec![0; usize::from(config.queues)],
            now: Instant::ZERO,
            last: Instant::ZERO,
            submitted: 0,
            in_flight: 0,
        }
    }

    /// The configuration of the drive.
    pub fn config(&self) -> &NullConfig {
        &self.config
    }

    /// The time at which a command that arrives now ends.
    #[inline]
    fn end_time(&mut self, command: &Dispatch) -> Instant {
        let served = self.now + self.config.service;
        match command.op {
            Op::Read | Op::Write => match &mut self.bandwidth {
                Bandwidth::Unbounded => served,
                Bandwidth::Serial(link) => link.transfer(served, command.length),
                Bandwidth::Lumps(ticks) => {
                    // In `null_blk`, a command is throttled before its service starts.
                    ticks.pass(self.now, command.length) + self.config.service
                }
            },
            // Earlier commands without data have ended by `served`, so only transfers are
            // considered.
            Op::Flush => served.max(self.last),
            Op::Discard | Op::WriteZeroes | Op::Extents => served,
        }
    }

    /// The time that a command takes on an idle drive.
    #[inline]
    fn idle_time(&self, command: &Dispatch) -> Span {
        let transfer = match (&self.bandwidth, command.op) {
            (Bandwidth::Serial(link), Op::Read | Op::Write) => link.time(command.length),
            _ => Span::ZERO,
        };
        self.config.service + transfer
    }

    /// Returns true if the next completion is one of `others`, or `None` if the drive is idle.
    #[inline]
    fn is_other_first(&self) -> Option<bool> {
        match (self.transfers.first(), self.others.first()) {
            (None, None) => None,
            (Some(_), None) => Some(false),
            (None, Some(_)) => Some(true),
            (Some(t), Some(o)) => Some((o.at, o.sequence) < (t.at, t.sequence)),
        }
    }
}

impl DriveModel for Null {
    fn submit(&mut self, now: Instant, command: &Dispatch) -> Result<(), QueueFull> {
        self.now = self.now.max(now);
        let queued = &mut self.queued[usize::from(command.queue.0)];
        if *queued == self.config.tags {
            return Err(QueueFull);
        }
        *queued += 1;
        self.in_flight += 1;
        self.submitted += 1;
        // A polling drive notices the end of a command only at its next poll.
        let done = self.end_time(command).as_nanos();
        let at = Instant::from_nanos(self.config.next_completion_time(done));
        let entry = CommandInFlight {
            at,
            began: self.now.max(at.saturating_sub(self.idle_time(command))),
            sequence: self.submitted,
            tag: command.tag,
            queue: command.queue.0,
        };
        match command.op {
            Op::Read | Op::Write | Op::Flush => {
                debug_assert!(at >= self.last, "transfers end in order");
                self.last = at;
                self.transfers.push(entry);
            }
            Op::Discard | Op::WriteZeroes | Op::Extents => self.others.push(entry),
        }
        Ok(())
    }

    fn next_completion(&self) -> Option<Instant> {
        let transfer = self.transfers.first().map(|e| e.at);
        let other = self.others.first().map(|e| e.at);
        match (transfer, other) {
            (Some(t), Some(o)) => Some(t.min(o)),
            (at, None) | (None, at) => at,
        }
    }

    fn pop(&mut self, now: Instant) -> Option<TimedCompletion> {
        self.now = self.now.max(now);
        let from = if self.is_other_first()? {
            &mut self.others
        } else {
            &mut self.transfers
        };
        if from.first()?.at > self.now {
            return None;
        }
        let entry = from.pop()?;
        self.queued[usize::from(entry.queue)] -= 1;
        self.in_flight -= 1;
        Some(TimedCompletion {
            at: entry.at,
            began: entry.began,
            completion: Completion::ok(entry.tag),
        })
    }

    fn in_flight(&self) -> u32 {
        self.in_flight
    }

    fn shape(&self) -> DriveShape {
        self.config.shape()
    }
}

#[cfg(test)]
mod tests;
