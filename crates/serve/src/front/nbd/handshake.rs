//! The handshake of NBD on one socket.
//!
//! [`greet`] begins it, [`Negotiation`] is driven by the acceptor, and [`NegotiatedConnection`] is
//! its result.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags};
use weir_uring::Arena;
use weir_wire::nbd::{HandshakeConfig, HandshakeOutcome, Session};

use super::NbdConnection;
use super::export::OfferedExports;
use crate::acceptor::{ClientHandshake, Greet, HandshakeProgress, PlaceOffer, VolumeLocation};
use crate::access::{ClientCredentials, ClientIdentity, Origin, RefusalReason};
use crate::shard::{Attach, AttachError, FrontEnd};
use crate::tls::{TlsOffer, TlsSession};

/// The largest number of bytes that are received at a time. The bytes that follow the handshake
/// must fit into a connection's receive buffer.
const READ: usize = 4096;

/// A client whose handshake is in progress.
#[derive(Debug)]
struct Negotiation {
    socket: OwnedFd,
    tls: Arc<TlsOffer>,
    /// The encryption, once TLS has begun.
    secure: Option<Box<TlsSession>>,
    /// True if the client has not sent anything yet.
    silent: bool,
    /// The names in the client's certificate, once TLS has begun.
    names: Option<Vec<String>>,
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

/// The end of the unencrypted part of a handshake, or of the whole handshake.
#[derive(Debug)]
enum HandshakeEnd {
    /// TLS begins.
    Tls,
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

/// Returns the function that begins the handshake with a client that has connected.
pub(crate) fn greeter(tls: Arc<TlsOffer>) -> Greet {
    Arc::new(move |socket| {
        let handshake = weir_wire::nbd::Handshake::new(HandshakeConfig::default());
        let mut output = Vec::new();
        handshake.greet(&mut output);
        Box::new(Negotiation {
            socket,
            tls: Arc::clone(&tls),
            secure: None,
            silent: true,
            names: None,
            handshake,
            input: Vec::new(),
            output,
            sent: 0,
            ended: None,
            session: None,
        })
    })
}

impl ClientHandshake for Negotiation {
    /// Waits for space to send if there is output, and for input otherwise.
    fn interest(&self) -> PollFd<'_> {
        let flags = match &self.secure {
            Some(session) => session.interest(),
            None if self.sent < self.output.len() => PollFlags::OUT,
            None => PollFlags::IN,
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
                Some(HandshakeEnd::Tls) => {
                    if let Err(reason) = self.begin_tls() {
                        return HandshakeProgress::Over(Some(reason));
                    }
                }
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
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        return HandshakeProgress::Wait;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => return failed(&error, offer),
                }
            }
            self.feed(offer);
        }
    }

    fn is_silent(&self) -> bool {
        self.silent
    }

    fn credentials(&self, origin: Origin) -> ClientCredentials {
        ClientCredentials {
            origin,
            names: self.names.clone(),
            has_tls: true,
        }
    }

    fn attach(self: Box<Self>) -> Option<Box<dyn Attach>> {
        let socket = match self.secure {
            None => self.socket,
            Some(session) => match self.tls.relay(self.socket, *session) {
                Ok(socket) => socket,
                Err(error) => {
                    tracing::warn!(
                        error = weir_config::os_error::message(&error),
                        "the server closed a TLS connection, because it could not start its thread"
                    );
                    return None;
                }
            },
        };
        Some(Box::new(NegotiatedConnection {
            socket,
            session: self.session?,
            rest: self.input,
        }))
    }
}

impl Negotiation {
    /// Begins TLS after the reply to STARTTLS was sent.
    fn begin_tls(&mut self) -> Result<(), String> {
        // Another party can have inserted bytes that follow STARTTLS without encryption.
        self.input = Vec::new();
        self.secure = Some(Box::new(self.tls.begin()?));
        Ok(())
    }

    /// Passes received bytes to the handshake.
    fn feed(&mut self, offer: &PlaceOffer<'_>) {
        let exports = OfferedExports {
            offer,
            client: ClientIdentity {
                origin: offer.origin,
                names: self.names.as_deref(),
            },
            offers_tls: self.tls.is_offered(),
        };
        let fed = self.handshake.feed(&self.input, &exports, &mut self.output);
        self.ended = match fed {
            Ok((used, outcome)) => {
                self.input.drain(..used);
                outcome.map(|outcome| match outcome {
                    HandshakeOutcome::StartTls => HandshakeEnd::Tls,
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
    fn send(&mut self) -> io::Result<bool> {
        while self.sent < self.output.len() {
            let rest = &self.output[self.sent..];
            let sent = if let Some(session) = &mut self.secure {
                session.send(&self.socket, rest)
            } else {
                // The acceptor drives many handshakes on one thread, so none may block it.
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                rustix::net::send(&self.socket, rest, flags).map_err(io::Error::from)
            };
            match sent {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.sent = 0;
        match &mut self.secure {
            Some(session) => session.flush(&self.socket),
            None => Ok(true),
        }
    }

    /// Receives available bytes. Returns 0 if the client has disconnected.
    fn receive(&mut self) -> io::Result<usize> {
        let mut bytes = [0; READ];
        let count = match &mut self.secure {
            Some(session) => session.receive(&self.socket, &mut bytes)?,
            None => rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT)?.0,
        };
        if let Some(session) = &self.secure
            && self.names.is_none()
        {
            // The first decrypted bytes follow the TLS handshake, which verified the certificate.
            self.names = Some(session.names());
        }
        self.input.extend_from_slice(&bytes[..count]);
        self.silent &= count == 0;
        Ok(count)
    }
}

/// Returns the end of a handshake whose connection has failed.
fn failed(error: &io::Error, offer: &PlaceOffer<'_>) -> HandshakeProgress {
    // Otherwise the client has disconnected, which is not worth a log entry.
    let tls = error.kind() == ErrorKind::InvalidData;
    HandshakeProgress::Over(tls.then(|| {
        offer.refusals.count(RefusalReason::Tls);
        format!("TLS failed: {error}")
    }))
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
