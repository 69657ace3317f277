//! The whole layer, called as a driver calls it.

mod commands;
mod driver;
mod found;
mod mins;
mod stalled;

use weir_core::testing::{at, open};
use weir_core::{Config, Layer};

/// A layer with a space.
fn layer(config: Config) -> Layer {
    weir_core::testing::layer(config, &[]).unwrap()
}
