//! Verdicts about the promises of a case, second by second.
//!
//! Each whole second of a group is judged by the rules of [`promise`](weir_measure::promise). A
//! tenant is judged by the sum over its members and the time in which any of them waited. Seconds
//! are left out if the promise did not apply in them, if a member connected or left, if the group's
//! contract changed, or if the drive was frozen for a while.

use crate::search::case::SearchCase;
use crate::search::watch::GroupWatch;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_core::{Contract, GroupId, Instant, Span};
use weir_measure::promise::{Judge, PromiseVerdict, PromisedRate, Terms};

/// The part of their min, in hundredths, that promised clients must get without the others.
pub const SPARE: u64 = 104;

/// The verdict about a promise in one second in which it applied.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct JudgedSecond {
    /// The group to which the promise was made.
    #[serde(serialize_with = "write_group", deserialize_with = "read_group")]
    pub group: GroupId,
    /// The second of the run, from 0.
    pub second: u64,
    /// The bytes or requests that the group was served.
    pub served: u64,
    /// The bytes or requests that the group was owed.
    pub owed: u64,
    /// The amount that was missing, or zero if the promise was kept.
    pub lacks: u64,
}

fn write_group<S: Serializer>(group: &GroupId, to: S) -> Result<S::Ok, S::Error> {
    group.0.serialize(to)
}

fn read_group<'a, D: Deserializer<'a>>(from: D) -> Result<GroupId, D::Error> {
    u32::deserialize(from).map(GroupId)
}

impl JudgedSecond {
    /// Returns the part of the owed amount that the group got, from 0 to 1. It is 1 if the promise
    /// was kept.
    pub fn part(&self) -> f64 {
        if self.is_kept() {
            return 1.0;
        }
        self.owed.saturating_sub(self.lacks) as f64 / self.owed.max(1) as f64
    }

    /// Returns true if the promise was kept.
    pub fn is_kept(&self) -> bool {
        self.lacks == 0
    }
}

/// Judges all promises of a case in a run of it, as if each were `hundredths` per cent of its
/// value.
pub fn judge(case: &SearchCase, watch: &GroupWatch, hundredths: u64) -> Vec<JudgedSecond> {
    let ids = case.groups();
    let promised = ids.filter(|g| case.is_promised(*g));
    promised
        .flat_map(|group| of_group(case, watch, group, hundredths))
        .collect()
}

/// Returns the second in which the smallest part of the owed amount was served.
pub fn worst(judged: &[JudgedSecond]) -> Option<&JudgedSecond> {
    let order = |a: &&JudgedSecond, b: &&JudgedSecond| a.part().total_cmp(&b.part());
    judged.iter().min_by(order)
}

/// Returns the number of promises that were kept in every judged second.
pub fn count_kept(judged: &[JudgedSecond]) -> usize {
    // The verdicts of one promise follow one another.
    judged
        .chunk_by(|a, b| a.group == b.group)
        .filter(|seconds| seconds.iter().all(JudgedSecond::is_kept))
        .count()
}

fn of_group<'a>(
    case: &'a SearchCase,
    watch: &'a GroupWatch,
    group: GroupId,
    hundredths: u64,
) -> impl Iterator<Item = JudgedSecond> + 'a {
    let (mut judge, mut units) = (Judge::default(), None);
    let seconds = (0..case.seconds()).zip(&watch.group(group).seconds);
    seconds.filter_map(move |(second, seen)| {
        let contract = contract_at(case, group, second);
        // A promise that is scaled up shows whether there is a reserve.
        let of = |min: u64| min * hundredths / 100;
        let rate = PromisedRate::new(of(contract.min), of(contract.min_iops));
        if rate.map(|r| r.units) != units {
            // A promise in other units begins without credit.
            (judge, units) = (Judge::default(), rate.map(|r| r.units));
        }
        let (rate, alone) = (rate?, None);
        let owed = rate.during(seen.waited_ns);
        // A second that is left out is judged as well, because the request that it began with may
        // have been credited to the second before.
        let lacks = match judge.second(seen, &Terms { rate, alone }, owed) {
            PromiseVerdict::Kept => 0,
            PromiseVerdict::Short { by, .. } => by,
            PromiseVerdict::Excused(_) => return None,
        };
        (!is_excluded(case, group, second)).then_some(JudgedSecond {
            group,
            second,
            served: rate.units.of(seen.done),
            owed,
            lacks,
        })
    })
}

fn is_excluded(case: &SearchCase, group: GroupId, second: u64) -> bool {
    let (from, to) = (Span::from_secs(second), Span::from_secs(second + 1));
    let within = |at: Span| from < at && at < to;
    // No scheduler can serve requests while the drive is frozen.
    let frozen = case
        .scenario
        .freeze
        .is_some_and(|f| f.overlaps(Instant::ZERO + from, Instant::ZERO + to));
    let changed = case
        .scenario
        .changes
        .iter()
        .any(|c| c.group == group && within(c.at));
    let mut members = case
        .scenario
        .clients
        .iter()
        .filter(|c| case.path(c.group).any(|g| g == group));
    let moved = members.any(|c| within(c.arrives) || c.leaves.is_some_and(within));
    frozen || changed || moved
}

/// Returns the contract in force at the start of a second.
fn contract_at(case: &SearchCase, group: GroupId, second: u64) -> Contract {
    let before = |at: Span| at <= Span::from_secs(second);
    let changes = case.scenario.changes.iter().filter(|c| c.group == group);
    let last = changes
        .filter(|c| before(c.at))
        .max_by_key(|c| c.at.as_nanos());
    last.map_or_else(|| case.group(group), |c| c.contract)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::case::reader;
    use crate::search::trial::play;
    use weir_model::load::Size;
    use weir_sim::Policy;

    fn judged_by(case: &SearchCase, hundredths: u64) -> Vec<JudgedSecond> {
        let played = play(case, &Policy::none(), false).expect("it can be played");
        judge(case, &played.watch, hundredths)
    }

    fn judged(head: &str, more: &str) -> Vec<JudgedSecond> {
        judged_by(&reader(head, more), 100)
    }

    /// The bandwidth of one request after the other on the demo's drive, where a request of 4 KiB
    /// takes 46,384 ns: 88.3 MB/s.
    const RATE: u64 = 4096 * (1_000_000_000 / 46_384);

    fn seconds(judged: &[JudgedSecond]) -> Vec<u64> {
        judged.iter().map(|j| j.second).collect()
    }

    #[test]
    fn every_second_is_judged_by_the_given_percentage_of_the_promise() {
        let with = |min: u64, hundredths| {
            let case = reader("duration = \"3s\"", &format!("min = \"{min}B/s\""));
            judged_by(&case, hundredths)
        };
        // A second may lack 1 % of the min, so the limit is at the rate divided by 0.99. With
        // `SPARE`, the promise counts as 4 % more.
        for (min, hundredths, kept) in [
            (RATE * 100 / 99, 100, true),
            (RATE * 102 / 99, 100, false),
            (RATE * 100 / 104, SPARE, true),
            (RATE * 100 / 102, SPARE, false),
        ] {
            let judged = with(min, hundredths);
            assert_eq!(seconds(&judged), [0, 1, 2]);
            assert!(judged.iter().all(|j| j.is_kept() == kept), "{judged:?}");
        }
        let half = with(2 * RATE, 100);
        let part = worst(&half).expect("one was judged").part();
        assert!((0.499..0.501).contains(&part), "{part}");
    }

    #[test]
    fn a_promise_in_requests_counts_requests() {
        let judged = judged("duration = \"1s\"", "min_iops = 1000");
        // A request takes 46,384 ns, so that about 21,559 are served in a second.
        assert_eq!((judged[0].owed, judged[0].is_kept()), (1000, true));
        assert!((21_500..21_600).contains(&judged[0].served));
    }

    #[test]
    fn a_promise_of_requests_inherits_no_debt_of_a_promise_of_bytes() {
        let min = 2 * RATE;
        let more = format!(
            "min = \"{min}B/s\"\n[[change]]\nwhen = \"2s\"\nwhose = \"a\"\nmin_iops = 20000"
        );
        // Twice the possible rate is promised in bytes until 2 s, and a possible rate in requests
        // from then on.
        let judged = judged("duration = \"4s\"", &more);
        let kept: Vec<bool> = judged.iter().map(JudgedSecond::is_kept).collect();
        assert_eq!(kept, [false, false, true, true]);
    }

    /// A request ends every 600 ms. The one in flight at the end of the first second is credited to
    /// it, and not again to the second one.
    #[test]
    fn a_request_is_not_credited_to_two_seconds() {
        let min = "min = \"106250B/s\"";
        let mut case = reader(
            "duration = \"3s\"\n\
             drives = [{ kind = \"null\", service = \"600ms\", tags = 1, queues = 1, command = \"128KiB\" }]",
            &format!("{min}\n[[change]]\nwhen = \"1500ms\"\nwhose = \"a\"\n{min}"),
        );
        case.scenario.clients[0].program.size = Size::Fixed(64 << 10);
        let judged = judged_by(&case, 100);
        // The change at 1.5 s leaves out the second 1.
        assert_eq!(seconds(&judged), [0, 2]);
        assert!(judged.iter().all(JudgedSecond::is_kept), "{judged:?}");
    }

    #[test]
    fn a_tenant_is_judged_by_all_its_members() {
        let tenant = "duration = \"1s\"\n[[group]]\nname = \"t\"\nmin = \"100MB/s\"\n\
                      [[group]]\nname = \"m\"\nparent = \"t\"\n[[group]]\nname = \"n\"\nparent = \"t\"";
        let other = "[[client]]\nname = \"b\"\nrw = \"randread\"\nsize = \"1GiB\"\ndirect = true";
        let more = format!("group = \"m\"\n{other}\ngroup = \"n\"");
        let judged = judged(tenant, &more);
        assert_eq!((judged.len(), judged[0].group), (1, GroupId(1)));
        assert!(judged[0].is_kept() && judged[0].served > 110_000_000);
    }

    #[test]
    fn seconds_with_freezes_changes_arrivals_or_departures_are_left_out() {
        let with = |head: &str, more: &str| {
            let head = format!("duration = \"6s\"\n{head}");
            seconds(&judged(&head, &format!("min = \"1MB/s\"\n{more}")))
        };
        let freeze = "freeze = { first = \"1500ms\", length = \"1s\", every = \"5s\" }";
        // A freeze from 1.5 to 2.5 s leaves out the seconds 1 and 2.
        assert_eq!(with(freeze, ""), [0, 3, 4, 5]);
        // The promise applies from the arrival on, and the second of the arrival is left out.
        assert_eq!(with("", "arrives = \"2500ms\""), [3, 4, 5]);
        assert_eq!(with("", "arrives = \"2s\"\nleaves = \"4500ms\""), [2, 3]);
        let changed = "[[change]]\nwhen = \"1500ms\"\nwhose = \"a\"\n\
                       [[change]]\nwhen = \"4s\"\nwhose = \"a\"\nmin = \"2MB/s\"";
        assert_eq!(
            with("", changed),
            [0, 4, 5],
            "nothing is promised from 2 s to 4 s"
        );
    }
}
