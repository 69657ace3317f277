//! Once its tables stand, the layer allocates nothing for a request, whatever the elevator.

#[path = "../examples/cost/load.rs"]
mod load;

use load::Load;
use weir_core::elevator::{Config, bfq, contract};
use weir_core::merge;

fn allocations(elevator: Config, merge: merge::Config, streams: u32, groups: u32) -> u64 {
    let mut load = Load::new(elevator, merge, streams, groups);
    // The driver's own vector for outputs grows once.
    load.run(8, 20_000);
    allocation_counter::measure(|| {
        load.run(8, 50_000);
    })
    .count_total
}

#[test]
fn what_is_allocated_is_counted() {
    let made =
        allocation_counter::measure(|| drop(Load::new(Config::None, merge::Config::OFF, 1, 1)));
    assert!(made.count_total > 0);
}

#[test]
fn a_request_allocates_nothing() {
    for (streams, groups) in [(16, 16), (512, 512)] {
        let bfq = || Config::Bfq(bfq::Config::default());
        let elevators = [
            (Config::None, merge::Config::OFF),
            (bfq(), merge::Config::OFF),
            (
                Config::Contract(contract::Config::default()),
                merge::Config::OFF,
            ),
            (Config::None, merge::Config::LINUX),
            (bfq(), merge::Config::LINUX),
        ];
        for (elevator, merge) in elevators {
            let name = format!("{elevator:?}, {merge:?}");
            let count = allocations(elevator, merge, streams, groups);
            assert_eq!(count, 0, "{streams} streams, {groups} groups, {name}");
        }
    }
}
