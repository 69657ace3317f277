//! A host for tests that determine the arrival of each request. Its drive has a number of places,
//! and each command takes the same time.
//!
//! As in Linux for a drive without budgets, the layer can have one tag more than the drive has
//! places: Linux pulls a request out of the elevator before it finds out that there is no tag for
//! it, and keeps the request aside until there is one.

use crate::layer::{Config as LayerConfig, Layer, Output};
use crate::random::Rng;
use crate::shape::{DriveShape, Sizes};
use crate::testing::{self, at, read, request};
use crate::{
    Completion, Dispatch, Flags, Instant, Op, Priority, PriorityClass, ROOT, StreamId, StreamSpec,
    Tag, elevator, merge,
};
use core::num::NonZeroU64;
use std::collections::VecDeque;
use std::vec::Vec;

pub(crate) const BLOCK: u32 = 4096;

/// A dispatched command: cookie, offset in blocks, and number of blocks.
pub(crate) type SentCommand = (u64, u64, u32);

/// The first event after the completion of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompletionOrder {
    /// The client sends its next request.
    AsksFirst,
    /// Linux searches for a request to dispatch.
    LooksFirst,
}

/// Number of blocks in 4 GiB.
const FILE: NonZeroU64 = NonZeroU64::new(1 << 20).unwrap();

/// A layer with an elevator, and a drive with a number of places.
pub(crate) struct ScriptedHost {
    pub(crate) layer: Layer,
    /// Duration of a command in nanoseconds.
    service: u64,
    /// Number of commands that are served at a time.
    places: usize,
    /// Length of a tick of the layer's clock in nanoseconds.
    tick: u64,
    pub(crate) now: u64,
    in_drive: VecDeque<(u64, Tag, u64)>,
    /// Requests that were pulled and wait for a place.
    ahead: VecDeque<(Tag, u64)>,
    /// All commands that were dispatched.
    pub(crate) sent: Vec<SentCommand>,
    /// Cookies and latencies in nanoseconds of all requests that completed since the test last
    /// emptied it.
    pub(crate) done: Vec<(u64, u64)>,
}

impl ScriptedHost {
    /// Creates a drive with `places` places and commands of at most 16 blocks, and a layer with
    /// `nr_requests` scheduler tags.
    pub(crate) fn new(
        config: impl Into<elevator::Config>,
        places: u16,
        nr_requests: u32,
        service: u64,
    ) -> Self {
        Self::pulling_ahead(config, (places, 0), nr_requests, (service, 1))
    }

    /// Creates the same host with a drive for which `ahead` requests are pulled ahead. The duration
    /// of a command and the tick of the layer's clock are in nanoseconds.
    pub(crate) fn pulling_ahead(
        config: impl Into<elevator::Config>,
        (places, ahead): (u16, u16),
        nr_requests: u32,
        (service, tick): (u64, u64),
    ) -> Self {
        let layer = layer(config, places + ahead, nr_requests);
        Self {
            layer,
            service,
            places: places.into(),
            tick,
            now: 0,
            in_drive: VecDeque::new(),
            ahead: VecDeque::new(),
            sent: Vec::new(),
            done: Vec::new(),
        }
    }

    pub(crate) fn open(&mut self, class: PriorityClass) -> StreamId {
        open(&mut self.layer, class)
    }

    /// Submits a request for the blocks from `block` on.
    pub(crate) fn submit(
        &mut self,
        stream: StreamId,
        op: Op,
        block: u64,
        blocks: u32,
        cookie: u64,
    ) {
        let request = request(stream, op, cookie, blocks * BLOCK)
            .flags(if op.is_read() {
                Flags::NONE
            } else {
                Flags::SYNC
            })
            .offset(block * u64::from(BLOCK));
        self.layer.submit(self.at(), &[request]).unwrap();
    }

    /// Dispatches all requests that may be dispatched.
    pub(crate) fn poll(&mut self) {
        let mut out = Vec::new();
        self.layer.poll(self.at(), &mut out);
        for output in out {
            match output {
                Output::Dispatch(d) => {
                    let block = u64::from(BLOCK);
                    self.sent
                        .push((d.cookie, d.offset / block, d.length / BLOCK));
                    self.ahead.push_back((d.tag, d.cookie));
                }
                Output::Done(d) => {
                    let waited = self.now.saturating_sub(d.submitted.as_nanos());
                    self.done.push((d.cookie, waited));
                }
                Output::Pause(_) | Output::Resume(_) => {}
            }
        }
        self.begin();
    }

    /// Moves requests that were pulled into the free places.
    fn begin(&mut self) {
        while self.in_drive.len() < self.places
            && let Some((tag, cookie)) = self.ahead.pop_front()
        {
            self.in_drive
                .push_back((self.now + self.service, tag, cookie));
        }
    }

    /// Completes the next command of the drive, and others that complete at the same time. Returns
    /// false if there is none.
    pub(crate) fn step(&mut self) -> bool {
        let ended = self.end();
        self.poll();
        !ended.is_empty()
    }

    /// Completes the same commands without dispatching others. Returns the cookies of the commands
    /// that completed.
    pub(crate) fn end(&mut self) -> Vec<u64> {
        let mut ended = Vec::new();
        let Some(&(at, ..)) = self.in_drive.front() else {
            return ended;
        };
        self.now = at;
        // All commands take the same time, so the first ones in the queue end first.
        while let Some(&(_, tag, cookie)) = self.in_drive.front().filter(|(end, ..)| *end == at) {
            self.in_drive.pop_front();
            self.layer.complete(self.at(), &[Completion::ok(tag)]);
            ended.push(cookie);
        }
        ended
    }

    /// Runs clients that each keep a number of one-block requests outstanding, at random offsets in
    /// 4 GiB of their own, until `end`. Calls `look` after each completed command with the client
    /// of the command.
    pub(crate) fn compete(
        &mut self,
        clients: &[(StreamId, Op, u32)],
        order: CompletionOrder,
        end: u64,
        mut look: impl FnMut(&Self, usize),
    ) {
        let mut rng = Rng::new(1);
        let mut ask = |host: &mut Self, client: usize| {
            let (stream, op, _) = clients[client];
            let block = rng.below(FILE) + client as u64 * FILE.get();
            host.submit(stream, op, block, 1, client as u64);
        };
        for (client, &(_, _, depth)) in clients.iter().enumerate() {
            (0..depth).for_each(|_| ask(self, client));
        }
        self.poll();
        while self.now < end {
            let ended = self.end();
            if order == CompletionOrder::LooksFirst {
                self.poll();
            }
            for &client in &ended {
                ask(self, client as usize);
            }
            self.poll();
            for client in ended {
                look(self, client as usize);
            }
        }
    }

    /// Runs until no request is left. Returns the cookies in the order of dispatch.
    pub(crate) fn drain(&mut self) -> Vec<u64> {
        self.poll();
        while self.step() {}
        self.sent.iter().map(|sent| sent.0).collect()
    }

    fn at(&self) -> Instant {
        // The layer sees whole ticks only, as Linux does with jiffies.
        Instant::from_nanos(self.now - self.now % self.tick)
    }
}

/// Creates a layer with this elevator, `nr_requests` scheduler tags, and a drive with `tags` tags.
pub(crate) fn layer(config: impl Into<elevator::Config>, tags: u16, nr_requests: u32) -> Layer {
    layer_that(config, tags, nr_requests, merge::Config::OFF)
}

/// Creates the same layer with a configuration for merging.
pub(crate) fn layer_that(
    config: impl Into<elevator::Config>,
    tags: u16,
    nr_requests: u32,
    merge: merge::Config,
) -> Layer {
    let config = LayerConfig::of(config.into())
        .sizes(Sizes::default().scheduler_tags(nr_requests))
        .drive(DriveShape::default().tags(tags).max_transfer(16 * BLOCK))
        .merge(merge);
    testing::layer(config, &[]).unwrap()
}

/// Opens a stream of this priority.
pub(crate) fn open(layer: &mut Layer, class: PriorityClass) -> StreamId {
    let priority = Priority {
        class,
        ..Priority::default()
    };
    let spec = StreamSpec {
        priority,
        ..testing::spec(ROOT)
    };
    layer.open(Instant::ZERO, spec).unwrap()
}

/// One stream on a drive that serves one command at a time, with a layer that merges. The drive has
/// a command at block 1000.
pub(crate) struct MergingHost {
    layer: Layer,
    stream: StreamId,
    tag: Tag,
}

impl MergingHost {
    pub(crate) fn new(config: impl Into<elevator::Config>) -> Self {
        let merge = merge::Config::LINUX.ahead(false);
        let mut layer = layer_that(config, 1, 64, merge);
        let stream = open(&mut layer, PriorityClass::BestEffort);
        let tag = Tag::default();
        let mut host = Self { layer, stream, tag };
        host.ask(0, 1000);
        host.tag = host.next(0).expect("the drive is empty").tag;
        host
    }

    /// Submits a read of a block at `ms` milliseconds.
    pub(crate) fn ask(&mut self, ms: u64, block: u64) {
        self.ask_with(Flags::NONE, ms, block);
    }

    /// Submits a read of a block with flags at `ms` milliseconds.
    pub(crate) fn ask_with(&mut self, flags: Flags, ms: u64, block: u64) {
        let request = read(self.stream, block, BLOCK)
            .flags(flags)
            .offset(block * u64::from(BLOCK));
        self.layer.submit(at(ms * 1_000), &[request]).unwrap();
    }

    /// Opens another stream for all following requests.
    pub(crate) fn open(&mut self) {
        self.stream = open(&mut self.layer, PriorityClass::BestEffort);
    }

    fn next(&mut self, ms: u64) -> Option<Dispatch> {
        let mut out = Vec::new();
        self.layer.poll(at(ms * 1_000), &mut out);
        out.into_iter().find_map(|output| match output {
            Output::Dispatch(dispatch) => Some(dispatch),
            _ => None,
        })
    }

    /// Dispatches all commands one after the other at `ms` milliseconds. Returns the first block
    /// and the number of blocks of each.
    pub(crate) fn drain(mut self, ms: u64) -> Vec<(u64, u32)> {
        let mut sent = Vec::new();
        loop {
            self.layer
                .complete(at(ms * 1_000), &[Completion::ok(self.tag)]);
            let Some(dispatch) = self.next(ms) else {
                return sent;
            };
            sent.push((dispatch.offset / u64::from(BLOCK), dispatch.length / BLOCK));
            self.tag = dispatch.tag;
        }
    }
}
