//! Behaviour of the whole elevator in virtual time.

mod chaos;
mod cooperate;
mod merge;
mod requests;
mod shares;
mod turns;

use super::Config;
use crate::Config as LayerConfig;
use crate::elevator::closed_loop::{self, Client, ClosedLoopHost, STREAMER, ms};

/// A client with one request at a time, such as a process that reads a file.
const READER: Client = STREAMER.depth(1);

/// Creates a disk that seeks in 8 ms and serves one request at a time, with groups of these shares.
fn disk(config: Config, shares: &[(u16, Option<usize>)]) -> ClosedLoopHost {
    let mut config = LayerConfig::of(config);
    config.drive.rotational = true;
    let mut host = closed_loop::host_of(config, shares);
    host.drive.pipe.seek = ms(8);
    host
}

/// Creates a flash drive with groups of these shares.
fn flash(config: Config, shares: &[(u16, Option<usize>)]) -> ClosedLoopHost {
    closed_loop::host(config, shares)
}
