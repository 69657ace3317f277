//! The client's side of the protocol: its handshake and its parser for replies. Requests are
//! encoded by [`NbdRequest::encode`](super::NbdRequest::encode).

mod handshake;
mod reply;

pub use handshake::{
    ClientHandshakeConfig, ClientHandshakeError, ClientHandshakeOutcome, ClientSession,
    NbdClientHandshake,
};
pub use reply::{Reply, ReplyError, ReplyParser};
