//! A flash drive: a link, a controller that favours sequential streams, channels and dies, a write
//! buffer, and cleaning.
//!
//! A read waits in the drive until at most [`SsdConfig::window`] is in transit to the host. Then
//! the controller chooses a read. It prefers commands that continue a sequential stream, unless
//! [`SsdConfig::favour`] bytes for each waiting stream have overtaken another command. For
//! [`SsdConfig::linger`] after the last such command, it waits for the next one. The chosen
//! command occupies the controller, its pages occupy their dies and channels, and its bytes occupy
//! the link. Each of these has a busy-until time, so that a command takes one event, however many
//! pages it has.
//!
//! With [`SsdConfig::fetch`], the controller sees a command only once it has fetched it from its
//! submission queue. It fetches from the queues in turn, and no more than it soon starts.
//!
//! Writes complete once they are in the buffer, and go to the dies in log order. A read suspends a
//! program operation. A flush ends when all data that were written before it are in the flash,
//! unless the buffer is protected.

mod arbiter;
mod blocks;
mod config;
mod flash;
mod streams;

pub use config::SsdConfig;

use crate::drive::ends::{ScheduledEnd, ScheduledEnds};
use crate::drive::link::SerialLink;
use crate::drive::{DriveModel, QueueFull, TimedCompletion};
use arbiter::{Arbiter, ArrivedCommand};
use blocks::{Blocks, UNIT};
use flash::Flash;
use std::collections::VecDeque;
use streams::Streams;
use weir_core::{Dispatch, DriveShape, Flags, Instant, Op, Span, Tag};

/// A flash drive (see the description of the module).
#[derive(Debug)]
pub struct Ssd {
    config: SsdConfig,
    /// The links to the host (`out`) and from it (`into`). Only `out` is used unless the link is
    /// duplex.
    out: SerialLink,
    into: SerialLink,
    controller: Instant,
    /// Commands that the controller has not fetched. `None` if it fetches every command at once.
    arbiter: Option<Arbiter>,
    flash: Flash,
    blocks: Blocks,
    reads: Streams,
    writes: Streams,
    /// Reads that the controller has not started yet.
    waiting: Vec<QueuedRead>,
    /// The time until which only commands of sequential streams and overtaken ones are started.
    lingers: Instant,
    /// The total number of bytes that have overtaken older commands.
    favoured: u64,
    /// Writes and flushes that wait for space in the buffer, in order of arrival.
    held: VecDeque<QueuedWrite>,
    buffer: Buffer,
    /// Commands with a known time of completion.
    ended: ScheduledEnds,
    queued: Vec<u16>,
    in_flight: u32,
    now: Instant,
    sequence: u64,
    /// The number of reads that the controller has fetched.
    fetched: u64,
}

#[derive(Clone, Copy, Debug)]
struct QueuedRead {
    tag: Tag,
    queue: u16,
    start: u64,
    end: u64,
    stream: usize,
    /// True if the read continues a sequential stream.
    sequential: bool,
    ready: Instant,
    sequence: u64,
    /// The position in the order in which the controller fetched the reads.
    order: u64,
    /// The value of [`Ssd::favoured`] when the read arrived.
    favoured: u64,
}

#[derive(Clone, Copy, Debug)]
struct QueuedWrite {
    tag: Tag,
    queue: u16,
    op: Op,
    fua: bool,
    start: u64,
    end: u64,
    sequential: bool,
    ready: Instant,
    sequence: u64,
}

/// Writes that have completed and are not in the flash yet.
#[derive(Debug)]
struct Buffer {
    used: u64,
    /// The bytes that were not sent to a die yet, less than a page, followed by the cost of
    /// cleaning for them, in 1/1024 of units.
    partial: u64,
    copied: u64,
    /// The bytes in transit to the flash with the time of their arrival, in order.
    leaving: VecDeque<(Instant, u64)>,
    /// The time at which the last byte that was sent to a die is durable.
    safe: Instant,
}

impl Ssd {
    fn new(config: &SsdConfig, seed: u64) -> Self {
        let (queues, tags) = (usize::from(config.queues), usize::from(config.tags));
        let units = config.units_per_block();
        let make = if config.preconditioned {
            Blocks::preconditioned
        } else {
            Blocks::new
        };
        Self {
            config: *config,
            out: SerialLink::new(config.link),
            into: SerialLink::new(config.link),
            controller: Instant::ZERO,
            arbiter: Arbiter::new(config),
            flash: Flash::new(config, seed),
            blocks: make(
                config.size,
                units,
                config.spare.into(),
                config.filled.into(),
            ),
            reads: Streams::new(),
            writes: Streams::new(),
            waiting: Vec::with_capacity(queues * tags),
            lingers: Instant::ZERO,
            favoured: 0,
            held: VecDeque::with_capacity(queues * tags),
            buffer: Buffer {
                used: 0,
                partial: 0,
                copied: 0,
                leaving: VecDeque::with_capacity(
                    (config.write_buffer / u64::from(config.page)) as usize + 1,
                ),
                safe: Instant::ZERO,
            },
            ended: ScheduledEnds::new(queues * tags),
            queued: std::vec![0; queues],
            in_flight: 0,
            now: Instant::ZERO,
            sequence: 0,
            fetched: 0,
        }
    }

    /// The configuration of the drive.
    pub fn config(&self) -> &SsdConfig {
        &self.config
    }

    /// The write amplification: pages written to the flash for each page of the host, in 1/1024.
    pub fn write_amplification(&self) -> u64 {
        self.blocks.amplification()
    }

    /// The time at which the state changes without further commands, because a read can be started
    /// or the buffer gets space.
    fn next_change(&self) -> Option<Instant> {
        let choose = (!self.waiting.is_empty()).then(|| {
            let choose = self.out.until().saturating_sub(self.config.window);
            if self.holds_back() {
                choose.max(self.lingers)
            } else {
                choose
            }
        });
        let room = self.buffer.leaving.front().map(|l| l.0);
        let room = room.filter(|_| !self.held.is_empty());
        choose.into_iter().chain(room).min()
    }

    /// Processes everything that happens up to `now`.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while let Some(at) = self.next_change().filter(|at| *at <= self.now) {
            self.step(at);
        }
    }

    /// Frees space in the buffer, takes waiting writes, and lets the controller choose reads. What
    /// the controller starts makes space for commands that it has not fetched.
    fn step(&mut self, t: Instant) {
        self.drain(t);
        loop {
            self.take_writes(t);
            self.start_reads(t);
            if !self.fetch() {
                break;
            }
        }
    }

    /// Fetches as many commands as the controller may. Returns false if there are none.
    fn fetch(&mut self) -> bool {
        let mut any = false;
        while let Some(command) = self.arbiter.as_mut().and_then(Arbiter::fetch) {
            self.accept(command);
            any = true;
        }
        any
    }

    /// Notes that the controller starts a command of this range.
    fn started(&mut self, start: u64, end: u64) {
        if let Some(arbiter) = &mut self.arbiter {
            arbiter.started(start, end);
        }
    }

    /// Takes writes in order of arrival, as far as the buffer has space.
    fn take_writes(&mut self, t: Instant) {
        while let Some(&write) = self.held.front() {
            if write.op != Op::Flush && !self.has_room(&write) {
                if self.buffer.leaving.is_empty() && self.buffer.partial > 0 {
                    // The partial page must be programmed, because nothing else would ever free
                    // space.
                    self.program_page(t);
                }
                break;
            }
            self.held.pop_front();
            self.started(write.start, write.end);
            self.take_write(t, &write);
        }
    }

    /// Starts reads as long as little is in transit to the host.
    fn start_reads(&mut self, t: Instant) {
        while self.out.until() <= t + self.config.window {
            if t < self.lingers && self.holds_back() {
                break;
            }
            let Some(read) = self.choose_read() else {
                break;
            };
            self.started(read.start, read.end);
            self.read(t, &read);
        }
    }

    /// Puts a command that the controller has fetched among those of its kind.
    fn accept(&mut self, command: ArrivedCommand) {
        let ArrivedCommand {
            tag,
            queue,
            op,
            fua,
            start,
            end,
            ready,
            sequence,
        } = command;
        match op {
            Op::Read => {
                let (stream, sequential) = self.reads.assign(start, end);
                self.fetched += 1;
                self.waiting.push(QueuedRead {
                    tag,
                    queue,
                    start,
                    end,
                    stream,
                    sequential,
                    ready,
                    sequence,
                    order: self.fetched,
                    favoured: self.favoured,
                });
            }
            Op::Write | Op::WriteZeroes | Op::Flush => {
                let (_, sequential) = match op {
                    Op::Flush => (0, false),
                    _ => self.writes.assign(start, end),
                };
                self.held.push_back(QueuedWrite {
                    tag,
                    queue,
                    op,
                    fua,
                    start,
                    end,
                    sequential,
                    ready,
                    sequence,
                });
            }
            Op::Discard | Op::Extents => {
                self.started(start, end);
                self.complete(ready.max(self.now), self.now, sequence, tag, queue);
            }
        }
    }

    fn complete(&mut self, at: Instant, began: Instant, sequence: u64, tag: Tag, queue: u16) {
        self.ended.push(ScheduledEnd {
            at,
            began,
            sequence,
            tag,
            queue,
        });
    }

    fn time(&self, bytes: u64) -> Span {
        let time = u128::from(bytes) * 1_000_000_000 / u128::from(self.config.link);
        Span::from_nanos(time as u64)
    }
}

/// The choice and service of reads, with read-ahead.
impl Ssd {
    /// Returns true if no read waits that may be started while the drive waits for the next command
    /// of a stream.
    fn holds_back(&self) -> bool {
        if self.config.linger == Span::ZERO {
            return false;
        }
        let most = self.config.favour.saturating_mul(self.streams_waiting());
        let may = |r: &QueuedRead| r.sequential || self.favoured - r.favoured >= most;
        !self.waiting.iter().any(may)
    }

    /// Removes the next read: the oldest one that too many bytes have overtaken, otherwise the
    /// oldest one that continues a stream, otherwise the oldest one.
    fn choose_read(&mut self) -> Option<QueuedRead> {
        let most = self.config.favour.saturating_mul(self.streams_waiting());
        let rank = |r: &QueuedRead| {
            let overtaken = self.favoured - r.favoured >= most;
            (!overtaken, !overtaken && !r.sequential, r.order)
        };
        let reads = self.waiting.iter().enumerate();
        let (index, read) = reads.min_by_key(|(_, r)| rank(r)).map(|(i, r)| (i, *r))?;
        self.waiting.swap_remove(index);
        if read.sequential && self.waiting.iter().any(|r| r.order < read.order) {
            self.favoured += read.end - read.start;
        }
        Some(read)
    }

    /// The number of sequential streams with waiting reads, at least 1.
    fn streams_waiting(&self) -> u64 {
        // There are at most 32 tracked streams, so a bit for each fits into 64.
        let streams = self.waiting.iter().filter(|r| r.sequential);
        let seen = streams.fold(0_u64, |seen, r| seen | 1 << (r.stream % 64));
        u64::from(seen.count_ones().max(1))
    }

    fn read(&mut self, t: Instant, read: &QueuedRead) {
        let begins = t.max(read.ready).max(self.controller) + self.config.command;
        self.controller = begins;
        let stream = *self.reads.get_mut(read.stream);
        // Read-ahead counts only if it belongs to this part of the stream.
        let known = read.sequential
            && (read.start..=read.end + u64::from(self.config.read_ahead) * 2)
                .contains(&stream.ahead);
        let from = if known {
            stream.ahead.min(read.end)
        } else {
            read.start
        };
        let mut got = self.flash.read(begins, from, read.end);
        self.controller += self.config.command.saturating_mul(got.retries.into());
        // The part before `from` was read ahead, and leaves the flash at the time of that read.
        if from > read.start {
            let ready = stream.ready.max(begins);
            got.first = got.first.min(ready);
            got.last = got.last.max(ready);
        }
        if read.sequential {
            self.read_ahead(begins, read, if known { stream.ahead } else { read.end });
        }
        let length = read.end - read.start;
        // The transfer cannot end before the last page has left the flash and crossed the link.
        let crossed = self.out.transfer(begins, length as u32);
        let page = u64::from(self.config.page).min(length);
        let time = self.time(length);
        let ends = crossed
            .max(got.first + time)
            .max(got.last + self.time(page));
        // A chosen read may still wait for dies, channels and the link. Its service began as long
        // before its end as it would take on an idle drive.
        let alone =
            self.config.overhead + self.config.command + self.flash.idle_read_time(length) + time;
        let began = t.max(ends.saturating_sub(alone));
        if read.sequential {
            self.lingers = self.lingers.max(ends + self.config.linger);
        }
        self.complete(ends, began, read.sequence, read.tag, read.queue);
    }

    /// Reads a stream ahead from `from`, in whole pages.
    fn read_ahead(&mut self, t: Instant, read: &QueuedRead, from: u64) {
        if self.config.read_ahead == 0 {
            return;
        }
        let page = u64::from(self.config.page);
        let to = (read.end + u64::from(self.config.read_ahead)).next_multiple_of(page);
        let from = from.max(read.end);
        if from < to {
            let got = self.flash.read(t, from, to);
            self.controller += self.config.command.saturating_mul(got.retries.into());
            let stream = self.reads.get_mut(read.stream);
            (stream.ahead, stream.ready) = (to, got.last);
        }
    }
}

/// The write buffer, from which data go to the flash.
impl Ssd {
    fn has_room(&self, write: &QueuedWrite) -> bool {
        // A write that is larger than the buffer passes through it alone.
        self.buffer.used == 0
            || self.buffer.used + (write.end - write.start) <= self.config.write_buffer
    }

    /// Frees the space of data that are in the flash by `t`.
    fn drain(&mut self, t: Instant) {
        while let Some(&(_, bytes)) = self.buffer.leaving.front().filter(|l| l.0 <= t) {
            self.buffer.leaving.pop_front();
            debug_assert!(bytes <= self.buffer.used, "the buffer held these bytes");
            self.buffer.used -= bytes;
        }
    }

    /// Takes a write into the buffer, or completes a flush.
    fn take_write(&mut self, t: Instant, write: &QueuedWrite) {
        let begins = t.max(write.ready).max(self.controller) + self.config.command;
        self.controller = begins;
        let length = write.end - write.start;
        let mut ends = begins;
        if write.op == Op::Write {
            let link = if self.config.duplex {
                &mut self.into
            } else {
                &mut self.out
            };
            ends = link.transfer(begins, length as u32);
        }
        for unit in write.start / UNIT..write.end.div_ceil(UNIT) {
            let cost = self.blocks.write(unit * UNIT, write.sequential);
            self.buffer.copied += cost.copied;
            if cost.erased {
                self.flash.erase(ends, self.config.erase);
            }
            self.buffer.used += UNIT;
            self.buffer.partial += UNIT;
            if self.buffer.partial == u64::from(self.config.page) {
                self.program_page(ends);
            }
        }
        // A flush and a FUA write wait for everything that was sent to the dies, unless the buffer
        // survives a loss of power.
        if (write.op == Op::Flush || write.fua) && !self.config.protected {
            if self.buffer.partial > 0 {
                self.program_page(ends);
            }
            if write.op == Op::Flush {
                self.controller = begins + self.config.flush;
            }
            ends = ends.max(self.buffer.safe).max(self.controller);
        }
        self.complete(ends, t, write.sequence, write.tag, write.queue);
    }

    /// Sends a full or partial page to a die.
    fn program_page(&mut self, t: Instant) {
        let b = &mut self.buffer;
        debug_assert!((1..=u64::from(self.config.page)).contains(&b.partial));
        let (program, read) = (self.config.program.as_nanos(), self.config.read.as_nanos());
        // Each copied unit is read and programmed.
        let copied = b.copied / (u64::from(self.config.page) / UNIT);
        let times = 1024 + copied * (program + read) / program;
        b.safe = b.safe.max(self.flash.write(t, times));
        b.leaving.push_back((b.safe, b.partial));
        (b.partial, b.copied) = (0, 0);
    }
}

impl DriveModel for Ssd {
    fn submit(&mut self, now: Instant, command: &Dispatch) -> Result<(), QueueFull> {
        self.advance(now);
        let queue = command.queue.0;
        let queued = &mut self.queued[usize::from(queue)];
        if *queued == self.config.tags {
            return Err(QueueFull);
        }
        *queued += 1;
        self.in_flight += 1;
        self.sequence += 1;
        let arrived = ArrivedCommand {
            tag: command.tag,
            queue,
            op: command.op,
            fua: command.flags.has(Flags::FUA),
            start: command.offset,
            end: command.offset + u64::from(command.length),
            // Commands pass through the firmware in parallel, so the overhead delays each of them
            // but does not occupy the controller.
            ready: self.now + self.config.overhead,
            sequence: self.sequence,
        };
        match &mut self.arbiter {
            Some(arbiter) => arbiter.push(arrived),
            None => self.accept(arrived),
        }
        self.step(self.now);
        Ok(())
    }

    fn next_completion(&self) -> Option<Instant> {
        self.ended
            .first()
            .into_iter()
            .chain(self.next_change())
            .min()
    }

    fn pop(&mut self, now: Instant) -> Option<TimedCompletion> {
        self.advance(now);
        let end = self.ended.pop(self.now)?;
        self.queued[usize::from(end.queue)] -= 1;
        self.in_flight -= 1;
        Some(end.timed_completion())
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
