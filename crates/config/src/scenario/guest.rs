//! Guests (virtual machines) and the back end that serves them over rings.

use super::read::stated_guest as stated;
use crate::document::{Document, ShapedTable};
use crate::key::GUEST;
use crate::units::Time;
use crate::words::words;
use std::fmt;
use weir_core::Span;

pub use crate::key::Cost;

/// The properties of all guests of a scenario and of their back end.
///
/// A guest has one CPU, which runs its block driver, and the back end has one or more threads. Each
/// request and each event occupies them for its CPU time, so a second request waits in the
/// meantime.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guest {
    /// The kind of ring between a guest and the back end.
    pub ring: GuestRing,
    /// The number of requests that fit into the ring: a power of two, 1 to 32768.
    pub slots: u32,
    /// The maximum size of a request in the ring in bytes, a multiple of 4096. The guest splits
    /// longer requests.
    pub longest: u32,
    /// The maximum number of requests that a guest puts into the ring before one notification, if
    /// its client issues them together.
    pub plug: u32,
    /// The number of guests that one thread of the back end serves.
    pub threads: Threads,
    /// The reaction of the back end to a guest's notifications (kicks).
    pub kicks: KickReaction,
    /// The rule for notifying a guest of responses (calls).
    pub calls: CallTiming,
    /// The CPU time of each step.
    pub cost: Cost,
}

/// A kind of ring with its rule for notifications.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GuestRing {
    /// Xen's ring, whose responses take the slots of requests. The back end requests the next kick
    /// when it has taken all requests.
    Xen,
    /// Xen's ring before 2011. The back end requests the next kick when it has *answered* all
    /// requests that it took.
    XenBefore2011,
    /// The split virtqueue of virtio with event indices.
    Virtio,
}

/// The assignment of guests to threads of the back end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// Each guest has a thread of its own, as with Xen's blkback.
    Each,
    /// One thread serves all guests, as a shard of Weir does.
    One,
}

/// The reaction of the back end to a guest's kicks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KickReaction {
    /// The thread polls the ring at once.
    AtOnce,
    /// The thread polls the ring at once, and then continuously for this time after the last
    /// request. Only then does it request the next kick.
    Spin(Span),
    /// The thread polls the ring no sooner than this time after the previous poll.
    Sleep(Span),
    /// The thread wakes at most this number of times per second. Guests that kick without a request
    /// are served late, with a delay that grows with the number of such kicks (Linux since
    /// XSA-332).
    Throttle(u32),
}

/// The rule for notifying a guest of responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallTiming {
    /// A call for each response, as far as the guest has requested it.
    AtOnce,
    /// A call with the `count`th response, or when the first one has waited for `time`. This is the
    /// interrupt coalescing of `NVMe`.
    Delay {
        /// The maximum time that a response waits.
        time: Span,
        /// The number of responses that one call reports.
        count: u32,
    },
    /// A decision by the number of commands in flight (vIC).
    Vic,
    /// A decision by the rate of requests (SPDK). Above 60,000 per second, the time between calls
    /// grows with the rate, starting from this base.
    Spdk(Span),
}

words! {
    GuestRing: "xen" Xen, "xen-before-2011" XenBefore2011, "virtio" Virtio;
    Threads: "each" Each, "one" One;
}

impl Guest {
    /// Returns the default number of slots: one page of a Xen ring, or QEMU's default for virtio.
    pub(crate) const fn slots(ring: GuestRing) -> u32 {
        match ring {
            GuestRing::Xen | GuestRing::XenBefore2011 => 32,
            GuestRing::Virtio => 256,
        }
    }

    /// Returns the default maximum size of a request in bytes: 11 segments of one page for Xen, and
    /// QEMU's 254 for virtio.
    pub(crate) const fn longest(ring: GuestRing) -> u32 {
        match ring {
            GuestRing::Xen | GuestRing::XenBefore2011 => 11 * 4096,
            GuestRing::Virtio => 254 * 4096,
        }
    }
}

impl Default for Guest {
    /// Returns the guest of a table `[guest]` without keys: Xen's present ring, with notifications
    /// at once.
    fn default() -> Self {
        stated(&mut Document::new("", ""), &ShapedTable::absent(&GUEST))
    }
}

impl fmt::Display for KickReaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtOnce => f.write_str("at-once"),
            Self::Spin(time) => write!(f, "spin {}", Time(*time)),
            Self::Sleep(time) => write!(f, "sleep {}", Time(*time)),
            Self::Throttle(rate) => write!(f, "throttle {rate}"),
        }
    }
}

impl fmt::Display for CallTiming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtOnce => f.write_str("at-once"),
            Self::Delay { time, count } => write!(f, "delay {} {count}", Time(*time)),
            Self::Vic => f.write_str("vic"),
            Self::Spdk(base) => write!(f, "spdk {}", Time(*base)),
        }
    }
}
