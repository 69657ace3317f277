//! Flushes of one space and hardware queue, and the hardware queues themselves.

use weir_core::{Config, SpaceId, StreamId};

/// The flushes of one space and hardware queue: one command of it is in the drive at a time.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// Flushes that wait for a command.
    pub flushes: Vec<u32>,
    /// Flushes that are served by the command in flight.
    pub riders: Vec<u32>,
    /// A flush command is in flight.
    pub flushing: bool,
}

/// What is in a hardware queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Queue {
    /// Pieces in flight, busy ones included.
    pub in_flight: u32,
    /// How many of them the drive returned as busy.
    pub busy: u32,
    /// Requests of its streams with pieces in flight, in whatever queue; flushes not counted.
    pub requests: u32,
}

/// Number of lanes that are kept apart, as long as each space has one.
const LANES_MAX: u32 = 1 << 16;

/// Which lane and hardware queue is whose.
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
            each: queues.min((LANES_MAX / spaces.max(1)).max(1)),
            spaces,
        }
    }

    /// Lanes in all.
    pub fn count(&self) -> usize {
        (self.spaces * self.each) as usize
    }

    /// The hardware queue that a stream's requests go to.
    pub fn queue_of(&self, stream: StreamId) -> usize {
        (stream.slot() % self.queues) as usize
    }

    /// The lane of a stream's flushes of a space.
    pub fn lane(&self, space: SpaceId, stream: StreamId) -> usize {
        let queue = self.queue_of(stream) % self.each as usize;
        space.0 as usize * self.each as usize + queue
    }
}
