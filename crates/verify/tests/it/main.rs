//! The integration tests of this crate, a module for each subject.

mod corpus;
mod forged;
mod found;
mod limits;
mod random;
mod recording;
mod search;
mod steady;
