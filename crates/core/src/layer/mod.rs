//! The block layer: the chain of stages between clients and a drive, and the order in which things happen.

mod change;
mod complete;
mod dispatch;
mod flow;
mod front;
mod session;
mod submit;
mod table;

pub(crate) use table::{At, Live, Piece, Table};

#[cfg(doc)]
use crate::Contract;
use crate::control::latency::Latency;
use crate::control::max;
use crate::elevator::{self, Elevator, Schedule};
use crate::event::{Events, Mask, Publish};
use crate::flush::Flushes;
use crate::list::{Links, List};
use crate::{Capacity, Dispatch, Done, GroupId, Instant, StreamId};
use alloc::vec::Vec;
use core::fmt;
use front::Front;

/// Sizes of every table. Nothing grows beyond them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Live requests: accepted and not yet done. 1 to 2^24.
    pub requests: u32,
    /// Streams that are open or draining. 1 to 2^20.
    pub streams: u32,
    /// Groups, the root included. 1 to 2^20.
    pub groups: u32,
    /// Address spaces. 1 to 2^20.
    pub spaces: u32,
    /// Live requests of one stream. At this many it is told to pause, and what it submits beyond is refused. At least 1.
    pub per_stream: u32,
    /// Live requests that every stream may have however full the layer is. `streams * reserved` is at most `requests`.
    pub reserved: u32,
    /// Requests in the elevator and the drive together (Linux: `nr_requests`); the others wait in front, first come, first
    /// served. At least 1.
    pub scheduler_tags: u32,
    /// Events kept for a listener between two calls of [`Layer::drain`].
    pub events: u32,
}

impl Limits {
    /// Places for live requests that are not reserved for any stream.
    pub(crate) const fn shared(&self) -> u32 {
        self.requests - self.streams * self.reserved
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 4096,
            streams: 256,
            groups: 256,
            spaces: 256,
            per_stream: 256,
            reserved: 4,
            scheduler_tags: 4096,
            events: 4096,
        }
    }
}

/// What the core must know of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveShape {
    /// Hardware queues. At least 1.
    pub queues: u16,
    /// Requests that each queue takes at a time. At least 1.
    pub tags: u16,
    /// Bytes the drive takes in one command; longer requests are split. A multiple of 512, at least 4096.
    pub max_transfer: u32,
    /// True for a drive that seeks.
    pub rotational: bool,
    /// What it can do at the least, if that is known.
    pub capacity: Option<Capacity>,
}

impl Default for DriveShape {
    /// A flash drive of unknown capacity with one queue of 32.
    fn default() -> Self {
        Self {
            queues: 1,
            tags: 32,
            max_transfer: 128 * 1024,
            rotational: false,
            capacity: None,
        }
    }
}

/// Everything a [`Layer`] is made from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Sizes of the tables.
    pub limits: Limits,
    /// The drive.
    pub drive: DriveShape,
    /// The elevator.
    pub elevator: elevator::Config,
}

/// Why a [`Config`] makes no layer: the field and what it must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The field.
    pub field: &'static str,
    /// What is allowed.
    pub allowed: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}", self.field, self.allowed)
    }
}

impl core::error::Error for ConfigError {}

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
            Self::Full => f.write_str("no more streams can be opened"),
            Self::NoSuchGroup(g) => write!(f, "group {} does not exist", g.0),
            Self::NotALeaf(g) => {
                write!(f, "group {} has child groups; streams hang on leaves", g.0)
            }
        }
    }
}

impl core::error::Error for OpenError {}

/// Why a request was not accepted. Nothing was charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Reject {
    /// The layer is full. The stream is owed an [`Output::Resume`]; submit again then.
    Full,
    /// The stream has as many live requests as it may have. It has been told to pause; submit again when it resumes.
    StreamFull,
    /// The stream is not open (any more).
    UnknownStream,
    /// The space does not exist.
    UnknownSpace,
    /// The range is not inside the space.
    OutOfRange,
    /// A length of zero where bytes are needed, or a flush with a range.
    BadLength,
}

/// A batch was accepted up to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rejected {
    /// So many requests of the batch were accepted; the next was not, and those after it were not looked at.
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

/// Why the layer wants to be called at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A limit lets the next request pass.
    Limit,
    /// The drive idles for a stream whose next request is expected.
    Idling,
    /// The turn of the stream in service is over.
    BudgetTimeout,
    /// A group that missed no target any more, or that made up for what it owes, may go on ([`Contract::latency`]).
    Latency,
    /// The drive's queue was busy and nothing is in flight that could end.
    Retry,
    /// A flush that waits for the sake of a promise may begin, or has waited long enough.
    Flush,
}

/// When to call [`Layer::poll`] next even if nothing happens, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wake {
    /// When.
    pub at: Instant,
    /// Why.
    pub reason: Reason,
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
    now: Instant,
    table: Table,
    limits: max::Limits,
    latency: Latency,
    flushes: Flushes,
    elevator: Elevator,
    /// Requests that wait for a scheduler tag.
    front: Front,
    /// The elevator has a say in who gets one.
    limits_tags: bool,
    /// That, a listener or `io.latency` wants to see every request: none goes straight to the elevator.
    looks_at_all: bool,
    /// Room to list a stream's requests in.
    listed: Vec<u32>,
    /// Requests that are over and not yet reported, in the order in which they ended.
    finished: Vec<u32>,
    /// Scheduler tags that no request holds.
    tags_left: u32,
    /// Streams that are owed a notice, those refused for want of room, and the links of both.
    notices: List,
    notice_links: Links,
    starved: List,
    starved_links: Links,
    /// Streams that are to pause, and streams that go: something may follow from the end of a request of theirs.
    watched: u32,
    /// Live requests beyond those reserved for their stream.
    shared: u32,
    /// As many of these as there may be.
    shared_max: u32,
    /// Tags whose piece the drive sent back as busy, and when they are sent again at the latest.
    busy: List,
    busy_links: Links,
    retry_at: Option<Instant>,
    events: Events,
    counters: Counters,
}

impl Layer {
    /// A layer without streams, spaces or groups but the root.
    ///
    /// # Errors
    /// A field of `config` is outside what its documentation allows.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        check(&config)?;
        let l = config.limits;
        let table = Table::new(&l, config.drive);
        let elevator = Elevator::new(&config.elevator, &table);
        let limits_tags = elevator.other().is_some_and(Schedule::limits_tags);
        let lanes = if limits_tags { 2 * l.streams } else { 1 };
        Ok(Self {
            limits: max::Limits::new(l.groups, l.requests),
            latency: Latency::new(&l, config.drive.rotational),
            flushes: Flushes::new(l.spaces, l.requests),
            elevator,
            front: Front::new(lanes, l.requests),
            limits_tags,
            looks_at_all: limits_tags,
            listed: Vec::with_capacity(l.requests.min(l.per_stream) as usize),
            finished: Vec::with_capacity(l.requests as usize),
            tags_left: l.scheduler_tags,
            notices: List::EMPTY,
            notice_links: Links::new(l.streams),
            starved: List::EMPTY,
            starved_links: Links::new(l.streams),
            watched: 0,
            shared: 0,
            shared_max: l.shared(),
            busy: List::EMPTY,
            busy_links: Links::new(u32::from(config.drive.queues) * u32::from(config.drive.tags)),
            retry_at: None,
            events: Events::new(l.events),
            counters: Counters::default(),
            now: Instant::ZERO,
            table,
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
            .table
            .streams
            .get_named(stream.index, stream.generation)?;
        let live = self.table.of_stream(stream.index);
        let oldest = live.map(|(_, live)| live.submitted).min();
        Some(Gauges {
            live: s.live,
            limited: s.limited.iter().map(|l| l.requests).sum(),
            oldest,
        })
    }

    /// Live requests of all streams.
    pub fn live(&self) -> u32 {
        (self.counters.accepted - self.counters.done) as u32
    }

    /// Pieces in the drive.
    pub fn in_flight(&self) -> u32 {
        self.table.pieces.len()
    }

    /// The stream for whose next request the elevator keeps the drive, if it does: as of the last [`Self::poll`], tags are free and
    /// what other streams have in the elevator waits on purpose.
    pub fn idles_for(&self) -> Option<StreamId> {
        if self.table.pieces.is_full() {
            return None;
        }
        self.elevator.other()?.idles_for()
    }

    /// From now on the events of `mask` are kept for [`Self::drain`].
    pub fn listen(&mut self, mask: Mask) {
        self.events.listen(mask);
        self.set_ways();
    }

    /// Hands the events kept so far to `listener`, oldest first. Returns how many were lost because nobody came for them.
    pub fn drain(&mut self, listener: &mut dyn Publish) -> u64 {
        self.events.drain(listener)
    }

    /// Moves time on, never back.
    fn advance(&mut self, now: Instant) -> Instant {
        if now < self.now {
            self.counters.clamped += 1;
        } else {
            self.now = now;
        }
        self.now
    }
}

fn check(config: &Config) -> Result<(), ConfigError> {
    let l = &config.limits;
    let d = &config.drive;
    let rules = [
        (
            (1..=1 << 24).contains(&l.requests),
            "limits.requests",
            "1 to 2^24",
        ),
        (
            (1..=1 << 20).contains(&l.streams),
            "limits.streams",
            "1 to 2^20",
        ),
        (
            (1..=1 << 20).contains(&l.groups),
            "limits.groups",
            "1 to 2^20",
        ),
        (
            (1..=1 << 20).contains(&l.spaces),
            "limits.spaces",
            "1 to 2^20",
        ),
        (l.per_stream >= 1, "limits.per_stream", "at least 1"),
        (
            l.streams
                .checked_mul(l.reserved)
                .is_some_and(|n| n <= l.requests),
            "limits.reserved",
            "at most limits.requests / limits.streams",
        ),
        (l.scheduler_tags >= 1, "limits.scheduler_tags", "at least 1"),
        (d.queues >= 1, "drive.queues", "at least 1"),
        (d.tags >= 1, "drive.tags", "at least 1"),
        (
            d.max_transfer >= 4096 && d.max_transfer.is_multiple_of(512),
            "drive.max_transfer",
            "a multiple of 512, at least 4096",
        ),
    ];
    match rules.into_iter().find(|rule| !rule.0) {
        Some((_, field, allowed)) => Err(ConfigError { field, allowed }),
        None => config.elevator.validate(),
    }
}

#[cfg(test)]
mod tests;
