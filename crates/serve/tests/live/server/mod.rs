//! A server in this process, raw clients over Unix sockets.

mod client;
mod hostile;
mod lifecycle;
mod metrics;
mod protocol;
mod shared;
