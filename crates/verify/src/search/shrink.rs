//! Simplifies a failing case as long as it still fails.

use crate::search::case::SearchCase;
use crate::search::tally::SearchFailure;
use crate::search::trial::outcome;
use weir_core::{Contract, Span};
use weir_model::drive::{DriveConfig, hdd, null, ssd};
use weir_model::load::{Arrival, Pattern, Size, SyncMode};
use weir_sim::{Buffered, ClientSpec};

/// Removes parts of a case and simplifies the rest, as long as the case fails in the same way and
/// at least half as badly. Passes every simpler case to `progress`. The result does not depend on
/// random numbers. An admitted case stays admitted.
pub fn shrink(
    case: &SearchCase,
    failure: SearchFailure,
    admitted: bool,
    mut progress: impl FnMut(&SearchCase),
) -> SearchCase {
    let mut best = case.clone();
    let came = outcome(&best, true);
    let Some(badness) = failure.badness(&came) else {
        return best;
    };
    let broken = came.broken.as_deref().map(without_numbers);
    // A simpler case may fail less badly, but it must remain the same failure.
    let least = if badness.is_finite() {
        badness / 2.0
    } else {
        1.0
    };
    let fails = |case: &SearchCase| {
        let came = outcome(case, failure == SearchFailure::Finding);
        // A case that cannot be run for another reason is not a simpler form of this one.
        let same = came.broken.as_deref().map(without_numbers) == broken;
        same && failure.badness(&came).is_some_and(|b| b >= least)
    };
    loop {
        let before = best.clone();
        for step in STEPS {
            let mut at = 0;
            while let Some(mut simpler) = step(&best, at) {
                // A removed client may leave its group empty.
                simpler.compact();
                if admitted {
                    simpler = simpler.admitted();
                }
                if simpler != best && !simpler.scenario.clients.is_empty() && fails(&simpler) {
                    progress(&simpler);
                    best = simpler;
                } else {
                    // The next index is only tried if this one did not help: after a success, the
                    // indices have moved.
                    at += 1;
                }
            }
        }
        // A whole round without progress ends the search.
        if best == before {
            return best;
        }
    }
}

/// Removes the digits from a failure, so that other clients and amounts count as the same failure.
fn without_numbers(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// A way to simplify a case, with an index. It returns `None` if there is no such index, and the
/// same case if there is nothing to change.
type ShrinkStep = fn(&SearchCase, usize) -> Option<SearchCase>;

const STEPS: &[ShrinkStep] = &[
    remove_part_of_clients,
    remove_client,
    remove_change,
    shorten,
    remove_freeze,
    plain_drive,
    plain_contract,
    equal_share,
    move_below_root,
    simplify_client,
    halve_client,
];

/// Removes a half, a quarter or an eighth of the clients.
fn remove_part_of_clients(case: &SearchCase, at: usize) -> Option<SearchCase> {
    // Two halves, four quarters, eight eighths.
    let parts = [2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8];
    let part = *parts.get(at)?;
    // The first index of halves is 0, that of quarters 2, and that of eighths 6.
    let which = at + 2 - part;
    let (from, to) = (
        case.scenario.clients.len() * which / part,
        case.scenario.clients.len() * (which + 1) / part,
    );
    Some(case.retained(|c| !(from..to).contains(&c)))
}

fn remove_client(case: &SearchCase, at: usize) -> Option<SearchCase> {
    (at < case.scenario.clients.len()).then(|| case.retained(|c| c != at))
}

fn remove_change(case: &SearchCase, at: usize) -> Option<SearchCase> {
    let mut case = case.clone();
    (at < case.scenario.changes.len()).then(|| case.scenario.changes.remove(at))?;
    Some(case)
}

fn shorten(case: &SearchCase, at: usize) -> Option<SearchCase> {
    let seconds = [2, 3, 4, 6, 8].get(at)?;
    let mut case = case.clone();
    let end = case.scenario.duration.min(Span::from_secs(*seconds));
    case.scenario.duration = end;
    case.scenario.changes.retain(|c| c.at < end);
    Some(case)
}

fn remove_freeze(case: &SearchCase, at: usize) -> Option<SearchCase> {
    let mut case = case.clone();
    case.scenario.freeze = None;
    (at == 0).then_some(case)
}

fn plain_drive(case: &SearchCase, at: usize) -> Option<SearchCase> {
    let mut case = case.clone();
    case.scenario.drive = match case.scenario.drive {
        DriveConfig::Null(_) => DriveConfig::Null(null::NullConfig::demo()),
        DriveConfig::Ssd(_) => DriveConfig::Ssd(ssd::SsdConfig::generic()),
        _ => DriveConfig::Hdd(hdd::HddConfig::generic()),
    };
    (at == 0).then_some(case)
}

fn plain_contract(case: &SearchCase, at: usize) -> Option<SearchCase> {
    let mut case = case.clone();
    case.scenario.groups.get_mut(at)?.contract = Contract::DEFAULT;
    Some(case)
}

fn equal_share(case: &SearchCase, at: usize) -> Option<SearchCase> {
    let mut case = case.clone();
    let share = Contract::DEFAULT.share;
    case.scenario.groups.get_mut(at)?.contract.share = share;
    for change in &mut case.scenario.changes {
        if change.group.0 as usize == at + 1 {
            change.contract.share = share;
        }
    }
    Some(case)
}

/// Moves a member of a tenant directly below the root.
fn move_below_root(case: &SearchCase, at: usize) -> Option<SearchCase> {
    let mut case = case.clone();
    case.scenario.groups.get_mut(at)?.parent = weir_core::ROOT;
    Some(case)
}

const PLAINER: &[fn(&mut ClientSpec)] = &[
    |c| c.arrives = Span::ZERO,
    |c| c.leaves = None,
    |c| (c.program.start, c.program.stop) = (Span::ZERO, None),
    |c| c.program.sync = SyncMode::Never,
    |c| c.program.fua = false,
    |c| c.buffered = None,
    |c| c.program.arrival = Arrival::Closed { think: Span::ZERO },
    |c| c.program.writes = 0,
    // Only reads, half of each, or only writes.
    |c| c.program.writes = c.program.writes.max(50) / 50 * 50,
    |c| {
        c.program.pattern = Pattern::Random;
        c.buffered = c.buffered.map(|_| Buffered::advised(Pattern::Random));
    },
    |c| {
        if let Size::Range { max, .. } = c.program.size {
            c.program.size = Size::Fixed(max);
        }
    },
    |c| c.region.length = c.region.length.min(1 << 30),
];

fn simplify_client(case: &SearchCase, at: usize) -> Option<SearchCase> {
    apply_to_client(case, at, PLAINER)
}

const HALVES: &[fn(&mut ClientSpec)] = &[
    |c| c.program.depth = 1,
    |c| c.program.depth = (c.program.depth / 2).max(1),
    |c| {
        if let Size::Fixed(bytes) = &mut c.program.size {
            *bytes = (*bytes / 2).max(4096);
        }
    },
];

fn halve_client(case: &SearchCase, at: usize) -> Option<SearchCase> {
    apply_to_client(case, at, HALVES)
}

/// Applies one of several simplifications to one client. The index runs through all simplifications
/// of one client after the other.
fn apply_to_client(
    case: &SearchCase,
    at: usize,
    all: &[fn(&mut ClientSpec)],
) -> Option<SearchCase> {
    let mut case = case.clone();
    let client = case.scenario.clients.get_mut(at / all.len())?;
    all[at % all.len()](client);
    Some(case.retained(|_| true))
}
