//! What controllers and the elevator are doing at a time, for observers: the simulator, plots, metrics.
//!
//! An event says that something was decided; a sample says how things stand. Looking changes nothing and leaves no trace in a record.

use crate::id::{GroupId, StreamId};
use crate::knobs::Kind;
use crate::time::Span;

/// Kinds of samples, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted(u8);

impl Wanted {
    /// [`Sample::Serving`], [`Sample::Slice`] and [`Sample::Idling`]: found at once, so that a driver may look after each poll.
    pub const SERVICE: Self = Self(1);
    /// [`Sample::Drive`], [`Sample::Peak`] and [`Sample::Tokens`]: found at once.
    pub const DRIVE: Self = Self(2);
    /// [`Sample::Held`], [`Sample::Depth`], [`Sample::Cookie`], [`Sample::Low`], [`Sample::Rate`], [`Sample::Spends`], [`Sample::Used`] and
    /// [`Sample::Weight`]: every group or stream is looked at.
    pub const GROUPS: Self = Self(4);
    /// Everything.
    pub const ALL: Self = Self(7);

    /// True if something of `other` is wanted.
    #[inline]
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// A kind of requests that `kyber` counts apart (Linux: the scheduling domains of `block/kyber-iosched.c`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Discards.
    Discard,
    /// Everything else: what is zeroed, look-ups of extents. Flushes are not counted.
    Other,
}

impl Domain {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Discard, Self::Other];
}

/// How one thing stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Sample {
    /// The elevator serves a stream for a while.
    Serving {
        /// Which stream.
        stream: StreamId,
        /// Bytes that it was served since its turn began.
        served: u64,
        /// Bytes that it may still be served in this turn.
        left: u64,
    },
    /// The elevator serves a stream for a slice of time.
    Slice {
        /// Which stream.
        stream: StreamId,
        /// Bytes that it was served since its turn began.
        served: u64,
        /// How long it has had the drive, from when its first request came back.
        used: Span,
        /// What is left of its slice; nothing before that.
        left: Span,
    },
    /// The elevator keeps the drive for the next request of a stream: tags are free, and what other streams have in the elevator waits
    /// on purpose. As of the last poll.
    Idling {
        /// For which stream.
        stream: StreamId,
    },
    /// What the elevator has learned of the drive: drive time that pieces take up.
    Drive {
        /// A read of 64 KiB that does not go on where the drive is.
        read: Span,
        /// A write of 64 KiB that does not go on where the drive is.
        write: Span,
        /// What going elsewhere costs.
        away: Span,
        /// How long the drive takes for a piece beyond that: it works on many at a time.
        delay: Span,
        /// What it still has to do for requests that it has answered.
        hidden: Span,
    },
    /// `bfq` has measured how fast the drive is at its best.
    Peak {
        /// Bytes a second.
        rate: u64,
    },
    /// `kyber` counts the pieces of a domain in the drive.
    Tokens {
        /// Which domain.
        domain: Domain,
        /// Pieces that it may have in the drive.
        depth: u32,
        /// Pieces that it has there; for a while after the depth fell they may be more.
        in_flight: u32,
    },
    /// A controller holds requests of a group; groups of which it holds none are left out.
    Held {
        /// Which controller.
        by: Kind,
        /// Which group.
        group: GroupId,
        /// How many.
        requests: u32,
    },
    /// The elevator divides the drive's time among groups. Groups that have nothing to send are left out.
    Used {
        /// Which group.
        group: GroupId,
        /// Its part of the drive, in 65536ths.
        part: u32,
        /// What it has used beyond the one that has used least, in time of the whole drive (or in requests, as nanoseconds, where the
        /// elevator counts those).
        lead: Span,
        /// Its queues that have something to send.
        queues: u32,
    },
    /// `io.latency` counts a group's requests.
    Depth {
        /// Which group.
        group: GroupId,
        /// Requests that it may have in flight; `None`: any number.
        depth: Option<u32>,
        /// Requests that it has in flight.
        in_flight: u32,
    },
    /// `io.latency`: how hard the groups below one are held back for the sake of those that miss their targets.
    Cookie {
        /// Which group; the root's groups stand below it.
        group: GroupId,
        /// How far its cookie is below that of a group that holds nobody back.
        lowered: u32,
    },
    /// `io.low`: which limits hold.
    Low {
        /// Every group is held to its low limit.
        limited: bool,
        /// If not: by how many halves of its low limit a group may have more.
        scale: u32,
    },
    /// `io.cost`: how fast the drive is taken to be.
    Rate {
        /// Its clock's rate, in hundredths of a percent of what the model says.
        vrate: u32,
        /// For how many periods it has been too busy; negative: for how many it could have taken more.
        busy_level: i32,
        /// Groups with requests in the drive from before the last period.
        lagging: u32,
        /// How long a period is.
        period: Span,
    },
    /// `io.cost`: what a group may use. Groups that are idle are left out.
    Spends {
        /// Which group.
        group: GroupId,
        /// Its weight among its siblings, in 65536ths.
        active: u32,
        /// What it uses of that; the rest is given away.
        inuse: u32,
        /// By how many microseconds its clock is ahead of the drive's; negative: behind. Groups with members have none.
        lead: Option<i64>,
        /// What it owes, in time of the drive.
        debt: Span,
        /// How long its next request waits for what it owes.
        delay: Span,
    },
    /// A stream that has something to send competes with this weight.
    Weight {
        /// Which stream.
        stream: StreamId,
        /// Its weight among the streams of its group.
        weight: u32,
        /// By how much that is multiplied now; 1: it is not.
        raised: u32,
    },
}

/// A listener that takes samples ([`Layer::sample`](crate::Layer::sample)).
pub(crate) type Take<'a> = dyn FnMut(Sample) + 'a;
