//! Virtual machines and the back end that serves them: a ring between each of them and the layer.

use super::read::stated_guest as stated;
use crate::document::{Document, Table};
use crate::key::GUEST;
use crate::units::Time;
use crate::words::words;
use std::fmt;
use weir_core::Span;

pub use crate::key::Cost;

/// What every virtual machine of a scenario is like, and its back end.
///
/// A guest has one virtual processor, on which its block driver works; a back end has a thread. Each is busy for its part of every
/// request and event, so a second request waits while the first is worked on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guest {
    /// The kind of ring.
    pub ring: Ring,
    /// Requests that have room in the ring: a power of two, 1 to 32768.
    pub slots: u32,
    /// Bytes that a request in the ring can have: longer ones are cut by the guest. A multiple of 4096.
    pub longest: u32,
    /// Requests that are pushed before one notification, at most, of those that a client asks for at one time.
    pub plug: u32,
    /// How many guests a thread of the back end serves.
    pub threads: Threads,
    /// What comes of a guest's notifications (kicks).
    pub kicks: Kicks,
    /// When a guest is notified of responses (calls).
    pub calls: Calls,
    /// What everything costs.
    pub cost: Cost,
}

/// A kind of ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ring {
    /// Xen's: responses take the slots of requests. The back end asks for the next kick when it has taken all there is.
    Xen,
    /// Xen's, as before 2011: the back end asks for the next kick when it has *answered* all that it took.
    XenBefore2011,
    /// virtio's split queue with event indices.
    Virtio,
}

/// Threads of the back end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// One for each guest, as Xen's blkback has them.
    Each,
    /// One for all of them, as a shard of Weir.
    One,
}

/// What comes of a guest's kicks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kicks {
    /// The thread looks at the ring at once.
    AtOnce,
    /// So does it, and looks for this long after the last request before it asks for the next kick.
    Spin(Span),
    /// It looks this long after its last look at the earliest.
    Sleep(Span),
    /// Wake-ups a second, at most; and guests that kick without work are looked at late, the later the more often they did
    /// (Linux's answer to XSA-332).
    Throttle(u32),
}

/// When a guest is told of responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Calls {
    /// With each, as far as it has asked.
    AtOnce,
    /// With the `count`th, or when the first of them has waited for `time` (`NVMe`'s interrupt coalescing).
    Delay {
        /// Longest wait.
        time: Span,
        /// Responses that are told of together.
        count: u32,
    },
    /// By the number of commands in flight (vIC).
    Vic,
    /// By the rate of requests: above 60,000 a second calls come later the higher it is (SPDK), from this base on.
    Spdk(Span),
}

words! {
    Ring: "xen" Xen, "xen-before-2011" XenBefore2011, "virtio" Virtio;
    Threads: "each" Each, "one" One;
}

impl Guest {
    /// Slots of a kind of ring where nothing else is said: a page of Xen's, QEMU's default of virtio.
    pub(crate) const fn slots(ring: Ring) -> u32 {
        match ring {
            Ring::Xen | Ring::XenBefore2011 => 32,
            Ring::Virtio => 256,
        }
    }

    /// Most bytes of a request: Xen's 11 segments of a page, QEMU's 254 of virtio.
    pub(crate) const fn longest(ring: Ring) -> u32 {
        match ring {
            Ring::Xen | Ring::XenBefore2011 => 11 * 4096,
            Ring::Virtio => 254 * 4096,
        }
    }
}

impl Default for Guest {
    /// What `[guest]` without keys comes to: Xen's ring of today, told of everything at once.
    fn default() -> Self {
        stated(&mut Document::new("", ""), &Table::absent(&GUEST))
    }
}

impl fmt::Display for Kicks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtOnce => f.write_str("at-once"),
            Self::Spin(time) => write!(f, "spin {}", Time(*time)),
            Self::Sleep(time) => write!(f, "sleep {}", Time(*time)),
            Self::Throttle(rate) => write!(f, "throttle {rate}"),
        }
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtOnce => f.write_str("at-once"),
            Self::Delay { time, count } => write!(f, "delay {} {count}", Time(*time)),
            Self::Vic => f.write_str("vic"),
            Self::Spdk(base) => write!(f, "spdk {}", Time(*base)),
        }
    }
}
