//! A rotating disk: seeks, rotational phase, zones, command queueing, a read cache and a write
//! cache.
//!
//! The disk has one actuator. A command takes the seek to its track ([`Seek`]), the rotational
//! latency until its first byte is under the head, and the transfer. From its queue, the disk
//! serves the command that it can begin first, unless a command has waited for longer than
//! [`HddConfig::ageing`] for each waiting stream. If the queue is empty after a read, the head
//! reads ahead into a segment of the cache. A read from a segment takes only the time of the link.
//!
//! Writes complete when they are in the write cache. They are written to the platters in the same
//! order of shortest positioning time, but after reads until the cache is half full. A flush ends
//! when all earlier writes are on the platters, and no later command begins before that.

mod cache;
mod config;
mod divisor;
mod geometry;
mod seek;

pub use config::{HddConfig, ZONES};
pub use geometry::Zone;
pub use seek::Seek;

use crate::drive::ends::{ScheduledEnd, ScheduledEnds};
use crate::drive::link::SerialLink;
use crate::drive::{DriveModel, QueueFull, TimedCompletion};
use cache::Segments;
use divisor::Divisor;
use geometry::{Geometry, PlatterPosition};
use seek::Curve;
use weir_core::{Dispatch, DriveShape, Flags, Instant, Op, Span, Tag};

/// The maximum number of ranges in the write cache. If it is reached, further writes wait.
pub(crate) const DIRTY_MAX: usize = 256;

/// A rotating disk (see the description of the module).
#[derive(Debug)]
pub struct Hdd {
    config: HddConfig,
    geometry: Geometry,
    curve: Curve,
    revolution: Divisor,
    link: SerialLink,
    segments: Segments,
    head: Head,
    /// Commands that wait for the actuator or for a flush, in no particular order.
    waiting: Vec<Job>,
    /// The number of flushes among the waiting commands.
    flushes: u32,
    /// The ranges in the write cache, in no particular order, followed by the sum of their bytes.
    dirty: Vec<Job>,
    cached: u64,
    active: Option<ActiveJob>,
    /// Commands with a known time of completion, in the order of that time.
    ended: ScheduledEnds,
    in_flight: u32,
    now: Instant,
    sequence: u64,
}

/// Work for the actuator: a command, or a range of the write cache.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// The tag of the command to complete, or `None` for a range of the write cache.
    tag: Option<Tag>,
    op: Op,
    fua: bool,
    start: u64,
    end: u64,
    place: PlatterPosition,
    /// The time at which the command arrived, and the time at which the disk can begin with it.
    arrived: Instant,
    ready: Instant,
    sequence: u64,
}

#[derive(Clone, Copy, Debug)]
struct ActiveJob {
    job: Job,
    /// The time at which the arm starts to move.
    began: Instant,
    /// The times at which the first byte passes under the head, and the last one has passed.
    begins: Instant,
    ends: Instant,
}

/// The position of the head: on the track of its last job, after the byte `end`, which it passed at
/// `at`.
#[derive(Clone, Copy, Debug)]
struct Head {
    track: u32,
    zone: usize,
    end: u64,
    at: Instant,
    /// True if the head reads ahead after `end`.
    reading: bool,
}

impl Hdd {
    fn new(config: &HddConfig) -> Self {
        let room = usize::from(config.tags);
        Self {
            config: *config,
            geometry: Geometry::new(&config.zones, config.revolution()),
            curve: Curve::new(&config.seek, config.tracks()),
            revolution: Divisor::new(config.revolution().as_nanos()),
            link: SerialLink::new(config.link),
            segments: Segments::new(config.segments.into(), config.segment.into()),
            head: Head {
                track: 0,
                zone: 0,
                end: 0,
                at: Instant::ZERO,
                reading: false,
            },
            waiting: Vec::with_capacity(room),
            flushes: 0,
            dirty: Vec::with_capacity(DIRTY_MAX),
            cached: 0,
            active: None,
            ended: ScheduledEnds::new(room),
            in_flight: 0,
            now: Instant::ZERO,
            sequence: 0,
        }
    }

    /// The configuration of the disk.
    pub fn config(&self) -> &HddConfig {
        &self.config
    }

    /// Processes everything that happens up to `now`.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while let Some(active) = self.active.filter(|a| a.ends <= self.now) {
            self.active = None;
            self.finish(active);
            self.begin(active.ends);
        }
    }

    /// Starts the next job at `t`, when the actuator is idle.
    fn begin(&mut self, t: Instant) {
        while self.active.is_none() {
            let Some((from, index)) = self.choose_job(t) else {
                // The next command may be another flush without a job in between.
                if self.flush(t) {
                    continue;
                }
                return;
            };
            let job = match from {
                JobSource::Queue => self.waiting.swap_remove(index),
                JobSource::WriteCache => self.dirty.swap_remove(index),
            };
            self.start_job(t, job);
        }
    }

    /// Runs a job on the actuator from `t` on.
    fn start_job(&mut self, t: Instant, job: Job) {
        let at = t.max(job.ready);
        let read = self.read_ahead_end(at);
        // An earlier read may have brought the data into the cache since the command arrived.
        if job.op == Op::Read && self.complete_from_cache(t, at, &job) {
            return;
        }
        let access = self.access(t, &job, read);
        // The head leaves its position, which ends the read-ahead.
        if self.head.reading {
            self.segments.extend(read);
            self.head.reading = false;
        }
        debug_assert!((job.start..=job.end).contains(&access.from));
        let bytes = job.end - access.from;
        self.active = Some(ActiveJob {
            job,
            began: t,
            begins: access.begins,
            ends: access.begins + self.geometry.passing(job.place.zone, bytes),
        });
    }

    /// Completes a read from the caches if they contain all of it. Returns true if they do.
    fn complete_from_cache(&mut self, began: Instant, at: Instant, job: &Job) -> bool {
        if self.head.reading {
            let read = self.read_ahead_end(at);
            self.segments.extend(read);
        }
        let within = |d: &Job| d.start <= job.start && job.end <= d.end;
        let found = self.segments.holds(job.start, job.end) || self.dirty.iter().any(within);
        if found {
            let ready = at.max(job.ready);
            let ends = self.link.transfer(ready, (job.end - job.start) as u32);
            self.complete(job, began, ends);
        }
        found
    }

    fn finish(&mut self, active: ActiveJob) {
        let job = active.job;
        if job.op == Op::Flush {
            self.end_flush(&job, active.ends);
            return;
        }
        let last = job.end.saturating_sub(1);
        self.head = Head {
            track: self.geometry.place(last).track,
            zone: job.place.zone,
            end: job.end,
            at: active.ends,
            reading: job.op == Op::Read && self.config.segment > 0,
        };
        // A range of the write cache has no tag: its command has completed already, and its space
        // becomes free.
        let Some(_) = job.tag else {
            debug_assert!(job.end - job.start <= self.cached);
            self.cached -= job.end - job.start;
            self.admit_writes(active.ends);
            return;
        };
        let mut ends = active.ends;
        if job.op == Op::Read {
            self.segments.read(job.start, job.end);
            // The link is faster than the platters, and the two transfers overlap.
            ends = ends.max(
                self.link
                    .transfer(active.begins, (job.end - job.start) as u32),
            );
        }
        self.complete(&job, active.began, ends);
    }

    fn complete(&mut self, job: &Job, began: Instant, at: Instant) {
        let Some(tag) = job.tag else { return };
        self.ended.push(ScheduledEnd {
            at,
            began,
            sequence: job.sequence,
            tag,
            queue: 0,
        });
    }

    /// The position of the first flush in the queue. No later command begins before that flush has
    /// ended.
    fn barrier(&self) -> u64 {
        if self.flushes == 0 {
            return u64::MAX;
        }
        let flushes = self.waiting.iter().filter(|j| j.op == Op::Flush);
        flushes.map(|j| j.sequence).min().unwrap_or(u64::MAX)
    }

    /// Runs the first flush on the actuator if all earlier commands are on the platters. Returns
    /// true if it does.
    fn flush(&mut self, t: Instant) -> bool {
        let barrier = self.barrier();
        let before = |j: &Job| j.sequence < barrier;
        if barrier == u64::MAX || self.cached > 0 || self.waiting.iter().any(before) {
            return false;
        }
        let index = self.waiting.iter().position(|j| j.sequence == barrier);
        let job = self
            .waiting
            .swap_remove(index.expect("the barrier is one that waits"));
        let begins = t.max(job.ready);
        if self.config.flush == Span::ZERO {
            self.end_flush(&job, begins);
        } else {
            let ends = begins + self.config.flush;
            self.active = Some(ActiveJob {
                job,
                began: t,
                begins,
                ends,
            });
        }
        true
    }

    fn end_flush(&mut self, job: &Job, at: Instant) {
        debug_assert!(self.flushes > 0 && job.op == Op::Flush);
        self.flushes -= 1;
        // Writing the earlier data is part of the flush's service, so the service begins with its
        // arrival.
        self.complete(job, job.arrived, at);
        self.admit_writes(at);
    }

    /// Moves writes into the write cache while it has space, in order of arrival.
    fn admit_writes(&mut self, t: Instant) {
        let barrier = self.barrier();
        loop {
            let cacheable = self.waiting.iter().enumerate();
            let next = cacheable
                .filter(|(_, j)| j.sequence < barrier && self.is_cacheable(j))
                .min_by_key(|(_, j)| j.sequence);
            let Some((index, &job)) = next else { return };
            if !self.has_room(&job) {
                return;
            }
            self.waiting.swap_remove(index);
            self.write_to_cache(t, job);
        }
    }

    /// Returns true for a write that waits for space in the write cache rather than for the
    /// actuator.
    fn is_cacheable(&self, job: &Job) -> bool {
        job.op == Op::Write && !job.fua && job.end - job.start <= self.config.write_cache
    }

    fn has_room(&self, job: &Job) -> bool {
        self.dirty.len() < DIRTY_MAX
            && self.cached + (job.end - job.start) <= self.config.write_cache
    }

    fn write_to_cache(&mut self, t: Instant, job: Job) {
        let ready = t.max(job.ready);
        let ends = self.link.transfer(ready, (job.end - job.start) as u32);
        self.complete(&job, t, ends);
        self.segments.invalidate(job.start, job.end);
        // An overwritten range is written to the platters once.
        let same = |d: &&mut Job| d.start <= job.start && job.end <= d.end;
        if self.dirty.iter_mut().find(same).is_some() {
            return;
        }
        self.cached += job.end - job.start;
        debug_assert!(self.cached <= self.config.write_cache);
        // Adjacent writes become one range, so that a sequential stream needs one seek.
        if let Some(before) = self.dirty.iter_mut().find(|d| d.end == job.start) {
            before.end = job.end;
            return;
        }
        self.dirty.push(Job { tag: None, ..job });
    }
}

/// The list from which a job is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum JobSource {
    Queue,
    WriteCache,
}

/// The way in which the head reaches a job's data.
#[derive(Clone, Copy, Debug)]
struct Access {
    begins: Instant,
    /// The first byte that is not in the segment yet.
    from: u64,
}

/// The choice of the next job.
impl Hdd {
    /// Chooses the job to start at `t`: the oldest overdue one, otherwise the one that can begin
    /// first.
    fn choose_job(&self, t: Instant) -> Option<(JobSource, usize)> {
        let barrier = self.barrier();
        let queue = self.waiting.iter().enumerate();
        // Cacheable writes wait for space in the cache, not for the arm.
        let queue = queue.filter(|(_, j)| j.sequence < barrier && !self.is_cacheable(j));
        let queue = queue.map(|(i, j)| (JobSource::Queue, i, j));
        let writes = self.can_write_out(barrier);
        let dirty = self.dirty.iter().enumerate().filter(|_| writes);
        let dirty = dirty.map(|(i, j)| (JobSource::WriteCache, i, j));
        let read = self.read_ahead_end(t);
        let mut best: Option<(bool, Instant, u64, JobSource, usize)> = None;
        // At this distance, the arm arrives later than the best candidate can begin, whatever the
        // rotation. A longer seek is never faster, so farther jobs need no computation.
        let mut too_far = u32::MAX;
        let ageing = self.config.ageing.saturating_mul(self.streams_waiting());
        // No client waits for data in the write cache, except with a flush.
        let flush = self.waiting.iter().find(|j| j.sequence == barrier);
        for (from, index, job) in queue.chain(dirty) {
            let since = match from {
                JobSource::Queue => Some(job.arrived),
                JobSource::WriteCache => flush.map(|f| f.arrived),
            };
            let overdue = since.is_some_and(|since| t.since(since) > ageing);
            let when = if overdue {
                job.arrived
            } else {
                let far = self.head.track.abs_diff(job.place.track);
                let goes_on = job.start == self.head.end || (job.start..job.end).contains(&read);
                if far >= too_far && !goes_on {
                    continue;
                }
                let by = best.map_or(Instant::MAX, |b| if b.0 { b.1 } else { Instant::ZERO });
                let Some(access) = self.access_by(t, job, read, by) else {
                    if job.op == Op::Read && job.ready <= t {
                        too_far = too_far.min(far);
                    }
                    continue;
                };
                access.begins
            };
            // Overdue jobs are first, in order of arrival.
            let key = (!overdue, when, job.sequence, from, index);
            if best.is_none_or(|b| (key.0, key.1, key.2) < (b.0, b.1, b.2)) {
                best = Some(key);
            }
        }
        best.map(|(_, _, _, from, index)| (from, index))
    }

    /// The number of waiting streams, at least 1. A stream is a run of adjacent commands, and a
    /// command at a random position is a stream of its own.
    fn streams_waiting(&self) -> u64 {
        let first = |job: &&Job| !self.waiting.iter().any(|j| j.end == job.start);
        self.waiting.iter().filter(first).count().max(1) as u64
    }

    /// Returns true if the write cache can be written out: no read waits, the cache is half full,
    /// or a flush waits for it.
    fn can_write_out(&self, barrier: u64) -> bool {
        self.cached > 0
            && (barrier != u64::MAX
                || 2 * self.cached >= self.config.write_cache
                || !self.waiting.iter().any(|j| j.op == Op::Read))
    }

    /// The address up to which the head has read ahead at `t`.
    fn read_ahead_end(&self, t: Instant) -> u64 {
        if !self.head.reading {
            return self.head.end;
        }
        // The head stops after one segment.
        let passed = self.geometry.passed(self.head.zone, t.since(self.head.at));
        self.head.end + passed.min(self.config.segment.into())
    }

    /// Computes how the head reaches a job from its position at `t`, after having read ahead to
    /// `read`.
    fn access(&self, t: Instant, job: &Job, read: u64) -> Access {
        let access = self.access_by(t, job, read, Instant::MAX);
        access.expect("any time is early enough")
    }

    /// Computes the access as [`Self::access`] does. Returns `None` if the head reaches the job's
    /// track only after `by`.
    #[inline]
    fn access_by(&self, t: Instant, job: &Job, read: u64, by: Instant) -> Option<Access> {
        let at = t.max(job.ready);
        let reads_on = self.head.reading && job.op == Op::Read;
        // The head is reading into the range of this job, so it continues without a seek.
        if reads_on && job.start <= read && job.end > read {
            let kept = self.segments.current().map_or(read, |s| s.start);
            if kept <= job.start {
                return Some(Access {
                    begins: at,
                    from: read,
                });
            }
        }
        // A job that starts where the head is needs no seek and no rotation.
        let straight_on = job.start == self.head.end && at == self.head.at;
        if straight_on {
            return Some(Access {
                begins: at,
                from: job.start,
            });
        }
        let mut seek = self.curve.time(self.head.track, job.place.track);
        if job.op != Op::Read {
            seek += self.config.settle.as_nanos();
        }
        let arrives = at.as_nanos() + seek;
        if Instant::from_nanos(arrives) > by {
            return None;
        }
        // All angles are multiples of the same revolution, which started at time zero.
        let phase = self.revolution.remainder(arrives);
        let wait = if job.place.angle >= phase {
            job.place.angle - phase
        } else {
            self.revolution.get() - phase + job.place.angle
        };
        Some(Access {
            begins: Instant::from_nanos(arrives + wait),
            from: job.start,
        })
    }
}

impl DriveModel for Hdd {
    fn submit(&mut self, now: Instant, command: &Dispatch) -> Result<(), QueueFull> {
        self.advance(now);
        if self.in_flight == u32::from(self.config.tags) {
            return Err(QueueFull);
        }
        self.in_flight += 1;
        self.sequence += 1;
        let job = Job {
            tag: Some(command.tag),
            op: command.op,
            fua: command.flags.has(Flags::FUA),
            start: command.offset,
            end: command.offset + u64::from(command.length),
            place: self.geometry.place(command.offset),
            arrived: self.now,
            ready: self.now + self.config.overhead,
            sequence: self.sequence,
        };
        // Both need no access to the platters in this model.
        if matches!(job.op, Op::Discard | Op::Extents) {
            self.complete(&job, job.arrived, job.ready);
            return Ok(());
        }
        // A read that arrives at an idle disk can complete from the caches at once. With a flush in
        // front of it, it must wait.
        let open = self.barrier() == u64::MAX;
        let still = open && self.active.is_none();
        if still && job.op == Op::Read && self.complete_from_cache(self.now, job.ready, &job) {
            return Ok(());
        }
        if open && self.is_cacheable(&job) && self.has_room(&job) {
            self.write_to_cache(self.now, job);
        } else {
            self.flushes += u32::from(job.op == Op::Flush);
            self.waiting.push(job);
        }
        self.begin(self.now);
        Ok(())
    }

    fn next_completion(&self) -> Option<Instant> {
        let active = self.active.map(|a| a.ends);
        self.ended.first().into_iter().chain(active).min()
    }

    fn pop(&mut self, now: Instant) -> Option<TimedCompletion> {
        self.advance(now);
        let end = self.ended.pop(self.now)?;
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
