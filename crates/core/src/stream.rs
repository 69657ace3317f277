//! Streams: the issuers of requests, such as a process, a connection or a virtqueue.

use crate::id::{GroupId, ROOT};

/// The I/O priority classes of Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum PriorityClass {
    /// Served before all other classes.
    Realtime,
    /// Served in proportion to the weight.
    #[default]
    BestEffort,
    /// Served after all other classes.
    Idle,
}

/// The I/O priority of a process in Linux. Only the elevators that Linux has use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Priority {
    /// The class of the priority.
    pub class: PriorityClass,
    /// The level within the class, from 0 (first) to 7. Larger numbers count as 7.
    pub level: u8,
}

impl Default for Priority {
    /// Best effort, level 4: the priority of a process that never set one (Linux:
    /// `IOPRIO_BE_NORM`).
    fn default() -> Self {
        Self {
            class: PriorityClass::BestEffort,
            level: 4,
        }
    }
}

/// The properties with which a stream is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamSpec {
    /// The group that the stream belongs to. It must not have child groups, and can be the root as
    /// long as the root has none.
    pub group: GroupId,
    /// The I/O priority of the stream.
    pub priority: Priority,
}

/// A stream that is open, or that is closed and still has live requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) spec: StreamSpec,
    /// The number of live requests of the stream.
    pub(crate) live: u32,
    pub(crate) state: State,
    /// True if requests go directly to the elevator: the stream is open, and no controller,
    /// listener or elevator has to see a request before it has a tag.
    pub(crate) fast_path: bool,
    /// True if a controller, listener or elevator has to see requests before they have a tag.
    pub(crate) fast_path_off: bool,
    /// True if a controller or a listener has to see requests, so that they go through the chain.
    pub(crate) through_chain: bool,
    /// True if the stream should pause. `told_to_pause` is true if its driver has been told so.
    pub(crate) paused: bool,
    pub(crate) told_to_pause: bool,
    /// True if a request of the stream was refused because the layer was full, and the driver has
    /// not been told yet that there is room again.
    pub(crate) owed_resume: bool,
    /// The number of requests that controllers throttle in front of the scheduler tags.
    pub(crate) throttled: u32,
}

impl Stream {
    /// The content of a free slot.
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

    /// Sets whether a controller or a listener has to see every request of the stream, and whether
    /// a later stage has to.
    pub(crate) fn set_path(&mut self, through_chain: bool, fast_path_off: bool) {
        self.through_chain = through_chain;
        self.fast_path_off = through_chain || fast_path_off;
        self.update_fast_path();
    }

    fn update_fast_path(&mut self) {
        self.fast_path = self.state == State::Open && !self.fast_path_off;
    }

    /// Returns true if a controller throttles the stream's next request.
    #[inline]
    pub(crate) fn is_throttled(&self) -> bool {
        self.throttled > 0
    }
}

/// The state of a stream. A free slot is closing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The client can submit requests, and they are served.
    Open,
    /// On hold: the client can submit requests, but none is sent to the drive.
    Held,
    /// Closed by its client. The slot is freed when its last live request has been reported.
    Closing,
}
