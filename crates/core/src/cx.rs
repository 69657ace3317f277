//! What every stage of the chain is given in a call.

use crate::event::{Event, Events};
use crate::table::Table;
use crate::time::Instant;

/// The context of a call into a controller or an elevator. It is the layer's own, so that handing it on costs one pointer.
#[derive(Debug)]
pub(crate) struct Cx {
    /// The time of the call.
    pub(crate) now: Instant,
    /// Live requests, streams, groups and what is in the drive: to be looked at. Only the layer changes them.
    pub(crate) table: Table,
    /// Listeners.
    pub(crate) events: Events,
}

impl Cx {
    /// A context for tests of one stage, after these edits of groups.
    #[cfg(test)]
    pub(crate) fn bare(
        sizes: crate::Sizes,
        drive: crate::DriveShape,
        edits: &[crate::Edit],
    ) -> Self {
        let mut table = Table::new(&sizes, drive, &crate::merge::Config::OFF);
        for edit in edits {
            table.groups.apply(edit, 10_000).unwrap();
        }
        Self {
            now: Instant::ZERO,
            table,
            events: Events::new(0),
        }
    }

    /// Publishes an event, which is only made if somebody listens.
    #[inline]
    pub(crate) fn publish(&mut self, event: impl FnOnce() -> Event) {
        self.events.publish(self.now, event);
    }
}
