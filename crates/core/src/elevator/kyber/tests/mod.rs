//! Decisions in small, the depths that follow from latencies, and what Linux's own kyber does with the same clients.

mod depth;
mod linux;
mod order;

use super::Config;
use crate::{Layer, Sample, Wanted};

/// Depth and pieces in the drive of each domain.
fn tokens(layer: &Layer) -> [(u32, u32); 4] {
    let mut all = [(0, 0); 4];
    layer.sample(Wanted::DRIVE, &mut |sample| {
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
