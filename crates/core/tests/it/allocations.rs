//! Once its tables stand, the layer allocates nothing for a request, whatever the elevator, and under io.cost.

#[path = "../../examples/cost/load.rs"]
mod load;

use load::Load;
use weir_core::control;
use weir_core::elevator::{Config, KINDS};
use weir_core::merge;

fn allocations(
    elevator: Config,
    merge: merge::Config,
    controllers: control::Config,
    streams: u32,
    groups: u32,
) -> u64 {
    let mut load = Load::new(elevator, merge, controllers, streams, groups);
    // The driver's own vector for outputs grows once.
    load.run(8, 20_000);
    allocation_counter::measure(|| {
        load.run(8, 50_000);
    })
    .count_total
}

#[test]
fn what_is_allocated_is_counted() {
    let made = allocation_counter::measure(|| {
        let controllers = control::Config::default();
        drop(Load::new(
            Config::None,
            merge::Config::OFF,
            controllers,
            1,
            1,
        ));
    });
    assert!(made.count_total > 0);
}

#[test]
fn a_request_allocates_nothing() {
    for (streams, groups) in [(16, 16), (512, 512)] {
        let default = control::Config::default();
        let cost = control::Config {
            cost: Some(control::cost::Config::default()),
            ..default
        };
        let mut all = vec![("io.cost", Config::None, merge::Config::OFF, cost)];
        for kind in KINDS {
            let elevator = (kind.default)();
            if elevator.merges() {
                all.push((kind.name, elevator.clone(), merge::Config::LINUX, default));
            }
            all.push((kind.name, elevator, merge::Config::OFF, default));
        }
        for (name, elevator, merge, controllers) in all {
            let count = allocations(elevator, merge, controllers, streams, groups);
            assert_eq!(count, 0, "{streams} streams, {groups} groups, {name}");
        }
    }
}
