//! Connecting to an export: the socket and the handshake of the NBD protocol.

use crate::client::socket::Socket;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use weir_wire::nbd::Address;
use weir_wire::nbd::OPT_STARTTLS;
use weir_wire::nbd::REP_ERR_TLS_REQD;
use weir_wire::nbd::REP_ERR_UNKNOWN;
use weir_wire::nbd::client::{
    ClientHandshakeConfig, ClientHandshakeError, ClientHandshakeOutcome, ClientSession,
    NbdClientHandshake,
};

/// A connection to an export in the transmission phase of the NBD protocol.
#[derive(Debug)]
pub struct Connection {
    pub(crate) socket: Socket,
    pub(crate) session: ClientSession,
    /// Bytes that the server sent after its part of the handshake.
    pub(crate) received: Vec<u8>,
}

/// The reason why connecting to an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The socket could not be connected, or failed during the handshake.
    #[error("cannot connect to {address}: {error}")]
    Socket {
        /// The server's address.
        address: Address,
        /// The system's error.
        error: io::Error,
    },
    /// The server violated the NBD protocol.
    #[error("{address} violated the NBD protocol: {error}")]
    Protocol {
        /// The server's address.
        address: Address,
        /// The violation.
        error: ClientHandshakeError,
    },
    /// The server refused the export.
    #[error("{address} refused export {export:?}: {message}")]
    Refused {
        /// The server's address.
        address: Address,
        /// The requested export.
        export: String,
        /// The server's message.
        message: String,
    },
    /// TLS with the server failed.
    #[error("TLS with {address} failed: {reason}")]
    Tls {
        /// The server's address.
        address: Address,
        /// The reason, for example that its certificate has expired.
        reason: String,
    },
    /// The server did not respond in time, or closed the connection.
    #[error("{address} {what} during the handshake")]
    Ended {
        /// The server's address.
        address: Address,
        /// The event, as a part of the message.
        what: &'static str,
    },
}

/// A function that begins TLS on a non-blocking socket, within the given time. It returns a socket
/// for the decrypted bytes, or the reason why TLS has failed.
pub type BeginTls<'a> = &'a dyn Fn(OwnedFd, Duration) -> Result<OwnedFd, String>;

impl Connection {
    /// Connects to an export and does the handshake within `timeout`.
    ///
    /// # Errors
    /// The server cannot be reached, refused, violated the protocol or timed out.
    pub fn open(
        address: &Address,
        config: ClientHandshakeConfig,
        timeout: Duration,
    ) -> Result<Self, ConnectError> {
        let no_tls = |_, _| Err("TLS is not supported here".to_owned());
        Self::open_with_tls(address, config, timeout, &no_tls)
    }

    /// Connects in the same way as [`Self::open`]. If the configuration requires TLS, `begin_tls`
    /// begins it.
    ///
    /// # Errors
    /// The errors of [`Self::open`], or the reason why TLS has failed.
    pub fn open_with_tls(
        address: &Address,
        config: ClientHandshakeConfig,
        timeout: Duration,
        begin_tls: BeginTls<'_>,
    ) -> Result<Self, ConnectError> {
        let failed = |error| ConnectError::Socket {
            address: address.clone(),
            error,
        };
        let ended = |what| ConnectError::Ended {
            address: address.clone(),
            what,
        };
        // One deadline for connecting and the whole handshake, so that a slow server cannot extend
        // it message by message.
        let deadline = Instant::now() + timeout;
        let export = config.export.clone();
        let mut socket = Socket::connect(address, timeout).map_err(failed)?;
        let mut handshake = NbdClientHandshake::new(config);
        let (mut received, mut answer, mut chunk) = (Vec::new(), Vec::new(), vec![0; 4096]);
        loop {
            let (used, outcome) =
                handshake
                    .feed(&received, &mut answer)
                    .map_err(|error| ConnectError::Protocol {
                        address: address.clone(),
                        error,
                    })?;
            received.drain(..used);
            match outcome {
                Some(ClientHandshakeOutcome::Transmission(session)) => {
                    return Ok(Self {
                        socket,
                        session,
                        received,
                    });
                }
                Some(ClientHandshakeOutcome::StartTls) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let refused = |reason| ConnectError::Tls {
                        address: address.clone(),
                        reason,
                    };
                    socket = encrypt(socket, &received, left, begin_tls).map_err(refused)?;
                    handshake.encrypted(&mut answer);
                }
                Some(ClientHandshakeOutcome::Refused {
                    message,
                    reply,
                    option,
                }) => {
                    // The answer to a refusal is a courtesy (NBD_OPT_ABORT). If it is not
                    // delivered, the server notices the closed connection instead.
                    let _ = socket.send(&answer);
                    return Err(ConnectError::Refused {
                        address: address.clone(),
                        export,
                        message: refusal(option, reply, message),
                    });
                }
                None => {}
            }
            // The socket does not block. If the rest of the answer does not fit now, `wait` below
            // also waits for space.
            if !answer.is_empty()
                && let Some(sent) = socket.send(&answer).map_err(failed)?
            {
                answer.drain(..sent);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !socket.wait(!answer.is_empty(), left).map_err(failed)? {
                return Err(ended("did not respond in time"));
            }
            match socket.receive(&mut chunk).map_err(failed)? {
                Some(0) => return Err(ended("closed the connection")),
                Some(n) => received.extend_from_slice(&chunk[..n]),
                None => {}
            }
        }
    }

    /// Splits the connection into its non-blocking socket, the session, and the bytes that the
    /// server has sent since the handshake.
    ///
    /// With these parts, another program can continue the transmission phase.
    pub fn into_parts(self) -> (OwnedFd, ClientSession, Vec<u8>) {
        (self.socket.into(), self.session, self.received)
    }

    /// The negotiated session of the connection.
    pub fn session(&self) -> &ClientSession {
        &self.session
    }
}

/// Begins TLS on a socket. `received` are the bytes after the server's agreement, which must be
/// none, because they would not be encrypted.
///
/// # Errors
/// Returns the reason why TLS has failed.
fn encrypt(
    socket: Socket,
    received: &[u8],
    timeout: Duration,
    begin_tls: BeginTls<'_>,
) -> Result<Socket, String> {
    if !received.is_empty() {
        return Err("bytes follow the reply to STARTTLS".to_owned());
    }
    let plain = begin_tls(socket.into(), timeout)?;
    Ok(Socket::Unix(plain.into()))
}

/// Returns the reason for a refused option of the handshake, with the server's message if it says
/// more than the code of the reply.
fn refusal(option: u32, reply: u32, message: String) -> String {
    match reply {
        _ if option == OPT_STARTTLS => {
            "the server does not offer TLS; use nbd:// if the network is safe".to_owned()
        }
        REP_ERR_TLS_REQD => "the server requires TLS; use nbds://".to_owned(),
        REP_ERR_UNKNOWN if message.is_empty() => "unknown export".to_owned(),
        reply if message.is_empty() => format!("error {reply:#x}"),
        _ => message,
    }
}
