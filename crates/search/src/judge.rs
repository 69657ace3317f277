//! Whether promises were kept.
//!
//! A promise is judged in whole seconds, aligned to the beginning of the run. In a second a group has to get 99 % of its min, times the
//! part of the second in which it had a request outstanding, less one request: the one that is under way when the second ends. Seconds
//! are not judged in which it had nothing outstanding for more than half of the time, in which a member came or went, in which its
//! contract changed, or that the drive was frozen in for a while.

use crate::case::Case;
use crate::watch::Watch;
use weir_core::{Contract, GroupId, Instant, Span};

const SECOND: u64 = 1_000_000_000;

/// What a promise is judged by, in thousandths of it.
pub const KEPT: u64 = 990;

/// What is asked of promised clients alone: four hundredths more.
pub const SPARE: u64 = KEPT * 104 / 100;

/// A promise in a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judged {
    /// Whose.
    pub group: GroupId,
    /// Which second of the run.
    pub second: u64,
    /// Bytes or requests that it got.
    pub served: u64,
    /// What it had to get. Zero for a promise that is less than the request under way.
    pub required: u64,
    /// The part of the second in which it waited, in thousandths.
    pub waited: u64,
}

impl Judged {
    /// What it got of what it had to get.
    pub fn ratio(&self) -> f64 {
        if self.required == 0 {
            return f64::INFINITY;
        }
        self.served as f64 / self.required as f64
    }

    /// Whether the promise was kept.
    pub fn is_kept(&self) -> bool {
        self.served >= self.required
    }
}

/// Judges all promises of a case in a run of it, by so many thousandths of them.
pub fn judge(case: &Case, watch: &Watch, thousandths: u64) -> Vec<Judged> {
    let ids = (1..=case.groups.len() as u32).map(GroupId);
    let promised = ids.filter(|g| case.is_promised(*g));
    promised
        .flat_map(|group| of_group(case, watch, group, thousandths))
        .collect()
}

/// The second with the least of what was required.
pub fn worst(judged: &[Judged]) -> Option<&Judged> {
    let order = |a: &&Judged, b: &&Judged| a.ratio().total_cmp(&b.ratio());
    judged.iter().min_by(order)
}

fn of_group<'a>(
    case: &'a Case,
    watch: &'a Watch,
    group: GroupId,
    thousandths: u64,
) -> impl Iterator<Item = Judged> + 'a {
    let node = watch.group(group);
    (0..case.seconds).filter_map(move |second| {
        if !is_judged(case, group, second) {
            return None;
        }
        let contract = contract_at(case, group, second);
        let seen = node.seconds[second as usize];
        let (min, served, one) = if contract.min_iops > 0 {
            (contract.min_iops, seen.requests, 1)
        } else {
            (contract.min, seen.bytes, node.longest)
        };
        if min == 0 || seen.waited < SECOND / 2 {
            return None;
        }
        let whole = u128::from(min) * u128::from(thousandths) * u128::from(seen.waited);
        let required = (whole / 1000 / u128::from(SECOND)) as u64;
        Some(Judged {
            group,
            second,
            served,
            required: required.saturating_sub(one),
            waited: seen.waited * 1000 / SECOND,
        })
    })
}

fn is_judged(case: &Case, group: GroupId, second: u64) -> bool {
    let (from, to) = (Span::from_secs(second), Span::from_secs(second + 1));
    let within = |at: Span| from < at && at < to;
    let frozen = case
        .freeze
        .is_some_and(|f| f.overlaps(Instant::ZERO + from, Instant::ZERO + to));
    let changed = case
        .changes
        .iter()
        .any(|c| c.group == group && within(c.at));
    let mut members = case
        .clients
        .iter()
        .filter(|c| case.path(c.group).any(|g| g == group));
    let moved = members.any(|c| within(c.arrives) || c.leaves.is_some_and(within));
    !(frozen || changed || moved)
}

/// The contract in force from the beginning of a second on.
fn contract_at(case: &Case, group: GroupId, second: u64) -> Contract {
    let before = |at: Span| at <= Span::from_secs(second);
    let changes = case.changes.iter().filter(|c| c.group == group);
    let last = changes
        .filter(|c| before(c.at))
        .max_by_key(|c| c.at.as_nanos());
    last.map_or_else(|| case.group(group), |c| c.contract)
}
