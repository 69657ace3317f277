//! The integration tests of this crate, a module for each subject.

mod allocations;
mod bounds;
mod cost;
mod decisions;
mod layer;
mod listened;
mod merging;
mod record;
