//! `weir replay`: the decisions of a live server, made again.

use crate::failure::Failure;
use crate::output;
use clap::Args;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use weir_core::record::{Replay, ReplayError, Replayed};

/// What to replay.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What `weir serve --record` wrote
    file: PathBuf,
}

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let path = options.file.display();
    match replay(options)? {
        Ok(done) => output::print(&format!("{path}: {}\n", describe(&done))),
        Err(error @ ReplayError::Divergence(_)) => {
            Err(Failure::Run(format!("{path}: diverged: {error}")))
        }
        Err(error) => Err(Failure::Run(format!("{path}: {error}"))),
    }
}

/// Replays the file piece by piece: recordings are long.
fn replay(options: &Options) -> Result<Result<Replayed, ReplayError>, Failure> {
    let failed = |error| Failure::file("read", &options.file, &error);
    let mut file = File::open(&options.file).map_err(failed)?;
    let (mut replay, mut chunk) = (Replay::new(), vec![0; CHUNK]);
    loop {
        let bytes = file.read(&mut chunk).map_err(failed)?;
        if bytes == 0 {
            return Ok(replay.end());
        }
        if let Err(error) = replay.feed(&chunk[..bytes]) {
            return Ok(Err(error));
        }
    }
}

fn describe(done: &Replayed) -> String {
    format!(
        "identical: {} calls and {} decisions over {:.3} s",
        done.calls,
        done.outputs,
        done.now.as_nanos() as f64 / 1e9
    )
}
