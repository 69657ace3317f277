//! Bounds the size of cases, so that thousands of them can be run.

use super::dice::Dice;
use crate::search::case::SearchCase;
use crate::search::trial::RunFailure;
use weir_core::{Class, Instant, Span};
use weir_model::load::{Arrival, Size};
use weir_sim::{ClientSpec, Policy, SimRun};

/// The range from which the maximum number of requests of a run is drawn.
const REQUESTS: (u64, u64) = (20_000, 300_000);

/// The maximum number of reductions of a case.
const ROUNDS: u32 = 24;

/// Removes clients and makes requests longer and fewer, until the case has the drawn size.
pub(super) fn bound(dice: &mut Dice, case: &mut SearchCase) -> Result<(), RunFailure> {
    let most = dice.log(REQUESTS.0, REQUESTS.1);
    for round in 0..ROUNDS {
        if requests(case)? <= most {
            break;
        }
        // Each kind of reduction is tried in turn, so that no property of the case vanishes
        // altogether.
        match round % 3 {
            0 => {
                if !case.clones {
                    // A case with freezes stays at up to 12 s, so that it still contains some of
                    // them.
                    let most = 5 + u64::from(case.scenario.freeze.is_some()) * 7;
                    case.scenario.duration = case.scenario.duration.min(Span::from_secs(most));
                }
                halve(case);
            }
            1 => case.scenario.clients.iter_mut().for_each(lengthen),
            _ => case.scenario.clients.iter_mut().for_each(reduce_rate),
        }
    }
    case.compact();
    clamp_times(case);
    Ok(())
}

/// Estimates the requests of a run from the first tenth of a second with all clients.
fn requests(case: &SearchCase) -> Result<u64, RunFailure> {
    const TENTH: Span = Span::from_millis(100);
    let mut all = case.clone().steady();
    for group in &mut all.scenario.groups {
        // Realtime clients have no max yet, so admission would refuse them.
        group.contract.class = Class::BestEffort;
    }
    let run = SimRun::new(&all.scenario, &Policy::none(), 0);
    let mut run = run.map_err(|e| format!("as drawn: {e}"))?;
    run.advance(Instant::ZERO + TENTH)
        .map_err(|e| format!("as drawn: {e}"))?;
    Ok(run.layer().counters().done * 10 * case.seconds())
}

/// Removes every second client, except those on which a figure depends.
fn halve(case: &mut SearchCase) {
    // Fewer clients would leave no contention.
    if case.scenario.clients.len() <= 3 {
        return;
    }
    let special = |client: &ClientSpec| case.group(client.group).class != Class::BestEffort;
    // Up to three clones come first.
    let clones = if case.clones { 3 } else { 0 };
    let all = case.scenario.clients.iter().enumerate();
    let kept = all.map(|(i, c)| i < clones || special(c) || i % 2 == 0);
    let kept: Vec<bool> = kept.collect();
    *case = case.retained(|c| kept[c]);
}

fn lengthen(client: &mut ClientSpec) {
    // Requests grow up to 256 KiB, and longer ones stay as they are.
    let longer = |bytes: u32| (bytes * 4).min(bytes.max(256 << 10));
    client.program.size = match client.program.size {
        Size::Fixed(bytes) => Size::Fixed(longer(bytes)),
        // The search draws no such size.
        Size::Split(split) => Size::Split(split),
        Size::Range { min, max, step } => Size::Range {
            min: longer(min),
            max: longer(max),
            step: longer(step),
        },
    };
}

/// Halves the queue depth, or lengthens the think time.
fn reduce_rate(client: &mut ClientSpec) {
    let program = &mut client.program;
    match &mut program.arrival {
        Arrival::Closed { .. } | Arrival::Batches { .. } if program.depth > 8 => program.depth /= 2,
        // The search draws no such arrivals.
        Arrival::Batches { .. } | Arrival::Apart { .. } => {}
        Arrival::Closed { think } => *think = think.saturating_mul(2).max(Span::from_micros(500)),
        Arrival::Even { interval } | Arrival::Poisson { interval } => {
            *interval = interval.saturating_mul(2);
        }
    }
}

/// Moves arrivals, departures and starts into the length of the case.
fn clamp_times(case: &mut SearchCase) {
    let end = case.scenario.duration;
    for client in &mut case.scenario.clients {
        if client.leaves.is_some_and(|at| at >= end) {
            client.leaves = None;
        }
        if client.arrives >= end {
            client.arrives = Span::ZERO;
        }
        if client.program.start >= end {
            (client.program.start, client.program.stop) = (Span::ZERO, None);
        }
    }
}
