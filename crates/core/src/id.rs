//! Identifiers of groups, streams, spaces and hardware queues, and the tags of pieces.

/// The identifier of a group: a slot number that the driver chooses, below
/// [`Sizes::groups`](crate::Sizes::groups).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct GroupId(pub u32);

/// The root group, which always exists and has no contract.
pub const ROOT: GroupId = GroupId(0);

/// The identifier of a stream, valid from [`open`](crate::Layer::open) on. It is not reused until
/// its slot was reused two billion times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct StreamId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl StreamId {
    /// Returns the stream's slot, which is below [`Sizes::streams`](crate::Sizes::streams) and is
    /// reused after the stream is gone. Drivers can index their own tables with it.
    pub const fn slot(self) -> u32 {
        self.index
    }

    /// Returns the identifier as a number, for records.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Returns the identifier for which [`Self::to_bits`] returned `bits`.
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            index: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

/// The identifier of an address space (a volume or a whole drive): a slot number that the driver
/// chooses, below [`Sizes::spaces`](crate::Sizes::spaces).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct SpaceId(pub u32);

/// The number of a hardware queue of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct QueueId(pub u16);

/// A place in a hardware queue, unique among all pieces in flight. Its number is below the number
/// of queues times the tags of each, plus [`Sizes::stalled`](crate::Sizes::stalled).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct Tag(pub u32);
