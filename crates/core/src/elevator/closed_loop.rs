//! Closed-loop clients under an elevator, on a drive that serves commands in parallel before their
//! bytes cross a link.

pub(super) use crate::testing::{Client, KIB, Place, RANDOM, SECOND, STREAMER, ms};
use crate::testing::{PIPE, Piped, child, share};
use crate::{Config, GroupId, Mask, ROOT, elevator};
use std::vec::Vec;

pub(super) type Host = crate::testing::Host<Piped>;

/// A drive of 32 tags, and groups of these shares, each below the root or below the group of that
/// index.
pub(super) fn host(elevator: impl Into<elevator::Config>, shares: &[(u16, Option<usize>)]) -> Host {
    host_of(Config::of(elevator), shares)
}

/// As [`host`], with tables and a drive of other sizes.
pub(super) fn host_of(config: Config, shares: &[(u16, Option<usize>)]) -> Host {
    let groups = (1..).zip(shares);
    let edits: Vec<_> = groups
        .map(|(id, &(own, parent))| child(id, parent.map_or(ROOT, nth), share(own)))
        .collect();
    let mut host = Host::new(config, &edits, PIPE.into());
    host.listen(Mask::TURNS);
    host
}

/// The group of an index.
pub(super) const fn nth(group: usize) -> GroupId {
    GroupId(group as u32 + 1)
}
