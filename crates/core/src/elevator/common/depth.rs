//! Limits the number of scheduler tags that one kind of requests may hold, so that tags remain for
//! the others.
//!
//! If there are enough tags for all requests, no request waits for a tag and nothing is limited.

use crate::table::Table;

/// The scheduler tags that limited requests hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TagLimit {
    /// True if there are more requests than tags, or than tags for limited requests.
    is_limited: bool,
    /// Largest number of tags that limited requests may hold.
    most: u32,
    /// Number of tags that limited requests hold.
    held: u32,
}

impl TagLimit {
    /// Creates a limit of `most` tags, but of at least one, so that limited requests can proceed.
    pub(crate) fn new(table: &Table, most: u32) -> Self {
        Self {
            // With a tag for every request, none ever waits for one.
            is_limited: table.tags.min(most) < table.requests.capacity(),
            most: most.max(1),
            held: 0,
        }
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Returns true if a limited request may take a tag.
    pub(crate) fn allows(&self) -> bool {
        self.held < self.most
    }

    /// Records that a limited request takes a tag.
    pub(crate) fn take_tag(&mut self) {
        self.held += 1;
    }

    /// Records that a limited request returns its tag.
    pub(crate) fn return_tag(&mut self) {
        debug_assert!(self.held > 0, "a tag that nobody held");
        self.held -= 1;
    }
}
