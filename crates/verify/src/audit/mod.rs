//! Auditors: independent models that observe the calls, outputs and published events of a layer.
//!
//! Auditors have no access to the state inside a [`Layer`](weir_core::Layer), so they run wherever
//! a layer does: in tests and in the simulator as [`Audited`], in a live server, and on a
//! [`recording`]. Each auditor checks one rule over one shared [`model`]:
//!
//! | Auditor | Rule |
//! |---|---|
//! | [`Once`] | every accepted request is completed once, with its outcome and waits, and every byte is dispatched once |
//! | [`Tags`] | no tag is used again before its completion |
//! | [`RoomAuditor`] | accepted requests fit, and requests are refused for a true reason |
//! | [`LimitLedger`] | limits at every level are exact in every window, above and below |
//! | [`SlicesAuditor`] | under `io.max`, no window exceeds the slices of Linux, and a waiting request is woken |
//! | [`FlowAuditor`] | streams are paused and resumed, and a stream on hold sends nothing |
//! | [`StallsAuditor`] | a space whose storage does not answer gets a request now and then, and no more |
//! | [`WakesAuditor`] | wake-ups are neither late nor missing |
//! | [`Conserve`] | the drive is not left idle |
//! | [`Durability`] | flushes and FUA make writes durable |
//! | [`Admission`] | the sum of all promises fits the drive |
//! | [`Precedence`] | a client without a promise is not served before one that is below its min |
//! | [`Priorities`] | under `mq-deadline`, a lower priority waits for the higher ones, but no longer than necessary |
//! | [`Domains`] | under `kyber`, no kind of request has more in the drive than its maximum |
//! | [`Realtime`] | only kept promises go before a realtime client, and (on request) its wait is bounded |
//! | [`SecondsAuditor`] | the metrics' verdicts about promises (kept, short or excused) agree with a slow count |
//! | [`Fair`] | no entity gets ahead of a waiting sibling by more than a stated lag (on request) |
//! | [`Starvation`] | no stream with something to send waits longer than a stated bound (on request) |
//! | [`Idle`] | each client of the idle class is served in time, at every level (on request) |
//! | [`PromiseAuditor`] | clients and tenants get their min in every second, in bytes and in requests (on request) |
//!
//! [`random`] draws a configuration and performs random operations under all of them. [`fuzz`] does
//! so with bytes as the source of decisions. [`steady`] runs drawn clients on a modelled drive, for
//! the auditors that need a steady state.
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
pub use flow::FlowAuditor;
pub use found::{Violation, Violations};
pub use idle::Idle;
pub use ledger::LimitLedger;
pub use once::Once;
pub use precedence::Precedence;
pub use priority::Priorities;
pub use promise::PromiseAuditor;
pub use realtime::Realtime;
pub use recording::recording;
pub use room::RoomAuditor;
pub use seconds::SecondsAuditor;
pub use slices::SlicesAuditor;
pub use stalls::StallsAuditor;
pub use starvation::Starvation;
pub use suite::{Audit, AuditMargins};
pub use tags::Tags;
pub use tally::Tally;
pub use wake::WakesAuditor;
