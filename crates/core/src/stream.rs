//! Issuers of requests: a process, a connection, a virtqueue.

use crate::id::{GroupId, ROOT};

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

/// An open (or draining) stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) spec: StreamSpec,
    /// Its live requests.
    pub(crate) live: u32,
    pub(crate) state: State,
    /// It is open, and no controller, listener or elevator must see its requests before they are tagged: they go straight to the
    /// elevator.
    pub(crate) fast_path: bool,
    /// One of those must see them.
    pub(crate) fast_path_off: bool,
    /// A controller or a listener must: they go through the chain.
    pub(crate) through_chain: bool,
    /// Is to pause, and whether its driver has been told so.
    pub(crate) paused: bool,
    pub(crate) told_to_pause: bool,
    /// Was refused for want of room; there is some now and its driver has yet to be told.
    pub(crate) owed_resume: bool,
    /// Requests held back by controllers in front of the gate.
    pub(crate) throttled: u32,
}

impl Stream {
    /// What stands in a free slot.
    pub(crate) const EMPTY: Self = Self {
        spec: StreamSpec {
            group: ROOT,
            priority: Priority {
                class: PriorityClass::BestEffort,
                level: 4,
            },
        },
        live: 0,
        state: State::Closing,
        fast_path: false,
        fast_path_off: false,
        through_chain: false,
        paused: false,
        told_to_pause: false,
        owed_resume: false,
        throttled: 0,
    };

    pub(crate) fn set_state(&mut self, state: State) {
        self.state = state;
        self.update_fast_path();
    }

    /// Whether a controller or a listener must see every request of it, or else somebody behind them.
    pub(crate) fn set_path(&mut self, through_chain: bool, fast_path_off: bool) {
        self.through_chain = through_chain;
        self.fast_path_off = through_chain || fast_path_off;
        self.update_fast_path();
    }

    fn update_fast_path(&mut self) {
        self.fast_path = self.state == State::Open && !self.fast_path_off;
    }

    /// A controller holds back what it wants to send next.
    #[inline]
    pub(crate) fn is_throttled(&self) -> bool {
        self.throttled > 0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Open,
    Held,
    Closing,
}
