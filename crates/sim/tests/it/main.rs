//! The integration tests of this crate, a module for each subject.

mod agree;
mod busy_host;
mod demo;
mod ending;
mod events;
mod host;
mod interleaved;
mod latency;
mod merging;
mod physics;
mod placement;
mod promises;
mod ring;
mod split;
mod too_long;
mod traces;
mod twin;
mod write_back;
