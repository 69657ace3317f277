//! Draws cases of many promised clients with a queue depth of 1, each near the rate that it gets
//! alone. Their drive keeps the promises only if it serves several of them at a time.

use super::dice::Dice;
use super::{ROOMY, clients, drives};
use crate::search::case::SearchCase;
use crate::search::trial::{RunFailure, play};
use weir_core::{Capacity, ROOT, Span};
use weir_model::load::Program;
use weir_sim::{Policy, Scenario};

/// Draws the case of a seed, on a drive without seeks if `kind` is `None`.
///
/// # Errors
/// Returns the reason if the draw failed, in words. That is a bug in the search.
pub(in crate::search) fn draw_shallow(
    seed: u64,
    kind: Option<usize>,
) -> Result<SearchCase, RunFailure> {
    let mut dice = Dice::new(seed);
    // The kind is drawn even if one is requested, so that the remaining draws stay the same.
    let kind_drawn = dice.weighted(&[(1, 0), (3, 1)]);
    let drive = drives::choice(&mut dice, kind.unwrap_or(kind_drawn));
    let mut scenario = Scenario::new(seed.to_string(), drive, Span::from_secs(4));
    scenario.capacity = Some(Capacity::NONE.read(ROOMY).write(ROOMY));
    let mut case = SearchCase {
        scenario,
        clones: false,
    };
    let (number, others) = (dice.log(2, 24), dice.unless(2, 3, |dice| dice.range(1, 3)));
    let size = clients::space(&mut dice, &case, number + others);
    let lengths: Vec<u32> = (0..2).map(|_| *dice.pick(&LENGTHS)).collect();
    let even_shares = dice.chance(1, 2);
    for client in 0..number + others {
        let depth = if client < number { 1 } else { dice.log(1, 8) };
        let program = Program::random_reads(*dice.pick(&lengths), depth as u32);
        let own = clients::group(&mut dice, &mut case, ROOT, even_shares);
        case.add(own, (program, false), size);
    }
    let parts = [dice.range(100, 980), dice.range(100, 980)];
    for client in 0..number as usize {
        let alone = play(&case.alone(client, 1), &Policy::none(), false)?.clients[0].bytes;
        let group = case.scenario.clients[client].group;
        case.group_mut(group).contract.min = alone * dice.pick(&parts) / 1000;
    }
    case.scenario.capacity = Some(case.roomy_capacity());
    Ok(case)
}

/// The lengths from which two are drawn, in bytes.
const LENGTHS: [u32; 4] = [4 << 10, 8 << 10, 16 << 10, 64 << 10];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::trial;

    /// `none` serves the nine clients of this case in parallel, and keeps five promises. A policy
    /// that reserved the drive for one late client after another would keep none of them.
    #[test]
    fn contract_keeps_the_promises_that_none_keeps() {
        let case = draw_shallow(13, Some(1)).expect("it can be drawn");
        let outcome = trial::outcome(&case.admitted(), false);
        assert_eq!(outcome.broken, None);
        assert_eq!(outcome.kept_by_none, 5);
        assert!(outcome.promises_kept >= 5, "{}", outcome.promises_kept);
    }
}
