//! The search: random runs that look for contracts that are not kept.
//!
//! A [`Case`](case::Case) is drawn from a seed: a drive, clients, their contracts and what happens to them. A
//! [`Trial`](trial::Trial) runs it under `none`, `bfq-bytes` and `contract`, with the promised clients alone, and with each client
//! alone; the [`Outcome`](trial::Outcome) says which promises were kept ([`judge`]) and what it cost the others. A
//! [search](batch::search) does this for many seeds, and their [table](tally::table) shows the goals beside the figures.
//!
//! Nothing depends on the machine or on how many cases run in parallel: a seed always gives the same case with the same outcome.
//! A case is a scenario: printed it is a scenario's file, which can be edited and run again.

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
pub use watch::{Node, Watch};
