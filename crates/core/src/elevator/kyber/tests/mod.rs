//! Tests of single decisions, of the depths that follow from latencies, and of the rates and depths
//! of Linux's own kyber.

mod depth;
mod linux;
mod order;

use super::Config;
use crate::{Layer, Sample, SampleMask};

/// Returns the depth and the number of pieces in flight of each domain.
fn tokens(layer: &Layer) -> [(u32, u32); 4] {
    let mut all = [(0, 0); 4];
    layer.sample(SampleMask::DRIVE, &mut |sample| {
        if let Sample::Tokens {
            domain,
            depth,
            in_flight,
        } = sample
        {
            all[domain as usize] = (depth, in_flight);
        }
    });
    all
}
