//! The driver of random operations on an audited layer.

use super::DecisionSource;
use super::plan::{
    RandomOperation, RandomPlan, add_group, capacity, draw_contract, set_debt, set_knobs, set_space,
};
use crate::audit::Audited;
use weir_core::{
    Completion, Edit, Flags, GroupId, Instant, Op, Output, Priority, PriorityClass, Request,
    SpaceId, Span, StreamId, StreamSpec, Tag, Wake,
};

/// A driver that performs random operations on one layer.
#[derive(Debug)]
pub(super) struct RandomDriver<'a, S> {
    source: &'a mut S,
    plan: RandomPlan,
    pub(super) layer: Audited,
    now: Instant,
    wake: Option<Wake>,
    streams: Vec<(StreamId, bool)>,
    /// A stream that was closed. Its id is used as an outdated name.
    stale: StreamId,
    flying: Vec<Tag>,
    cookie: u64,
    out: Vec<Output>,
    requests: Vec<Request>,
    completions: Vec<Completion>,
    weight: u64,
}

impl<'a, S: DecisionSource> RandomDriver<'a, S> {
    pub(super) fn new(source: &'a mut S, plan: RandomPlan, layer: Audited) -> Self {
        let mut driver = Self {
            source,
            layer,
            now: Instant::ZERO,
            wake: None,
            streams: Vec::new(),
            // An id that the layer has never given out.
            stale: StreamId::from_bits(3),
            flying: Vec::new(),
            cookie: 0,
            out: Vec::new(),
            requests: Vec::new(),
            completions: Vec::new(),
            weight: plan.weights.iter().sum(),
            plan,
        };
        driver.set_up();
        driver
    }

    /// Returns true if the source of decisions is used up.
    pub(super) fn is_exhausted(&self) -> bool {
        self.source.is_empty()
    }

    /// Performs one operation, and in most cases a poll.
    pub(super) fn step(&mut self) {
        self.pass_time();
        match self.operation() {
            RandomOperation::Submit => self.submit(),
            RandomOperation::Complete => self.complete(),
            RandomOperation::Open => self.open(),
            RandomOperation::Close => self.close(),
            RandomOperation::Hold => self.hold(),
            RandomOperation::Cancel => self.cancel(),
            RandomOperation::Change => self.change(),
            RandomOperation::Stray => self.complete_stray_tags(),
            RandomOperation::Stale => self.use_stale_stream(),
            RandomOperation::Stall => self.stall(),
            RandomOperation::Nothing => {}
        }
        // Occasionally time goes backwards, which the layer must treat as standing still.
        if self.source.below(512) == 511 {
            let now = self.now;
            self.now = now.saturating_sub(Span::from_nanos(500));
            self.poll();
            self.now = now;
        }
        if self.source.below(8) < 7 {
            self.poll();
        }
    }

    /// Lets every request complete: holds are lifted, the drive completes, and every wake-up is
    /// met. Gives up when nothing changes any more, which the auditors report.
    pub(super) fn drain(&mut self) {
        for (stream, held) in std::mem::take(&mut self.streams) {
            if held {
                self.layer.hold(self.now, stream, false);
            }
            self.streams.push((stream, false));
        }
        self.poll();
        // io.cost may throttle a request of a group of small weight for many of its periods, and
        // io.max checks one in each slice.
        let controllers = &self.plan.config.controllers;
        let quiet_max = if controllers.cost.is_some() || controllers.slices.is_some() {
            200_000
        } else {
            1_000
        };
        let mut quiet = 0;
        while self.layer.observer().audit.found().is_empty()
            && (self.layer.layer().live() > 0 || self.wake.is_some())
            && quiet < quiet_max
        {
            quiet += 1;
            if self.flying.is_empty() {
                let Some(wake) = self.wake else { break };
                self.now = self.now.max(wake.at);
            } else {
                self.completions.clear();
                self.completions
                    .extend(self.flying.drain(..).map(Completion::ok));
                self.layer.complete(self.now, &self.completions);
                quiet = 0;
            }
            let before = self.layer.layer().live();
            self.poll();
            if self.layer.layer().live() < before {
                quiet = 0;
            }
        }
        self.layer.observer_mut().audit.end();
    }

    fn set_up(&mut self) {
        let edits = std::mem::take(&mut self.plan.edits);
        // The edits are made one by one, so that a refused one costs one group instead of all.
        // Refused changes are part of the audit, so their results are ignored here and below.
        let capacity = capacity(self.source);
        let _ = self.layer.change(self.now, &[Edit::SetCapacity(capacity)]);
        for edit in &edits {
            let _ = self.layer.change(self.now, &[*edit]);
        }
        self.open();
    }

    fn operation(&mut self) -> RandomOperation {
        let mut left = self.source.below(self.weight);
        for (operation, weight) in RandomOperation::ALL.into_iter().zip(self.plan.weights) {
            if left < weight {
                return operation;
            }
            left -= weight;
        }
        RandomOperation::Nothing
    }

    fn pass_time(&mut self) {
        // If the drive is idle, the next event is most likely the wake-up.
        let idle = self.flying.is_empty() && self.wake.is_some();
        let passed = match self.source.below(if idle { 32 } else { 16 }) {
            0..8 => 0,
            8..14 => self.source.below(self.plan.step_max),
            14 => self.source.magnitude(self.plan.step_max),
            // Passes the time to the wake-up, or far beyond every timer.
            _ => match self.wake {
                Some(wake) => wake.at.since(self.now).as_nanos(),
                None => self.source.magnitude(1 << 34),
            },
        };
        let mut then = self.now + Span::from_nanos(passed);
        if self.plan.punctual {
            while let Some(wake) = self.wake.filter(|w| w.at < then) {
                self.now = self.now.max(wake.at);
                self.poll();
                then = then.max(self.now);
                if !self.layer.observer().audit.found().is_empty() {
                    return;
                }
            }
        }
        self.now = then;
    }

    fn poll(&mut self) {
        self.out.clear();
        self.wake = self.layer.poll(self.now, &mut self.out);
        for output in &self.out {
            if let Output::Dispatch(d) = output {
                self.flying.push(d.tag);
            }
        }
    }

    fn submit(&mut self) {
        if self.streams.is_empty() {
            return self.open();
        }
        self.requests.clear();
        for _ in 0..=self.source.below(3) {
            let request = self.request();
            self.requests.push(request);
        }
        let _ = self.layer.submit(self.now, &self.requests);
    }

    fn request(&mut self) -> Request {
        let mut stream = self.any_stream();
        for _ in 0..2 {
            // In most cases chooses a stream with space.
            let live = self
                .layer
                .observer()
                .audit
                .model()
                .stream(stream)
                .map_or(0, |s| s.live);
            if live < self.plan.config.sizes.per_stream || self.source.once_in(8) {
                break;
            }
            stream = self.any_stream();
        }
        let space = SpaceId(self.source.below(u64::from(self.plan.config.sizes.spaces)) as u32);
        // Reads and writes are three times as frequent as each of the others.
        let op = if self.source.once_in(self.plan.flush_in) {
            Op::Flush
        } else {
            [
                Op::Read,
                Op::Write,
                Op::Read,
                Op::Write,
                Op::Read,
                Op::Write,
                Op::Discard,
                Op::WriteZeroes,
            ][self.source.below(8) as usize]
        };
        let op = match op {
            // `Extents` replaces a third of the discards.
            Op::Discard if self.cookie.is_multiple_of(3) => Op::Extents,
            op => op,
        };
        let size = self.layer.observer().audit.model().spaces[space.0 as usize]
            .size
            .unwrap_or(1 << 20);
        let length = if op == Op::Flush {
            0
        } else {
            self.source.magnitude(self.plan.length_max)
        };
        let offset = if op == Op::Flush {
            0
        } else {
            self.source.below(size.saturating_sub(length).max(1))
        };
        let mut request = Request {
            stream,
            space,
            op,
            // All combinations of flags, including those that clients do not use.
            flags: Flags::from_bits(self.source.below(32) as u8),
            offset: offset & !511,
            length: length as u32,
            cookie: self.cookie,
            within: self.within(op, offset),
        };
        // Random offsets would hardly ever be adjacent, so that most requests are made neighbours.
        if self.plan.config.merge.is_on() && !self.source.once_in(3) {
            if !self.source.once_in(4) {
                request.flags = Flags::from_bits(request.flags.bits() & !Flags::FUA.bits());
            }
            match self.requests.last() {
                Some(&last) if !self.source.once_in(3) => self.make_adjacent(&mut request, &last),
                _ => self.make_adjacent_to_live(&mut request),
            }
        }
        self.cookie += 1;
        if self.source.once_in(128) {
            self.corrupt_request(&mut request);
        }
        request
    }

    /// Returns the position of a request within its client's request. Some requests continue one
    /// that was split.
    fn within(&self, op: Op, offset: u64) -> u32 {
        match op {
            Op::Read | Op::Write if self.cookie.is_multiple_of(5) => offset as u32 & !511,
            _ => 0,
        }
    }

    /// Makes a request a neighbour of one that is live, most likely of the same stream and kind.
    fn make_adjacent_to_live(&mut self, request: &mut Request) {
        let model = self.layer.observer().audit.model();
        let streams = model.streams().count().max(1) as u64;
        let own = !self.source.once_in(4);
        let any = self.source.below(streams) as usize;
        let stream = if own {
            model.stream(request.stream)
        } else {
            model.streams().nth(any)
        };
        let Some(stream) = stream.filter(|s| s.live > 0) else {
            return;
        };
        // Takes one of the last four requests, which have hardly begun.
        let back = self.source.below(4).min(u64::from(stream.live) - 1);
        let last = model
            .requests_of(stream)
            .nth(stream.live as usize - 1 - back as usize);
        let Some(other) = last.map(|slot| model.request(slot).request) else {
            return;
        };
        self.make_adjacent(request, &other);
    }

    /// Makes a request a neighbour of another one, most likely in its space.
    fn make_adjacent(&mut self, request: &mut Request, other: &Request) {
        if other.op == Op::Flush {
            return;
        }
        if !self.source.once_in(4) {
            request.stream = other.stream;
        }
        request.op = other.op;
        request.flags = other.flags;
        if !self.source.once_in(8) {
            request.space = other.space;
        }
        request.length = 4096 * (1 + self.source.below(4)) as u32;
        request.offset = if self.source.once_in(3) {
            other.offset.saturating_sub(request.length.into())
        } else {
            other.offset.saturating_add(other.length.into())
        };
    }

    fn any_stream(&mut self) -> StreamId {
        self.streams[self.source.below(self.streams.len() as u64) as usize].0
    }

    /// Changes a request so that the layer may have to refuse it.
    fn corrupt_request(&mut self, request: &mut Request) {
        match self.source.below(6) {
            0 => request.length ^= 1 << self.source.below(32),
            1 => request.offset = u64::MAX - self.source.below(1 << 20),
            2 => request.offset ^= 1 << self.source.below(64),
            3 => request.space.0 = self.plan.config.sizes.spaces,
            4 => request.stream = self.stale,
            _ => request.op = Op::ALL[self.source.below(5) as usize],
        }
    }

    fn complete(&mut self) {
        self.completions.clear();
        let most = self.flying.len().min(1 + self.source.below(4) as usize);
        for _ in 0..most {
            let tag = self
                .flying
                .swap_remove(self.source.below(self.flying.len() as u64) as usize);
            let completion = self.completion(tag);
            self.completions.push(completion);
        }
        self.layer.complete(self.now, &self.completions);
    }

    fn completion(&mut self, tag: Tag) -> Completion {
        if self.source.once_in(self.plan.busy_in) {
            Completion::busy(tag)
        } else if self.source.once_in(self.plan.error_in) {
            Completion::error(tag, 5 + self.source.below(3) as u16)
        } else {
            Completion::ok(tag)
        }
    }

    fn open(&mut self) {
        if self.streams.len() >= self.plan.streams as usize && !self.source.once_in(8) {
            return;
        }
        let class = self.source.pick(&[
            PriorityClass::BestEffort,
            PriorityClass::BestEffort,
            PriorityClass::Realtime,
            PriorityClass::Idle,
        ]);
        let spec = StreamSpec {
            group: GroupId(self.source.below(u64::from(self.plan.config.sizes.groups)) as u32),
            priority: Priority {
                class,
                level: self.source.below(9) as u8,
            },
        };
        if let Ok(stream) = self.layer.open(self.now, spec) {
            self.streams.push((stream, false));
        }
    }

    fn close(&mut self) {
        if self.streams.is_empty() {
            return;
        }
        let at = self.source.below(self.streams.len() as u64) as usize;
        let (stream, _) = self.streams.swap_remove(at);
        self.layer.close(self.now, stream);
        self.stale = stream;
    }

    fn hold(&mut self) {
        if self.streams.is_empty() {
            return;
        }
        let at = self.source.below(self.streams.len() as u64) as usize;
        let (stream, held) = &mut self.streams[at];
        // Occasionally the hold is set to its current value.
        *held ^= !self.source.once_in(16);
        self.layer.hold(self.now, *stream, *held);
    }

    fn stall(&mut self) {
        let spaces = u64::from(self.plan.config.sizes.spaces);
        let space = SpaceId(self.source.below(spaces) as u32);
        self.layer.stall(self.now, space);
    }

    fn cancel(&mut self) {
        if self.streams.is_empty() {
            return;
        }
        let at = self.source.below(self.streams.len() as u64) as usize;
        let (stream, _) = self.streams[at];
        let model = self.layer.observer().audit.model();
        let live = model.stream(stream).map_or(0, |s| s.live);
        // The index after the last request stands for a cookie that does not exist.
        let which = self.source.below(u64::from(live) + 1) as usize;
        let request = model
            .stream(stream)
            .and_then(|s| model.requests_of(s).nth(which));
        let cookie = request.map_or(u64::MAX, |r| model.request(r).request.cookie);
        self.layer.cancel(self.now, stream, cookie);
    }

    fn change(&mut self) {
        let sizes = self.plan.config.sizes;
        let mut edits = Vec::new();
        for _ in 0..=self.source.below(3) {
            let id = self.source.below(u64::from(sizes.groups) + 1) as u32;
            let space = self.source.below(u64::from(sizes.spaces)) as u32;
            edits.push(match self.source.below(8) {
                0 | 1 => add_group(self.source, &self.plan.config, id),
                2 | 3 => Edit::SetContract {
                    id: GroupId(id),
                    contract: draw_contract(self.source, &self.plan.config),
                },
                4 => Edit::RemoveGroup(GroupId(id)),
                5 => set_space(self.source, space),
                6 => set_debt(self.source, id),
                _ => Edit::SetCapacity(capacity(self.source)),
            });
            edits.extend(set_knobs(self.source, id));
        }
        let _ = self.layer.change(self.now, &edits);
    }

    /// Completes tags that are not in flight, and completes one in flight twice.
    fn complete_stray_tags(&mut self) {
        let tags = self.layer.observer().audit.model().tags.len() as u64;
        // Two tags beyond the drive's are included.
        let tag = Tag(self.source.below(tags + 2) as u32);
        self.completions.clear();
        if let Some(at) = self.flying.iter().position(|&t| t == tag) {
            self.flying.swap_remove(at);
            self.completions.push(Completion::ok(tag));
        }
        self.completions.push(Completion::ok(tag));
        self.completions.push(Completion::busy(tag));
        self.layer.complete(self.now, &self.completions);
    }

    fn use_stale_stream(&mut self) {
        match self.source.below(3) {
            0 => self.layer.close(self.now, self.stale),
            1 => self.layer.hold(self.now, self.stale, true),
            _ => drop(self.layer.cancel(self.now, self.stale, self.cookie)),
        }
    }
}
