//! Every bug built into this elevator is noticed by a test of this room.

use super::{depth, order};
use crate::mutant;
use std::panic::catch_unwind;

#[test]
#[ignore = "switches bugs on for the whole process: run it alone"]
fn each_is_noticed() {
    let _alone = mutant::alone();
    let tests: [fn(); 5] = [
        order::domains_take_turns_by_batches,
        order::a_domain_has_as_many_in_the_drive_as_it_may,
        depth::the_wait_for_the_drive_counts,
        depth::who_is_within_its_target_gives_way_when_the_drive_is_congested,
        depth::a_histogram_begins_anew,
    ];
    for test in tests {
        test();
    }
    for (number, noticed_by) in [
        (mutant::KYBER_BATCH_ENDLESS, 0),
        (mutant::KYBER_TOKEN_LOST, 1),
        (mutant::KYBER_DEPTH_IGNORED, 1),
        (mutant::KYBER_TOTAL_IN_DRIVE, 2),
        (mutant::KYBER_NEVER_THROTTLED, 3),
        (mutant::KYBER_HISTOGRAM_KEPT, 4),
    ] {
        mutant::select(number);
        let passed = catch_unwind(tests[noticed_by]).is_ok();
        mutant::select(0);
        assert!(!passed, "mutant {number} went past test {noticed_by}");
    }
}
