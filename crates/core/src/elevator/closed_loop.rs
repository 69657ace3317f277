//! Closed-loop clients with an elevator, on a drive that serves commands in parallel before their
//! bytes cross a link.

pub(super) use crate::testing::{AccessPattern, Client, KIB, RANDOM, SECOND, STREAMER, ms};
use crate::testing::{PIPE, PipeDrive, child, share};
use crate::{Config, GroupId, Mask, ROOT, elevator};
use std::vec::Vec;

pub(super) type ClosedLoopHost = crate::testing::Host<PipeDrive>;

/// Creates a host with a drive of 32 tags and groups with these shares. Each group is below the
/// root, or below the group with that index.
pub(super) fn host(
    elevator: impl Into<elevator::Config>,
    shares: &[(u16, Option<usize>)],
) -> ClosedLoopHost {
    host_of(Config::of(elevator), shares)
}

/// Creates the same host with another layer configuration.
pub(super) fn host_of(config: Config, shares: &[(u16, Option<usize>)]) -> ClosedLoopHost {
    let groups = (1..).zip(shares);
    let edits: Vec<_> = groups
        .map(|(id, &(own, parent))| child(id, parent.map_or(ROOT, nth), share(own)))
        .collect();
    let mut host = ClosedLoopHost::new(config, &edits, PIPE.into());
    host.listen(Mask::TURNS);
    host
}

/// Returns the id of the group with an index.
pub(super) const fn nth(group: usize) -> GroupId {
    GroupId(group as u32 + 1)
}
