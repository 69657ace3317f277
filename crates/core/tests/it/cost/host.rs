//! A host with clients like fio's and a drive like `null_blk`, under `io.cost`.

use weir_core::control::{self, cost};
use weir_core::testing::{self, Client, Parallel, RANDOM, child, share};
use weir_core::{Config, DriveShape, Edit, GroupId, ROOT, Sizes, elevator, merge};

/// A client with 16 random reads of 4 KiB in flight.
pub(crate) const READS: Client = RANDOM.of(GroupId(1)).base(0).file(16 << 30).depth(16);

/// The parameters of the drive: the number of requests that it serves at a time, and the
/// nanoseconds for each.
#[derive(Clone, Copy)]
pub(crate) struct NullDrive {
    pub(crate) tags: u16,
    pub(crate) service: u64,
}

pub(crate) type CostHost = testing::Host<Parallel>;

/// Creates a host with a tree of groups, which are numbered from one. Each has a parent and a
/// weight.
pub(crate) fn host(config: cost::Config, drive: NullDrive, groups: &[(u32, u16)]) -> CostHost {
    merging(config, merge::Config::OFF, drive, groups)
}

/// Creates a host with merging.
pub(crate) fn merging(
    config: cost::Config,
    merge: merge::Config,
    drive: NullDrive,
    groups: &[(u32, u16)],
) -> CostHost {
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
    CostHost::new(
        config,
        &adds.collect::<Vec<Edit>>(),
        Parallel(drive.service),
    )
}

/// The number of the root group.
pub(crate) const TOP: u32 = ROOT.0;
