//! Why it came out as it did, in words, from where the time of requests went.

use super::kind::Policy;
use super::pooled::{Pooled, Split};
use weir_report::number::{duration, figure, percent, plain, short as digits};

/// What the cell of a policy is seen beside: cells of the same case, and what the drive can do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside<'a> {
    pub(super) none: Option<&'a Pooled>,
    pub(super) bfq: Option<&'a Pooled>,
    /// What one sequential reader gets; `None` where others do not read.
    pub(super) peak_mbps: Option<f64>,
    /// What the target alone gets, where that was asked for.
    pub(super) alone_mbps: Option<f64>,
    /// What the others are called.
    pub(super) others: &'static str,
}

impl Beside<'_> {
    /// The part of what the drive can do that was used, as far as that is known.
    pub(super) fn used(&self, pooled: &Pooled) -> Option<f64> {
        let whole = self.peak_mbps.or_else(|| Some(self.none?.total_mbps));
        whole
            .filter(|w| *w > 0.0)
            .map(|whole| pooled.total_mbps / whole)
    }
}

/// What is less than this part of the time is not worth a word.
const NOTICEABLE: f64 = 0.02;

/// In a few words: where the largest part of the target's time went, and what became of the others.
pub(super) fn short(policy: Policy, pooled: &Pooled, beside: &Beside<'_>) -> String {
    let name = policy.name();
    let Some((part, place)) = main_part(&pooled.split) else {
        return format!("{name} no request was answered");
    };
    let share = percent(pooled.split.fraction(part));
    let fate = match &fate(policy, pooled, beside)[..] {
        [] => String::new(),
        some => format!(" (others {})", some.join(", ")),
    };
    format!("{name} {share} {place}{fate}")
}

/// In a sentence or two.
pub(super) fn sentence(policy: Policy, pooled: &Pooled, beside: &Beside<'_>) -> String {
    let Some((part, place)) = main_part(&pooled.split) else {
        return "No request of the target was answered.".into();
    };
    let (whole, others) = (pooled.split.total(), beside.others);
    let (share, whole) = (percent(part / whole), duration(whole));
    let behind = pooled.depth.filter(|_| place == Split::NAMES[3]);
    let behind = behind.map_or_else(String::new, |depth| {
        let depth = digits(depth);
        format!(", behind commands of the {others}: {depth} are in the drive on average")
    });
    let mut text = vec![format!(
        "{share} of the {whole} of a request of the target it is {place}{behind}."
    )];
    let fate = fate(policy, pooled, beside);
    if !fate.is_empty() {
        text.push(format!("The {others} are {}.", fate.join(" and ")));
    }
    if let Some(used) = beside.used(pooled) {
        let of = match beside.peak_mbps {
            Some(_) => "of the drive's peak",
            None => "of the total under none",
        };
        let total = figure(pooled.total_mbps);
        text.push(format!(
            "All together get {total} MB/s, {} {of}.",
            percent(used)
        ));
    }
    text.extend(verdict(policy, pooled, beside).map(|v| capital(&v)));
    text.join(" ")
}

/// What becomes of the others: held back, waiting behind idling, and what that leaves them.
fn fate(policy: Policy, pooled: &Pooled, beside: &Beside<'_>) -> Vec<String> {
    let split = &pooled.others;
    let (held, idling) = (split.fraction(split.held), split.fraction(split.idling));
    let mut fate = Vec::new();
    if held >= NOTICEABLE {
        fate.push(format!("{} held back", percent(held)));
    }
    if idling >= NOTICEABLE {
        fate.push(format!("{} behind idling", percent(idling)));
    }
    let rest = |p: &Pooled| p.total_mbps - p.target_mbps;
    let none = beside.none.filter(|none| rest(none) > 0.0);
    let left = none.map_or(1.0, |none| rest(pooled) / rest(none));
    if left <= 1.0 - NOTICEABLE {
        fate.push(format!(
            "left {} of what they get under none",
            percent(left)
        ));
    }
    if fate.is_empty() && policy != Policy::None {
        fate.push("not held back".into());
    }
    fate
}

/// Whether a promise to the target was kept, and what it left beside what idling leaves. `None` where nothing was promised.
pub(super) fn verdict(policy: Policy, pooled: &Pooled, beside: &Beside<'_>) -> Option<String> {
    if policy != Policy::Contract {
        return None;
    }
    let promise = pooled.promise?;
    let (got, promised) = (figure(pooled.target_mbps), plain(promise.mbps));
    let got = format!("{got} of {promised} MB/s promised");
    let worst = promise.worst_mbps.map_or_else(String::new, |worst| {
        format!(" ({} in the worst second)", figure(worst))
    });
    let alone = beside.alone_mbps.filter(|alone| *alone < promise.mbps);
    let kept = match (alone, promise.kept) {
        (Some(alone), _) => format!(
            "limited by drive: {got}, and with the drive to itself the target gets {} MB/s",
            figure(alone)
        ),
        (None, true) => format!("kept: {got}{worst}"),
        (None, false) => format!("not kept: {got}{worst}"),
    };
    let rest = |p: &Pooled| figure(p.total_mbps - p.target_mbps);
    let beside = beside.bfq.map_or_else(String::new, |bfq| {
        let (mine, bfq) = (rest(pooled), rest(bfq));
        format!("; the others get {mine} MB/s, where bfq's idling leaves them {bfq}")
    });
    Some(format!("contract: {kept}{beside}."))
}

/// The largest part of the time, and what it is called.
fn main_part(split: &Split) -> Option<(f64, &'static str)> {
    let parts = split.parts().into_iter().zip(Split::NAMES);
    let largest = parts.max_by(|a, b| a.0.total_cmp(&b.0));
    largest.filter(|(part, _)| *part > 0.0)
}

/// With a capital letter first.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
