//! Linux's Budget Fair Queueing.

/// Its tunables.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Config {}
