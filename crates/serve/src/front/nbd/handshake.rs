//! The handshake of NBD on one socket.
//!
//! [`greet`] begins it, [`Negotiation`] is driven by the acceptor, and [`NegotiatedConnection`] is
//! its result.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use weir_uring::Arena;
use weir_wire::nbd::{HandshakeConfig, HandshakeOutcome, Session};

use super::NbdConnection;
use super::export::OfferedExports;
use crate::acceptor::{ClientHandshake, HandshakeProgress, PlaceOffer, VolumeLocation};
use crate::shard::{Attach, AttachError, FrontEnd};

/// The largest number of bytes that are received at a time. The bytes that follow the handshake
/// must fit into a connection's receive buffer.
const READ: usize = 4096;

/// A client whose handshake is in progress.
#[derive(Debug)]
struct Negotiation {
    socket: OwnedFd,
    /// True if the client has not sent anything yet.
    silent: bool,
    handshake: weir_wire::nbd::Handshake,
    /// Bytes that were received and not consumed.
    input: Vec<u8>,
    output: Vec<u8>,
    /// The number of bytes of the output that have been sent.
    sent: usize,
    /// The end of the handshake, which takes effect when the output is sent.
    ended: Option<HandshakeEnd>,
    /// The negotiated session, if the handshake succeeded.
    session: Option<Box<Session>>,
}

/// The result of a handshake.
#[derive(Debug)]
enum HandshakeEnd {
    /// The client has chosen a volume. The place is `None` if the volume no longer exists.
    Chosen(Option<VolumeLocation>, Box<Session>),
    Aborted,
    Failed(String),
}

/// The result of a successful handshake, from which a connection is made.
#[derive(Debug)]
pub(super) struct NegotiatedConnection {
    pub(super) socket: OwnedFd,
    pub(super) session: Box<Session>,
    /// Bytes that the client sent after the handshake.
    pub(super) rest: Vec<u8>,
}

/// Begins the handshake with a client that has connected.
pub(crate) fn greet(socket: OwnedFd) -> Box<dyn ClientHandshake> {
    let handshake = weir_wire::nbd::Handshake::new(HandshakeConfig::default());
    let mut output = Vec::new();
    handshake.greet(&mut output);
    Box::new(Negotiation {
        socket,
        silent: true,
        handshake,
        input: Vec::new(),
        output,
        sent: 0,
        ended: None,
        session: None,
    })
}

impl ClientHandshake for Negotiation {
    /// Waits for space to send if there is output, and for input otherwise.
    fn interest(&self) -> PollFd<'_> {
        let flags = if self.sent < self.output.len() {
            PollFlags::OUT
        } else {
            PollFlags::IN
        };
        PollFd::new(&self.socket, flags)
    }

    fn advance(&mut self, offer: &PlaceOffer<'_>) -> HandshakeProgress {
        loop {
            match self.send() {
                Ok(true) => {}
                Ok(false) => return HandshakeProgress::Wait,
                // The client has disconnected, which is not worth a log entry.
                Err(_) => return HandshakeProgress::Over(None),
            }
            match self.ended.take() {
                Some(HandshakeEnd::Chosen(Some(place), session)) => {
                    let name = session.export.name.clone();
                    self.session = Some(session);
                    return HandshakeProgress::Chosen(place, name);
                }
                Some(HandshakeEnd::Chosen(None, _) | HandshakeEnd::Aborted) => {
                    return HandshakeProgress::Over(None);
                }
                Some(HandshakeEnd::Failed(reason)) => return HandshakeProgress::Over(Some(reason)),
                None => {}
            }
            // Bytes that were received earlier are consumed first, because no event announces them
            // again.
            if self.input.is_empty() {
                match self.receive() {
                    Ok(0) => return HandshakeProgress::Over(None),
                    Ok(_) => {}
                    Err(Errno::AGAIN) => return HandshakeProgress::Wait,
                    Err(Errno::INTR) => continue,
                    Err(_) => return HandshakeProgress::Over(None),
                }
            }
            self.feed(offer);
        }
    }

    fn is_silent(&self) -> bool {
        self.silent
    }

    fn attach(self: Box<Self>) -> Option<Box<dyn Attach>> {
        Some(Box::new(NegotiatedConnection {
            socket: self.socket,
            session: self.session?,
            rest: self.input,
        }))
    }
}

impl Negotiation {
    /// Passes received bytes to the handshake.
    fn feed(&mut self, offer: &PlaceOffer<'_>) {
        let fed = self
            .handshake
            .feed(&self.input, &OfferedExports(offer), &mut self.output);
        self.ended = match fed {
            Ok((used, outcome)) => {
                self.input.drain(..used);
                outcome.map(|outcome| match outcome {
                    HandshakeOutcome::Transmission(session) => {
                        let export = offer.table.exports().get(session.export.key as usize);
                        HandshakeEnd::Chosen(export.map(|export| export.place), session)
                    }
                    HandshakeOutcome::Aborted => HandshakeEnd::Aborted,
                })
            }
            Err(error) => Some(HandshakeEnd::Failed(error.to_string())),
        };
    }

    /// Sends output. Returns true when all of it is sent.
    fn send(&mut self) -> Result<bool, Errno> {
        while self.sent < self.output.len() {
            let rest = &self.output[self.sent..];
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // The acceptor drives many handshakes on one thread, so none may block it.
            match rustix::net::send(&self.socket, rest, flags) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Receives available bytes. Returns 0 if the client has disconnected.
    fn receive(&mut self) -> Result<usize, Errno> {
        let mut bytes = [0; READ];
        let (count, _) = rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT)?;
        self.input.extend_from_slice(&bytes[..count]);
        self.silent &= count == 0;
        Ok(count)
    }
}

/// Returns the result of a handshake without options, in which the client has chosen `export`.
#[cfg(test)]
pub(crate) fn agreed(socket: OwnedFd, export: &crate::acceptor::VolumeExport) -> Box<dyn Attach> {
    let export = super::export::info(export, 0);
    Box::new(NegotiatedConnection {
        socket,
        session: Box::new(Session {
            flags: export.flags,
            export,
            structured: false,
            meta_allocation: false,
            no_zeroes: true,
            block_sizes_requested: true,
        }),
        rest: Vec::new(),
    })
}

impl Attach for NegotiatedConnection {
    fn attach(self: Box<Self>, arena: &Arena) -> Result<Box<dyn FrontEnd>, AttachError> {
        Ok(Box::new(NbdConnection::new(*self, arena)?))
    }
}
