//! Who issues requests: a process, a connection, a virtqueue.

use crate::group::GroupId;

/// Names a stream from [`open`](crate::Layer::open) on. A name is not used twice until its slot was reused four billion times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct StreamId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl StreamId {
    /// The stream's slot: below [`Limits::streams`](crate::Limits::streams), reused after the stream is gone. For tables of the
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

/// Linux's I/O priority classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum PriorityClass {
    /// Before all others.
    Realtime,
    /// By weight.
    #[default]
    BestEffort,
    /// After all others.
    Idle,
}

/// Linux's I/O priority of a process. Only the elevators that Linux has look at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Priority {
    /// The class.
    pub class: PriorityClass,
    /// 0 (first) to 7; larger numbers count as 7.
    pub level: u8,
}

impl Default for Priority {
    /// Best effort, level 4, as a process that never asked.
    fn default() -> Self {
        Self {
            class: PriorityClass::BestEffort,
            level: 4,
        }
    }
}

/// What a stream is opened with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamSpec {
    /// The group it belongs to: one without child groups (the root will do while it has none).
    pub group: GroupId,
    /// Its I/O priority.
    pub priority: Priority,
}

/// What limits hold back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Limited {
    pub(crate) requests: u32,
    pub(crate) bytes: u64,
}

/// An open (or draining) stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) spec: StreamSpec,
    /// Its live requests.
    pub(crate) live: u32,
    pub(crate) state: State,
    /// Some group above it has a limit.
    pub(crate) limited_path: bool,
    /// It is open, has no such group, and nobody wants to see its requests: they go straight to the elevator.
    pub(crate) straight: bool,
    /// Somebody wants to see them.
    pub(crate) looked_at: bool,
    /// Is to pause, and whether its driver has been told so.
    pub(crate) paused: bool,
    pub(crate) told_to_pause: bool,
    /// Was refused for want of room; there is some now and its driver has yet to be told.
    pub(crate) owed_resume: bool,
    /// Reads and writes held back by limits.
    pub(crate) limited: [Limited; 2],
}

impl Stream {
    /// What stands in a free slot.
    pub(crate) const EMPTY: Self = Self {
        spec: StreamSpec {
            group: crate::ROOT,
            priority: Priority {
                class: PriorityClass::BestEffort,
                level: 4,
            },
        },
        live: 0,
        state: State::Closing,
        limited_path: false,
        straight: false,
        looked_at: false,
        paused: false,
        told_to_pause: false,
        owed_resume: false,
        limited: [Limited {
            requests: 0,
            bytes: 0,
        }; 2],
    };

    pub(crate) fn set_state(&mut self, state: State) {
        self.state = state;
        self.set_straight();
    }

    /// Whether some group above it has a limit, and whether somebody wants to see every request.
    pub(crate) fn set_way(&mut self, limited_path: bool, looked_at: bool) {
        (self.limited_path, self.looked_at) = (limited_path, looked_at);
        self.set_straight();
    }

    fn set_straight(&mut self) {
        self.straight = self.state == State::Open && !self.limited_path && !self.looked_at;
    }

    /// A limit holds back what it wants to send next.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.limited.iter().any(|held| held.requests > 0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Open,
    Held,
    Closing,
}
