//! Controllers: they hold requests back before the elevator sees them.

mod bucket;
pub(crate) mod latency;
pub(crate) mod max;
