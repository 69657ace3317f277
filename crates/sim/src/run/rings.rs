//! Clients in virtual machines, whose requests and answers pass through rings.

use super::SimRun;
use crate::ring::RingOutput;
use weir_config::scenario::PlugScope;
use weir_core::Instant;

impl SimRun<'_> {
    /// Returns true if the requests that a client sends at one instant are kept together.
    pub(super) fn is_plugged(&self, client: u32) -> bool {
        match self.scenario.merging.plug {
            PlugScope::Cache => self.guests[client as usize].process.is_some(),
            PlugScope::All => true,
            PlugScope::None => false,
        }
    }

    /// The time of the next event in the rings.
    #[inline]
    pub(super) fn next_of_rings(&self) -> Option<Instant> {
        self.rings.as_ref()?.next(self.now)
    }

    /// Runs the rings and all guests and threads that use them, up to the present time.
    pub(super) fn rings(&mut self) {
        let Some(rings) = &mut self.rings else { return };
        // The list is taken out of `self` so that its allocation can be reused.
        let mut out = std::mem::take(&mut self.out);
        rings.run(self.now, &mut out);
        for out in out.drain(..) {
            match out {
                RingOutput::Submit(request) => {
                    let client = self.by_slot[request.stream.slot() as usize];
                    self.receive(client, request);
                }
                RingOutput::Deliver(done) => self.deliver(&done),
            }
        }
        self.out = out;
    }
}
