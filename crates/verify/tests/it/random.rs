//! Tests that the core survives random operations with drawn configurations, and that these cause
//! every kind of event.

use weir_measure::promise::{Cause, Seconds};
use weir_verify::audit::Tally;
use weir_verify::audit::random::{RandomDecisions, RandomPlan, run, run_plan};

#[test]
fn random_operations_break_nothing_and_reach_everything() {
    let mut seeds = RandomDecisions::new(6);
    let (mut tally, mut seconds) = (Tally::default(), Seconds::default());
    for _ in 0..250 {
        match run(seeds.bits(), 2_000) {
            Ok(summary) => {
                tally.add(&summary.tally);
                seconds.merge(&summary.seconds);
            }
            Err(failure) => panic!("{failure}"),
        }
    }
    // An event that never occurs would leave its auditor without work.
    assert!(tally.missing().is_empty(), "{tally:?}");
    let sum = seconds.kept + seconds.all_short() + seconds.all_excused();
    assert_eq!(seconds.promised, sum);
    // Each verdict and each reason must occur, except the one that needs a client alone on its
    // drive.
    let [idle, suspended, limit, ..] = seconds.excused;
    assert!(
        [seconds.kept, idle, suspended, limit]
            .iter()
            .all(|n| *n > 0),
        "{seconds:?}"
    );
    // The threads of a server are not part of the core, so that two reasons occur only in a live
    // server.
    for why in [
        Cause::Neighbour,
        Cause::Idling,
        Cause::SlowDrive,
        Cause::Errors,
    ] {
        assert!(seconds.short[why as usize] > 0, "{why:?}: {seconds:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let mut seeds = RandomDecisions::new(3);
    for _ in 0..20 {
        let seed = seeds.bits();
        assert_eq!(run(seed, 500), run(seed, 500));
    }
}

#[test]
fn random_operations_do_not_starve_the_idle_class() {
    let mut seeds = RandomDecisions::new(4);
    for _ in 0..4_000 {
        let mut random = RandomDecisions::new(seeds.bits());
        let plan = RandomPlan {
            idle: true,
            ..RandomPlan::draw(&mut random)
        };
        if let Err(failure) = run_plan(&mut random, plan, 4_000) {
            panic!("{failure}");
        }
    }
}
