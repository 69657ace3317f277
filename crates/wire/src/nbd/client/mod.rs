//! The client's side: its handshake, and the replies it reads. Requests are encoded by
//! [`Request::encode`](super::Request::encode).

mod handshake;
mod reply;

pub use handshake::{Handshake, HandshakeConfig, HandshakeError, Outcome, Session};
pub use reply::{Reply, ReplyError, ReplyParser};
