//! Measures the time of a change of one min in a layer with 10,000 groups, or as many as `change
//! GROUPS` states, each with a promise and a stream. Prints microseconds per change, first for the
//! change alone, and then for the same change together with an edit that makes it a general one.

use std::time::Instant as Clock;

use weir_core::{
    Capacity, Config, Contract, Edit, GroupId, Instant, Layer, Priority, ROOT, Refusal, Sizes,
    StreamSpec, elevator,
};

/// The number of changes that are measured.
const CHANGES: u32 = 1_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let groups = std::env::args().nth(1).map_or(Ok(10_000), |n| n.parse())?;
    let mut layer = layer(groups)?;
    for id in (1..=groups).map(GroupId) {
        let priority = Priority::default();
        layer.open(
            Instant::ZERO,
            StreamSpec {
                group: id,
                priority,
            },
        )?;
    }
    for (name, whole) in [("alone", false), ("whole", true)] {
        let begun = Clock::now();
        for n in 0..CHANGES {
            let contract = contract(2_000 + u64::from(n % 2));
            let edit = Edit::SetContract {
                id: GroupId(1 + n % groups),
                contract,
            };
            let capacity = layer.config().drive.capacity;
            // The second edit sets the capacity that applies already. It has no effect, but two
            // edits are a general change.
            let edits = [edit, Edit::SetCapacity(capacity)];
            layer.change(Instant::ZERO, &edits[..=usize::from(whole)])?;
        }
        let us = begun.elapsed().as_secs_f64() * 1e6 / f64::from(CHANGES);
        println!("{name} {us:.2} us");
    }
    Ok(())
}

fn layer(groups: u32) -> Result<Layer, Box<dyn std::error::Error>> {
    let sizes = Sizes::default()
        .groups(groups + 1)
        .streams(groups)
        .requests(16 * groups);
    let elevator = elevator::Config::Contract(elevator::contract::Config::default());
    let mut layer = Layer::new(Config::of(elevator).sizes(sizes))?;
    let mut edits = vec![Edit::SetCapacity(Some(
        Capacity::NONE.read(1_000_000_000).write(1_000_000_000),
    ))];
    edits.extend((1..=groups).map(|id| Edit::AddGroup {
        id: GroupId(id),
        parent: ROOT,
        contract: contract(1_000),
    }));
    let changed: Result<_, Refusal> = layer.change(Instant::ZERO, &edits);
    changed?;
    Ok(layer)
}

fn contract(min: u64) -> Contract {
    Contract::DEFAULT.min(min)
}
