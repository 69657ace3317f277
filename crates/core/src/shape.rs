//! What a layer is made for: the sizes of its tables, and its drive.

use crate::contract::Capacity;
use crate::setters::setters;

/// Sizes of every table. Nothing grows beyond them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
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
    /// Requests of one hardware queue in the elevator and the drive together (Linux: `nr_requests`); the others wait in front, first
    /// come, first served. At least 1.
    pub scheduler_tags: u32,
    /// Events kept for a listener between two calls of [`Layer::drain`](crate::Layer::drain).
    pub events: u32,
    /// Commands of stalled spaces that may be in the drive beside those that have one of its tags
    /// ([`Layer::stall`](crate::Layer::stall)). 0 to 2^24; 0 where requests are merged. With 0 no
    /// space stalls.
    pub stalled: u32,
}

setters! { Sizes:
    requests: u32, streams: u32, groups: u32, spaces: u32, per_stream: u32, reserved: u32,
    scheduler_tags: u32, events: u32, stalled: u32,
}

impl Sizes {
    /// Places for live requests that are not reserved for any stream.
    pub(crate) const fn shared(&self) -> u32 {
        self.requests - self.streams * self.reserved
    }
}

impl Default for Sizes {
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
            stalled: 0,
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

setters! { DriveShape:
    queues: u16, tags: u16, max_transfer: u32, rotational: bool, capacity: Option<Capacity>,
}

impl DriveShape {
    /// Requests that all queues together take at a time.
    pub(crate) fn all_tags(&self) -> u32 {
        u32::from(self.queues) * u32::from(self.tags)
    }
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
