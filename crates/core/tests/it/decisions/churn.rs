//! Random calls of all kinds: requests of every kind, clients that stop reading, cancel, disconnect
//! and connect, contracts and limits that change, pieces that fail or find the drive's queue full,
//! and calls that come too early.

use std::fmt::Write;
use std::num::NonZeroU64;
use weir_core::testing::{capacity, child, request};

use weir_core::random::Rng;
use weir_core::{
    Class, Completion, Config, Contract, DriveShape, Edit, Event, Flags, GroupId, Instant, Knobs,
    Layer, Listener, LowKnobs, Mask, Max, Op, Outcome, Output, Priority, PriorityClass, Publish,
    ROOT, Request, Sample, SampleMask, Sizes, SpaceId, Span, StreamId, StreamSpec, Tag, Wake,
    control, elevator, merge, tunable::Tuned,
};

use crate::decisions::listing::{Digest, sampled};

/// The number of steps in a line, and the number of lines in a table.
const STEPS: u32 = 100;
const LINES: u32 = 60;

/// The kind of load and drive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadKind {
    /// Random requests on a flash drive.
    Anywhere,
    /// Mostly parts of three files on a disk. Each file is used by several clients in turns, with
    /// fewer requests at a time.
    Files,
}

/// A layer with random calls, and the digest of its outputs.
struct Churn {
    kind: LoadKind,
    /// True if some requests are metadata of a file system, which `io.cost` does not throttle.
    metadata: bool,
    /// True if groups have knobs of `io.low`.
    low: bool,
    /// The offset of the next part of each file.
    files: [u64; 3],
    rng: Rng,
    layer: Layer,
    now: u64,
    /// The open streams with their groups, and the live requests.
    streams: Vec<(StreamId, GroupId)>,
    live: Vec<(StreamId, u64)>,
    in_drive: Vec<Tag>,
    cookies: u64,
    listener: Option<Listener>,
    digest: Digest,
}

/// Returns a table with one line for every hundred steps. A line has a digest of all outputs in
/// these steps, and the counters.
pub(crate) fn of(name: &str, policy: Config, kind: LoadKind) -> String {
    let mut churn = Churn::new(policy, kind);
    let mut text = format!(
        "{name}\n\n  us      digest    accepted rejected dispatched   done  stray clamped\n"
    );
    for _ in 0..LINES {
        for _ in 0..STEPS {
            churn.step();
        }
        let c = churn.layer.counters();
        writeln!(
            text,
            "{:8}  {:08x}  {:8} {:8} {:10} {:6} {:6} {:7}",
            churn.now / 1_000,
            std::mem::take(&mut churn.digest).value(),
            c.accepted,
            c.rejected,
            c.dispatched,
            c.done,
            c.stray,
            c.clamped
        )
        .unwrap();
    }
    text
}

/// Returns a table with one line for each random choice of an elevator's tunables, with the results
/// after a number of steps.
pub(crate) fn tuned(name: &str, elevator: &elevator::Config) -> String {
    let mut text =
        format!("{name}\n\nseed      us      digest    accepted rejected dispatched   done\n");
    for seed in 0..16 {
        let mut elevator = elevator.clone();
        let mut rng = Rng::new(100 + seed);
        if let Some(tuned) = elevator.tuned_mut() {
            draw(tuned, &mut rng);
        }
        let merge = if elevator.merges() && seed % 3 == 2 {
            merge::Config::LINUX.nomerges(1).ahead(false)
        } else {
            merge::Config::OFF
        };
        let policy = Config::of(elevator).merge(merge);
        let kind = if seed % 2 == 0 {
            LoadKind::Anywhere
        } else {
            LoadKind::Files
        };
        let mut churn = Churn::new(policy, kind);
        churn.rng = rng;
        for _ in 0..3_000 {
            churn.step();
        }
        let c = churn.layer.counters();
        writeln!(
            text,
            "{seed:4} {:8}  {:08x}  {:8} {:8} {:10} {:6}",
            churn.now / 1_000,
            churn.digest.value(),
            c.accepted,
            c.rejected,
            c.dispatched,
            c.done
        )
        .unwrap();
    }
    text
}

/// Checks that every accepted request ends after all clients continue, whatever the tunables.
/// Returns true if a low limit throttled requests.
pub(crate) fn nothing_is_lost(policy: &Config, runs: u64) -> bool {
    let mut limited = false;
    for seed in 0..runs {
        let mut rng = Rng::new(1_000 + seed);
        let mut policy = policy.clone();
        if let Some(tuned) = policy.elevator.tuned_mut() {
            draw(tuned, &mut rng);
        }
        if let Some(low) = &mut policy.controllers.low {
            use control::low::Directions::{Both, Reads, Writes};
            // Each direction is limited in a third of the runs.
            low.limits = [Both, Reads, Writes][seed as usize % 3];
        }
        if policy.elevator.merges() && seed % 3 == 2 {
            policy.merge = merge::Config::LINUX;
        }
        let kinds = [LoadKind::Anywhere, LoadKind::Files];
        let mut churn = Churn::new(policy, kinds[seed as usize % 2]);
        churn.rng = rng;
        for _ in 0..1_500 {
            churn.step();
            churn.layer.sample(SampleMask::GROUPS, &mut |sample| {
                limited |= matches!(sample, Sample::Low { limited: true, .. });
            });
        }
        churn.drain();
    }
    limited
}

/// Sets each tunable to its default, to its least value, or to a random value of any order of
/// magnitude.
pub(crate) fn draw(tuned: &mut dyn Tuned, rng: &mut Rng) {
    let mut below = |n: u64| rng.below(NonZeroU64::new(n).unwrap());
    for (place, tunable) in tuned.tunables().iter().enumerate() {
        let (least, most) = tunable.bounds;
        let value = match below(4) {
            _ if most - least < 64 => least + below(most - least + 1),
            0 => tunable.default,
            1 => least,
            _ => {
                // A random number of bits makes small and large values equally likely.
                let bits = 64 - most.min(4 * tunable.default.max(256)).leading_zeros();
                let bits = 1 + below(bits.into());
                below(1 << bits)
            }
        };
        tuned.set(place, value);
    }
    tuned.bound();
}

impl Churn {
    fn new(policy: Config, kind: LoadKind) -> Self {
        let sizes = Sizes {
            requests: 60,
            streams: 8,
            groups: 6,
            spaces: 3,
            per_stream: 14,
            reserved: 3,
            scheduler_tags: 24,
            events: 40,
            stalled: 0,
        };
        let drive = DriveShape {
            queues: 2,
            tags: 4,
            max_transfer: 64 << 10,
            rotational: kind == LoadKind::Files,
            capacity: Some(capacity(500_000_000)),
        };
        let (low, cost) = (policy.controllers.low, policy.controllers.cost);
        let mut layer = Layer::new(policy.sizes(sizes).drive(drive)).unwrap();
        let edits = [
            space(0, Some(1 << 30)),
            add(1, ROOT),
            add(2, ROOT),
            add(3, GroupId(1)),
            add(4, GroupId(1)),
        ];
        layer.change(Instant::ZERO, &edits).unwrap();
        Self {
            kind,
            metadata: cost.is_some(),
            low: low.is_some(),
            files: [0, 256 << 20, 512 << 20],
            rng: Rng::new(7),
            layer,
            now: 0,
            streams: Vec::new(),
            live: Vec::new(),
            in_drive: Vec::new(),
            cookies: 0,
            listener: None,
            digest: Digest::default(),
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.below(NonZeroU64::new(n).unwrap())
    }

    /// Returns true with a probability of one in `n`.
    fn rarely(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn stream(&mut self) -> Option<StreamId> {
        if self.streams.is_empty() {
            return None;
        }
        let which = self.below(self.streams.len() as u64);
        Some(self.streams[which as usize].0)
    }

    fn step(&mut self) {
        // Bursts of calls at the same instant, normal distances, and pauses of up to 20 ms.
        self.now += match self.below(30) {
            0 => self.below(20_000_000),
            1..9 => 0,
            _ => self.below(300_000),
        };
        // From time to time, a call has a time that has passed already.
        let early = if self.rarely(50) { 1_000 } else { 0 };
        let now = Instant::from_nanos(self.now.saturating_sub(early));
        match self.below(100) {
            0..40 => self.submit(now),
            40..70 => self.complete(now),
            70..76 => self.hold(now),
            76..80 => self.cancel(now),
            80..82 => self.close(now),
            82..88 => self.open(now),
            88..93 => self.change(now),
            93..95 => self.listen(),
            95 => self.sample(),
            96 => self.tear_down(now),
            _ => {}
        }
        let mut out = Vec::new();
        let wake = self.layer.poll(now, &mut out);
        for output in out {
            self.told(output);
        }
        self.woken(wake);
    }

    /// Lets all clients continue and checks that no request is left.
    fn drain(&mut self) {
        for (stream, _) in self.streams.clone() {
            self.layer
                .hold(Instant::from_nanos(self.now), stream, false);
        }
        for _ in 0..100_000 {
            let now = Instant::from_nanos(self.now);
            let mut out = Vec::new();
            let wake = self.layer.poll(now, &mut out);
            for output in out {
                self.told(output);
            }
            if let Some(tag) = self.in_drive.pop() {
                self.now += 10_000;
                self.layer.complete(now, &[Completion::ok(tag)]);
            } else if let Some(wake) = wake {
                self.now = self.now.max(wake.at.as_nanos());
            } else {
                break;
            }
        }
        assert!(self.live.is_empty(), "left over: {:?}", self.live);
        assert_eq!((self.layer.live(), self.layer.in_flight()), (0, 0));
    }

    fn submit(&mut self, now: Instant) {
        let Some(stream) = self.stream() else { return };
        let most = if self.kind == LoadKind::Files { 1 } else { 4 };
        let requests: Vec<_> = (0..=self.below(most))
            .map(|_| self.request(stream))
            .collect();
        let accepted = match self.layer.submit(now, &requests) {
            Ok(()) => requests.len(),
            Err(rejected) => rejected.accepted,
        };
        self.digest.add(accepted as u64);
        let accepted = requests[..accepted].iter();
        self.live.extend(accepted.map(|r| (stream, r.cookie)));
        let gauges = self.layer.gauges(stream).unwrap_or_default();
        self.digest.add(u64::from(gauges.live));
        self.digest.add(u64::from(gauges.limited));
        self.digest.add(gauges.oldest.map_or(0, Instant::as_nanos));
    }

    fn request(&mut self, stream: StreamId) -> Request {
        self.cookies += 1;
        let op = match self.below(20) {
            0..10 => Op::Read,
            10..16 => Op::Write,
            16 | 17 => Op::Flush,
            18 => Op::Discard,
            _ => Op::WriteZeroes,
        };
        let length: u64 = if self.rarely(5) {
            // Longer than `max_transfer`, so that the request is split into three pieces.
            180 << 10
        } else {
            512 << self.below(8)
        };
        // Beyond the end of the space, so that the request is refused.
        let outside = if self.rarely(60) { 1 << 30 } else { 0 };
        let file = stream.slot() as usize % 3;
        let offset = if op == Op::Flush {
            0
        } else if self.kind == LoadKind::Files && !self.rarely(8) {
            let offset = self.files[file];
            self.files[file] += length.next_multiple_of(4_096);
            offset
        } else {
            self.below(2_000) * 4_096 + outside
        };
        request(
            stream,
            op,
            self.cookies,
            if op == Op::Flush { 0 } else { length as u32 },
        )
        .space(SpaceId(u32::from(self.rarely(4))))
        .flags(match self.below(6) {
            0 => Flags::SYNC,
            1 => Flags::FUA,
            2 if self.metadata => Flags::META,
            _ => Flags::NONE,
        })
        .offset(offset)
    }

    fn complete(&mut self, now: Instant) {
        let mut batch = Vec::new();
        for _ in 0..=self.below(4) {
            if self.in_drive.is_empty() {
                break;
            }
            let tag = self.below(self.in_drive.len() as u64) as usize;
            let tag = self.in_drive.swap_remove(tag);
            batch.push(match self.below(12) {
                0 => Completion::busy(tag),
                1 => Completion::error(tag, 5),
                _ => Completion::ok(tag),
            });
        }
        // A completion of a tag that may not be in flight, so that it is a stray one.
        if self.rarely(40) {
            batch.push(Completion::ok(Tag(7)));
            self.in_drive.retain(|tag| *tag != Tag(7));
        }
        self.layer.complete(now, &batch);
    }

    fn hold(&mut self, now: Instant) {
        if let Some(stream) = self.stream() {
            let held = self.rarely(3);
            self.layer.hold(now, stream, held);
        }
    }

    fn cancel(&mut self, now: Instant) {
        if self.live.is_empty() {
            return;
        }
        let which = self.below(self.live.len() as u64) as usize;
        let (stream, cookie) = self.live[which];
        let cookie = if self.rarely(6) { cookie + 1 } else { cookie };
        let found = self.layer.cancel(now, stream, cookie);
        self.digest.add(u64::from(found));
    }

    fn close(&mut self, now: Instant) {
        if self.streams.len() > 2 {
            let which = self.below(self.streams.len() as u64) as usize;
            self.close_one(now, which);
        }
    }

    fn close_one(&mut self, now: Instant, which: usize) {
        let (stream, _) = self.streams.swap_remove(which);
        self.layer.close(now, stream);
        // No request can be submitted to a closed stream.
        let late = self.request(stream);
        let refused = self.layer.submit(now, &[late]).is_err();
        self.digest.add(u64::from(refused));
    }

    /// Closes the streams of a group, which may take a while, and removes the group once they are
    /// gone.
    fn tear_down(&mut self, now: Instant) {
        let id = GroupId(1 + self.below(5) as u32);
        while let Some(which) = self.streams.iter().position(|(_, group)| *group == id) {
            self.close_one(now, which);
        }
        let gone = self.layer.change(now, &[Edit::RemoveGroup(id)]).is_ok();
        self.digest.add(u64::from(gone));
        // The group is added again, so that later steps find it.
        let back = self.layer.change(now, &[add(id.0, GroupId(id.0 / 3))]);
        self.digest.add(u64::from(back.is_ok()));
    }

    fn open(&mut self, now: Instant) {
        let group = GroupId(self.below(6) as u32);
        let class = match self.below(8) {
            0 => PriorityClass::Realtime,
            1 => PriorityClass::Idle,
            _ => PriorityClass::BestEffort,
        };
        let level = self.below(8) as u8;
        let priority = Priority { class, level };
        let opened = self.layer.open(now, StreamSpec { group, priority });
        self.digest.add(u64::from(opened.is_ok()));
        self.streams.extend(opened.map(|stream| (stream, group)));
    }

    fn change(&mut self, now: Instant) {
        let id = GroupId(1 + self.below(6) as u32);
        let edit = match self.below(12) {
            0..5 => Edit::SetContract {
                id,
                contract: self.contract(),
            },
            5..7 => Edit::SetKnobs {
                id,
                knobs: Knobs {
                    latency: Span::from_micros(self.below(3) * 2_000),
                    low: self.low_knobs(),
                },
            },
            7 => add(5, GroupId(self.below(3) as u32)),
            8 => Edit::RemoveGroup(id),
            9 => space(1 + self.below(3) as u32, self.rarely(2).then_some(1 << 24)),
            10 => Edit::SetCapacity(Some(capacity(200_000_000 + self.below(300_000_000)))),
            _ => space(0, Some(1 << 30)),
        };
        // `would_change` must return the same as the change itself.
        let would = self.layer.would_change(&[edit]);
        let done = self.layer.change(now, &[edit]);
        assert_eq!(would, done, "{edit:?}");
        self.digest
            .add(done.map_or(1, |promised| promised.millionths + 2));
    }

    fn low_knobs(&mut self) -> LowKnobs {
        if !self.low {
            return LowKnobs::NONE;
        }
        LowKnobs {
            read_iops: self.below(400),
            write_iops: self.below(400),
            write_bandwidth: self.below(2) * 100_000,
            idle: Span::from_micros(self.below(3_000)),
            latency: Span::from_micros(self.below(300)),
            ..LowKnobs::NONE
        }
    }

    fn contract(&mut self) -> Contract {
        let max = Max::NONE
            .bandwidth(self.below(3) * 40_000_000)
            .read_iops(self.below(2) * 1_000)
            .write_bandwidth(self.below(2) * 30_000_000)
            .burst(Span::from_millis(self.below(20)));
        let class = match self.below(6) {
            0 => Class::Realtime,
            1 => Class::Idle,
            _ => Class::default(),
        };
        Contract::DEFAULT
            .min(if self.rarely(3) { 10_000_000 } else { 0 })
            .share(1 + self.below(500) as u16)
            .max(if self.rarely(2) { max } else { Max::NONE })
            .class(class)
    }

    /// Starts a listener, after draining the previous one.
    fn listen(&mut self) {
        if let Some(listener) = self.listener.take() {
            let lost = self.layer.drain(listener, &mut self.digest);
            self.digest.add(lost);
            self.layer.dismiss(listener);
        }
        if self.rarely(2) {
            self.listener = Some(self.layer.listen(Mask::ALL));
        }
    }

    fn told(&mut self, output: Output) {
        match output {
            Output::Dispatch(piece) => {
                assert!(
                    !self.in_drive.contains(&piece.tag),
                    "{piece:?} has a tag that is taken"
                );
                self.in_drive.push(piece.tag);
                self.digest.all([
                    piece.cookie,
                    piece.offset,
                    piece.length.into(),
                    piece.within.into(),
                ]);
                self.digest
                    .add(u64::from(piece.tag.0) << 16 | u64::from(piece.queue.0));
            }
            Output::Done(done) => {
                self.live.retain(|live| *live != (done.stream, done.cookie));
                let outcome = match done.outcome {
                    Outcome::Ok => 1,
                    Outcome::Error(code) => 100 + u64::from(code),
                    Outcome::Cancelled => 2,
                };
                let w = done.waits;
                self.digest.all([
                    done.cookie,
                    outcome,
                    w.limit.as_nanos(),
                    w.elevator.as_nanos(),
                    w.drive.as_nanos(),
                ]);
            }
            Output::Pause(stream) => self.digest.add(1_000 + u64::from(stream.slot())),
            Output::Resume(stream) => self.digest.add(2_000 + u64::from(stream.slot())),
        }
    }

    fn woken(&mut self, wake: Option<Wake>) {
        self.digest.add(wake.map_or(0, |wake| wake.at.as_nanos()));
        let (live, in_flight) = (self.layer.live(), self.layer.in_flight());
        self.digest.all([live, in_flight].map(u64::from));
    }

    /// Adds all samples to the digest.
    fn sample(&mut self) {
        for number in sampled(&self.layer) {
            self.digest.add(number);
        }
    }
}

impl Publish for Digest {
    fn publish(&mut self, now: Instant, event: Event) {
        self.add(now.as_nanos());
        match event {
            Event::Released { cookie, bytes, .. } => self.all([cookie, bytes]),
            Event::Throttled { cookie, .. } | Event::Passed { cookie, .. } => self.add(cookie),
            Event::Selected { stream, budget } => self.all([stream.slot().into(), budget]),
            Event::Expired {
                served, charged, ..
            } => self.all([served, charged]),
            Event::Bound { span, .. } => self.add(span.as_nanos()),
            _ => self.add(1),
        }
    }
}

fn space(id: u32, size: Option<u64>) -> Edit {
    Edit::SetSpace {
        id: SpaceId(id),
        size,
    }
}

fn add(id: u32, parent: GroupId) -> Edit {
    child(id, parent, Contract::DEFAULT)
}
