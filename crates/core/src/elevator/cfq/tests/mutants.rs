//! Every bug built into this elevator is noticed by a test of this room.

use super::{cooperate, requests, shares, turns};
use crate::mutant;

#[test]
#[ignore = "switches bugs on for the whole process: run it alone"]
fn each_is_noticed() {
    let _alone = mutant::alone();
    let fair = || shares::weights_off_by() < 30;
    let starvation = || turns::wait_beside_greedy() < 200;
    let overdue = || turns::oldest_wait() < 1_000;
    let levels = || (43..=47).contains(&shares::levels());
    let cooperate = || cooperate::interleaved(3) > 150_000;
    let part = || cooperate::left_to_the_third() < 40;
    let realtime = || shares::realtime_wait().0 < 40;
    let quantum = || turns::most_in_drive() <= 16;
    let requests = || requests::longest(4) < 4_000;
    let returns = shares::who_returns_gets_its_part;
    let tests: [(u32, &str, &dyn Fn() -> bool); 10] = [
        (mutant::CFQ_WEIGHT_IGNORED, "fair", &fair),
        (mutant::CFQ_SLICE_ENDLESS, "starvation", &starvation),
        (mutant::CFQ_FIFO_IGNORED, "overdue", &overdue),
        (mutant::CFQ_LEVEL_IGNORED, "levels", &levels),
        (mutant::CFQ_GROUP_RETURNS_EARLY, "returns", &returns),
        (mutant::CFQ_NOBODY_COOPERATES, "cooperate", &cooperate),
        (mutant::CFQ_NEVER_PARTED, "part", &part),
        (mutant::CFQ_REALTIME_WAITS, "realtime", &realtime),
        (mutant::CFQ_QUANTUM_IGNORED, "quantum", &quantum),
        (mutant::CFQ_REQUESTS_UNLIMITED, "requests", &requests),
    ];
    for (number, name, test) in tests {
        assert!(test(), "{name} without a bug");
        mutant::select(number);
        let passed = test();
        mutant::select(0);
        assert!(!passed, "mutant {number} went past {name}");
    }
}
