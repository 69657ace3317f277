//! Whether the drive can keep all promises at once.

use crate::contract::{Capacity, Class, Contract, Rates};
use crate::group::{DEPTH_MAX, Groups};
use crate::id::{GroupId, ROOT};
use crate::refusal::{Promised, Refusal};
use crate::time::mul_div_ceil;

/// Promises may take this many millionths of the drive's time.
pub const PROMISABLE: u64 = 900_000;

/// Checks every contract of the tree by itself and against its parent, adds the promises up and holds them against the drive
/// (max of the realtime clients plus min of the others at most 0.9 of the capacity). What is promised in bytes and what is promised in
/// requests take the drive's time one beside the other, so their parts of it are added.
pub(crate) fn admit(groups: &mut Groups, capacity: Option<Capacity>) -> Result<Promised, Refusal> {
    for (id, group) in groups.iter() {
        check_alone(id, &group.contract)?;
    }
    let mut sums = core::mem::take(&mut groups.sums);
    sums.fill(Rates::default());
    // Children before parents: a group's number says nothing about its depth, so go by depth.
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

/// Gives a group without children another min in place, with the checks of [`admit`] and in time
/// proportional to the group's depth. `None`, and nothing has changed, if the contract differs in
/// more than its min, the group has children, or the change is refused.
pub(crate) fn admit_min(
    groups: &mut Groups,
    (id, contract): (GroupId, Contract),
    capacity: Option<Capacity>,
) -> Option<Promised> {
    let group = groups.get(id).filter(|g| id != ROOT && g.children == 0)?;
    let before = group.contract;
    let only_min = before.min(contract.min).min_iops(contract.min_iops);
    check_alone(id, &contract).ok()?;
    if contract != only_min || capacity.is_none() {
        return None;
    }
    // The sums that differ afterwards: up to the next group with a promise of its own.
    let mut sums = [None; DEPTH_MAX as usize];
    let (mut from, mut to) = (before.reserved(), contract.reserved());
    let mut below = id;
    for slot in &mut sums {
        if below == ROOT {
            break;
        }
        let above = groups.get(below)?.parent;
        let sum = groups.sums[above.0 as usize];
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
        groups.sums[group.0 as usize] = sum;
    }
    groups.get_mut(id)?.contract = contract;
    Some(promised)
}

/// What the sum of all promises takes of the drive.
fn promised(total: Rates, capacity: Option<Capacity>) -> Promised {
    Promised {
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
        Class::Realtime if most == Rates::default() => Err(Refusal::RealtimeWithoutMax(id)),
        Class::Idle if contract.min > 0 || contract.min_iops > 0 => Err(Refusal::IdleWithMin(id)),
        _ => Ok(()),
    }
}

/// The part of a drive that `rates` takes, in millionths, rounded up. Requests are also held against what they move at the least, for a
/// drive of which it is not stated how many it does.
fn millionths(rates: Rates, capacity: Capacity) -> u64 {
    let part = |amount: u64, of: u64| match (amount, of) {
        (0, _) => 0,
        (_, 0) => u64::MAX,
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
    /// Its bytes do not bind its requests.
    const DISK: Option<Capacity> = Some(Capacity::NONE.read(100_000).write(200_000).iops(50));

    #[test]
    fn promises_up_to_nine_tenths_of_the_slower_direction() {
        let mut groups = tree(&[child(1, ROOT, min(40_000)), child(2, ROOT, min(50_000))]).unwrap();
        assert_eq!(
            admit(&mut groups, DISK),
            Ok(Promised {
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
    fn realtime_counts_with_its_max_and_requests_beside_bytes() {
        let realtime = Contract::DEFAULT.class(Class::Realtime).max(iops(20));
        let mut groups = tree(&[child(1, ROOT, realtime), child(2, ROOT, min(50_000))]).unwrap();
        assert_eq!(
            admit(&mut groups, DISK),
            Ok(Promised {
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
    fn promised_requests_are_held_against_the_least_that_is_stated_of_any_kind() {
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
        assert_eq!(part(0, 20, 0), Ok(550_000));
        assert_eq!(part(50, 20, 30), Ok(550_000));
        assert_eq!(part(50, 30, 12), Ok(850_000));
        // Nine sectors a second, where nothing else is known.
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
