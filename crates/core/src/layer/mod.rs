//! The layer: the chain of stages between clients and a drive, and the order of its steps.
//!
//! A request passes the controllers (`control`), waits in `front` for a scheduler tag, may be
//! merged (`plug`, `merge`), and enters the elevator. `dispatch` sends its pieces to the drive and
//! reports its end, and `complete` handles completions. Read `submit` first, then `dispatch`.

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
use crate::sample::{Sample, SampleMask};
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

/// The configuration from which a [`Layer`] is created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The sizes of the tables.
    pub sizes: Sizes,
    /// The properties of the drive.
    pub drive: DriveShape,
    /// The controllers and their tunables.
    pub controllers: control::Config,
    /// The elevator and its tunables.
    pub elevator: elevator::Config,
    /// The merging of adjacent requests.
    pub merge: Merging,
}

setters! { Config:
    sizes: Sizes, drive: DriveShape, controllers: control::Config, elevator: elevator::Config, merge: Merging,
}

impl Config {
    /// Returns the number of tags. They count from 0 and include those of all hardware queues and
    /// those of pieces that can stall.
    pub fn tags(&self) -> u32 {
        self.drive.all_tags() + self.sizes.stalled
    }

    /// Returns a configuration with only this elevator: default sizes and drive, no controllers,
    /// and no merging.
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

/// The reason why a stream was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The maximum number of streams is open.
    Full,
    /// No group has this identifier.
    NoSuchGroup(GroupId),
    /// The group has child groups. Only a leaf of the tree can have streams.
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

/// The refusal of a request in a batch. The requests before it were accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rejection {
    /// The number of requests that were accepted. The next one was refused, and those after it were
    /// not examined.
    pub accepted: usize,
    /// The reason for the refusal.
    pub reason: Reject,
}

/// An action that the driver must carry out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send this piece to the drive.
    Dispatch(Dispatch),
    /// Reply to this request, which is over.
    Done(Done),
    /// Stop reading requests from this stream's client.
    Pause(StreamId),
    /// Continue reading requests from this stream's client.
    Resume(StreamId),
}

/// Totals since the layer was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Requests that were accepted.
    pub accepted: u64,
    /// Requests that were refused.
    pub rejected: u64,
    /// Pieces that were sent to the drive, including those sent again after a busy queue.
    pub dispatched: u64,
    /// Requests that ended and were reported.
    pub done: u64,
    /// Requests that became part of another request's command.
    pub merged: u64,
    /// Calls with a `now` before that of the previous call. The layer used the later time.
    pub clamped: u64,
    /// Completions of tags that were not in flight. They were ignored.
    pub stray: u64,
}

/// The present state of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gauges {
    /// The number of live requests.
    pub live: u32,
    /// The number of live requests that are throttled by a limit.
    pub limited: u32,
    /// The time at which the oldest live request was submitted.
    pub oldest: Option<Instant>,
}

/// The block layer of one drive. The documentation of the crate shows the calls.
#[derive(Debug)]
pub struct Layer {
    config: Config,
    /// The context that stages receive in each call: the time, the tables and the listeners.
    cx: Cx,
    chain: Chain,
    flushes: Flushes,
    elevator: AnyElevator,
    /// The requests that wait for a scheduler tag.
    front: Front,
    /// True if the elevator decides which requests may have a scheduler tag.
    limits_tags: bool,
    /// True if the elevator dispatches requests in an order other than that of their arrival.
    sorts: bool,
    /// True if requests are merged.
    merging: bool,
    plug: Plug,
    /// The piece that waits in front of the drive for a tag.
    ahead: Option<Ahead>,
    /// True if a listener, a controller, merging, several hardware queues or a limit on tags
    /// requires that every request is seen. No request goes directly to the elevator then.
    fast_path_off: bool,
    /// True if the end of every request must be processed: because of `fast_path_off`, or because a
    /// space stalls.
    ends_seen: bool,
    /// True if a listener or a controller must see every request.
    chain_for_all: bool,
    /// True if a controller must be notified of the end of each request.
    chain_counts: bool,
    /// Buffer for the list of a stream's or a space's requests. It is allocated once, because
    /// requests must not allocate.
    listed: Vec<u32>,
    /// The requests that ended and were not reported yet, in the order of their ends.
    finished: Vec<u32>,
    /// The scheduler tags that are free.
    tags: SchedulerTags,
    /// The streams that must be notified, and the streams that were refused because the layer was
    /// full. Each list has its links after it.
    notices: List,
    notice_links: Links,
    starved: List,
    starved_links: Links,
    /// The number of streams that are paused plus the number of those that are closing. While it is
    /// zero, the end of a request has no consequence for its stream.
    paused_or_closing: u32,
    /// The number of live requests in excess of those reserved for their streams.
    shared: u32,
    /// The upper bound of `shared`.
    shared_max: u32,
    /// A stream with fewer live requests than this can have two more, so its next request does not
    /// make it pause.
    unpaused_max: u32,
    /// The pieces that the drive returned because a hardware queue was busy.
    busy: Busy,
    /// The spaces whose storage does not answer.
    stalls: Stalls,
    counters: Counters,
    #[cfg(debug_assertions)]
    check: invariants::CheckSchedule,
}

impl Layer {
    /// Creates a layer without streams and spaces, and with no group except the root.
    ///
    /// # Errors
    /// Returns the first field of `config` that is outside the range in its documentation.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        check(&config)?;
        let l = config.sizes;
        let mut table = Table::new(&l, config.drive, &config.merge);
        // BFQ must not idle for a stream that an exact limit throttles, because the stream would
        // hold the drive for ever (docs/deviations.md).
        table.paces = config.controllers.max && config.controllers.slices.is_none();
        let merging = config.merge.is_on();
        let elevator = AnyElevator::new(&config.elevator, &table);
        // These properties of the elevator never change, so each is queried once and not for every
        // request.
        let limits_tags = elevator.other().is_some_and(Schedule::limits_tags);
        let sorts = elevator.other().is_some_and(Schedule::sorts);
        let queues = config.drive.queues;
        // Two lanes for each stream (synchronous and asynchronous), or one for each hardware queue.
        let lanes = if limits_tags || config.merge.ahead {
            2 * l.streams
        } else {
            queues.into()
        };
        // A list holds the requests of one stream, or of one space if spaces can stall.
        let listed = match l.stalled {
            0 => l.requests.min(l.per_stream),
            _ => l.requests,
        };
        // With several hardware queues, only the longer path knows the queue of a stream
        // (docs/decisions/hardware-queues.md).
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
            check: invariants::CheckSchedule::new(&config),
            cx: Cx {
                now: Instant::ZERO,
                table,
                events: Events::new(l.events),
            },
            config,
        })
    }

    /// Returns the configuration of the layer, with the capacity that applies now.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the totals since the layer was created.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the state of a stream, or `None` if the stream is gone.
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

    /// Returns the number of live requests of all streams.
    pub fn live(&self) -> u32 {
        (self.counters.accepted - self.counters.done) as u32
    }

    /// Returns the number of pieces in the drive.
    pub fn in_flight(&self) -> u32 {
        self.cx.table.pieces.len()
    }

    /// Passes samples of the controllers and the elevator to `take`, of the kinds in `wanted`.
    pub fn sample(&self, wanted: SampleMask, take: &mut dyn FnMut(Sample)) {
        if wanted.has(SampleMask::GROUPS) {
            self.chain.sample(&self.cx, take);
        }
        if let Some(elevator) = self.elevator.other() {
            elevator.sample(&self.cx, wanted, take);
        }
    }

    /// Adds a listener. From now on, the events of `mask` are kept for it until it takes them with
    /// [`Self::drain`], regardless of other listeners.
    pub fn listen(&mut self, mask: Mask) -> Listener {
        let listener = self.cx.events.listen(mask);
        self.update_paths();
        listener
    }

    /// Removes a listener. No events are kept for it any longer.
    pub fn dismiss(&mut self, listener: Listener) {
        self.cx.events.dismiss(listener);
        self.update_paths();
    }

    /// Passes the events that were kept for a listener to `out`, oldest first. Returns how many
    /// events of its mask were lost because it drained too late.
    pub fn drain(&mut self, listener: Listener, out: &mut dyn Publish) -> u64 {
        self.cx.events.drain(listener, out)
    }

    /// Advances the time of the layer, and returns it. Time never goes back.
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
    // A product that overflows exceeds `requests` in any case.
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
