//! Parts that tests share: edits, contracts and requests in a word each, and a [`Host`] that drives
//! a [`Layer`] in virtual time with clients and a drive.
//!
//! Only development dependencies enable the feature `testing`; nothing here is part of a server.

mod client;
mod drive;
mod host;

pub use client::{Client, FILE, Place, RANDOM, STREAMER};
pub use drive::{Drive, PIPE, Parallel, Pipe, Piped};
pub use host::{Host, Tally};

use crate::{
    Capacity, Config, Contract, Edit, Flags, GroupId, Instant, Knobs, Layer, Max, Op, Priority,
    ROOT, Refusal, Request, SpaceId, Span, StreamId, StreamSpec,
};
use alloc::vec::Vec;

/// Bytes in a KiB.
pub const KIB: u32 = 1024;
/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;
/// Bytes of the space that [`layer`] adds.
pub const SPACE: u64 = 1 << 40;

/// Nanoseconds in `n` microseconds.
pub const fn us(n: u64) -> u64 {
    n * 1_000
}

/// Nanoseconds in `n` milliseconds.
pub const fn ms(n: u64) -> u64 {
    n * 1_000_000
}

/// The instant `us` microseconds after the start.
pub const fn at(us: u64) -> Instant {
    Instant::from_nanos(self::us(us))
}

/// A layer with space 0 of [`SPACE`] bytes, after `edits`.
///
/// # Errors
/// The edits are refused.
///
/// # Panics
/// The configuration is out of bounds.
pub fn layer(config: Config, edits: &[Edit]) -> Result<Layer, Refusal> {
    let mut layer = Layer::new(config).expect("the configuration is within its bounds");
    let edits: Vec<Edit> = [&[space(0, SPACE)], edits].concat();
    layer.change(Instant::ZERO, &edits).map(|_| layer)
}

/// Opens a stream of `group` with the default priority.
///
/// # Panics
/// The layer has no such group, or no room.
pub fn open(layer: &mut Layer, group: GroupId) -> StreamId {
    let opened = layer.open(Instant::ZERO, spec(group));
    opened.expect("the group exists, and there is room")
}

/// A stream of `group` with the default priority.
pub fn spec(group: GroupId) -> StreamSpec {
    let priority = Priority::default();
    StreamSpec { group, priority }
}

/// Sets the size of a space in bytes.
pub const fn space(id: u32, size: u64) -> Edit {
    Edit::SetSpace {
        id: SpaceId(id),
        size: Some(size),
    }
}

/// Adds a group below the root.
pub const fn group(id: u32, contract: Contract) -> Edit {
    child(id, ROOT, contract)
}

/// Adds a group below another.
pub const fn child(id: u32, parent: GroupId, contract: Contract) -> Edit {
    let id = GroupId(id);
    Edit::AddGroup {
        id,
        parent,
        contract,
    }
}

/// Gives a group another contract.
pub const fn change(id: GroupId, contract: Contract) -> Edit {
    Edit::SetContract { id, contract }
}

/// Sets the target of `io.latency` of a group, and no other knob.
pub const fn latency(id: GroupId, latency: Span) -> Edit {
    let knobs = Knobs {
        latency,
        ..Knobs::NONE
    };
    Edit::SetKnobs { id, knobs }
}

/// A contract with a share alone.
pub const fn share(share: u16) -> Contract {
    Contract::DEFAULT.share(share)
}

/// A contract with a minimum of bytes a second.
pub const fn min(min: u64) -> Contract {
    Contract::DEFAULT.min(min)
}

/// A contract with a minimum of requests a second.
pub const fn min_iops(min_iops: u64) -> Contract {
    Contract::DEFAULT.min_iops(min_iops)
}

/// A contract with limits.
pub const fn limit(max: Max) -> Contract {
    Contract::DEFAULT.max(max)
}

/// A limit of requests a second.
pub const fn iops(iops: u64) -> Max {
    Max::NONE.iops(iops)
}

/// A limit of bytes a second.
pub const fn bandwidth(bandwidth: u64) -> Max {
    Max::NONE.bandwidth(bandwidth)
}

/// A drive that can read and write `rate` bytes a second.
pub const fn capacity(rate: u64) -> Capacity {
    Capacity::NONE.read(rate).write(rate)
}

/// A request of `length` bytes at the start of space 0, without flags.
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

/// A flush of space 0.
pub const fn flush(stream: StreamId, cookie: u64) -> Request {
    request(stream, Op::Flush, cookie, 0)
}

/// A read of `length` bytes at the start of space 0.
pub const fn read(stream: StreamId, cookie: u64, length: u32) -> Request {
    request(stream, Op::Read, cookie, length)
}

/// A tree with room for eight groups, after these edits.
#[cfg(test)]
pub(crate) fn tree(edits: &[Edit]) -> Result<crate::group::Groups, Refusal> {
    let mut groups = crate::group::Groups::new(8);
    edits.iter().try_for_each(|e| groups.apply(e, 10_000))?;
    Ok(groups)
}
