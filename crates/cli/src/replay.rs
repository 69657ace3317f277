//! `weir replay` repeats a recording of a server: it verifies every decision, or predicts the
//! results under other contracts and policies.

mod recommend;
mod what_if;

use crate::failure::Failure;
use crate::output;
use crate::record;
use clap::Args;
use std::path::PathBuf;
use weir_core::record::{Replay, ReplayTotals};
use weir_verify::audit::{Audit, Violations};

/// The arguments of `weir replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayOptions {
    /// The recording that `weir serve --record` wrote
    file: PathBuf,
    /// Check every decision against independent models of the rules. Any violation is a bug of the
    /// server, not of the recording
    #[arg(long, conflicts_with_all = what_if::ASKED)]
    audit: bool,
    #[command(flatten)]
    what_if: what_if::WhatIf,
}

pub(crate) fn run(options: &ReplayOptions) -> Result<(), Failure> {
    if options.what_if.is_asked() {
        return what_if::run(&options.file, &options.what_if);
    }
    let path = options.file.display();
    let mut audit = None;
    let replay = record::replay(&options.file, |layer, now, call| {
        if options.audit {
            // There is no layer before the first call, so the audit begins to listen after it. The
            // first call cannot have published an event.
            let audit = audit.get_or_insert_with(|| Audit::new(layer));
            audit.call(now, call, layer);
        }
    })?;
    let done = replay.and_then(Replay::end);
    let done = done.map_err(|error| record::refused(&options.file, &error))?;
    output::print(&format!("{path}: {}\n", describe(&done)))?;
    if options.audit {
        found(&audit.map(Audit::into_found).unwrap_or_default())?;
    }
    if !done.whole {
        let why = "the server was killed or is still running, or the file was too slow or full";
        return Err(Failure::Run(format!(
            "{path}: the recording is cut off after byte {}: {why}",
            done.bytes
        )));
    }
    Ok(())
}

/// Prints the violations that the auditors have found.
fn found(found: &Violations) -> Result<(), Failure> {
    if found.is_empty() {
        return output::print("the auditors found nothing\n");
    }
    for violation in found.violations() {
        output::print(&format!("{violation}\n"))?;
    }
    let total = found.total();
    Err(Failure::Run(format!(
        "the auditors found {total} violations"
    )))
}

fn describe(done: &ReplayTotals) -> String {
    format!(
        "identical{}: {} calls and {} decisions over {:.3} s",
        if done.whole { "" } else { " as far as it goes" },
        done.calls,
        done.outputs,
        done.now.as_nanos() as f64 / 1e9
    )
}
