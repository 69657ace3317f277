//! The block layer: the chain of stages between clients and a drive, and the order in which things happen.

mod busy;
mod change;
mod complete;
mod dispatch;
mod flow;
mod front;
#[cfg(debug_assertions)]
mod invariants;
mod merge;
mod plug;
mod session;
mod stall;
mod submit;
mod tags;

use crate::control::{self, chain::Chain};
use crate::cx::Cx;
use crate::elevator::{self, AnyElevator, Schedule};
use crate::event::{Events, Listener, Mask, Publish};
use crate::flush::Flushes;
use crate::list::{Links, List};
use crate::merge::Config as Merging;
use crate::rule;
use crate::sample::{Sample, Wanted};
use crate::setters::setters;
use crate::table::Table;
use crate::{ConfigError, Dispatch, Done, DriveShape, GroupId, Instant, Reject, Sizes, StreamId};
use alloc::vec::Vec;
use busy::Busy;
use core::fmt;
use front::Front;
use merge::Ahead;
pub use merge::Part;
use plug::Plug;
use stall::Stalls;
use tags::SchedulerTags;

/// Everything a [`Layer`] is made from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Sizes of the tables.
    pub sizes: Sizes,
    /// The drive.
    pub drive: DriveShape,
    /// The controllers.
    pub controllers: control::Config,
    /// The elevator.
    pub elevator: elevator::Config,
    /// Whether neighbouring requests are merged.
    pub merge: Merging,
}

setters! { Config:
    sizes: Sizes, drive: DriveShape, controllers: control::Config, elevator: elevator::Config, merge: Merging,
}

impl Config {
    /// Numbers that tags may have, from 0 on: those of all hardware queues, and as many as may
    /// stall.
    pub fn tags(&self) -> u32 {
        self.drive.all_tags() + self.sizes.stalled
    }

    /// This elevator alone: sizes and a drive as by default, no controllers, and nothing is merged.
    pub fn of(elevator: impl Into<elevator::Config>) -> Self {
        Self {
            sizes: Sizes::default(),
            drive: DriveShape::default(),
            controllers: control::Config::default(),
            elevator: elevator.into(),
            merge: Merging::OFF,
        }
    }
}

/// Why a stream was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// As many streams as there may be.
    Full,
    /// The group does not exist.
    NoSuchGroup(GroupId),
    /// The group has child groups; streams hang on leaves.
    NotALeaf(GroupId),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("all streams are in use"),
            Self::NoSuchGroup(g) => write!(f, "group {} does not exist", g.0),
            Self::NotALeaf(g) => {
                write!(
                    f,
                    "group {} has child groups, so that it cannot have streams",
                    g.0
                )
            }
        }
    }
}

impl core::error::Error for OpenError {}

/// A batch was accepted up to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rejected {
    /// Requests of the batch that were accepted; the next was not, and those after it were not looked at.
    pub accepted: usize,
    /// Why.
    pub reason: Reject,
}

/// What the driver has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Hand this to the drive.
    Dispatch(Dispatch),
    /// Answer this.
    Done(Done),
    /// Stop reading requests from this stream's client.
    Pause(StreamId),
    /// Go on reading.
    Resume(StreamId),
}

/// Totals since the layer was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Requests accepted.
    pub accepted: u64,
    /// Requests refused.
    pub rejected: u64,
    /// Pieces sent to the drive, repetitions after a busy queue included.
    pub dispatched: u64,
    /// Requests done.
    pub done: u64,
    /// Requests that became part of another's command.
    pub merged: u64,
    /// Calls whose `now` was before the call's before and was moved up to it.
    pub clamped: u64,
    /// Completions of tags that were not in flight; ignored.
    pub stray: u64,
}

/// How things stand with a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gauges {
    /// Live requests.
    pub live: u32,
    /// Of these, held back by a limit.
    pub limited: u32,
    /// When its oldest live request was submitted.
    pub oldest: Option<Instant>,
}

/// The block layer of one drive. See the crate's documentation for the order of calls.
#[derive(Debug)]
pub struct Layer {
    config: Config,
    /// The time, the tables and the listeners: what stages are given in each call.
    cx: Cx,
    chain: Chain,
    flushes: Flushes,
    elevator: AnyElevator,
    /// Requests that wait for a scheduler tag.
    front: Front,
    /// The elevator has a say in which request gets one.
    limits_tags: bool,
    /// The elevator sends requests in another order than they came in.
    sorts: bool,
    /// Requests are merged.
    merging: bool,
    plug: Plug,
    /// A piece waits in front of the drive.
    ahead: Option<Ahead>,
    /// One of those, a listener or a controller must see every request: none goes straight to the elevator, and the end of each is told.
    fast_path_off: bool,
    /// One of those must see the end of every request, or a space that stalls.
    ends_seen: bool,
    /// A listener or a controller must see every request.
    chain_for_all: bool,
    /// A controller must be told of the end of each.
    chain_counts: bool,
    /// Room to list the requests of a stream or of a space in.
    listed: Vec<u32>,
    /// Requests that are over and not yet reported, in the order in which they ended.
    finished: Vec<u32>,
    /// Scheduler tags that no request holds.
    tags: SchedulerTags,
    /// Streams that are owed a notice, those refused for want of room, and the links of both.
    notices: List,
    notice_links: Links,
    starved: List,
    starved_links: Links,
    /// Streams that are to pause, and streams that are closing: something may follow from the end of a request of theirs.
    paused_or_closing: u32,
    /// Live requests beyond those reserved for their stream.
    shared: u32,
    /// The upper bound of `shared`.
    shared_max: u32,
    /// A stream with fewer live requests may have two more: its next one does not make it pause.
    unpaused_max: u32,
    /// What the drive sent back as busy.
    busy: Busy,
    /// Spaces whose storage does not answer.
    stalls: Stalls,
    counters: Counters,
    #[cfg(debug_assertions)]
    check: invariants::Check,
}

impl Layer {
    /// A layer without streams, spaces or groups but the root.
    ///
    /// # Errors
    /// A field of `config` is outside what its documentation allows.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        check(&config)?;
        let l = config.sizes;
        let mut table = Table::new(&l, config.drive, &config.merge);
        table.paces = config.controllers.max && config.controllers.slices.is_none();
        let merging = config.merge.is_on();
        let elevator = AnyElevator::new(&config.elevator, &table);
        let limits_tags = elevator.other().is_some_and(Schedule::limits_tags);
        let sorts = elevator.other().is_some_and(Schedule::sorts);
        let queues = config.drive.queues;
        let lanes = if limits_tags || config.merge.ahead {
            2 * l.streams
        } else {
            queues.into()
        };
        // Of a stream, or of a space.
        let listed = match l.stalled {
            0 => l.requests.min(l.per_stream),
            _ => l.requests,
        };
        let fast_path_off = limits_tags || merging || config.merge.ahead || queues > 1;
        let chain = Chain::new(&config.controllers, &table, elevator.other().is_some());
        Ok(Self {
            chain_for_all: chain.counts(),
            chain_counts: chain.counts(),
            chain,
            flushes: Flushes::new(l.spaces, config.drive.queues, l.requests),
            elevator,
            front: Front::new(queues, lanes, l.requests),
            limits_tags,
            fast_path_off,
            ends_seen: fast_path_off,
            sorts,
            merging,
            plug: Plug::new(merging),
            ahead: None,
            listed: Vec::with_capacity(listed as usize),
            finished: Vec::with_capacity(l.requests as usize),
            tags: SchedulerTags::new(&l, &config.drive),
            notices: List::EMPTY,
            notice_links: Links::new(l.streams),
            starved: List::EMPTY,
            starved_links: Links::new(l.streams),
            paused_or_closing: 0,
            shared: 0,
            shared_max: l.shared(),
            unpaused_max: l.per_stream.saturating_sub(1),
            busy: Busy::new(&config.drive, table.pieces.names()),
            stalls: Stalls::new(&l),
            counters: Counters::default(),
            #[cfg(debug_assertions)]
            check: invariants::Check::new(&config),
            cx: Cx {
                now: Instant::ZERO,
                table,
                events: Events::new(l.events),
            },
            config,
        })
    }

    /// What it was made from. The capacity in it is the one in force now.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Totals.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How things stand with a stream; `None` once it is gone.
    pub fn gauges(&self, stream: StreamId) -> Option<Gauges> {
        let s = self
            .cx
            .table
            .streams
            .get_named(stream.index, stream.generation)?;
        let live = self.cx.table.of_stream(stream.index);
        let oldest = live.map(|(_, live)| live.submitted).min();
        Some(Gauges {
            live: s.live,
            limited: s.throttled,
            oldest,
        })
    }

    /// Live requests of all streams.
    pub fn live(&self) -> u32 {
        (self.counters.accepted - self.counters.done) as u32
    }

    /// Pieces in the drive.
    pub fn in_flight(&self) -> u32 {
        self.cx.table.pieces.len()
    }

    /// Shows `take` how things stand with controllers and the elevator: as much of it as is wanted.
    pub fn sample(&self, wanted: Wanted, take: &mut dyn FnMut(Sample)) {
        if wanted.has(Wanted::GROUPS) {
            self.chain.sample(&self.cx, take);
        }
        if let Some(elevator) = self.elevator.other() {
            elevator.sample(&self.cx, wanted, take);
        }
    }

    /// From now on the events of `mask` are kept for the listener that this returns, until it takes them by [`Self::drain`]. What other
    /// listeners take is another matter.
    pub fn listen(&mut self, mask: Mask) -> Listener {
        let listener = self.cx.events.listen(mask);
        self.update_paths();
        listener
    }

    /// The listener listens no longer: nothing is kept for it.
    pub fn dismiss(&mut self, listener: Listener) {
        self.cx.events.dismiss(listener);
        self.update_paths();
    }

    /// Hands the events kept for a listener so far to `out`, oldest first. Returns how many of its mask were lost because it came too late.
    pub fn drain(&mut self, listener: Listener, out: &mut dyn Publish) -> u64 {
        self.cx.events.drain(listener, out)
    }

    /// Moves time on, never back.
    fn advance(&mut self, now: Instant) -> Instant {
        if now < self.cx.now {
            self.counters.clamped += 1;
        } else {
            self.cx.now = now;
        }
        self.cx.now
    }
}

fn check(config: &Config) -> Result<(), ConfigError> {
    let l = &config.sizes;
    let d = &config.drive;
    let table = |field, size: u32, power: u32, allowed| {
        let holds = (1..=1 << power).contains(&size);
        (holds, field, size.into(), allowed)
    };
    let some = |field, value: u32| (value >= 1, field, value.into(), "at least 1");
    let reserved = l.streams.checked_mul(l.reserved);
    rule::check([
        table("sizes.requests", l.requests, 24, "1 to 2^24"),
        table("sizes.streams", l.streams, 20, "1 to 2^20"),
        table("sizes.groups", l.groups, 20, "1 to 2^20"),
        table("sizes.spaces", l.spaces, 20, "1 to 2^20"),
        some("sizes.per_stream", l.per_stream),
        (
            reserved.is_some_and(|n| n <= l.requests),
            "sizes.reserved",
            l.reserved.into(),
            "at most sizes.requests / sizes.streams",
        ),
        some("sizes.scheduler_tags", l.scheduler_tags),
        (
            l.stalled <= 1 << 24,
            "sizes.stalled",
            l.stalled.into(),
            "at most 2^24",
        ),
        (
            l.stalled == 0 || !config.merge.is_on() && !config.merge.ahead,
            "sizes.stalled",
            l.stalled.into(),
            "0 where requests are merged",
        ),
        some("drive.queues", d.queues.into()),
        some("drive.tags", d.tags.into()),
        (
            d.max_transfer >= 4096 && d.max_transfer.is_multiple_of(512),
            "drive.max_transfer",
            d.max_transfer.into(),
            "a multiple of 512, at least 4096",
        ),
    ])?;
    config.merge.validate(config.elevator.merges())?;
    config.controllers.validate()?;
    config.elevator.validate()
}

#[cfg(test)]
mod tests;
