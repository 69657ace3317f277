//! Places in the drive's queues.

/// A hardware queue of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct QueueId(pub u16);

/// A place in a hardware queue, unique among all that is in flight on the drive: below the number of queues times the tags of
/// each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct Tag(pub u32);
