//! Behaviour of the whole elevator in virtual time.

mod chaos;
mod cooperate;
mod merge;
mod requests;
mod shares;
mod turns;

use super::Config;
use crate::elevator::closed_loop::{self, Client, Host, STREAMER, ms};
use crate::{Config as LayerConfig, elevator};

/// One request at a time, as a process that reads a file.
const READER: Client = Client {
    depth: 1,
    ..STREAMER
};

/// A disk that takes 8 ms to go elsewhere and nothing in parallel, with groups of these shares.
fn disk(config: Config, shares: &[(u16, Option<usize>)]) -> Host {
    let mut config = LayerConfig::of(elevator::Config::Cfq(config));
    config.drive.rotational = true;
    let mut host = closed_loop::host_of(config, shares);
    host.drive.pipe.seek = ms(8);
    host
}

/// The same on flash, with clients of these weights.
fn flash(config: Config, shares: &[(u16, Option<usize>)]) -> Host {
    closed_loop::host(elevator::Config::Cfq(config), shares)
}
