//! The order in which connections are entitled to places.
//!
//! Places are divided evenly (max-min) at three levels: between owners, for each owner between
//! volumes, and for each of these between processes. Among equals the earlier connection comes
//! first. So the first *n* of the order are *n* places that are divided evenly, and the last one
//! belongs to the group that has the most.

use super::{Claim, Reservations};

/// A connection with or without a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Its number in the order of claims.
    pub(super) at: usize,
    age: u64,
    /// The numbers of its owner, of its volume among those of the owner, and of its process among
    /// those of the volume.
    groups: [usize; LEVELS],
    promise: Option<usize>,
    /// How many of its group come before it.
    turn: usize,
}

const LEVELS: usize = 3;

/// Those that have no place by a reservation, the most entitled first. `all` are claims and ages,
/// in the order of [`Claim::key`] and of age; of groups that are equal, that of the `newcomer`
/// comes last.
pub(super) fn unreserved(
    all: &[(&Claim, u64)],
    newcomer: usize,
    reservations: &Reservations,
    most: usize,
) -> Vec<Entry> {
    let mut entries = entries(all, reservations);
    let newcomer = entries[newcomer];
    // Stable: within a promise they stay in order.
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

/// Numbers the groups of each level.
fn entries(all: &[(&Claim, u64)], reservations: &Reservations) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::with_capacity(all.len());
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
        if let Some(level) = level {
            groups[level] += 1;
            groups[level + 1..].fill(0);
        }
        if level.is_some_and(|level| level < 2) {
            promise = reservations.promise(claim);
        }
        entries.push(Entry {
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

/// Orders entries, which are in the order of their groups and of age: the first of each group, then
/// the second of each, and so on.
fn take_turns(entries: &mut [Entry], newcomer: &Entry) {
    for level in (0..LEVELS).rev() {
        let is_one = |a: &Entry, b: &Entry| a.groups[..=level] == b.groups[..=level];
        for group in entries.chunk_by_mut(is_one) {
            for (turn, entry) in group.iter_mut().enumerate() {
                entry.turn = turn;
            }
        }
        entries.sort_unstable_by(|a, b| {
            let rank = |e: &Entry| (e.turn, is_one(e, newcomer), e.age);
            let above = a.groups[..level].cmp(&b.groups[..level]);
            above.then_with(|| rank(a).cmp(&rank(b)))
        });
    }
}
