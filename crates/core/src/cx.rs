//! The context that every stage of the chain receives in a call.

use crate::event::{Event, Events};
use crate::table::Table;
use crate::time::Instant;

/// The context of a call into a controller or an elevator. The layer owns one, so passing it on
/// costs only a pointer.
#[derive(Debug)]
pub(crate) struct Cx {
    /// The time of the call.
    pub(crate) now: Instant,
    /// The live requests, streams, groups and pieces in flight, which stages may read. Only the
    /// layer changes them.
    pub(crate) table: Table,
    /// The events of listeners.
    pub(crate) events: Events,
}

impl Cx {
    /// Returns a context for tests of one stage, with these edits of groups applied.
    #[cfg(test)]
    pub(crate) fn bare(
        sizes: crate::Sizes,
        drive: crate::DriveShape,
        edits: &[crate::Edit],
    ) -> Self {
        // Only the parts that a stage reads are set up. There is no layer.
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

    /// Publishes an event. The event is created only if there is a listener.
    #[inline]
    pub(crate) fn publish(&mut self, event: impl FnOnce() -> Event) {
        self.events.publish(self.now, event);
    }
}
