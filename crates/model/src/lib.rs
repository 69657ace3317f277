//! Models of drives, of the programs that clients run, and a client that runs them on a live server.
#![forbid(unsafe_code)]

pub mod client;
pub mod drive;
pub mod load;
