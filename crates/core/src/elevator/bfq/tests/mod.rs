//! Behaviour of the whole elevator, and of its engine against what it approximates.

mod chaos;
mod engine;
mod host;
#[cfg(feature = "mutants")]
mod mutants;
mod oracle;
mod shares;
mod turns;
