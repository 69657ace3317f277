//! The order in which connections are entitled to places.
//!
//! Places are divided evenly (max-min fairness) at three levels: among owners, among the volumes of
//! each owner, and among the processes of each of these volumes. Within a group, an earlier
//! connection precedes a later one. The first *n* connections of the order are therefore an even
//! division of *n* places, and the last connection of the order belongs to the group with the most
//! places.

use super::{Claim, Reservations};

/// A connection in the division, with or without a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct DivisionEntry {
    /// The connection's index in the order of claims.
    pub(super) at: usize,
    age: u64,
    /// The indices of the connection's owner, of its volume among the owner's volumes, and of its
    /// process among the processes of that volume.
    groups: [usize; LEVELS],
    promise: Option<usize>,
    /// The number of connections of the same group that precede this one.
    turn: usize,
}

const LEVELS: usize = 3;

/// Returns the connections whose place is not reserved, the most entitled first. `all` contains
/// claims and ages in the order of [`Claim::key`] and then of age. If groups are equal, the group
/// of the `newcomer` comes last, so that a newcomer cannot displace a connection of an equal group.
pub(super) fn unreserved(
    all: &[(&Claim, u64)],
    newcomer: usize,
    reservations: &Reservations,
    most: usize,
) -> Vec<DivisionEntry> {
    let mut entries = entries(all, reservations);
    let newcomer = entries[newcomer];
    // The sort is stable, so that entries of one promise stay in their order.
    entries.sort_by_key(|entry| entry.promise);
    let mut rest = Vec::with_capacity(entries.len());
    for members in entries.chunk_by_mut(|a, b| a.promise == b.promise) {
        let own = members[0].promise.map_or(0, |_| reservations.each(most));
        if own > 0 {
            take_turns(members, &newcomer);
        }
        rest.extend_from_slice(&members[own.min(members.len())..]);
    }
    rest.sort_unstable_by_key(|entry| entry.at);
    take_turns(&mut rest, &newcomer);
    rest
}

/// Creates the entries, with the indices of their groups at each level.
fn entries(all: &[(&Claim, u64)], reservations: &Reservations) -> Vec<DivisionEntry> {
    let mut entries: Vec<DivisionEntry> = Vec::with_capacity(all.len());
    let mut before: Option<&Claim> = None;
    for (at, (claim, age)) in all.iter().enumerate() {
        let last = entries.last();
        let (mut groups, mut promise) = last.map_or(([0; LEVELS], None), |e| (e.groups, e.promise));
        let (owner, volume, process) = claim.key();
        let level = before.map(Claim::key).map_or(Some(0), |last| match last {
            (last, ..) if last != owner => Some(0),
            (_, last, _) if last != volume => Some(1),
            (_, _, last) if last != process => Some(2),
            _ => None,
        });
        // A new group restarts the numbering of the levels below it.
        if let Some(level) = level {
            groups[level] += 1;
            groups[level + 1..].fill(0);
        }
        // The promise depends on the volume only, so it changes at the first two levels.
        if level.is_some_and(|level| level < 2) {
            promise = reservations.promise(claim);
        }
        entries.push(DivisionEntry {
            at,
            age: *age,
            groups,
            promise,
            turn: 0,
        });
        before = Some(claim);
    }
    entries
}

/// Sorts entries, which are in the order of their groups and of age, in round-robin order: the
/// first entry of each group, then the second of each group, and so on.
fn take_turns(entries: &mut [DivisionEntry], newcomer: &DivisionEntry) {
    // From the innermost level outwards, so that the turns of an outer level follow the order that
    // the inner levels have produced.
    for level in (0..LEVELS).rev() {
        let is_one =
            |a: &DivisionEntry, b: &DivisionEntry| a.groups[..=level] == b.groups[..=level];
        for group in entries.chunk_by_mut(is_one) {
            for (turn, entry) in group.iter_mut().enumerate() {
                entry.turn = turn;
            }
        }
        entries.sort_unstable_by(|a, b| {
            let rank = |e: &DivisionEntry| (e.turn, is_one(e, newcomer), e.age);
            let above = a.groups[..level].cmp(&b.groups[..level]);
            above.then_with(|| rank(a).cmp(&rank(b)))
        });
    }
}
