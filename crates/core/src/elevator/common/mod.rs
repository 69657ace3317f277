//! What several elevators need.

pub(crate) mod depth;
#[cfg(test)]
pub(crate) mod host;
pub(crate) mod members;
pub(crate) mod seek;
pub(crate) mod think;
