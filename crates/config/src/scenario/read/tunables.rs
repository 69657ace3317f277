//! Reading of the tunables of elevators in a scenario.

use crate::document::{Document, ShapedTable};
use crate::policy::Policy;
use crate::value;

/// Checks all tunables of the file, and sets those of the policy's elevator.
pub(crate) fn tune<'a>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    policy: Option<&mut Policy>,
) {
    let mut policy = policy;
    for (kind, _, table) in value::tunable_tables(doc, root) {
        match &mut policy {
            Some(policy) if policy.elevator.kind().name == kind.name => {
                policy.tune_from(doc, &table);
            }
            _ => {
                // Tunables of other elevators have no effect under this policy, but their values
                // must be valid.
                let mut other = (kind.default)();
                if let Some(tuned) = other.tuned_mut() {
                    value::tunables(doc, &table, tuned);
                }
            }
        }
    }
}
