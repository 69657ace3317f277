//! Tests of the whole layer, with the calls of a driver.

mod commands;
mod driver;
mod found;
mod mins;
mod stalled;

use weir_core::testing::{at, open};
use weir_core::{Config, Layer};

/// Returns a layer with one space.
fn layer(config: Config) -> Layer {
    weir_core::testing::layer(config, &[]).unwrap()
}
