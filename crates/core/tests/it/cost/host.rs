//! Clients as fio has them and a drive as `null_blk` is, with `io.cost` between them.

use weir_core::control::{self, cost};
use weir_core::testing::{self, Client, Parallel, RANDOM, child, share};
use weir_core::{Config, DriveShape, Edit, GroupId, ROOT, Sizes, elevator, merge};

/// 16 random reads of 4 KiB at a time.
pub(crate) const READS: Client = RANDOM.of(GroupId(1)).base(0).file(16 << 30).depth(16);

/// The drive: how many requests it serves at a time, and how long each takes in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Drive {
    pub(crate) tags: u16,
    pub(crate) service: u64,
}

pub(crate) type Host = testing::Host<Parallel>;

/// A tree of groups, numbered from one: the parent and the weight of each.
pub(crate) fn host(config: cost::Config, drive: Drive, groups: &[(u32, u16)]) -> Host {
    merging(config, merge::Config::OFF, drive, groups)
}

/// A host whose neighbouring requests are merged.
pub(crate) fn merging(
    config: cost::Config,
    merge: merge::Config,
    drive: Drive,
    groups: &[(u32, u16)],
) -> Host {
    let config = Config {
        sizes: Sizes::default()
            .groups(64)
            .scheduler_tags(drive.tags.into()),
        drive: DriveShape::default().tags(drive.tags),
        controllers: control::Config::default().cost(Some(config)),
        merge,
        elevator: elevator::Config::None,
    };
    let groups = (1..).zip(groups);
    let adds = groups.map(|(id, &(parent, weight))| child(id, GroupId(parent), share(weight)));
    Host::new(
        config,
        &adds.collect::<Vec<Edit>>(),
        Parallel(drive.service),
    )
}

/// The root's number.
pub(crate) const TOP: u32 = ROOT.0;
