//! How many scheduler tags a part of the requests may hold, so that the others find one.
//!
//! Where there are enough for all requests, nobody waits for one and nothing is limited.

use crate::table::Table;

/// Scheduler tags of those that are limited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    /// There are more requests than tags, or than tags for what is limited.
    is_limited: bool,
    /// As many tags as may be held by what is limited.
    most: u32,
    /// As many are.
    held: u32,
}

impl Depth {
    /// `most` at most, but one at least.
    pub(crate) fn new(table: &Table, most: u32) -> Self {
        Self {
            is_limited: table.tags.min(most) < table.requests.capacity(),
            most: most.max(1),
            held: 0,
        }
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// A request that is limited may take a tag.
    pub(crate) fn allows(&self) -> bool {
        self.held < self.most
    }

    /// A request that is limited has a tag.
    pub(crate) fn tagged(&mut self) {
        self.held += 1;
    }

    /// It has it no longer.
    pub(crate) fn untagged(&mut self) {
        debug_assert!(self.held > 0, "a tag that nobody held");
        self.held -= 1;
    }
}
