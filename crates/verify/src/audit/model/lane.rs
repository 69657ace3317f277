//! Lanes (the flushes of one space and hardware queue) and the hardware queues themselves.

use weir_core::{Config, SpaceId, StreamId};

/// The flushes of one space and hardware queue. At most one flush command of a lane is in the drive
/// at a time.
#[derive(Clone, Debug, Default)]
pub struct AuditedLane {
    /// Flushes that wait for a command.
    pub flushes: Vec<u32>,
    /// Flushes that are served by the command in flight.
    pub riders: Vec<u32>,
    /// True if a flush command is in flight.
    pub flushing: bool,
}

/// The requests and pieces in a hardware queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct HardwareQueue {
    /// The number of pieces in flight, including busy ones and without stalled ones.
    pub in_flight: u32,
    /// The number of pieces that the drive returned as busy.
    pub busy: u32,
    /// The number of requests of its streams that have pieces in flight, without flushes and
    /// stalled requests.
    pub requests: u32,
}

/// The maximum number of lanes. If spaces times hardware queues are more, several queues share a
/// lane of a space.
const LANES_MAX: u32 = 1 << 16;

/// The assignment of streams to hardware queues and lanes.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    queues: u32,
    each: u32,
    spaces: u32,
}

impl Lanes {
    pub(crate) fn new(config: &Config) -> Self {
        let (queues, spaces) = (u32::from(config.drive.queues), config.sizes.spaces);
        Self {
            queues,
            // Each space has at least one lane, so the total may exceed the maximum with very many
            // spaces.
            each: queues.min((LANES_MAX / spaces.max(1)).max(1)),
            spaces,
        }
    }

    /// Returns the number of all lanes.
    pub fn count(&self) -> usize {
        (self.spaces * self.each) as usize
    }

    /// Returns the hardware queue that a stream's requests go to.
    pub fn queue_of(&self, stream: StreamId) -> usize {
        (stream.slot() % self.queues) as usize
    }

    /// Returns the lane of a stream's flushes of a space.
    pub fn lane(&self, space: SpaceId, stream: StreamId) -> usize {
        let queue = self.queue_of(stream) % self.each as usize;
        space.0 as usize * self.each as usize + queue
    }
}
