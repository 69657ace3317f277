//! The sizes of a layer's tables, and the properties of its drive.

use crate::contract::Capacity;
use crate::setters::setters;

/// The sizes of all tables. The tables never grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Live requests, that is accepted and not completed ones. 1 to 2^24.
    pub requests: u32,
    /// Streams that are open or draining. 1 to 2^20.
    pub streams: u32,
    /// Groups, including the root. 1 to 2^20.
    pub groups: u32,
    /// Address spaces. 1 to 2^20.
    pub spaces: u32,
    /// Live requests of one stream, at least 1. A stream that reaches this number is told to pause,
    /// and its further requests are refused.
    pub per_stream: u32,
    /// Live requests that every stream may have even if the layer is full. `streams * reserved`
    /// must be at most `requests`.
    pub reserved: u32,
    /// Requests of one hardware queue in the elevator and the drive together, at least 1 (Linux:
    /// `nr_requests`). Further requests wait in front of the elevator and get a tag in the order of
    /// their arrival.
    pub scheduler_tags: u32,
    /// Events that are kept for listeners between two calls of
    /// [`Layer::drain`](crate::Layer::drain).
    pub events: u32,
    /// Commands of stalled spaces that can be in the drive in addition to those that have one of
    /// its tags ([`Layer::stall`](crate::Layer::stall)). 0 to 2^24, and 0 if requests are merged.
    /// With 0, no space can stall.
    pub stalled: u32,
}

setters! { Sizes:
    requests: u32, streams: u32, groups: u32, spaces: u32, per_stream: u32, reserved: u32,
    scheduler_tags: u32, events: u32, stalled: u32,
}

impl Sizes {
    /// Returns the number of places for live requests that are not reserved for any stream.
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
            // Spaces cannot stall unless the driver provides places for stalled commands, because
            // only a remote drive needs them.
            stalled: 0,
        }
    }
}

/// The properties of a drive that the core must know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveShape {
    /// The number of hardware queues, at least 1.
    pub queues: u16,
    /// Commands that each hardware queue takes at a time. At least 1.
    pub tags: u16,
    /// The longest command in bytes. Longer requests are split. A multiple of 512, at least 4096.
    pub max_transfer: u32,
    /// True if the drive is seek-bound, such as a rotating disk.
    pub rotational: bool,
    /// The rates that the drive reaches in the worst case, or `None` if they are unknown.
    pub capacity: Option<Capacity>,
}

setters! { DriveShape:
    queues: u16, tags: u16, max_transfer: u32, rotational: bool, capacity: Option<Capacity>,
}

impl DriveShape {
    /// Returns the number of commands that all queues together take at a time.
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
