//! The null drive: a fixed service time and a link.
//!
//! Every command takes [`Config::service`], in parallel with all others in the drive. Its bytes then cross one serial link, in
//! the order in which the services ended. Discards and zeroing move no bytes and end with their service. A flush waits for
//! its own service and for everything submitted before it. There is no other state: offsets do not matter.
//!
//! With [`Config::wake`], completions are visible only at multiples of a time. With [`Config::tick`], the link is replaced by a
//! budget of bytes that is refilled every tick and applies *before* the service, as in Linux's `null_blk`.

mod config;
mod ticks;

pub use config::Config;

use crate::drive::link::Link;
use crate::drive::ring::Ring;
use crate::drive::{Busy, Drive, Ended};
use ticks::Ticks;
use weir_core::{Completion, Dispatch, DriveShape, Instant, Op, Span, Tag};

/// A null drive. See the module's documentation.
///
/// Every call takes constant time: all commands have the same service time, so those that move bytes end in the order of their
/// submission, and so do those that move none. Two queues therefore keep all completions in order.
#[derive(Debug)]
pub struct Null {
    config: Config,
    bandwidth: Bandwidth,
    /// Reads, writes and flushes.
    transfers: Ring<InFlight>,
    /// Discards and zeroing.
    others: Ring<InFlight>,
    /// Commands in each hardware queue.
    queued: Vec<u16>,
    now: Instant,
    /// When the last of `transfers` ends.
    last: Instant,
    submitted: u64,
    in_flight: u32,
}

#[derive(Debug)]
enum Bandwidth {
    Unbounded,
    Serial(Link),
    Lumps(Ticks),
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    at: Instant,
    /// The start of service: the end less the time that the command takes on an idle drive.
    began: Instant,
    sequence: u64,
    tag: Tag,
    queue: u16,
}

impl Null {
    /// `config` has been validated.
    fn new(config: &Config) -> Self {
        let room = usize::from(config.queues) * usize::from(config.tags);
        let blank = InFlight {
            at: Instant::ZERO,
            began: Instant::ZERO,
            sequence: 0,
            tag: Tag(0),
            queue: 0,
        };
        let bandwidth = if config.tick > Span::ZERO {
            Bandwidth::Lumps(Ticks::new(config.tick, config.lump()))
        } else if config.link > 0 {
            Bandwidth::Serial(Link::new(config.link))
        } else {
            Bandwidth::Unbounded
        };
        Self {
            config: *config,
            bandwidth,
            transfers: Ring::new(room, blank),
            others: Ring::new(room, blank),
            queued: std::vec![0; usize::from(config.queues)],
            now: Instant::ZERO,
            last: Instant::ZERO,
            submitted: 0,
            in_flight: 0,
        }
    }

    /// The configuration of the drive.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// When a command that arrives now ends.
    #[inline]
    fn end(&mut self, command: &Dispatch) -> Instant {
        let served = self.now + self.config.service;
        match command.op {
            Op::Read | Op::Write => match &mut self.bandwidth {
                Bandwidth::Unbounded => served,
                Bandwidth::Serial(link) => link.transfer(served, command.length),
                Bandwidth::Lumps(ticks) => {
                    ticks.pass(self.now, command.length) + self.config.service
                }
            },
            // Commands that move nothing were submitted before and so have ended by `served`.
            Op::Flush => served.max(self.last),
            Op::Discard | Op::WriteZeroes | Op::Extents => served,
        }
    }

    /// The time of a command on an idle drive.
    #[inline]
    fn alone(&self, command: &Dispatch) -> Span {
        let transfer = match (&self.bandwidth, command.op) {
            (Bandwidth::Serial(link), Op::Read | Op::Write) => link.time(command.length),
            _ => Span::ZERO,
        };
        self.config.service + transfer
    }

    /// True if the next completion is one of `others`.
    #[inline]
    fn others_first(&self) -> Option<bool> {
        match (self.transfers.first(), self.others.first()) {
            (None, None) => None,
            (Some(_), None) => Some(false),
            (None, Some(_)) => Some(true),
            (Some(t), Some(o)) => Some((o.at, o.sequence) < (t.at, t.sequence)),
        }
    }
}

impl Drive for Null {
    fn submit(&mut self, now: Instant, command: &Dispatch) -> Result<(), Busy> {
        self.now = self.now.max(now);
        let queued = &mut self.queued[usize::from(command.queue.0)];
        if *queued == self.config.tags {
            return Err(Busy);
        }
        *queued += 1;
        self.in_flight += 1;
        self.submitted += 1;
        let done = self.end(command).as_nanos();
        let at = Instant::from_nanos(self.config.awake(done));
        let entry = InFlight {
            at,
            began: self.now.max(at.saturating_sub(self.alone(command))),
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

    fn pop(&mut self, now: Instant) -> Option<Ended> {
        self.now = self.now.max(now);
        let from = if self.others_first()? {
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
        Some(Ended {
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
