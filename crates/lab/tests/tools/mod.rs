//! A drive model in virtual time, as the target of a calibration.

use std::collections::VecDeque;
use weir_core::{Dispatch, Flags, Instant, Op, QueueId, SpaceId, Span, StreamId, Tag};
use weir_lab::calibrate::{
    Calibration, CalibrationPlan, CalibrationStep, CalibrationTarget, LoadPattern, StepMeasurement,
    StepResult,
};
use weir_model::drive::{DriveConfig, DriveModel};
use weir_model::load::{Io, RequestSource, Rng};

/// A drive, its time, and the requests that wait for a tag.
pub(crate) struct ModelBench {
    drive: Box<dyn DriveModel>,
    now: Instant,
    free: Vec<u32>,
    waiting: VecDeque<Io>,
    /// The requests in flight, by tag.
    flying: Vec<Option<Io>>,
}

impl ModelBench {
    pub(crate) fn new(config: &DriveConfig) -> Self {
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

    /// Runs the requests of a source until the source has finished.
    pub(crate) fn run(&mut self, source: &mut dyn RequestSource) {
        let origin = self.now;
        let relative = |now: Instant| Instant::ZERO + now.since(origin);
        loop {
            let until = match source.next(relative(self.now)) {
                weir_model::load::Step::Issue(io) => {
                    self.waiting.push_back(io);
                    self.send();
                    continue;
                }
                weir_model::load::Step::WaitUntil(at) => Some(origin + at.since(Instant::ZERO)),
                weir_model::load::Step::WaitForCompletion => None,
                weir_model::load::Step::Finished => return,
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

    /// Performs a step and adds its result to `known`.
    pub(crate) fn measured(
        &mut self,
        step: &CalibrationStep,
        part: Span,
        known: &mut Calibration,
    ) -> StepResult {
        let mut measurement = StepMeasurement::new(step, part);
        self.run(&mut measurement);
        known.written = known.written.max(measurement.written());
        let found = measurement.found().expect("the drive answers");
        known.steps.push(found.clone());
        found
    }

    /// Measures the bytes per second of a step's requests in another way: it counts all requests
    /// that complete in the second half of this time. In the first half, a buffer may fill that the
    /// step has flushed.
    pub(crate) fn goes_on(&mut self, step: &CalibrationStep, time: Span) -> f64 {
        let (mut random, mut issued, mut bytes) = (Rng::new(9), 0_u64, 0_u64);
        let length = u64::from(step.load.length);
        let places = step.area.places(step.load.length);
        let (end, half) = (self.now + time, Span::from_nanos(time.as_nanos() / 2));
        let counted = self.now + half;
        let (mut first, mut last) = (None, counted);
        let mut flying = 0;
        while self.now < end {
            while flying < u64::from(step.load.depth) {
                let place = match step.load.pattern {
                    LoadPattern::Sequential => issued % places,
                    LoadPattern::Random => random.range(0, places - 1),
                };
                let writes = random.range(0, 99) < u64::from(step.load.writes);
                self.waiting.push_back(Io {
                    number: issued,
                    op: if writes { Op::Write } else { Op::Read },
                    flags: Flags::NONE,
                    offset: step.area.from + place * length,
                    length: step.load.length,
                    due: self.now,
                });
                issued += 1;
                flying += 1;
            }
            self.send();
            self.now = self
                .drive
                .next_completion()
                .expect("something is under way");
            while let Some(ended) = self.drive.pop(self.now) {
                let tag = ended.completion.tag.0;
                self.free.push(tag);
                self.flying[tag as usize] = None;
                flying -= 1;
                if self.now >= counted && first.is_some() {
                    bytes += length;
                    last = self.now;
                }
                if self.now >= counted {
                    first.get_or_insert(self.now);
                }
            }
        }
        // The flush empties the drive's buffer, so that the next step begins as in a calibration.
        self.drained();
        self.waiting.push_back(Io {
            number: issued,
            op: Op::Flush,
            flags: Flags::NONE,
            offset: 0,
            length: 0,
            due: self.now,
        });
        self.drained();
        bytes as f64 * 1e9 / last.since(first.unwrap_or(last)).as_nanos().max(1) as f64
    }

    /// Waits until no request is in flight.
    fn drained(&mut self) {
        loop {
            self.send();
            let Some(next) = self.drive.next_completion() else {
                return;
            };
            self.now = next;
            while let Some(ended) = self.drive.pop(self.now) {
                self.free.push(ended.completion.tag.0);
                self.flying[ended.completion.tag.0 as usize] = None;
            }
        }
    }

    /// Writes 4 KiB at random positions, with as many in flight as the drive takes. Returns the
    /// writes per second of the last `counted` bytes.
    pub(crate) fn random_writes(&mut self, bytes: u64, counted: u64) -> f64 {
        let size = 1 << 30;
        let mut random = Rng::new(1);
        let (mut issued, mut began) = (0_u64, Instant::ZERO);
        let mut answered = 0;
        while answered < bytes / 4096 {
            while !self.free.is_empty() {
                self.waiting.push_back(Io {
                    number: issued,
                    op: Op::Write,
                    flags: Flags::NONE,
                    offset: random.range(0, size / 4096 - 1) * 4096,
                    length: 4096,
                    due: self.now,
                });
                issued += 1;
                self.send();
            }
            self.now = self.drive.next_completion().expect("writes are under way");
            while let Some(ended) = self.drive.pop(self.now) {
                self.free.push(ended.completion.tag.0);
                answered += 1;
            }
            if answered <= (bytes - counted) / 4096 {
                began = self.now;
            }
        }
        (counted / 4096) as f64 * 1e9 / self.now.since(began).as_nanos() as f64
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

/// Returns the drive as a target.
pub(crate) fn target(config: &DriveConfig, write: bool) -> CalibrationTarget {
    let rotational = config.shape().rotational;
    CalibrationTarget {
        path: config.name().to_owned(),
        size: config.size().unwrap_or(1 << 36),
        device: None,
        depth: if rotational { 32 } else { 256 },
        rotational,
        write,
        flush: true,
        sparse: write && !rotational,
    }
}

/// Performs all steps of a plan within a virtual time.
pub(crate) fn calibrate(
    bench: &mut ModelBench,
    target: &CalibrationTarget,
    time: Span,
) -> Calibration {
    let plan = CalibrationPlan::new(target);
    let mut known = Calibration::new(target.clone());
    let end = bench.now + time;
    while let Some((step, part)) = plan.next(&known, end.since(bench.now)) {
        bench.measured(&step, part, &mut known);
    }
    known
}
