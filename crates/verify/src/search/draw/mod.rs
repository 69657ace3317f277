//! Draws cases from seeds.

mod bound;
mod clients;
mod dice;
mod drives;
mod promises;
mod shallow;

pub(super) use shallow::draw_shallow;

use crate::search::case::SearchCase;
use crate::search::trial::RunFailure;
use dice::Dice;
use weir_core::{Capacity, GroupId, ROOT, Span};
use weir_model::drive::Freeze;
use weir_sim::{Change, Scenario};

/// Draws the case of a seed. It runs the promised clients, because promises are a part of the
/// service that they get without the others.
///
/// # Errors
/// Returns the reason if the draw failed, in words. That is a bug in the search.
pub fn draw(seed: u64, kind: Option<usize>) -> Result<SearchCase, RunFailure> {
    let mut dice = Dice::new(seed);
    // The kind is drawn even if one is requested, so that the remaining draws stay the same.
    let kind_drawn = dice.weighted(&[(30, 0), (40, 1), (30, 2)]);
    let kind = kind.unwrap_or(kind_drawn);
    let drive = drives::choice(&mut dice, kind);
    let freeze = dice.chance(1, 10).then(|| freezes(&mut dice));
    // A freeze would hide the division by shares.
    let clones = freeze.is_none() && dice.chance(1, 8);
    // Shares are compared over ten seconds, and long freezes need a few periods.
    let long =
        clones || freeze.is_some_and(|f| f.length > Span::from_secs(1)) || dice.chance(1, 12);
    let seconds = if long { 12 } else { dice.range(4, 6) };
    let mut scenario = Scenario::new(seed.to_string(), drive, Span::from_secs(seconds));
    scenario.freeze = freeze;
    scenario.capacity = Some(Capacity::NONE.read(ROOMY).write(ROOMY));
    let mut case = SearchCase { scenario, clones };
    clients::add(&mut dice, &mut case);
    bound::bound(&mut dice, &mut case)?;
    promises::make(&mut dice, &mut case)?;
    if dice.chance(1, 6) {
        change(&mut dice, &mut case);
    }
    // The capacity depends on all promises, including those of changes.
    case.scenario.capacity = Some(case.roomy_capacity());
    Ok(case)
}

/// A bandwidth that admits all promises, for as long as they are not known yet.
const ROOMY: u64 = 1_000_000_000_000_000;

/// Draws a freeze of one second in five, three in seven, or eight in twenty.
fn freezes(dice: &mut Dice) -> Freeze {
    let (length, every) = *dice.pick(&[(1, 5), (3, 7), (8, 20)]);
    Freeze {
        first: Span::from_millis(dice.range(500, 3_500)),
        length: Span::from_secs(length),
        every: Span::from_secs(every),
        seed: None,
    }
}

/// Adds changes of contracts during the run: shares change, and mins are reduced, removed, or added
/// only then.
fn change(dice: &mut Dice, case: &mut SearchCase) {
    for _ in 0..dice.range(1, 3) {
        let group = GroupId(dice.range(1, case.scenario.groups.len() as u64) as u32);
        if case.clones && !case.is_promised(group)
            || case.scenario.changes.iter().any(|c| c.group == group)
        {
            continue;
        }
        let tenant = case.scenario.groups.iter().any(|g| g.parent == group);
        let spec = case.group_mut(group);
        let mut contract = spec.contract;
        // The mins of a tenant's members stay within its own only if all of them stay the same.
        if tenant || spec.parent != ROOT || dice.chance(1, 3) {
            contract.share = dice.log(1, 1000) as u16;
        } else if dice.chance(1, 3) {
            (spec.contract.min, spec.contract.min_iops) = (0, 0);
        } else {
            let part = dice.range(0, 3);
            contract.min = contract.min * part / 4;
            contract.min_iops = contract.min_iops * part / 4;
        }
        let at = Span::from_millis(dice.range(500, case.seconds() * 1000 - 1000));
        case.scenario.changes.push(Change {
            at,
            group,
            contract,
        });
    }
    // A scenario's changes are in the order of their times.
    case.scenario.changes.sort_by_key(|c| c.at.as_nanos());
}
