//! The plug: requests of one stream and one call, which are kept together until the end of the call
//! so that neighbours can be merged before the elevator sees them (Linux: `blk_plug`).

use crate::list::NIL;
use alloc::vec::Vec;

/// The maximum number of requests in a plug (Linux: `BLK_MAX_REQUEST_COUNT`).
const REQUESTS_MAX: usize = 32;
/// The plug is emptied before another request is added if its last command has at least this number
/// of bytes (Linux: `BLK_PLUG_FLUSH_SIZE`).
const FLUSH_SIZE: u32 = 128 * 1024;

/// The requests that have a scheduler tag and are not in the elevator yet.
#[derive(Debug)]
pub(super) struct Plug {
    is_open: bool,
    /// The stream whose requests are in the plug.
    stream: u32,
    pub(super) requests: Vec<u32>,
    /// The last request of the batch that leads a command, which is in the plug or waits for a tag,
    /// or [`NIL`].
    last: u32,
}

impl Plug {
    pub(super) fn new(merging: bool) -> Self {
        Self {
            is_open: false,
            stream: NIL,
            requests: Vec::with_capacity(if merging { REQUESTS_MAX } else { 0 }),
            last: NIL,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Begins or ends a batch. The plug must be empty.
    pub(super) fn set_open(&mut self, open: bool) {
        debug_assert!(self.requests.is_empty(), "requests stay in the plug");
        self.is_open = open;
        self.stream = NIL;
        self.last = NIL;
    }

    /// Sets the stream of the following requests. Returns true if it differs from the previous one.
    pub(super) fn switch_stream(&mut self, stream: u32) -> bool {
        // In Linux, each process has a plug of its own.
        core::mem::replace(&mut self.stream, stream) != stream
    }

    /// Returns the command with which a request of the batch can be merged (Linux:
    /// `blk_attempt_plug_merge`).
    pub(super) fn last(&self) -> Option<u32> {
        (self.last != NIL).then_some(self.last)
    }

    /// Notes that a request of the batch waits for a tag. Later requests of the batch can join it,
    /// as they would have joined it in the plug. In Linux, they would not have been submitted yet.
    pub(super) fn waits(&mut self, request: u32) {
        if self.is_open {
            self.last = request;
        }
    }

    /// Returns true if the plug must be emptied before another request is added. `last` is the
    /// length of the last request in it.
    pub(super) fn is_full(&self, last: u32) -> bool {
        self.requests.len() >= REQUESTS_MAX || last >= FLUSH_SIZE
    }

    pub(super) fn push(&mut self, request: u32) {
        debug_assert!(self.is_open, "a request is plugged outside of a batch");
        debug_assert!(self.requests.len() < REQUESTS_MAX, "the plug is full");
        self.requests.push(request);
        self.last = request;
    }

    /// Checks that no batch is open and that the plug is empty.
    #[cfg(debug_assertions)]
    pub(super) fn invariants(&self) {
        assert!(!self.is_open && self.requests.is_empty(), "a plug is left");
    }

    /// Empties the plug, after its requests went to the elevator.
    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.last = NIL;
    }
}
