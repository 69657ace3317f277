//! Time divided among groups.

use std::collections::BTreeMap;

/// How much of some time belongs to each group, and how much to none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Share {
    groups: BTreeMap<u32, f64>,
    /// Nothing was in the drive.
    pub(crate) idle: f64,
}

impl Share {
    pub(crate) fn add(&mut self, group: u32, time: f64) {
        if time > 0.0 {
            *self.groups.entry(group).or_default() += time;
        }
    }

    /// Takes away up to `time` of a group's.
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

    /// `time` divided in the same ratios; none of it, if there is nothing to go by.
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
