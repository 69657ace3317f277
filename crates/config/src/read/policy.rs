//! Reading of a drive's policy and of the tunables in the drive's table.

use crate::document::{Document, KeyEntry, ShapedTable};
use crate::policy::{self, Policy, PolicyError};
use crate::value;
use std::path::{Path, PathBuf};

/// Reads the policy of a drive with its tunables. It is the default if the key is not set or wrong.
pub(super) fn policy<'a>(doc: &mut Document<'a>, drive: &ShapedTable<'a>) -> Policy {
    let chosen = match drive.entry("policy") {
        Some(entry) => chosen(doc, &entry),
        None => Some(Policy::default()),
    };
    let is_known = chosen.is_some();
    let mut policy = chosen.unwrap_or_default();
    for (kind, entry, table) in value::tunable_tables(doc, drive) {
        // If the policy is not known, the elevator for the tunables is not known either.
        if !is_known {
            continue;
        }
        if policy.elevator.kind().name == kind.name {
            policy.tune_from(doc, &table);
        } else {
            let what = format!("has no effect under policy \"{}\"", policy.name);
            let help = "remove it, or set the policy to which it belongs";
            doc.report(&entry, what, help);
        }
    }
    policy
}

/// Reads a policy that is given by a word or a file. A relative path is relative to the directory
/// of this file.
fn chosen<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<Policy> {
    let word = entry.text(doc, "a policy", "\"contract\"")?;
    // For text without a file, the path is relative to the working directory.
    let folder = Path::new(&doc.places.file).parent();
    let folder = folder.map_or_else(PathBuf::new, Path::to_path_buf);
    match policy::choose(word, &folder) {
        Ok(policy) => Some(policy),
        Err(PolicyError::Word(unknown)) => {
            doc.report(entry, unknown.what, &unknown.help);
            None
        }
        Err(PolicyError::File(problems)) => {
            for problem in problems {
                doc.report(
                    entry,
                    problem.located(),
                    problem.help.as_deref().unwrap_or_default(),
                );
            }
            None
        }
    }
}
