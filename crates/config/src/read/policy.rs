//! `policy` of a drive and the tunables beside it.

use crate::document::{Document, Entry, Table};
use crate::policy::{self, Policy, Refused};
use crate::value;
use std::path::{Path, PathBuf};

/// The policy of a drive with its tunables; the default where it is not given or cannot be read.
pub(super) fn policy<'a>(doc: &mut Document<'a>, drive: &Table<'a>) -> Policy {
    let chosen = match drive.entry("policy") {
        Some(entry) => chosen(doc, &entry),
        None => Some(Policy::default()),
    };
    let is_known = chosen.is_some();
    let mut policy = chosen.unwrap_or_default();
    for (kind, entry, table) in value::tunable_tables(doc, drive) {
        // Otherwise nobody knows which policy was meant.
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

/// The policy of a word or of a file, which is looked for beside the one that names it.
fn chosen<'a>(doc: &mut Document<'a>, entry: &Entry<'a>) -> Option<Policy> {
    let word = entry.text(doc, "a policy", "\"contract\"")?;
    let folder = Path::new(&doc.places.file).parent();
    let folder = folder.map_or_else(PathBuf::new, Path::to_path_buf);
    match policy::choose(word, &folder) {
        Ok(policy) => Some(policy),
        Err(Refused::Word(unknown)) => {
            doc.report(entry, unknown.what, &unknown.help);
            None
        }
        Err(Refused::File(problems)) => {
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
