//! Behaviour of the whole elevator in virtual time.

mod chaos;
mod cooperate;
mod merge;
mod requests;
mod shares;
mod turns;

use super::Config;
use crate::Config as LayerConfig;
use crate::elevator::closed_loop::{self, Client, Host, STREAMER, ms};

/// One request at a time, as a process that reads a file.
const READER: Client = STREAMER.depth(1);

/// A disk that takes 8 ms to go elsewhere and nothing in parallel, with groups of these shares.
fn disk(config: Config, shares: &[(u16, Option<usize>)]) -> Host {
    let mut config = LayerConfig::of(config);
    config.drive.rotational = true;
    let mut host = closed_loop::host_of(config, shares);
    host.drive.pipe.seek = ms(8);
    host
}

/// The same on flash, with clients of these weights.
fn flash(config: Config, shares: &[(u16, Option<usize>)]) -> Host {
    closed_loop::host(config, shares)
}
