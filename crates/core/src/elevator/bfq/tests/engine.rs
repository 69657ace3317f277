//! B-WF2Q+ alone: its distance from ideal sharing, and each of its rules.

use super::super::entity::{BEST_EFFORT, EntityState, delta};
use super::super::wf2q::Wf2q;
use crate::Instant;
use crate::random::Rng;
use std::vec::Vec;

const NOW: Instant = Instant::ZERO;

fn ms(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000_000)
}

/// Creates an engine without groups, with queues of these weights that are numbered from 1.
fn flat(weights: &[u32]) -> Wf2q {
    let mut engine = Wf2q::new(1, weights.len() as u32);
    for (i, &weight) in weights.iter().enumerate() {
        engine.add(i as u32 + 1, 0, BEST_EFFORT, weight);
    }
    engine
}

fn activate(engine: &mut Wf2q, e: u32, budget: u64, waited: bool) {
    engine.entity_mut(e).budget = budget;
    engine.activate(NOW, e, waited);
}

/// Creates two queues of weight 1. The first has a budget of 100, of which `served` sectors are
/// used. The second has the given budget.
fn one_of_two_served(served: u64, budget: u64) -> Wf2q {
    let mut engine = flat(&[1, 1]);
    activate(&mut engine, 1, 100, false);
    activate(&mut engine, 2, budget, false);
    assert_eq!(engine.select(NOW), Some(1));
    engine.served(1, served);
    engine
}

/// Returns start and finish time in sectors per unit of weight.
fn times(engine: &Wf2q, e: u32) -> (u64, u64) {
    let unit = delta(1, 1);
    let e = engine.entity(e);
    (e.start / unit, e.finish / unit)
}

/// Compares backlogged queues with a fluid that serves all of them at once by weight.
///
/// A queue may be ahead by at most its budget minus its own part of the budget. It may be behind by
/// at most its budget plus its part of the largest budget. The comparison is in units of a sector
/// divided by the sum of weights, so it needs no rounding. Rounding of virtual time adds less than
/// one sector over a run.
fn within_the_lag_bound(seed: u64) -> bool {
    let mut random = Rng::new(seed);
    let mut draw = |n: u64| random.range(0, n - 1);
    let queues = 2 + draw(12) as usize;
    let weights: Vec<u32> = (0..queues).map(|_| 1 + draw(100) as u32).collect();
    let budgets: Vec<u64> = (0..queues).map(|_| 1 + draw(2_000)).collect();
    let largest = *budgets.iter().max().unwrap();
    let sum: i128 = weights.iter().map(|&w| i128::from(w)).sum();
    let mut engine = flat(&weights);
    for (i, &budget) in budgets.iter().enumerate() {
        activate(&mut engine, i as u32 + 1, budget, false);
    }
    let mut served = std::vec![0u64; queues];
    let mut work = 0u64;
    for _ in 0..3_000 {
        let e = engine.select(NOW).unwrap();
        let i = e as usize - 1;
        // One in four turns ends before the budget is used up.
        let mut left = if draw(4) == 0 {
            1 + draw(budgets[i])
        } else {
            budgets[i]
        };
        while left > 0 {
            let piece = (1 + draw(256)).min(left);
            left -= piece;
            engine.served(e, piece);
            served[i] += piece;
            work += piece;
            for (i, &got) in served.iter().enumerate() {
                let (w, b) = (i128::from(weights[i]), i128::from(budgets[i]));
                let lead = i128::from(got) * sum - i128::from(work) * w;
                // `+ sum` is the one sector for the rounding of virtual time.
                let ahead = b * (sum - w) + sum;
                let behind = b * sum + w * i128::from(largest) + sum;
                if lead > ahead || -lead > behind {
                    return false;
                }
            }
        }
        engine.requeue(e);
    }
    true
}

#[test]
fn backlogged_queues_stay_close_to_a_fluid() {
    for seed in 0..30 {
        assert!(within_the_lag_bound(seed), "seed {seed}");
    }
}

#[test]
fn a_queue_activated_late_starts_at_virtual_time() {
    let mut engine = flat(&[1, 1, 2]);
    activate(&mut engine, 1, 100, false);
    activate(&mut engine, 2, 100, false);
    assert_eq!(engine.select(NOW), Some(1));
    engine.served(1, 100);
    activate(&mut engine, 3, 100, false);
    // After 100 sectors for weights 1 + 1, virtual time is 50. With weight 2, a budget of 100 takes
    // 50.
    assert_eq!(times(&engine, 3), (50, 100));
    engine.requeue(1);
    assert_eq!(times(&engine, 1), (100, 200));
    let v = engine.tree_state(0, BEST_EFFORT);
    assert_eq!((v.0 / delta(1, 1), v.1), (50, 4));
}

#[test]
fn a_queue_that_went_idle_ahead_of_virtual_time_starts_where_it_ended() {
    // Virtual time is 30, because 60 sectors were served for weights of 1 + 1. The queue's finish
    // time is 60.
    let mut engine = one_of_two_served(60, 100);
    engine.retire(1);
    assert_eq!(engine.entity(1).place, EntityState::Idle);
    assert_eq!(
        engine.tree_state(0, BEST_EFFORT).1,
        2,
        "its weight still counts"
    );
    engine.entity_mut(1).service = 0;
    activate(&mut engine, 1, 100, false);
    assert_eq!(times(&engine, 1), (60, 160));
}

#[test]
fn an_idle_queue_is_forgotten_when_virtual_time_catches_up() {
    let mut engine = one_of_two_served(60, 1_000);
    engine.retire(1);
    assert_eq!(engine.select(NOW), Some(2));
    // Virtual time is 30 and the finish time of the first queue 60, so another 60 sectors for
    // weights of 1 + 1 reach it.
    engine.served(2, 59);
    assert_eq!(engine.entity(1).place, EntityState::Idle);
    engine.served(2, 1);
    assert_eq!(engine.entity(1).place, EntityState::Out);
    assert_eq!(engine.tree_state(0, BEST_EFFORT).1, 1);
}

#[test]
fn a_queue_that_was_idled_for_starts_at_its_previous_finish_time() {
    for (waited, expected) in [(true, (60, 140)), (false, (100, 180))] {
        let mut engine = one_of_two_served(60, 1_000);
        engine.retire(1);
        assert_eq!(engine.select(NOW), Some(2));
        engine.served(2, 60);
        engine.served(2, 40);
        engine.entity_mut(1).service = 0;
        // Virtual time is 100: 60 and 60 sectors for two weights, and 40 for one weight after the
        // first queue was forgotten.
        activate(&mut engine, 1, 80, waited);
        assert_eq!(times(&engine, 1), expected, "waited: {waited}");
    }
    // Shifted back this far, even its finish time would lie behind virtual time. The entity is
    // moved so that it finishes at virtual time.
    let mut engine = one_of_two_served(60, 1_000);
    engine.retire(1);
    engine.select(NOW);
    engine.served(2, 60);
    engine.served(2, 500);
    engine.entity_mut(1).service = 0;
    activate(&mut engine, 1, 80, true);
    assert_eq!(times(&engine, 1), (480, 560));
}

#[test]
fn a_new_weight_counts_from_the_next_requeueing_on() {
    let mut engine = one_of_two_served(100, 100);
    engine.set_weight(1, 4);
    assert_eq!(engine.tree_state(0, BEST_EFFORT).1, 2);
    engine.requeue(1);
    // The finish time is the start of 100 plus the budget of 100 divided by the new weight of 4.
    assert_eq!(times(&engine, 1), (100, 125));
    assert_eq!(engine.tree_state(0, BEST_EFFORT).1, 5);
}

#[test]
fn a_group_has_the_budget_of_its_next_member() {
    let mut engine = Wf2q::new(3, 3);
    for group in [1, 2] {
        engine.add(group, 0, BEST_EFFORT, 10);
    }
    for (queue, group) in [(3, 1), (4, 1), (5, 2)] {
        engine.add(queue, group, BEST_EFFORT, 10);
    }
    activate(&mut engine, 3, 300, false);
    assert_eq!((engine.entity(1).budget, times(&engine, 1)), (300, (0, 30)));
    // The group's budget is now that of the member with the earlier finish time.
    activate(&mut engine, 4, 100, false);
    assert_eq!((engine.entity(1).budget, times(&engine, 1)), (100, (0, 10)));
    activate(&mut engine, 5, 200, false);
    assert_eq!(engine.select(NOW), Some(4));
    assert_eq!(
        engine.entity(1).place,
        EntityState::Active,
        "of two members one is left to be next"
    );
    engine.served(4, 100);
    engine.retire(4);
    assert_eq!(
        (engine.entity(1).budget, times(&engine, 1)),
        (300, (10, 40))
    );
    assert_eq!(engine.select(NOW), Some(5));
    assert_eq!(
        engine.entity(2).place,
        EntityState::Service,
        "its only member is in service"
    );
}

/// Each letter is the class of one of sixty turns of 10 ms, with a backlogged queue of each class.
#[test]
fn classes_are_strict_except_for_an_idle_turn_every_200_ms() {
    let mut engine = Wf2q::new(1, 3);
    for class in 0..3 {
        engine.add(u32::from(class) + 1, 0, class, 10);
        activate(&mut engine, u32::from(class) + 1, 100, false);
    }
    let mut log = std::string::String::new();
    for turn in 1..=60 {
        if turn == 50 {
            engine.deactivate(2);
        }
        let e = engine.select(ms(turn * 10)).unwrap();
        log.push(['R', 'B', 'I'][e as usize - 1]);
        engine.served(e, 100);
        // The realtime queue has no requests for a while.
        if e == 1 && (turn == 24 || turn == 52) {
            engine.retire(e);
        } else {
            engine.requeue(e);
        }
    }
    assert_eq!(
        log,
        "RRRRRRRRRRRRRRRRRRRRIRRRBBBBBBBBBBBBBBBBBIBBBBBBBIIIIIIIIIII"
    );
}
