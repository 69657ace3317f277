//! The whole layer, called as a driver calls it.

mod commands;
mod driver;
mod found;
mod mins;
mod stalled;

use weir_core::{Config, Edit, GroupId, Instant, Layer, Priority, SpaceId, StreamId, StreamSpec};

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}

/// A space of 1 GiB.
const SPACE: Edit = Edit::SetSpace {
    id: SpaceId(0),
    size: Some(1 << 30),
};

/// A layer with [`SPACE`].
fn layer(config: Config) -> Layer {
    let mut layer = Layer::new(config).unwrap();
    layer.change(at(0), &[SPACE]).unwrap();
    layer
}

fn open(layer: &mut Layer, group: GroupId) -> StreamId {
    let priority = Priority::default();
    layer.open(at(0), StreamSpec { group, priority }).unwrap()
}
