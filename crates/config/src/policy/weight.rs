//! Weights in proportion to what each group is due of the drive.

use weir_core::{Capacity, Contract};

/// A group of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    /// The place of what it hangs on, which comes before it; `None`: the root.
    pub parent: Option<usize>,
    /// Its contract, as it is written.
    pub contract: Contract,
}

/// What a promised request counts as where the drive's requests a second are not known, bytes.
const REQUEST: f64 = 4096.0;

/// At least a ninth of what is promised is left beside it: promises are nine tenths of a drive at most, and are taken for as much where the
/// capacity is not known.
const PROMISED_TO_REST: f64 = 9.0;

/// The weight of each group among its siblings, 1 to `most`. Where one of them is promised something, weights are in proportion to what
/// each is due: its min, and its part by share of what the mins leave of its parent's due. The drive's is its capacity. Where none is,
/// weights are the shares, or in proportion to them if one is above `most`.
pub(super) fn weights(capacity: Option<Capacity>, groups: &[Node], most: u16) -> Vec<u16> {
    let below = below(groups);
    let promised = promised(capacity, groups);
    let mut due = vec![0.0; groups.len()];
    let mut weights = vec![0; groups.len()];
    let drive = capacity.map_or(0.0, |c| c.bytes() as f64);
    for (place, members) in below.iter().enumerate() {
        let all: f64 = members.iter().map(|&m| promised[m]).sum();
        let parent = match place.checked_sub(1) {
            Some(parent) => due[parent],
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

/// The least that a group without others below it gets of `rate` where all ask: parts by these weights at each level.
pub(super) fn least(groups: &[Node], weights: &[u16], rate: u64) -> Option<u64> {
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

/// What hangs on the root, and on each group. Groups come behind what they hang on, as in `groups`.
fn below(groups: &[Node]) -> Vec<Vec<usize>> {
    let mut below = vec![Vec::new(); groups.len() + 1];
    for (member, group) in groups.iter().enumerate() {
        below[group.parent.map_or(0, |parent| parent + 1)].push(member);
    }
    below
}

/// What each group is promised, in bytes a second: its own min, else what those below it are promised.
fn promised(capacity: Option<Capacity>, groups: &[Node]) -> Vec<f64> {
    let request = match capacity.map(|c| (c.bytes(), c.requests())) {
        Some((bytes, requests)) if requests > 0 => bytes as f64 / requests as f64,
        _ => REQUEST,
    };
    let own = |c: &Contract| c.min as f64 + c.min_iops as f64 * request;
    let mut promised: Vec<f64> = vec![0.0; groups.len()];
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

    fn node(parent: Option<usize>, min: u64, share: u16) -> Node {
        let contract = Contract::DEFAULT
            .with_min(min * 1_000_000)
            .with_share(share);
        Node { parent, contract }
    }

    fn of(groups: &[Node]) -> Vec<u16> {
        weights(Some(DRIVE), groups, 1_000)
    }

    #[test]
    fn a_rival_without_a_min_is_due_its_part_of_the_rest() {
        // 20 MB/s and a fifth of 80, and four fifths.
        let groups = [node(None, 20, 100), node(None, 0, 400)];
        assert_eq!(of(&groups), [563, 1_000]);
        let equal = [node(None, 10, 100), node(None, 10, 100)];
        assert_eq!(of(&equal), [1_000, 1_000]);
    }

    #[test]
    fn promised_requests_are_the_drives_time_that_they_take() {
        let mut groups = [node(None, 0, 100), node(None, 0, 100)];
        groups[0].contract.min_iops = 5_000;
        // Half of the drive and half of the other half.
        assert_eq!(of(&groups), [1_000, 333]);
        let unknown = Capacity { iops: 0, ..DRIVE };
        // 5,000 of 4 KiB are 20.48 MB/s.
        assert_eq!(weights(Some(unknown), &groups, 1_000), [1_000, 660]);
    }

    #[test]
    fn where_the_capacity_is_not_known_promises_are_nine_tenths_of_it() {
        let groups = [node(None, 9, 100), node(None, 0, 100)];
        assert_eq!(weights(None, &groups, 1_000), [1_000, 53], "9.5 and 0.5");
        let more = [node(None, 180, 100), node(None, 0, 100)];
        assert_eq!(of(&more), [1_000, 53], "more than the drive does");
    }

    #[test]
    fn a_tenant_is_due_what_its_members_are_and_they_divide_it() {
        let groups = [
            node(None, 0, 100),
            node(None, 0, 100),
            node(Some(0), 40, 100),
            node(Some(0), 0, 300),
            node(Some(1), 0, 100),
            node(Some(1), 0, 200),
        ];
        // The first tenant 40 and half of 60: of its 70 a member is due 40 and a quarter of 30.
        assert_eq!(of(&groups), [1_000, 429, 1_000, 474, 100, 200]);
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
            shares([100, 200, 5_000]),
            [20, 40, 1_000],
            "more than the largest weight"
        );
        assert_eq!(shares([1, 200, 10_000]), [1, 20, 1_000]);
    }

    #[test]
    fn the_least_part_is_that_of_a_leaf() {
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
