//! Explains the results of a cell in words, from the split of the requests' time.

use super::pooled::{MeanSplit, PooledRuns};
use crate::policies::is_none;
use weir_config::Policy;
use weir_config::scenario::{Requirement, Script};
use weir_lab::report::capital;
use weir_measure::explain::{LatencySentence, SentencePlace, list};
use weir_measure::number::{figure, percent, plain, short as digits};
use weir_measure::promise::Fate;

/// The results with which the cell of a policy is compared. All of them are of the same case.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReferenceRuns<'a> {
    pub(super) none: Option<&'a PooledRuns>,
    pub(super) bfq: Option<&'a PooledRuns>,
    /// The name of the clients other than the target, for example `readers`.
    pub(super) others: &'a str,
}

/// The smallest fraction of the time that is mentioned. Smaller parts do not explain a result.
const NOTICEABLE: f64 = 0.02;

/// Returns a phrase with the place in which the target's requests spent most of their time, and
/// with the effect on the other clients.
pub(super) fn short(
    name: &str,
    policy: &Policy,
    pooled: &PooledRuns,
    beside: &ReferenceRuns<'_>,
) -> String {
    let Some((part, place)) = main_part(&pooled.split) else {
        return format!("{name} no request was answered");
    };
    let share = percent(pooled.split.fraction(part));
    let fate = EffectOnOthers::new(pooled, beside);
    let parts = [
        fate.held.map(|p| format!("{} held back", percent(p))),
        fate.idling
            .map(|p| format!("{} waiting while the elevator idles", percent(p))),
        fate.left.map(|p| format!("keep {}", percent(p))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match (&parts[..], policy) {
        ([], policy) if is_none(policy) => format!("{name} {share} {place}"),
        ([], _) => format!("{name} {share} {place} (others not held back)"),
        (some, _) => format!("{name} {share} {place} (others {})", some.join(", ")),
    }
}

/// Returns the explanation of a run under a kernel, which does not report where requests spend
/// their time.
pub(super) fn of_kernel(pooled: &PooledRuns) -> String {
    let total = figure(pooled.total_mb_per_s);
    format!(
        "All together get {total} MB/s; the kernel does not tell where the time of requests goes."
    )
}

/// Returns one or more sentences: where the target's requests spent their time, the effect on the
/// other clients, the total, and the promise.
pub(super) fn sentence(
    script: &Script,
    policy: &Policy,
    pooled: &PooledRuns,
    beside: &ReferenceRuns<'_>,
) -> String {
    let Some((part, place)) = main_part(&pooled.split) else {
        return "No request of the target was answered.".into();
    };
    let (whole, others) = (pooled.split.total(), beside.others);
    let behind = pooled
        .depth
        .filter(|_| place == SentencePlace::Queue.words());
    let behind = behind.map_or_else(String::new, |depth| {
        let depth = digits(depth);
        format!("behind commands of the {others}: {depth} are in the drive on average")
    });
    let takes = LatencySentence {
        of: "the target",
        us: whole,
        place,
        part: part / whole,
        behind: &behind,
    };
    let mut text = vec![takes.to_string()];
    let fate = EffectOnOthers::new(pooled, beside);
    let parts = [
        (fate.held).map(|p| format!("are held back for {} of their time", percent(p))),
        (fate.idling).map(|p| {
            format!(
                "wait while the elevator idles for {} of their time",
                percent(p)
            )
        }),
        (fate.left).map(|p| format!("get {} of what they get under none", percent(p))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match (&parts[..], policy) {
        ([], policy) if is_none(policy) => {}
        ([], _) => text.push(format!("The {others} are not held back.")),
        (some, _) => text.push(format!("The {others} {}.", list(some))),
    }
    let total = figure(pooled.total_mb_per_s);
    let busy = pooled.busy.map_or_else(String::new, |busy| {
        format!("; the drive is busy for {} of the time", percent(busy))
    });
    text.push(format!("All together get {total} MB/s{busy}."));
    text.extend(verdict(script, policy, pooled, beside).map(|v| capital(&v)));
    text.join(" ")
}

/// The effect on the other clients, as fractions (0 to 1). A part is `None` if it is too small to
/// be mentioned.
struct EffectOnOthers {
    /// The fraction of their requests' time in which a controller throttled them.
    held: Option<f64>,
    idling: Option<f64>,
    /// Their bandwidth as a fraction of that under `none`, if it is lower.
    left: Option<f64>,
}

impl EffectOnOthers {
    fn new(pooled: &PooledRuns, beside: &ReferenceRuns<'_>) -> Self {
        let split = &pooled.others;
        let noticed = |part: f64| Some(split.fraction(part)).filter(|p| *p >= NOTICEABLE);
        let rest = |p: &PooledRuns| p.total_mb_per_s - p.target_mb_per_s;
        // The fraction is undefined if the others get nothing under `none`.
        let none = beside.none.filter(|none| rest(none) > 0.0);
        let left = none.map(|none| rest(pooled) / rest(none));
        Self {
            held: noticed(split.at(SentencePlace::Held)),
            idling: noticed(split.at(SentencePlace::Idling)),
            left: left.filter(|left| *left <= 1.0 - NOTICEABLE),
        }
    }
}

/// Returns the fate of the promise to the target, and the bandwidth that is left to the others,
/// compared with `bfq`. Returns `None` if there is no promise, or if the scenario does not require
/// it under this policy.
pub(super) fn verdict(
    script: &Script,
    policy: &Policy,
    pooled: &PooledRuns,
    beside: &ReferenceRuns<'_>,
) -> Option<String> {
    let name = &policy.name;
    let promises = script.expects().iter();
    let mut promises = promises.filter(|e| matches!(e.asked, Requirement::Promise(_)));
    // A scenario can require its promise under some of the policies only.
    promises.find(|e| e.is_required(name))?;
    let promise = pooled.promise?;
    let (got, promised) = (figure(pooled.target_mb_per_s), plain(promise.mb_per_s));
    let got = format!("{got} of {promised} MB/s promised");
    let worst = promise.worst_mb_per_s.map_or_else(String::new, |worst| {
        format!(" ({} in the worst second)", figure(worst))
    });
    let kept = match (promise.fate, promise.alone_mb_per_s) {
        (Fate::OutOfReach, Some(alone)) => {
            format!("out of reach: {got}; alone it gets {} MB/s", figure(alone))
        }
        (Fate::Broken, _) => format!("not kept: {got}{worst}"),
        (fate, _) => format!("{}: {got}{worst}", fate.name()),
    };
    let rest = |p: &PooledRuns| figure(p.total_mb_per_s - p.target_mb_per_s);
    // A comparison of `bfq` with itself would state nothing.
    let bfq = beside.bfq.filter(|_| policy.name != "bfq");
    let beside = bfq.map_or_else(String::new, |bfq| {
        let (mine, bfq) = (rest(pooled), rest(bfq));
        format!("; the others get {mine} MB/s, and {bfq} under bfq")
    });
    Some(format!("{name}: {kept}{beside}."))
}

/// Returns the largest part of a split and its name, or `None` if no request completed.
fn main_part(split: &MeanSplit) -> Option<(f64, &'static str)> {
    let parts = split.0.into_iter().zip(MeanSplit::NAMES);
    let largest = parts.max_by(|a, b| a.0.total_cmp(&b.0));
    largest.filter(|(part, _)| *part > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::pooled::TargetPromise;
    use crate::compare::spread::RunSpread;
    use weir_measure::Histogram;

    fn named(name: &str) -> Policy {
        weir_config::policy::find(name).unwrap()
    }

    fn pooled(
        target: MeanSplit,
        others: MeanSplit,
        target_mb_per_s: f64,
        total_mb_per_s: f64,
    ) -> PooledRuns {
        PooledRuns {
            latency: Histogram::new(),
            split: target,
            others,
            spread: RunSpread::default(),
            total_mb_per_s,
            target_mb_per_s,
            fairness: None,
            depth: Some(31.0),
            busy: Some(0.97),
            rings: None,
            promise: None,
        }
    }

    fn latency() -> Script {
        weir_config::scenario::find("latency").unwrap()
    }

    fn queued() -> MeanSplit {
        // 38 ms of 39 ms are 97 %.
        MeanSplit([0.0, 0.0, 0.0, 38_000.0, 1_000.0, 0.0])
    }

    #[test]
    fn the_largest_part_and_the_effect_on_others_are_named() {
        let none = pooled(queued(), queued(), 0.1, 500.1);
        let served = MeanSplit([0.0, 0.0, 0.0, 0.0, 99.0, 1.0]);
        // The others get 90 - 40 = 50 MB/s under bfq, and 500.1 - 0.1 = 500 MB/s under none.
        let waiting = MeanSplit([0.0, 0.0, 80.0, 0.0, 20.0, 0.0]);
        let bfq = pooled(served, waiting, 40.0, 90.0);
        let beside = ReferenceRuns {
            none: Some(&none),
            bfq: Some(&bfq),
            others: "readers",
        };
        assert_eq!(
            short("none", &named("none"), &none, &beside),
            "none 97% in the drive's queue"
        );
        let same = short("io.latency", &named("io.latency"), &none, &beside);
        assert_eq!(
            same,
            "io.latency 97% in the drive's queue (others not held back)"
        );
        let idle = "bfq 99% being served (others 80% waiting while the elevator idles, keep 10%)";
        assert_eq!(short("bfq", &named("bfq"), &bfq, &beside), idle);
        assert_eq!(
            sentence(&latency(), &named("none"), &none, &beside),
            "A request of the target takes 39.0 ms and is in the drive's queue for 97% of it, behind commands of the readers: 31.0 are \
             in the drive on average. All together get 500.1 MB/s; the drive is busy for 97% of the time."
        );
        assert_eq!(
            sentence(&latency(), &named("bfq"), &bfq, &beside),
            "A request of the target takes 100 us and is being served for 99% of it. The readers wait while the elevator idles for 80% of their \
             time and get 10% of what they get under none. All together get 90.00 MB/s; the drive is busy for 97% of the time."
        );
        let nothing = pooled(MeanSplit::default(), queued(), 0.0, 500.0);
        let said = short("none", &named("none"), &nothing, &beside);
        assert_eq!(said, "none no request was answered");
    }

    #[test]
    fn a_promise_is_kept_or_broken_or_out_of_reach() {
        let bfq = pooled(queued(), queued(), 20.0, 24.0);
        let mut contract = pooled(queued(), queued(), 11.0, 511.0);
        let beside = ReferenceRuns {
            none: None,
            bfq: Some(&bfq),
            others: "readers",
        };
        assert_eq!(
            verdict(&latency(), &named("contract"), &contract, &beside),
            None
        );
        let promise = |fate, alone| TargetPromise {
            mb_per_s: 10.0,
            alone_mb_per_s: Some(alone),
            worst_mb_per_s: Some(9.9),
            fate,
        };
        let rest = "; the others get 500.0 MB/s, and 4.00 under bfq.";
        let got = "11.00 of 10 MB/s promised";
        let said = |contract: &PooledRuns| {
            verdict(&latency(), &named("contract"), contract, &beside).unwrap()
        };
        contract.promise = Some(promise(Fate::Kept, 23.0));
        let kept = format!("contract: kept: {got} (9.90 in the worst second){rest}");
        assert_eq!(said(&contract), kept);
        contract.promise = Some(promise(Fate::Broken, 23.0));
        let broken = format!("contract: not kept: {got} (9.90 in the worst second){rest}");
        assert_eq!(said(&contract), broken);
        contract.promise = Some(promise(Fate::OutOfReach, 0.71));
        let limited = format!("contract: out of reach: {got}; alone it gets 0.71 MB/s{rest}");
        assert_eq!(said(&contract), limited);
        assert_eq!(verdict(&latency(), &named("bfq"), &contract, &beside), None);
    }
}
