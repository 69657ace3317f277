//! Auditors as observers of a run.

use crate::audit::{Audit, Found};
use weir_core::record::{Call, Observer};
use weir_core::{Instant, Layer};

/// Every auditor there is.
#[derive(Debug, Default)]
pub struct Auditors {
    /// From the first call on.
    audit: Option<Audit>,
}

impl Auditors {
    /// Auditors that have seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// What they found, when nothing more is to come. `idle` says that every request was answered and nothing is on hold, which
    /// lets them check that nothing was left over.
    pub fn end(self, idle: bool) -> Found {
        self.audit.map_or_else(Found::default, |mut audit| {
            if idle {
                audit.end();
            }
            audit.into_found()
        })
    }
}

impl Observer for Auditors {
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        // The first call was made before there was a layer to listen to; it has published nothing.
        let audit = self.audit.get_or_insert_with(|| Audit::new(layer));
        audit.call(now, call, layer);
    }
}
