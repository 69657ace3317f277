//! Which volumes have places of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Claim;

/// Most places that one promise has for its own volumes.
const RESERVED: usize = 16;

/// Volumes with a promise, and the promise of each: its own, or its tenant's for several volumes
/// together. The places of each promise are taken by its volumes' connections before all others,
/// whatever the others do.
#[derive(Clone, Debug, Default)]
pub struct Reservations {
    promises: BTreeMap<Arc<str>, usize>,
    count: usize,
}

impl Reservations {
    /// For volumes, each with a name of its promise.
    pub fn new<'a>(volumes: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Self {
        let names: BTreeSet<&str> = volumes.clone().map(|(_, promise)| promise).collect();
        let number = |promise| names.iter().take_while(|name| **name < promise).count();
        Self {
            promises: volumes
                .map(|(volume, promise)| (volume.into(), number(promise)))
                .collect(),
            count: names.len(),
        }
    }

    /// The promise that a claim's place is reserved by, if there is one.
    pub(super) fn promise(&self, claim: &Claim) -> Option<usize> {
        self.promises.get(&claim.volume).copied()
    }

    /// How many of `most` places each promise has: its part of half of them, at most 16, and at
    /// least one.
    pub(super) fn each(&self, most: usize) -> usize {
        (most / 2 / self.count.max(1)).clamp(1, RESERVED)
    }
}
