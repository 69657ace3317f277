//! Admission: the check that the drive can keep all promises at once.

use crate::contract::{Capacity, Class, Contract, Rates};
use crate::group::{DEPTH_MAX, Groups};
use crate::id::{GroupId, ROOT};
use crate::refusal::{PromiseSums, Refusal};
use crate::time::mul_div_ceil;

/// The largest part of the drive's time that can be promised, in millionths.
pub const PROMISABLE: u64 = 900_000;

/// Checks every contract of the tree by itself and against its parent, adds up the promises and
/// compares the sum with the drive's capacity.
///
/// The sum is the max of the realtime clients plus the min of all others. It may take at most
/// [`PROMISABLE`] of the drive's time. Promises in bytes and promises in requests take the drive's
/// time one after the other, so their parts of it are added.
///
/// # Errors
/// Returns the first reason for a refusal.
pub(crate) fn admit(
    groups: &mut Groups,
    capacity: Option<Capacity>,
) -> Result<PromiseSums, Refusal> {
    for (id, group) in groups.iter() {
        check_alone(id, &group.contract)?;
    }
    // The sums are taken out because `groups` is borrowed in the loops. Their memory is reused.
    let mut sums = core::mem::take(&mut groups.sums);
    sums.fill(Rates::default());
    // Children before parents. The number of a group does not indicate its depth, so the loop goes
    // by depth.
    for depth in (1..=DEPTH_MAX).rev() {
        for (id, group) in groups.iter().filter(|(_, g)| g.depth == depth) {
            let (own, below) = (group.contract.reserved(), sums[id.0 as usize]);
            let promises = own != Rates::default();
            if promises && (below.bytes > own.bytes || below.iops > own.iops) {
                return Err(Refusal::ChildrenAboveParent {
                    group: id,
                    bytes: below.bytes,
                    iops: below.iops,
                });
            }
            // The promise of a tenant covers those of its members, so only one of the two is
            // counted.
            let counted = if promises { own } else { below };
            if counted != Rates::default() && capacity.is_none() {
                return Err(Refusal::CapacityUnknown(id));
            }
            let parent = &mut sums[group.parent.0 as usize];
            parent.bytes = parent.bytes.saturating_add(counted.bytes);
            parent.iops = parent.iops.saturating_add(counted.iops);
        }
    }
    let promised = promised(sums[ROOT.0 as usize], capacity);
    groups.sums = sums;
    match capacity {
        Some(capacity) if promised.millionths > PROMISABLE => {
            Err(Refusal::OverCapacity { promised, capacity })
        }
        _ => Ok(promised),
    }
}

/// Changes the min of a group without children, with the checks of [`admit`] and in time
/// proportional to the group's depth.
///
/// Returns `None`, without any effect, if the contract differs in more than its min, if the group
/// has children, or if the change is refused. The caller then uses [`admit`], which also finds the
/// reason.
pub(crate) fn admit_min(
    groups: &mut Groups,
    (id, contract): (GroupId, Contract),
    capacity: Option<Capacity>,
) -> Option<PromiseSums> {
    let group = groups.get(id).filter(|g| id != ROOT && g.children == 0)?;
    let before = group.contract;
    // Any other difference needs a general change.
    let only_min = before.min(contract.min).min_iops(contract.min_iops);
    check_alone(id, &contract).ok()?;
    if contract != only_min || capacity.is_none() {
        return None;
    }
    // The sums that change are those up to the next group with a promise of its own, because such a
    // group counts for its parent with its own promise only.
    let mut sums = [None; DEPTH_MAX as usize];
    let (mut from, mut to) = (before.reserved(), contract.reserved());
    let mut below = id;
    for slot in &mut sums {
        if below == ROOT {
            break;
        }
        let above = groups.get(below)?.parent;
        let sum = groups.sums[above.0 as usize];
        // A sum that saturated has lost the single amounts, so nothing can be subtracted from it.
        if sum.bytes.max(sum.iops) == u64::MAX {
            return None;
        }
        let bytes = (sum.bytes - from.bytes).checked_add(to.bytes)?;
        let iops = (sum.iops - from.iops).checked_add(to.iops)?;
        *slot = Some((above, Rates { bytes, iops }));
        let own = groups.get(above)?.contract.reserved();
        if own != Rates::default() {
            if bytes > own.bytes || iops > own.iops {
                return None;
            }
            break;
        }
        (from, to, below) = (sum, Rates { bytes, iops }, above);
    }
    let total = sums.iter().flatten().find(|(group, _)| *group == ROOT);
    let total = total.map_or(groups.sums[ROOT.0 as usize], |(_, sum)| *sum);
    let promised = promised(total, capacity);
    if promised.millionths > PROMISABLE {
        return None;
    }
    for (group, sum) in sums.into_iter().flatten() {
        // From here on nothing can fail, so the sums and the contract change together.
        groups.sums[group.0 as usize] = sum;
    }
    groups.get_mut(id)?.contract = contract;
    Some(promised)
}

/// Returns the sum of all promises and the part of the drive that it takes.
fn promised(total: Rates, capacity: Option<Capacity>) -> PromiseSums {
    PromiseSums {
        bytes: total.bytes,
        iops: total.iops,
        millionths: capacity.map_or(0, |c| millionths(total, c)),
    }
}

fn check_alone(id: GroupId, contract: &Contract) -> Result<(), Refusal> {
    let max = &contract.max;
    if contract.min > 0 && contract.min_iops > 0 {
        return Err(Refusal::TwoMins(id));
    }
    let min = Rates {
        bytes: contract.min,
        iops: contract.min_iops,
    };
    let most = Rates {
        bytes: max.bytes_ceiling(),
        iops: max.iops_ceiling(),
    };
    let above = |min: u64, ceiling: u64| ceiling > 0 && min > ceiling;
    if above(min.bytes.max(min.least_bytes()), most.bytes)
        || above(min.iops.max(min.least_iops(max.iops_size)), most.iops)
    {
        return Err(Refusal::MinAboveMax(id));
    }
    match contract.class {
        // A realtime client is served before all promises, so only its max limits the damage to
        // others.
        Class::Realtime if most == Rates::default() => Err(Refusal::RealtimeWithoutMax(id)),
        Class::Idle if contract.min > 0 || contract.min_iops > 0 => Err(Refusal::IdleWithMin(id)),
        _ => Ok(()),
    }
}

/// Returns the part of a drive that `rates` take, in millionths, rounded up.
///
/// The promised requests are also compared with the bytes that they move at least. That limits them
/// if the number of requests per second of the drive is not stated.
fn millionths(rates: Rates, capacity: Capacity) -> u64 {
    let part = |amount: u64, of: u64| match (amount, of) {
        (0, _) => 0,
        (_, 0) => u64::MAX,
        // A promise against a capacity of zero can never be kept, so its part exceeds any limit.
        (amount, of) => mul_div_ceil(amount, 1_000_000, of),
    };
    let iops = match capacity.requests() {
        0 => 0,
        requests => part(rates.iops, requests),
    };
    let moved = part(rates.least_bytes(), capacity.bytes());
    part(rates.bytes, capacity.bytes()).saturating_add(iops.max(moved))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::testing::{child, iops, min, min_iops, tree};

    const G1: GroupId = GroupId(1);
    /// A drive whose 50 requests/s limit promised requests before its bytes do.
    const DISK: Option<Capacity> = Some(Capacity::NONE.read(100_000).write(200_000).iops(50));

    #[test]
    fn promises_up_to_90_percent_of_the_slower_direction_are_admitted() {
        // The slower direction moves 100 kB/s, of which 90 % can be promised: 40 + 50 kB/s fit, and
        // 41 + 50 kB/s do not.
        let mut groups = tree(&[child(1, ROOT, min(40_000)), child(2, ROOT, min(50_000))]).unwrap();
        assert_eq!(
            admit(&mut groups, DISK),
            Ok(PromiseSums {
                bytes: 90_000,
                iops: 0,
                millionths: 900_000
            })
        );
        let mut groups = tree(&[child(1, ROOT, min(41_000)), child(2, ROOT, min(50_000))]).unwrap();
        assert!(matches!(
            admit(&mut groups, DISK),
            Err(Refusal::OverCapacity { .. })
        ));
        assert_eq!(admit(&mut groups, None), Err(Refusal::CapacityUnknown(G1)));
    }

    #[test]
    fn a_realtime_client_counts_with_its_max_and_requests_add_to_bytes() {
        // 20 of 50 requests/s take 40 % of the drive, and 50 of 100 kB/s take 50 %: 90 % together.
        let realtime = Contract::DEFAULT.class(Class::Realtime).max(iops(20));
        let mut groups = tree(&[child(1, ROOT, realtime), child(2, ROOT, min(50_000))]).unwrap();
        assert_eq!(
            admit(&mut groups, DISK),
            Ok(PromiseSums {
                bytes: 50_000,
                iops: 20,
                millionths: 900_000
            })
        );
        let endless = Contract::DEFAULT.class(Class::Realtime);
        assert_eq!(
            admit(&mut tree(&[child(1, ROOT, endless)]).unwrap(), DISK),
            Err(Refusal::RealtimeWithoutMax(G1))
        );
    }

    #[test]
    fn promised_requests_are_compared_with_the_lowest_stated_request_rate() {
        let part = |iops, read_iops, write_iops| {
            let capacity = Capacity {
                iops,
                read_iops,
                write_iops,
                ..DISK.unwrap()
            };
            let mut groups =
                tree(&[child(1, ROOT, min_iops(9)), child(2, ROOT, min(10_000))]).unwrap();
            admit(&mut groups, Some(capacity)).map(|p| p.millionths)
        };
        assert_eq!(part(50, 0, 0), Ok(280_000));
        // 10 of 100 kB/s take 10 %. The 9 requests take 9/50 = 18 %, 9/20 = 45 % or 9/12 = 75 %,
        // depending on the lowest rate that is stated.
        assert_eq!(part(0, 20, 0), Ok(550_000));
        assert_eq!(part(50, 20, 30), Ok(550_000));
        assert_eq!(part(50, 30, 12), Ok(850_000));
        // Without any stated rate, 9 requests count as 9 sectors, or 4608 of 100,000 bytes: 4.608
        // %, in addition to 10 %.
        assert_eq!(part(0, 0, 0), Ok(146_080));
        let refusal = part(50, 11, 20).unwrap_err();
        let text = alloc::format!("{refusal}");
        assert_eq!(
            text,
            "the promises add up to 10kB/s and 9 requests/s and take 91.9 % of the drive's time, of which at most 90 % can be promised \
             (its capacity is 100kB/s for reads, 200kB/s for writes, 50 requests/s, 11 reads/s, 20 writes/s)"
        );
    }

    #[test]
    fn a_tenants_min_covers_its_members_or_is_refused() {
        let mut inside = tree(&[child(1, ROOT, min(50_000)), child(2, G1, min(30_000))]).unwrap();
        assert_eq!(admit(&mut inside, DISK).unwrap().bytes, 50_000);
        let mut above = tree(&[child(1, ROOT, min(20_000)), child(2, G1, min(30_000))]).unwrap();
        assert_eq!(
            admit(&mut above, DISK),
            Err(Refusal::ChildrenAboveParent {
                group: G1,
                bytes: 30_000,
                iops: 0
            })
        );
        let mut implied =
            tree(&[child(1, ROOT, Contract::DEFAULT), child(2, G1, min(30_000))]).unwrap();
        assert_eq!(admit(&mut implied, DISK).unwrap().bytes, 30_000);
    }
}
