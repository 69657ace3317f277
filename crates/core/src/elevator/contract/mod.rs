//! Keeps contracts: min, share, class, tenants.

/// Its tunables.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Config {}
