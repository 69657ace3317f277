//! Checks that the layer allocates nothing for a request after its tables were created, under each
//! elevator and under `io.cost`.

#[path = "../../examples/cost/load.rs"]
mod load;

use load::Load;
use weir_core::elevator::{self, KINDS};
use weir_core::{Config, control, merge};

fn allocations(config: Config, streams: u32, groups: u32) -> u64 {
    let mut load = Load::new(config, streams, groups);
    // The driver's own vector for outputs grows at the beginning.
    load.run(8, 20_000);
    allocation_counter::measure(|| {
        load.run(8, 50_000);
    })
    .count_total
}

#[test]
fn the_allocation_counter_counts_allocations() {
    // Without this, a broken counter would let the other test pass.
    let make = || drop(Load::new(Config::of(elevator::Config::None), 1, 1));
    assert!(allocation_counter::measure(make).count_total > 0);
}

#[test]
fn a_request_allocates_nothing() {
    for (streams, groups) in [(16, 16), (512, 512)] {
        let cost = control::Config::default().cost(Some(control::cost::Config::default()));
        let none = Config::of(elevator::Config::None);
        let mut all = vec![("io.cost", none.controllers(cost))];
        for kind in KINDS {
            let config = Config::of((kind.default)());
            if config.elevator.merges() {
                all.push((kind.name, config.clone().merge(merge::Config::LINUX)));
            }
            all.push((kind.name, config));
        }
        for (name, config) in all {
            let count = allocations(config, streams, groups);
            assert_eq!(count, 0, "{streams} streams, {groups} groups, {name}");
        }
    }
}
