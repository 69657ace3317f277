//! Samples: the present state of controllers and the elevator, for observers such as the simulator,
//! plots and metrics.
//!
//! An event reports a decision, and a sample reports a state. Taking a sample changes nothing and
//! leaves no trace in a record.

use crate::id::{GroupId, StreamId};
use crate::knobs::ControllerKind;
use crate::time::Span;

/// A set of kinds of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampleMask(u8);

impl SampleMask {
    /// [`Sample::Serving`], [`Sample::Slice`] and [`Sample::Idling`], which are available in
    /// constant time, so that a driver can take them after each poll.
    pub const SERVICE: Self = Self(1);
    /// [`Sample::Drive`], [`Sample::Peak`] and [`Sample::Tokens`], which are available in constant
    /// time.
    pub const DRIVE: Self = Self(2);
    /// [`Sample::Held`], [`Sample::Depth`], [`Sample::Cookie`], [`Sample::Low`], [`Sample::Rate`],
    /// [`Sample::Spends`], [`Sample::Used`] and [`Sample::Weight`], for which every group or stream
    /// is visited.
    pub const GROUPS: Self = Self(4);
    /// Samples of all kinds.
    pub const ALL: Self = Self(7);

    /// Returns true if this set and `other` have a kind in common.
    #[inline]
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// A kind of requests that `kyber` counts separately (Linux: the scheduling domains of
/// `block/kyber-iosched.c`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// The domain of reads.
    Read,
    /// The domain of writes.
    Write,
    /// The domain of discards.
    Discard,
    /// The domain of all other operations, such as write-zeroes and look-ups of extents. Flushes
    /// are not counted.
    Other,
}

impl Domain {
    /// All domains in the order of the variants.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Discard, Self::Other];
}

/// A part of the present state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Sample {
    /// The stream that the elevator serves, with a budget in bytes.
    Serving {
        /// The stream in service.
        stream: StreamId,
        /// Bytes that were served since the turn began.
        served: u64,
        /// Bytes that may still be served in this turn.
        left: u64,
    },
    /// The stream that the elevator serves, with a slice of time.
    Slice {
        /// The stream in service.
        stream: StreamId,
        /// Bytes that were served since the turn began.
        served: u64,
        /// The time since the first request of the turn completed. Until then, it is the time since
        /// the turn began.
        used: Span,
        /// The rest of the slice. It is zero until the first request completes.
        left: Span,
    },
    /// The elevator keeps the drive idle for the next request of a stream, as of the last poll:
    /// tags are free, and requests of other streams wait in the elevator on purpose.
    Idling {
        /// The stream for which the drive idles.
        stream: StreamId,
    },
    /// The elevator's model of the drive, as drive time.
    Drive {
        /// The cost of a read of 64 KiB that does not continue at the drive's position.
        read: Span,
        /// The cost of a write of 64 KiB that does not continue at the drive's position.
        write: Span,
        /// The cost of a seek.
        away: Span,
        /// The time that the drive needs for a piece in addition to its cost. It exists because the
        /// drive works on several pieces at a time.
        delay: Span,
        /// The hidden work: the cost of requests that have completed but are not on the medium yet.
        hidden: Span,
    },
    /// The peak rate of the drive, as `bfq` has measured it.
    Peak {
        /// The rate in bytes per second.
        rate: u64,
    },
    /// The pieces of a domain in the drive, as `kyber` counts them.
    Tokens {
        /// The domain that is counted.
        domain: Domain,
        /// Pieces that the domain may have in the drive.
        depth: u32,
        /// Pieces that the domain has in the drive. They may exceed the depth for a while after it
        /// was lowered.
        in_flight: u32,
    },
    /// The requests of a group that a controller throttles. Groups without any are omitted.
    Held {
        /// The controller that throttles the requests.
        by: ControllerKind,
        /// The group of the requests.
        group: GroupId,
        /// The number of throttled requests.
        requests: u32,
    },
    /// The division of the drive's time among groups. Groups without requests are omitted.
    Used {
        /// The group to which the values apply.
        group: GroupId,
        /// The part of the drive that the group is entitled to, in 65536ths.
        part: u32,
        /// The usage of the group in excess of the group that has used least, as time of the whole
        /// drive. If the elevator counts requests, it is a number of requests, as nanoseconds.
        lead: Span,
        /// The number of backlogged queues of the group.
        queues: u32,
    },
    /// The requests of a group in flight, as `io.latency` counts them.
    Depth {
        /// The group to which the values apply.
        group: GroupId,
        /// Requests that the group may have in flight, or `None` if there is no bound.
        depth: Option<u32>,
        /// Requests that the group has in flight.
        in_flight: u32,
    },
    /// The scale cookie of `io.latency`: how strongly the groups below one group are throttled for
    /// the sake of those that miss their targets.
    Cookie {
        /// The parent of the throttled groups. It can be the root.
        group: GroupId,
        /// The distance of the cookie from that of a group without throttled children.
        lowered: u32,
    },
    /// The state of `io.low`.
    Low {
        /// True if every group is throttled to its low limit.
        limited: bool,
        /// If not limited: the number of halves of its low limit that a group may have in addition.
        scale: u32,
    },
    /// The assumed speed of the drive in `io.cost`.
    Rate {
        /// The rate of the device's clock, in hundredths of a percent of the rate in the model.
        vrate: u32,
        /// The number of periods for which the drive has been too busy. A negative number counts
        /// periods in which it could have taken more.
        busy_level: i32,
        /// The number of groups with requests in the drive from before the last period.
        lagging: u32,
        /// The length of a period.
        period: Span,
    },
    /// The usage that `io.cost` allows a group. Idle groups are omitted.
    Spends {
        /// The group to which the values apply.
        group: GroupId,
        /// The weight of the group among its siblings, in 65536ths.
        active: u32,
        /// The part of the weight that the group uses. It gives the rest to others.
        inuse: u32,
        /// The lead of the group's clock over the drive's clock in microseconds, negative if it is
        /// behind. It is `None` for groups with members.
        lead: Option<i64>,
        /// The debt of the group, as drive time.
        debt: Span,
        /// The time for which the group's next request is delayed because of the debt.
        delay: Span,
    },
    /// The weight with which a backlogged stream competes.
    Weight {
        /// The stream that competes.
        stream: StreamId,
        /// The weight of the stream among the streams of its group.
        weight: u32,
        /// The factor by which the weight is multiplied now. 1 means that it is not raised.
        raised: u32,
    },
}

/// A callback that receives samples ([`Layer::sample`](crate::Layer::sample)).
pub(crate) type Take<'a> = dyn FnMut(Sample) + 'a;
