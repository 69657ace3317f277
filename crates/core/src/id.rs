//! Names: of groups, streams, spaces, hardware queues and the places in them.

/// Names a group: a slot number the driver picks, below [`Sizes::groups`](crate::Sizes::groups).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct GroupId(pub u32);

/// The root: always there, without a contract.
pub const ROOT: GroupId = GroupId(0);

/// Names a stream from [`open`](crate::Layer::open) on. A name is not used twice until its slot was reused four billion times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct StreamId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl StreamId {
    /// The stream's slot: below [`Sizes::streams`](crate::Sizes::streams), reused after the stream is gone. For tables of the
    /// driver's.
    pub const fn slot(self) -> u32 {
        self.index
    }

    /// The name as a number, for records.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// The name that [`Self::to_bits`] gave.
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            index: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

/// Names an address space (a volume, a whole drive): a slot number the driver picks, below
/// [`Sizes::spaces`](crate::Sizes::spaces).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct SpaceId(pub u32);

/// A hardware queue of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct QueueId(pub u16);

/// A place in a hardware queue, unique among all that is in flight on the drive: below the number
/// of queues times the tags of each, and [`Sizes::stalled`](crate::Sizes::stalled) more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct Tag(pub u32);
