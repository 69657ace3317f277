//! Building blocks that tests share: short functions for edits, contracts and requests, and a
//! [`Host`] that drives a [`Layer`] in virtual time with clients and a drive.
//!
//! The feature `testing` is enabled only by development dependencies, so no server contains this
//! module.

mod client;
mod drive;
mod host;

pub use client::{AccessPattern, Client, FILE, RANDOM, STREAMER};
pub use drive::{Drive, PIPE, Parallel, Pipe, PipeDrive};
pub use host::{Host, Tally};

use crate::{
    Capacity, Config, Contract, Edit, Flags, GroupId, Instant, Knobs, Layer, Max, Op, Priority,
    ROOT, Refusal, Request, SpaceId, Span, StreamId, StreamSpec,
};
use alloc::vec::Vec;

/// The number of bytes in a KiB.
pub const KIB: u32 = 1024;
/// The number of nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;
/// The size of the space that [`layer`] adds, in bytes.
pub const SPACE: u64 = 1 << 40;

/// Returns the nanoseconds in `n` microseconds.
pub const fn us(n: u64) -> u64 {
    n * 1_000
}

/// Returns the nanoseconds in `n` milliseconds.
pub const fn ms(n: u64) -> u64 {
    n * 1_000_000
}

/// Returns the instant `us` microseconds after the start.
pub const fn at(us: u64) -> Instant {
    Instant::from_nanos(self::us(us))
}

/// Creates a layer with space 0 of [`SPACE`] bytes and applies `edits`.
///
/// # Errors
/// Fails if the edits are refused.
///
/// # Panics
/// Panics if the configuration is invalid.
pub fn layer(config: Config, edits: &[Edit]) -> Result<Layer, Refusal> {
    let mut layer = Layer::new(config).expect("the configuration is within its bounds");
    let edits: Vec<Edit> = [&[space(0, SPACE)], edits].concat();
    layer.change(Instant::ZERO, &edits).map(|_| layer)
}

/// Opens a stream of `group` with the default priority.
///
/// # Panics
/// Panics if the layer has no such group or no free stream.
pub fn open(layer: &mut Layer, group: GroupId) -> StreamId {
    let opened = layer.open(Instant::ZERO, spec(group));
    opened.expect("the group exists, and there is room")
}

/// Returns the properties of a stream of `group` with the default priority.
pub fn spec(group: GroupId) -> StreamSpec {
    let priority = Priority::default();
    StreamSpec { group, priority }
}

/// Returns the edit that sets the size of a space in bytes.
pub const fn space(id: u32, size: u64) -> Edit {
    Edit::SetSpace {
        id: SpaceId(id),
        size: Some(size),
    }
}

/// Returns the edit that adds a group below the root.
pub const fn group(id: u32, contract: Contract) -> Edit {
    child(id, ROOT, contract)
}

/// Returns the edit that adds a group below another.
pub const fn child(id: u32, parent: GroupId, contract: Contract) -> Edit {
    let id = GroupId(id);
    Edit::AddGroup {
        id,
        parent,
        contract,
    }
}

/// Returns the edit that gives a group another contract.
pub const fn change(id: GroupId, contract: Contract) -> Edit {
    Edit::SetContract { id, contract }
}

/// Returns the edit that sets the target of `io.latency` of a group, and no other knob.
pub const fn latency(id: GroupId, latency: Span) -> Edit {
    let knobs = Knobs {
        latency,
        ..Knobs::NONE
    };
    Edit::SetKnobs { id, knobs }
}

/// Returns a contract with only a share.
pub const fn share(share: u16) -> Contract {
    Contract::DEFAULT.share(share)
}

/// Returns a contract with a min in bytes per second.
pub const fn min(min: u64) -> Contract {
    Contract::DEFAULT.min(min)
}

/// Returns a contract with a min in requests per second.
pub const fn min_iops(min_iops: u64) -> Contract {
    Contract::DEFAULT.min_iops(min_iops)
}

/// Returns a contract with limits.
pub const fn limit(max: Max) -> Contract {
    Contract::DEFAULT.max(max)
}

/// Returns a limit on requests per second.
pub const fn iops(iops: u64) -> Max {
    Max::NONE.iops(iops)
}

/// Returns a limit on bytes per second.
pub const fn bandwidth(bandwidth: u64) -> Max {
    Max::NONE.bandwidth(bandwidth)
}

/// Returns the capacity of a drive that reads and writes `rate` bytes per second.
pub const fn capacity(rate: u64) -> Capacity {
    Capacity::NONE.read(rate).write(rate)
}

/// Returns a request of `length` bytes at the start of space 0, without flags.
pub const fn request(stream: StreamId, op: Op, cookie: u64, length: u32) -> Request {
    Request {
        stream,
        space: SpaceId(0),
        op,
        flags: Flags::NONE,
        offset: 0,
        length,
        cookie,
        within: 0,
    }
}

/// Returns a flush of space 0.
pub const fn flush(stream: StreamId, cookie: u64) -> Request {
    request(stream, Op::Flush, cookie, 0)
}

/// Returns a read of `length` bytes at the start of space 0.
pub const fn read(stream: StreamId, cookie: u64, length: u32) -> Request {
    request(stream, Op::Read, cookie, length)
}

/// Returns a tree with room for eight groups, after these edits.
#[cfg(test)]
pub(crate) fn tree(edits: &[Edit]) -> Result<crate::group::Groups, Refusal> {
    let mut groups = crate::group::Groups::new(8);
    edits.iter().try_for_each(|e| groups.apply(e, 10_000))?;
    Ok(groups)
}
