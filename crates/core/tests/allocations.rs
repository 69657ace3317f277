//! Once its tables stand, the layer allocates nothing for a request, whatever the elevator.

#[path = "../examples/cost/load.rs"]
mod load;

use load::Load;
use weir_core::elevator::{Config, KINDS};
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
        for kind in KINDS {
            let elevator = (kind.default)();
            let name = kind.name;
            if elevator.merges() {
                let count = allocations(elevator.clone(), merge::Config::LINUX, streams, groups);
                assert_eq!(
                    count, 0,
                    "{streams} streams, {groups} groups, {name}, merging"
                );
            }
            let count = allocations(elevator, merge::Config::OFF, streams, groups);
            assert_eq!(count, 0, "{streams} streams, {groups} groups, {name}");
        }
    }
}
