//! Verdicts about promises.
//!
//! A promise is judged in whole seconds, aligned to the start of the run. In a second a group must get 99 % of its min, times the
//! part of the second in which it had a request outstanding, less one request: the one that is in flight when the second ends. A
//! second is not judged if the group had nothing outstanding for more than half of the time, if a member connected or left in it,
//! if the group's contract changed in it, or if the drive was frozen for a part of it. contract changed, or that the drive was
//! frozen in for a while.

use crate::case::Case;
use crate::watch::Watch;
use weir_core::{Contract, GroupId, Instant, Span};

const SECOND: u64 = 1_000_000_000;

/// The part of a promise that must be kept, in thousandths.
pub const KEPT: u64 = 990;

/// The additional part that promised clients alone must get: four hundredths.
pub const SPARE: u64 = KEPT * 104 / 100;

/// A promise in one second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judged {
    /// The group.
    pub group: GroupId,
    /// The second of the run.
    pub second: u64,
    /// Bytes or requests that it was served.
    pub served: u64,
    /// What it had to get. Zero if the promise is less than the request in flight.
    pub required: u64,
    /// The part of the second in which it waited, in thousandths.
    pub waited: u64,
}

impl Judged {
    /// What it was served relative to what it had to get.
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

/// Judges all promises of a case in a run of it, by this many thousandths of them.
pub fn judge(case: &Case, watch: &Watch, thousandths: u64) -> Vec<Judged> {
    let ids = (1..=case.groups.len() as u32).map(GroupId);
    let promised = ids.filter(|g| case.is_promised(*g));
    promised
        .flat_map(|group| of_group(case, watch, group, thousandths))
        .collect()
}

/// The second with the lowest ratio.
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

/// The contract in force at the start of a second.
fn contract_at(case: &Case, group: GroupId, second: u64) -> Contract {
    let before = |at: Span| at <= Span::from_secs(second);
    let changes = case.changes.iter().filter(|c| c.group == group);
    let last = changes
        .filter(|c| before(c.at))
        .max_by_key(|c| c.at.as_nanos());
    last.map_or_else(|| case.group(group), |c| c.contract)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::play;
    use weir_sim::Policy;

    /// On the demo's drive a request of 4 KiB takes 46 384 ns: 88.3 MB/s with one after the other.
    fn judged(parts: &str) -> Vec<Judged> {
        let text = format!("case name=x {parts}");
        let case: Case = text.parse().expect("a case");
        let played = play(&case, &Policy::none(), false).expect("it can be played");
        judge(&case, &played.watch, KEPT)
    }

    const DEMO: &str = "drive=demo capacity=1GB/s,1GB/s,0";

    fn seconds(judged: &[Judged]) -> Vec<u64> {
        judged.iter().map(|j| j.second).collect()
    }

    #[test]
    fn a_promise_is_kept_to_the_hundredth_less_a_request() {
        let with = |min: u64| {
            judged(&format!(
                "seconds=3 {DEMO}; group min={min}B/s; client group=1 size=4KiB"
            ))
        };
        let rate = 4096 * (1_000_000_000 / 46_384);
        for (min, kept) in [
            (rate, true),
            (rate * 100 / 99, true),
            (rate * 102 / 99, false),
        ] {
            let judged = with(min);
            assert_eq!(seconds(&judged), [0, 1, 2]);
            assert!(judged.iter().all(|j| j.is_kept() == kept), "{judged:?}");
        }
        let worst = with(2 * rate);
        let ratio = super::worst(&worst).expect("one was judged").ratio();
        assert!((0.504..0.506).contains(&ratio), "1 / (2 * 0.99): {ratio}");
        assert_eq!(with(1000)[0].required, 0, "less than the request under way");
    }

    #[test]
    fn requests_are_counted_where_these_were_promised() {
        let text = format!("seconds=1 {DEMO}; group iops=1000; client group=1 size=4KiB");
        let judged = judged(&text);
        assert_eq!((judged[0].required, judged[0].is_kept()), (989, true));
        assert!((21_500..21_600).contains(&judged[0].served));
    }

    #[test]
    fn gaps_are_taken_out_and_seconds_of_little_waiting_are_not_judged() {
        let with = |think: &str| {
            judged(&format!(
                "seconds=2 {DEMO}; group min=40MB/s; client group=1 size=4KiB think={think}"
            ))
        };
        // 46.4 us of every 66.4 us, then of every 106.4 us.
        let judged = with("20us");
        assert_eq!(seconds(&judged), [0, 1]);
        assert!((695..=700).contains(&judged[0].waited), "{judged:?}");
        assert!(judged.iter().all(Judged::is_kept));
        assert!(with("60us").is_empty());
    }

    #[test]
    fn a_tenant_is_judged_by_all_its_members() {
        let text = format!(
            "seconds=1 {DEMO}; group min=100MB/s; group parent=1; group parent=1; client group=2 size=4KiB; client group=3 size=4KiB"
        );
        let judged = judged(&text);
        assert_eq!((judged.len(), judged[0].group), (1, GroupId(1)));
        assert!(judged[0].is_kept() && judged[0].served > 110_000_000);
    }

    #[test]
    fn seconds_of_freezes_changes_comings_and_goings_are_not_judged() {
        let client = "client group=1 size=4KiB";
        let with = |head: &str, rest: &str| {
            seconds(&judged(&format!(
                "seconds=6 {DEMO} {head}; group min=1MB/s; {rest}"
            )))
        };
        let frozen = with("freeze=1500ms,1s,5s", client);
        assert_eq!(frozen, [0, 3, 4, 5]);
        assert_eq!(with("", &format!("{client} arrives=2500ms")), [3, 4, 5]);
        assert_eq!(
            with("", &format!("{client} arrives=2s leaves=4500ms")),
            [2, 3]
        );
        let changed = format!("{client}; change at=1500ms group=1; change at=4s group=1 min=2MB/s");
        assert_eq!(
            with("", &changed),
            [0, 4, 5],
            "nothing is promised from 2 s to 4 s"
        );
    }
}
