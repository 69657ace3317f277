//! Reserved places: the volumes that have them, and their number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Claim;

/// The maximum number of places that are reserved for one promise.
const RESERVED: usize = 16;

/// The promise of each volume that has one. Each promise has reserved places for connections to its
/// volumes, regardless of all other connections. The promise is either the volume's own, or that of
/// its tenant, whose volumes share the places.
#[derive(Clone, Debug, Default)]
pub struct Reservations {
    promises: BTreeMap<Arc<str>, usize>,
    count: usize,
}

impl Reservations {
    /// Creates reservations from pairs of a volume's name and the key of its promise.
    pub fn new<'a>(volumes: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Self {
        let names: BTreeSet<&str> = volumes.clone().map(|(_, promise)| promise).collect();
        // Promises are numbered in the order of their names, which is the same for every reload.
        let number = |promise| names.iter().take_while(|name| **name < promise).count();
        Self {
            promises: volumes
                .map(|(volume, promise)| (volume.into(), number(promise)))
                .collect(),
            count: names.len(),
        }
    }

    /// Returns the promise that reserves places for a claim, if there is one.
    pub(super) fn promise(&self, claim: &Claim) -> Option<usize> {
        self.promises.get(&claim.volume).copied()
    }

    /// Returns the number of the `most` places that are reserved for each promise: an equal part of
    /// half of the places, at least 1 and at most 16.
    pub(super) fn each(&self, most: usize) -> usize {
        // Half of the places remain for clients without a promise.
        (most / 2 / self.count.max(1)).clamp(1, RESERVED)
    }
}
