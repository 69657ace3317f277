//! A server in this process, with clients that send raw bytes over Unix sockets.

mod client;
mod hostile;
mod lifecycle;
mod metrics;
mod protocol;
mod shared;
