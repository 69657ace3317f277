//! Auditors: independent models that watch a layer's calls, outputs and published events, and nothing else.
//!
//! They never look inside, so they run wherever a [`Layer`](weir_core::Layer) does: in tests and in the simulator as [`Audited`],
//! beside a live server, on a [`recording`]. Each auditor is one rule over one shared [`model`]:
//!
//! | auditor | what it watches |
//! |---|---|
//! | [`Once`] | every accepted request answered once, with its outcome and waits; every byte dispatched once |
//! | [`Tags`] | no tag used again before it is back |
//! | [`Room`] | what is accepted fits; what is refused is refused for a true reason |
//! | [`Ledger`] | limits at every level, exact in every window, above and below |
//! | [`Flow`] | pause and resume; nothing from a stream on hold |
//! | [`Wakes`] | wake-ups neither late nor missing |
//! | [`Conserve`] | the drive not left idle |
//! | [`Durability`] | flushes and FUA |
//! | [`Admission`] | promises add up |
//!
//! [`random`] draws a configuration and performs random operations under all of them; [`fuzz`] does so from bytes.

mod admission;
mod audit;
mod audited;
mod auditor;
mod conserve;
mod durability;
mod flow;
mod found;
pub mod fuzz;
mod ledger;
pub mod model;
mod once;
pub mod random;
mod recording;
mod room;
mod tags;
mod wake;

pub use admission::Admission;
pub use audit::Audit;
pub use audited::Audited;
pub use auditor::{Auditor, Fact};
pub use conserve::Conserve;
pub use durability::Durability;
pub use flow::Flow;
pub use found::{Found, Violation};
pub use ledger::Ledger;
pub use once::Once;
pub use recording::recording;
pub use room::Room;
pub use tags::Tags;
pub use wake::Wakes;
