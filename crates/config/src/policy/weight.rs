//! Weights in proportion to the part of the drive that each group is due.

use weir_core::{Capacity, Contract};

/// A group in the tree of a drive's groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupNode {
    /// The index of the parent, which comes earlier in the list. `None` for a child of the root.
    pub parent: Option<usize>,
    /// The contract as the file states it.
    pub contract: Contract,
}

/// The size in bytes that a promised request counts as if the drive's requests per second are not
/// known.
const REQUEST: f64 = 4096.0;

/// The ratio of promises to the rest of the drive. Admission permits promises of at most 90 % of
/// the capacity, and the same is assumed if the capacity is not known.
const PROMISED_TO_REST: f64 = 9.0;

/// Returns the weight of each group among its siblings, 1 to `most`.
///
/// If a sibling has a promise, weights are in proportion to the amount that each group is due: its
/// min, and a part by share of the amount that its parent is due beyond the mins. The root is due
/// the capacity of the drive.
///
/// Without promises, weights are the shares. They are scaled down if a share is above `most`.
pub(super) fn weights(capacity: Option<Capacity>, groups: &[GroupNode], most: u16) -> Vec<u16> {
    let below = below(groups);
    let promised = promised(capacity, groups);
    let mut due = vec![0.0; groups.len()];
    let mut weights = vec![0; groups.len()];
    let drive = capacity.map_or(0.0, |c| c.bytes() as f64);
    for (place, members) in below.iter().enumerate() {
        let all: f64 = members.iter().map(|&m| promised[m]).sum();
        let parent = match place.checked_sub(1) {
            Some(parent) => due[parent],
            // Promises can exceed the stated capacity, or the capacity is 0 because it is not
            // known. The ratio then determines the total.
            None => drive.max(all + all / PROMISED_TO_REST),
        };
        let rest = (parent - all).max(0.0);
        let share = |member: usize| f64::from(groups[member].contract.share);
        let shares: f64 = members.iter().map(|&m| share(m)).sum();
        for &member in members {
            due[member] = promised[member] + rest * share(member) / shares;
        }
        let of = |member: usize| {
            if all > 0.0 {
                due[member]
            } else {
                share(member)
            }
        };
        // With promises, the largest sibling gets the largest weight, so that rounding is least.
        // Shares are kept as they are, if possible.
        let largest = members.iter().map(|&m| of(m)).fold(0.0, f64::max);
        let unit = if all > 0.0 || largest > f64::from(most) {
            f64::from(most) / largest
        } else {
            1.0
        };
        for &member in members {
            weights[member] = (of(member) * unit).round().max(1.0) as u16;
        }
    }
    weights
}

/// Returns the smallest rate of a group without children when all groups are backlogged, if `rate`
/// is divided by these weights at each level.
pub(super) fn least(groups: &[GroupNode], weights: &[u16], rate: u64) -> Option<u64> {
    let below = below(groups);
    let mut rates = vec![0_u64; groups.len()];
    for (place, members) in below.iter().enumerate() {
        let parent = place.checked_sub(1).map_or(rate, |parent| rates[parent]);
        let all: u128 = members.iter().map(|&m| u128::from(weights[m])).sum();
        for &member in members {
            let part = u128::from(parent) * u128::from(weights[member]) / all.max(1);
            rates[member] = part as u64;
        }
    }
    let leaves = (rates.into_iter().zip(&below[1..])).filter(|(_, below)| below.is_empty());
    leaves.map(|(rate, _)| rate).min()
}

/// Returns the children of the root, followed by the children of each group. Parents come before
/// their children, as in `groups`.
fn below(groups: &[GroupNode]) -> Vec<Vec<usize>> {
    let mut below = vec![Vec::new(); groups.len() + 1];
    for (member, group) in groups.iter().enumerate() {
        below[group.parent.map_or(0, |parent| parent + 1)].push(member);
    }
    below
}

/// Returns the promise of each group in bytes per second: its own min, or the sum of its children's
/// promises if it has none.
fn promised(capacity: Option<Capacity>, groups: &[GroupNode]) -> Vec<f64> {
    // A promised request counts as its part of the drive's time, converted to bytes.
    let request = match capacity.map(|c| (c.bytes(), c.requests())) {
        Some((bytes, requests)) if requests > 0 => bytes as f64 / requests as f64,
        _ => REQUEST,
    };
    let own = |c: &Contract| c.min as f64 + c.min_iops as f64 * request;
    let mut promised: Vec<f64> = vec![0.0; groups.len()];
    // Children come after their parents. In reverse order, the promises of all children are
    // therefore added up before their parent is reached.
    for (member, group) in groups.iter().enumerate().rev() {
        let own = own(&group.contract);
        if own > 0.0 {
            promised[member] = own;
        }
        if let Some(parent) = group.parent {
            promised[parent] += promised[member];
        }
    }
    promised
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVE: Capacity = Capacity {
        read: 100_000_000,
        write: 200_000_000,
        iops: 10_000,
        ..Capacity::NONE
    };

    fn node(parent: Option<usize>, min: u64, share: u16) -> GroupNode {
        let contract = Contract::DEFAULT
            .with_min(min * 1_000_000)
            .with_share(share);
        GroupNode { parent, contract }
    }

    fn of(groups: &[GroupNode]) -> Vec<u16> {
        weights(Some(DRIVE), groups, 1_000)
    }

    #[test]
    fn a_group_without_a_min_gets_its_part_of_the_rest() {
        // The first is due 20 MB/s and 1/5 of the other 80 MB/s, together 36. The second is due 4/5
        // of them, 64. 36/64 of 1,000 is 563.
        let groups = [node(None, 20, 100), node(None, 0, 400)];
        assert_eq!(of(&groups), [563, 1_000]);
        let equal = [node(None, 10, 100), node(None, 10, 100)];
        assert_eq!(of(&equal), [1_000, 1_000]);
    }

    #[test]
    fn promised_requests_are_the_drives_time_that_they_take() {
        let mut groups = [node(None, 0, 100), node(None, 0, 100)];
        groups[0].contract.min_iops = 5_000;
        // 10,000 requests/s at 100 MB/s are 10 kB per request, so 5,000 promised requests/s are 50
        // MB/s. With half of the rest, the first is due 75 MB/s and the second 25.
        assert_eq!(of(&groups), [1_000, 333]);
        let unknown = Capacity { iops: 0, ..DRIVE };
        // 5,000 requests/s of 4 KiB are 20.48 MB/s, and the rest of 79.52 MB/s is divided equally:
        // 60.24 and 39.76 MB/s.
        assert_eq!(weights(Some(unknown), &groups, 1_000), [1_000, 660]);
    }

    #[test]
    fn promises_take_90_percent_of_an_unknown_capacity() {
        // 9 MB/s are 90 % of 10 MB/s. Each group also gets half of the last 1 MB/s.
        let groups = [node(None, 9, 100), node(None, 0, 100)];
        assert_eq!(weights(None, &groups, 1_000), [1_000, 53], "9.5 and 0.5");
        let more = [node(None, 180, 100), node(None, 0, 100)];
        assert_eq!(of(&more), [1_000, 53], "more than the drive does");
    }

    #[test]
    fn the_weight_of_a_tenant_includes_the_mins_of_its_members() {
        let groups = [
            node(None, 0, 100),
            node(None, 0, 100),
            node(Some(0), 40, 100),
            node(Some(0), 0, 300),
            node(Some(1), 0, 100),
            node(Some(1), 0, 200),
        ];
        // The first tenant is due 40 MB/s and half of the other 60, together 70, and the second 30.
        // Of the 70 MB/s, the first member is due 40 and 1/4 of 30, together 47.5, and the second
        // 22.5.
        assert_eq!(of(&groups), [1_000, 429, 1_000, 474, 100, 200]);
        // The tenant is due its own 60 MB/s and half of the other 40, together 80. The min of its
        // member is a part of that.
        let own = [
            node(None, 60, 100),
            node(None, 0, 100),
            node(Some(0), 40, 100),
        ];
        assert_eq!(
            of(&own),
            [1_000, 250, 1_000],
            "what a tenant is promised covers its members"
        );
    }

    #[test]
    fn without_promises_weights_are_shares() {
        let shares = |shares: [u16; 3]| of(&shares.map(|s| node(None, 0, s)));
        assert_eq!(shares([100, 200, 800]), [100, 200, 800]);
        assert_eq!(
            // The largest share is scaled to 1,000, and the others by the same factor.
            shares([100, 200, 5_000]),
            [20, 40, 1_000],
            "more than the largest weight"
        );
        // The scaled weight of the first would be 0.1, but a weight is at least 1.
        assert_eq!(shares([1, 200, 10_000]), [1, 20, 1_000]);
    }

    #[test]
    fn the_least_part_belongs_to_a_leaf_of_the_tree() {
        // Of 1,200, the first group gets 1/4, which is 300. The children of the second divide 900
        // into 300 and 600.
        let groups = [
            node(None, 0, 100),
            node(None, 0, 300),
            node(Some(1), 0, 100),
            node(Some(1), 0, 200),
        ];
        assert_eq!(least(&groups, &of(&groups), 1_200), Some(300));
        assert_eq!(least(&groups[..2], &of(&groups[..2]), 1_200), Some(300));
        assert_eq!(least(&[], &[], 1_200), None);
    }
}
