//! Behaviour of the whole elevator, and of its engine against what it approximates.

mod host;
mod shares;
