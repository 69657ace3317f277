//! What is learned of the drive and of its clients, from what they do: the lowest layer.

pub(crate) mod afterwork;
pub(crate) mod arrival;
pub(crate) mod cost;
pub(crate) mod window;
