//! How policies look: one colour and one kind of line for each, on every page, and neither for anything else.

use crate::svg::Ink;

/// The policies that have a look of their own; all others share one.
const NAMES: [&str; 5] = ["none", "io.latency", "bfq-linux", "bfq", "contract"];

/// The colour of a policy.
pub fn ink(policy: &str) -> Ink {
    Ink::policy(place(policy))
}

/// The pattern of a policy's line where those of others may lie on it.
pub(crate) fn dash(policy: &str) -> usize {
    place(policy)
}

fn place(policy: &str) -> usize {
    let place = NAMES.iter().position(|name| *name == policy);
    place.unwrap_or(NAMES.len())
}
