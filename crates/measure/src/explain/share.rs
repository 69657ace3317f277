//! A period of time, divided among groups.

use std::collections::BTreeMap;

/// The part of a period that belongs to each group, and the part that belongs to none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Share {
    groups: BTreeMap<u32, f64>,
    /// The part in which nothing was in the drive.
    pub(crate) idle: f64,
}

impl Share {
    pub(crate) fn add(&mut self, group: u32, time: f64) {
        if time > 0.0 {
            *self.groups.entry(group).or_default() += time;
        }
    }

    /// Removes up to `time` from the part of a group.
    pub(crate) fn take(&mut self, group: u32, time: f64) {
        if let Some(of) = self.groups.get_mut(&group) {
            *of = (*of - time).max(0.0);
        }
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.groups.iter().map(|(group, time)| (*group, *time))
    }

    pub(crate) fn total(&self) -> f64 {
        self.idle + self.groups.values().sum::<f64>()
    }

    /// Returns `time` divided in the same ratios, or an empty share if the ratios are not known.
    pub(crate) fn scaled(&self, time: f64) -> Self {
        let total = self.total();
        if total <= 0.0 {
            return Self::default();
        }
        let by = time / total;
        let groups = self.groups().map(|(group, of)| (group, of * by));
        Self {
            groups: groups.collect(),
            idle: self.idle * by,
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        other
            .groups()
            .for_each(|(group, time)| self.add(group, time));
        self.idle += other.idle;
    }
}
