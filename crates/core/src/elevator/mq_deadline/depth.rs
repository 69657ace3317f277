//! How many scheduler tags writes and what is asynchronous may hold, so that whoever reads finds one (Linux: `dd_limit_depth`).
//!
//! Where there are tags for all requests, nobody waits for one and nothing is limited.

use super::config::Config;
use crate::mutant;
use crate::request::Request;
use crate::table::Table;

/// Scheduler tags.
#[derive(Debug)]
pub(super) struct Depth {
    /// There are fewer tags than requests.
    is_limited: bool,
    /// As many tags as may be held by what is limited.
    most: u32,
    /// As many are.
    held: u32,
}

impl Depth {
    pub(super) fn new(table: &Table, config: &Config) -> Self {
        let most = match config.async_depth {
            // Linux: `dd_depth_updated`.
            0 => (u64::from(table.tags) * 3 / 4) as u32,
            stated => stated,
        };
        Self {
            is_limited: table.tags < table.requests.capacity(),
            most: most.max(1),
            held: 0,
        }
    }

    pub(super) fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// A request may take a tag.
    pub(super) fn allows(&self, request: &Request) -> bool {
        is_free(request) || self.held < self.most || mutant::is(mutant::DEPTH_IGNORED)
    }

    pub(super) fn tagged(&mut self, request: &Request) {
        self.held += u32::from(!is_free(request));
    }

    pub(super) fn untagged(&mut self, request: &Request) {
        debug_assert!(is_free(request) || self.held > 0, "a tag that nobody held");
        self.held -= u32::from(!is_free(request));
    }
}

/// Reads take any tag: somebody waits for them.
fn is_free(request: &Request) -> bool {
    request.op.is_read()
}
