//! The search: random runs that look for contracts that are not kept.
//!
//! A [`SearchCase`](case::SearchCase) is drawn from a seed: a drive, clients, their contracts and
//! the events that happen to them. A [`Trial`](trial::Trial) runs it under `none`, `bfq-bytes` and
//! `contract`, with only the promised clients, and with each client on its own. The
//! [`TrialOutcome`](trial::TrialOutcome) contains the promises that were kept ([`judge`]) and their
//! cost to other clients. A [search](batch::search) does this for many seeds, and their
//! [table](tally::table) shows the figures next to their goals.
//!
//! The results do not depend on the machine or on the number of cases that run in parallel: a seed
//! always gives the same case with the same outcome. A case is a scenario. It is printed as a
//! scenario's file, which can be edited and run again.

mod admit;
pub mod batch;
pub mod case;
mod draw;
pub mod judge;
pub mod show;
pub mod shrink;
pub mod spent;
pub mod tally;
pub mod trial;
mod watch;
pub mod why;

pub use draw::draw;
pub use watch::{GroupWatch, WatchedGroup};
