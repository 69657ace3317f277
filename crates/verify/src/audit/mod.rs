//! Auditors: independent models that watch a layer's calls, outputs and published events, and nothing else.
//!
//! They never look inside, so they run wherever a [`Layer`](weir_core::Layer) does: in tests and in the simulator as [`Audited`],
//! beside a live server, on a [`recording`]. Each auditor is one rule over one shared [`model`]:
//!
//! | auditor | what it watches |
//! |---|---|
//! | [`Once`] | every accepted request is done once, with its outcome and waits; every byte is dispatched once |
//! | [`Tags`] | no tag is used again before its completion |
//! | [`Room`] | what is accepted fits; what is refused is refused for a true reason |
//! | [`Ledger`] | limits at every level, exact in every window, above and below |
//! | [`Slices`] | limits under `io.max`: no more in any window than Linux's slices allow, and a request that waits is woken |
//! | [`Flow`] | pause and resume; a stream on hold sends nothing |
//! | [`Stalls`] | a space whose storage does not answer gets a request now and then, and no more |
//! | [`Wakes`] | wake-ups neither late nor missing |
//! | [`Conserve`] | the drive is not left idle |
//! | [`Durability`] | flushes and FUA |
//! | [`Admission`] | the sum of all promises |
//! | [`Precedence`] | a client without a promise is not served before one that was not sent what it was promised |
//! | [`Priorities`] | under `mq-deadline` a lower priority waits for the higher ones, but not for longer than it has to |
//! | [`Domains`] | under `kyber` no kind of requests has more in the drive than it may at most |
//! | [`Realtime`] | only kept promises go before a realtime client; and how long it waits (on request) |
//! | [`Seconds`] | the metrics' verdicts about promises: each second is kept, short or excused, in agreement with a slow count |
//! | [`Fair`] | nobody gets ahead of a waiting sibling by more than a stated lag (on request) |
//! | [`Starvation`] | nobody waits longer than a stated bound (on request) |
//! | [`Idle`] | each client of the idle class is served in time, at every level (on request) |
//! | [`Promise`] | every second's min, of clients and tenants, in bytes and in requests (on request) |
//!
//! [`random`] draws a configuration and performs random operations under all of them; [`fuzz`] does so from bytes.
//! [`steady`] runs drawn clients on a modelled drive, for the auditors that need a steady state.
//!
//! `docs/glossary.md` and `docs/code-terms.md` define the terms.

mod account;
mod admission;
mod audited;
mod auditor;
mod auditors;
mod conserve;
mod domains;
mod durability;
mod fair;
mod flow;
mod found;
pub mod fuzz;
mod idle;
mod ledger;
pub mod model;
mod once;
mod precedence;
mod priority;
mod promise;
mod promised;
pub mod random;
mod realtime;
mod recording;
mod room;
mod seconds;
mod slices;
mod stalls;
mod starvation;
pub mod steady;
mod suite;
mod tags;
mod tally;
mod wake;

pub use admission::Admission;
pub use audited::{Audited, Witness};
pub use auditor::{Auditor, Fact};
pub use auditors::Auditors;
pub use conserve::Conserve;
pub use domains::Domains;
pub use durability::Durability;
pub use fair::Fair;
pub use flow::Flow;
pub use found::{Found, Violation};
pub use idle::Idle;
pub use ledger::Ledger;
pub use once::Once;
pub use precedence::Precedence;
pub use priority::Priorities;
pub use promise::Promise;
pub use realtime::Realtime;
pub use recording::recording;
pub use room::Room;
pub use seconds::Seconds;
pub use slices::Slices;
pub use stalls::Stalls;
pub use starvation::Starvation;
pub use suite::{Audit, Margins};
pub use tags::Tags;
pub use tally::Tally;
pub use wake::Wakes;
