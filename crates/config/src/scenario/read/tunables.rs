//! Tunables of elevators that a scenario states.

use crate::document::{Document, Table};
use crate::policy::Policy;
use crate::tunable;
use crate::value;

/// Checks the tunables that stand in a file, and sets those of the policy's elevator.
pub(crate) fn tune<'a>(doc: &mut Document<'a>, root: &Table<'a>, policy: Option<&mut Policy>) {
    let mut policy = policy;
    let root = root.undeclared();
    for (kind, _) in tunable::tables() {
        let Some(entry) = root.entry(kind.name) else {
            continue;
        };
        let Some(table) = value::tunable_table(doc, &entry, kind) else {
            continue;
        };
        match &mut policy {
            Some(policy) if policy.elevator.kind().name == kind.name => {
                policy.tune_from(doc, &table);
            }
            _ => {
                let mut other = (kind.default)();
                if let Some(tuned) = other.tuned_mut() {
                    value::tunables(doc, &table, tuned);
                }
            }
        }
    }
}
