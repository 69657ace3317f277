//! A drive model in virtual time as what a calibration measures.

use std::collections::VecDeque;
use weir_calibrate::{Calibration, Measurement, Plan, Target};
use weir_core::{Dispatch, Flags, Instant, QueueId, SpaceId, Span, StreamId, Tag};
use weir_drive::{Config, Drive};
use weir_load::{Io, Source, Step};

/// A drive, its time, and what waits for a tag.
pub(crate) struct Bench {
    drive: Box<dyn Drive>,
    now: Instant,
    free: Vec<u32>,
    waiting: VecDeque<Io>,
    /// By tag.
    flying: Vec<Option<Io>>,
}

impl Bench {
    pub(crate) fn new(config: &Config) -> Self {
        let drive = config.build().unwrap();
        let shape = drive.shape();
        let tags = u32::from(shape.tags) * u32::from(shape.queues);
        Self {
            drive,
            now: Instant::ZERO,
            free: (0..tags).rev().collect(),
            waiting: VecDeque::new(),
            flying: (0..tags).map(|_| None).collect(),
        }
    }

    /// Carries out what a source issues, until it has finished.
    pub(crate) fn run(&mut self, source: &mut dyn Source) {
        let origin = self.now;
        let relative = |now: Instant| Instant::ZERO + now.since(origin);
        loop {
            let until = match source.next(relative(self.now)) {
                Step::Issue(io) => {
                    self.waiting.push_back(io);
                    self.send();
                    continue;
                }
                Step::WaitUntil(at) => Some(origin + at.since(Instant::ZERO)),
                Step::WaitForCompletion => None,
                Step::Finished => return,
            };
            let next = [self.drive.next_completion(), until];
            self.now = next.into_iter().flatten().min().expect("something is due");
            while let Some(ended) = self.drive.pop(self.now) {
                let tag = ended.completion.tag.0;
                let io = self.flying[tag as usize].take().expect("it was sent");
                self.free.push(tag);
                source.completed(relative(self.now), &io, false);
            }
            self.send();
        }
    }

    fn send(&mut self) {
        while !self.free.is_empty()
            && let Some(io) = self.waiting.pop_front()
        {
            let tag = self.free.pop().expect("there is one");
            let queues = u32::from(self.drive.shape().queues);
            let command = Dispatch {
                queue: QueueId((tag % queues) as u16),
                tag: Tag(tag),
                stream: StreamId::from_bits(0),
                cookie: 0,
                space: SpaceId(0),
                op: io.op,
                flags: Flags::NONE,
                offset: io.offset,
                length: io.length,
                within: 0,
            };
            self.drive
                .submit(self.now, &command)
                .expect("the tag is free");
            self.flying[tag as usize] = Some(io);
        }
    }
}

/// The drive as a target.
pub(crate) fn target(config: &Config, write: bool) -> Target {
    let rotational = config.shape().rotational;
    Target {
        path: config.name().to_owned(),
        size: config.size().unwrap_or(1 << 36),
        device: None,
        depth: if rotational { 32 } else { 256 },
        rotational,
        write,
        sparse: write && !rotational,
    }
}

/// Measures everything in so much virtual time.
pub(crate) fn calibrate(bench: &mut Bench, target: &Target, time: Span) -> Calibration {
    let plan = Plan::new(target);
    let mut known = Calibration::new(target.clone());
    let end = bench.now + time;
    while let Some((step, part)) = plan.next(&known, end.since(bench.now)) {
        let mut measurement = Measurement::new(&step, part);
        bench.run(&mut measurement);
        known.written = known.written.max(measurement.written());
        known.steps.extend(measurement.found());
    }
    known
}
