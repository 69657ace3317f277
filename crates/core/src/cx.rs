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
    /// Publishes an event, which is only made if somebody listens.
    #[inline]
    pub(crate) fn publish(&mut self, event: impl FnOnce() -> Event) {
        self.events.publish(self.now, event);
    }
}
