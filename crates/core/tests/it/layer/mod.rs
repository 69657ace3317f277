//! The whole layer, called as a driver calls it.

mod commands;
mod driver;
mod found;
mod stalled;

use weir_core::{Config, Edit, GroupId, Instant, Layer, Priority, SpaceId, StreamId, StreamSpec};

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}

/// A layer with a space of 1 GiB.
fn layer(config: Config) -> Layer {
    let mut layer = Layer::new(config).unwrap();
    let space = Edit::SetSpace {
        id: SpaceId(0),
        size: Some(1 << 30),
    };
    layer.change(at(0), &[space]).unwrap();
    layer
}

fn open(layer: &mut Layer, group: GroupId) -> StreamId {
    let priority = Priority::default();
    layer.open(at(0), StreamSpec { group, priority }).unwrap()
}
