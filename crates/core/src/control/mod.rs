//! Controllers: they hold requests back before the elevator sees them.

mod bucket;
pub(crate) mod max;
