//! What the server counts, and how it is read.

mod tally;

pub(crate) use tally::Tally;
