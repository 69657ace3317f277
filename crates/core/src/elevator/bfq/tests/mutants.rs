//! Every bug built into this elevator is noticed by a test of this room.

use super::plain;
use super::{depth, engine, merge, oracle, shares};
use crate::elevator::closed_loop::{Host, RANDOM, STREAMER, ms};
use crate::{elevator, mutant};

/// A client that thinks for five milliseconds after each answer does not keep the drive beyond its turn's time.
fn turns_end() -> bool {
    let mut host = Host::new(elevator::Config::Bfq(plain()), &[(100, None); 2]);
    host.add(elevator::closed_loop::Client {
        think: ms(5),
        ..RANDOM.of(0)
    });
    let other = host.add(STREAMER.of(1));
    host.run(ms(500));
    host.gap_ms(other) < 150
}

#[test]
#[ignore = "switches bugs on for the whole process: run it alone"]
fn each_is_noticed() {
    let _alone = mutant::alone();
    let oracle_agrees = || (1..=3).all(|seed| oracle::difference(seed, 10_000).is_none());
    let fair = || shares::deviation() < 20;
    let fluid = || (0..5).all(engine::within_the_lag_bound);
    let idle_served = || engine::class_log().starts_with("RRRRRRRRRRRRRRRRRRRRIR");
    let tests: [(&str, &dyn Fn() -> bool); 7] = [
        ("oracle", &oracle_agrees),
        ("fair", &fair),
        ("fluid", &fluid),
        ("idle class", &idle_served),
        ("turns end", &turns_end),
        ("depth", &depth::a_tag_is_left_for_a_reader),
        ("split", &merge::the_seeky_part),
    ];
    for (name, test) in tests {
        assert!(test(), "{name} without a bug");
    }
    for (number, noticed_by) in [
        (mutant::WEIGHT_KEPT, 0),
        (mutant::IDLE_RESTARTS_AT_V, 0),
        (mutant::CHARGED_BY_REQUEST, 1),
        (mutant::IDLE_CLASS_STARVED, 3),
        (mutant::TIMEOUT_IGNORED, 4),
        (mutant::ELIGIBILITY_IGNORED, 0),
        (mutant::ELIGIBILITY_IGNORED, 2),
        (mutant::DEPTH_IGNORED, 5),
        (mutant::SEEKY_STAY_MERGED, 6),
    ] {
        mutant::select(number);
        let (name, test) = tests[noticed_by];
        let passed = test();
        mutant::select(0);
        assert!(!passed, "mutant {number} went past {name}");
    }
}
