//! What several elevators need.

pub(crate) mod members;
pub(crate) mod seek;
pub(crate) mod think;
