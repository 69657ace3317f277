//! What several elevators need.

pub(crate) mod seek;
pub(crate) mod think;
