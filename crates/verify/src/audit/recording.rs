//! The audit of a recording.

use crate::audit::found::Violations;
use crate::audit::suite::Audit;
use weir_core::record::{Replay, ReplayError, ReplayTotals};

/// Replays a record of [`weir_core::record`] under every auditor, and returns the violations. The
/// record may end in the middle of a run, so requests in flight at its end are not a violation.
///
/// # Errors
/// Returns an error if the bytes are not a record, or if the layer decides otherwise than was
/// recorded.
pub fn recording(record: &[u8]) -> Result<(ReplayTotals, Violations), ReplayError> {
    let mut replay = Replay::new();
    let mut audit = None;
    replay.feed_watched(record, &mut |layer, now, call| {
        // The first call creates the layer, so the auditors cannot listen before it. It publishes
        // no events.
        let audit = audit.get_or_insert_with(|| Audit::new(layer));
        audit.call(now, call, layer);
    })?;
    let found = audit.map(Audit::into_found).unwrap_or_default();
    Ok((replay.end()?, found))
}
