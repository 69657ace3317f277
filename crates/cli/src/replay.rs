//! `weir replay`: the decisions of a live server, made again.

use crate::failure::Failure;
use crate::output;
use clap::Args;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use weir_audit::{Audit, Found};
use weir_core::record::{Call, Replay, ReplayError, Replayed};
use weir_core::{Instant, Layer};

/// What to replay.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What `weir serve --record` wrote
    file: PathBuf,
    /// Check every decision against independent models of the rules: what they find is a fault of the server, not of the record
    #[arg(long)]
    audit: bool,
}

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let path = options.file.display();
    let mut audit = None;
    let done = match replay(options, &mut audit)? {
        Ok(done) => done,
        Err(error @ ReplayError::Divergence(_)) => {
            return Err(Failure::Run(format!("{path}: diverged: {error}")));
        }
        Err(error) => {
            let help = "name what `weir serve --record` wrote";
            return Err(Failure::Run(format!("{path}: {error}; {help}")));
        }
    };
    output::print(&format!("{path}: {}\n", describe(&done)))?;
    if options.audit {
        found(&audit.map(Audit::into_found).unwrap_or_default())?;
    }
    if !done.whole {
        let why = "the server was killed or still runs, or its file was too slow or full";
        return Err(Failure::Run(format!(
            "{path}: the record is cut behind byte {}: {why}",
            done.bytes
        )));
    }
    Ok(())
}

/// Replays the file piece by piece: recordings are long.
fn replay(
    options: &Options,
    audit: &mut Option<Audit>,
) -> Result<Result<Replayed, ReplayError>, Failure> {
    let failed = |error| Failure::file("read", &options.file, &error);
    // Opening a pipe would wait for its other end, and a device has no end.
    let metadata = options.file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        let what = format!(
            "cannot read {}: it is not a regular file; name what `weir serve --record` wrote",
            options.file.display()
        );
        return Err(Failure::Run(what));
    }
    let mut file = File::open(&options.file).map_err(failed)?;
    let (mut replay, mut chunk) = (Replay::new(), vec![0; CHUNK]);
    let mut watch = |layer: &mut Layer, now: Instant, call: &Call<'_>| {
        if options.audit {
            // The first call was made before there was a layer to listen to; it cannot have published anything.
            let audit = audit.get_or_insert_with(|| Audit::new(layer));
            audit.call(now, call, layer);
        }
    };
    loop {
        let bytes = file.read(&mut chunk).map_err(failed)?;
        if bytes == 0 {
            return Ok(replay.end());
        }
        if let Err(error) = replay.feed_watched(&chunk[..bytes], &mut watch) {
            return Ok(Err(error));
        }
    }
}

/// Says what the auditors found.
fn found(found: &Found) -> Result<(), Failure> {
    if found.is_empty() {
        return output::print("the auditors found nothing\n");
    }
    for violation in found.kept() {
        output::print(&format!("{violation}\n"))?;
    }
    let total = found.total();
    Err(Failure::Run(format!(
        "the auditors found {total} violations"
    )))
}

fn describe(done: &Replayed) -> String {
    format!(
        "identical{}: {} calls and {} decisions over {:.3} s",
        if done.whole { "" } else { " as far as it goes" },
        done.calls,
        done.outputs,
        done.now.as_nanos() as f64 / 1e9
    )
}
