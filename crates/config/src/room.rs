//! The sums of a drive's promises, and the amount that can still be promised, as admission computes
//! them.

use crate::admission::ReservedAmounts;
use crate::note::promised;
use crate::server::{Server, ServerDrive, is_promised};
use std::collections::BTreeMap;
use weir_core::{Capacity, PROMISABLE, PromiseSums};

/// The sums of one drive, in units per second.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DriveRoom {
    /// The capacity of the drive, if it is known.
    pub capacity: Option<Capacity>,
    /// The sum of the contracts' promises.
    pub promised: PromiseSums,
    /// The maximum that one further contract could be promised, in bytes or in requests. If it gets
    /// one of the two, nothing of the other is left. `millionths` is the part of the drive's time
    /// that is left. `None` if the capacity is unknown.
    pub left: Option<PromiseSums>,
    /// The sums of the drive's tenants, by name.
    pub tenants: BTreeMap<String, TenantRoom>,
}

/// The sums of one tenant, in units per second. `millionths` is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TenantRoom {
    /// The promise of the tenant, or the sum of its volumes' promises if it has none of its own.
    pub promised: PromiseSums,
    /// The part of the tenant's promise that is left for further volumes. `None` if the tenant has
    /// no promise, so that only the drive limits them.
    pub left: Option<PromiseSums>,
}

/// Returns the sums of a drive. `None` if its contracts are refused.
pub fn room(server: &Server, drive: &ServerDrive) -> Option<DriveRoom> {
    let promised = promised(server, drive)?;
    let mut reserved = ReservedAmounts::new()?;
    let mut tenants = BTreeMap::new();
    for tenant in server.tenants_of(&drive.name) {
        let own = reserved.of(&tenant.contract);
        tenants.insert(&tenant.name[..], (own, PromiseSums::default()));
    }
    for volume in server.volumes_of(&drive.name) {
        let tenant = volume.tenant.as_deref();
        if let Some((_, members)) = tenant.and_then(|name| tenants.get_mut(name)) {
            let own = reserved.of(&volume.contract);
            // A tenant can have thousands of volumes with the largest permitted mins.
            members.bytes = members.bytes.saturating_add(own.bytes);
            members.iops = members.iops.saturating_add(own.iops);
        }
    }
    let tenants = tenants.into_iter().map(|(name, (own, members))| {
        let promises = (server.tenant(name)).is_some_and(|tenant| is_promised(&tenant.contract));
        let room = TenantRoom {
            promised: if promises { own } else { members },
            left: promises.then(|| less(own, members)),
        };
        (name.to_owned(), room)
    });
    Some(DriveRoom {
        capacity: drive.capacity,
        promised,
        left: drive.capacity.map(|capacity| left(promised, capacity)),
        tenants: tenants.collect(),
    })
}

/// Returns the difference of two sums of promises, at least zero.
fn less(all: PromiseSums, part: PromiseSums) -> PromiseSums {
    PromiseSums::rates(
        all.bytes.saturating_sub(part.bytes),
        all.iops.saturating_sub(part.iops),
    )
}

/// Returns the amount that can be promised in addition to `promised`. The core rounds each part of
/// the drive's time up. The amount in bytes is therefore the largest whose part fits next to the
/// part of the requests, and the reverse.
fn left(promised: PromiseSums, capacity: Capacity) -> PromiseSums {
    let (bytes, requests) = (capacity.bytes(), capacity.requests());
    let in_bytes = part(promised.bytes, bytes);
    // The core adds two parts, each of which is rounded up.
    let in_requests = promised.millionths.saturating_sub(in_bytes);
    // An amount that exceeds the limit already leaves nothing, hence the saturation.
    let most_bytes = of(PROMISABLE.saturating_sub(in_requests), bytes);
    let time = PROMISABLE.saturating_sub(in_bytes);
    // Admission charges a request with at least a sector of 512 bytes.
    let moved = of(time, bytes) / 512;
    let most_requests = match requests {
        0 => moved,
        stated => of(time, stated).min(moved),
    };
    PromiseSums {
        bytes: most_bytes.saturating_sub(promised.bytes),
        iops: most_requests.saturating_sub(promised.iops),
        millionths: PROMISABLE.saturating_sub(promised.millionths),
    }
}

/// Returns the part of `all` that `amount` is, in millionths and rounded up, as the core rounds it.
fn part(amount: u64, all: u64) -> u64 {
    if amount == 0 {
        return 0;
    }
    let millionths = (u128::from(amount) * 1_000_000).div_ceil(u128::from(all.max(1)));
    u64::try_from(millionths).unwrap_or(u64::MAX)
}

/// Returns this part of `all`, which is given in millionths, rounded down.
fn of(millionths: u64, all: u64) -> u64 {
    (u128::from(millionths) * u128::from(all) / 1_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::promised_together;
    use proptest::prelude::*;
    use weir_core::{Contract, ROOT};

    fn min(bytes: u64, iops: u64) -> Contract {
        Contract::DEFAULT.with_min(bytes).with_min_iops(iops)
    }

    proptest! {
        /// Checks that the core admits the amount that is left, and refuses one unit more.
        #[test]
        fn admission_accepts_exactly_the_remaining_amount(
            rate in 1_000u64..20_000_000_000,
            iops in prop_oneof![Just(0), 1u64..4_000_000],
            bytes in 0.0..1.2f64,
            requests in 0.0..1.2f64,
        ) {
            // Promises are compared with the slower direction, which is reading here.
            let capacity = Capacity { read: rate, write: rate * 2, iops, ..Capacity::NONE };
            // Without a stated rate of requests, each request counts as a sector.
            let most_requests = if iops == 0 { rate / 512 } else { iops };
            let mut groups = vec![];
            let (bytes, requests) = ((rate as f64 * bytes / 2.0) as u64, (most_requests as f64 * requests / 2.0) as u64);
            groups.extend((bytes > 0).then(|| (ROOT, min(bytes, 0))));
            groups.extend((requests > 0).then(|| (ROOT, min(0, requests))));
            let sum = |more: Contract| {
                let all = groups.iter().copied().chain([(ROOT, more)]);
                promised_together(all, capacity)
            };
            let before = promised_together(groups.iter().copied(), capacity);
            let left = left(before, capacity);
            for (fits, exceeds) in [
                (min(left.bytes, 0), min(left.bytes + 1, 0)),
                (min(0, left.iops), min(0, left.iops + 1)),
            ] {
                // If the drawn promises exceed the drive already, nothing is left.
                if before.millionths <= PROMISABLE {
                    prop_assert!(sum(fits).millionths <= PROMISABLE, "{before:?} {left:?} {fits:?}");
                } else {
                    prop_assert_eq!(left, PromiseSums::default());
                }
                prop_assert!(sum(exceeds).millionths > PROMISABLE, "{before:?} {left:?} {exceeds:?}");
            }
        }
    }

    #[test]
    fn the_remaining_amount_of_a_tenant_excludes_its_volumes() {
        let text = "listen.nbd = [\"127.0.0.1:0\"]\n\
            [drive.d]\ncapacity = { read = \"100MB/s\", write = \"200MB/s\", iops = 1000 }\n\
            [tenant.own]\ndrive = \"d\"\nmin = \"30MB/s\"\n\
            [tenant.sum]\ndrive = \"d\"\n\
            [volume.a]\ndrive = \"d\"\ntenant = \"own\"\nmemory = true\nsize = \"1MiB\"\nmin = \"10MB/s\"\n\
            [volume.b]\ndrive = \"d\"\ntenant = \"sum\"\nmemory = true\nsize = \"1MiB\"\nmin_iops = 100\n\
            [volume.c]\ndrive = \"d\"\ntenant = \"sum\"\nmemory = true\nsize = \"1MiB\"\nmin = \"5MB/s\"\n";
        let server = crate::parse("", text).unwrap();
        let room = room(&server, &server.drives[0]).unwrap();
        let sums = |bytes, iops, millionths| PromiseSums {
            bytes,
            iops,
            millionths,
        };
        // 35 of 100 MB/s are 35 % of the drive's time, and 100 of 1,000 requests/s are 10 %. Of 90
        // %, 45 % are left: 45 MB/s or 450 requests/s.
        assert_eq!(room.promised, sums(35_000_000, 100, 450_000));
        assert_eq!(room.left, Some(sums(45_000_000, 450, 450_000)));
        assert_eq!(room.tenants["own"].promised, sums(30_000_000, 0, 0));
        assert_eq!(room.tenants["own"].left, Some(sums(20_000_000, 0, 0)));
        assert_eq!(room.tenants["sum"].promised, sums(5_000_000, 100, 0));
        assert_eq!(room.tenants["sum"].left, None);
    }
}
