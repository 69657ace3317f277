//! Behaviour of the whole elevator in virtual time.

mod chaos;
mod cooperate;
mod merge;
mod requests;
mod shares;
mod turns;

use super::Config;
use crate::elevator::closed_loop::{Client, Host, STREAMER, ms};
use crate::{DriveShape, Sizes, elevator};

/// One request at a time, as a process that reads a file.
const READER: Client = Client {
    depth: 1,
    ..STREAMER
};

/// A disk that takes 8 ms to go elsewhere and nothing in parallel, with groups of these shares.
fn disk(config: Config, shares: &[(u16, Option<usize>)]) -> Host {
    let shape = DriveShape {
        rotational: true,
        ..DriveShape::default()
    };
    let mut host = of(config, shares, shape);
    host.seek = ms(8);
    host
}

/// The same on flash, with clients of these weights.
fn flash(config: Config, shares: &[(u16, Option<usize>)]) -> Host {
    of(config, shares, DriveShape::default())
}

fn of(config: Config, shares: &[(u16, Option<usize>)], shape: DriveShape) -> Host {
    let config = elevator::Config::Cfq(config);
    Host::with(config, shares, Sizes::default().scheduler_tags, shape)
}
