//! What one call brings of one stream, kept together until its end: neighbours in it are merged before the elevator sees them.

use crate::list::NIL;
use alloc::vec::Vec;

/// Requests in a plug at most (Linux: `BLK_MAX_REQUEST_COUNT`).
const REQUESTS_MAX: usize = 32;
/// Behind a command of this number of bytes no other is plugged (Linux: `BLK_PLUG_FLUSH_SIZE`).
const FLUSH_SIZE: u32 = 128 * 1024;

/// Requests that have their scheduler tags and are not in the elevator yet.
#[derive(Debug)]
pub(super) struct Plug {
    is_open: bool,
    /// The stream whose requests are in it.
    stream: u32,
    pub(super) requests: Vec<u32>,
    /// The last request of the batch that is a command: in the plug, or waiting for a tag, or [`NIL`].
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

    /// A batch begins, or is over; the plug is empty.
    pub(super) fn set_open(&mut self, open: bool) {
        debug_assert!(self.requests.is_empty(), "requests stay in the plug");
        self.is_open = open;
        self.stream = NIL;
        self.last = NIL;
    }

    /// Requests of this stream come now. True if they are of another than those before.
    pub(super) fn turn_to(&mut self, stream: u32) -> bool {
        core::mem::replace(&mut self.stream, stream) != stream
    }

    /// The command that a request of the batch is tried with (Linux: `blk_attempt_plug_merge`).
    pub(super) fn last(&self) -> Option<u32> {
        (self.last != NIL).then_some(self.last)
    }

    /// A request of the batch waits for a tag. (In Linux those behind it would not have been submitted yet; they join it as they
    /// would have joined it in the plug.)
    pub(super) fn waits(&mut self, request: u32) {
        if self.is_open {
            self.last = request;
        }
    }

    /// True if the plug has to be emptied before one more is put in it; the last one in it has `last` bytes.
    pub(super) fn is_full(&self, last: u32) -> bool {
        self.requests.len() >= REQUESTS_MAX || last >= FLUSH_SIZE
    }

    pub(super) fn push(&mut self, request: u32) {
        debug_assert!(self.is_open, "a request is plugged outside of a batch");
        debug_assert!(self.requests.len() < REQUESTS_MAX, "the plug is full");
        self.requests.push(request);
        self.last = request;
    }

    /// No batch is under way, and nothing is in it.
    #[cfg(debug_assertions)]
    pub(super) fn invariants(&self) {
        assert!(!self.is_open && self.requests.is_empty(), "a plug is left");
    }

    /// All in it have gone to the elevator.
    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.last = NIL;
    }
}
