//! Auditors as an observer of a run.

use crate::audit::{Audit, Violations};
use weir_core::record::{Call, Observer};
use weir_core::{Instant, Layer};

/// An observer that passes every call of a run to all auditors.
#[derive(Debug, Default)]
pub struct Auditors {
    /// The auditors, created with the first call.
    audit: Option<Audit>,
}

impl Auditors {
    /// Creates the observer before the first call of a run.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the audit and returns the violations. Set `idle` if every request was completed and no
    /// stream is on hold. In that case the auditors also check that nothing was left over.
    pub fn end(self, idle: bool) -> Violations {
        self.audit.map_or_else(Violations::default, |mut audit| {
            if idle {
                audit.end();
            }
            audit.into_found()
        })
    }
}

impl Observer for Auditors {
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        // The observer sees the layer only in a call, so the auditors cannot listen before the
        // first one. That call must not publish any event.
        let audit = self.audit.get_or_insert_with(|| Audit::new(layer));
        audit.call(now, call, layer);
    }
}
