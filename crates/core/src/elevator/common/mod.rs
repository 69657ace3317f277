//! Code that several elevators share.

pub(crate) mod depth;
pub(crate) mod members;
pub(crate) mod order;
pub(crate) mod seek;
pub(crate) mod think;
