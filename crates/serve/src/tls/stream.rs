//! An encrypted connection. Each function states the socket, which must not block.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{RecvFlags, SendFlags};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

/// The maximum amount of data that waits to be sent, in bytes.
const UNSENT: usize = 64 << 10;
/// The maximum number of reads from the socket in one call. A client can send records without
/// content, which must not occupy the thread.
const READS: usize = 16;

/// The state of TLS on one connection. No function waits.
#[derive(Debug)]
pub(crate) struct TlsSession(Connection);

impl TlsSession {
    /// Begins the server's side of a connection.
    pub(super) fn serve(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self::bounded(ServerConnection::new(config)?.into()))
    }

    /// Begins the client's side of a connection. The server's certificate must contain `name`.
    pub(super) fn connect(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, rustls::Error> {
        Ok(Self::bounded(ClientConnection::new(config, name)?.into()))
    }

    fn bounded(mut tls: Connection) -> Self {
        tls.set_buffer_limit(Some(UNSENT));
        Self(tls)
    }

    /// Conducts the whole handshake of TLS, and waits for the other side for at most `within`.
    pub(super) fn handshake(&mut self, socket: impl AsFd, within: Duration) -> io::Result<()> {
        let deadline = Instant::now() + within;
        loop {
            let is_sent = self.flush(&socket)?;
            if is_sent && !self.0.is_handshaking() {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::from(ErrorKind::TimedOut));
            }
            let mut fds = [PollFd::new(&socket, self.interest())];
            match rustix::event::poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if self.has_unsent() {
                continue;
            }
            match self.0.read_tls(&mut NonblockingSocket(socket.as_fd())) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => self.process(&socket)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns true if data wait to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.0.wants_write()
    }

    /// Returns the events for which the next call of [`receive`](Self::receive) must wait.
    pub(crate) fn interest(&self) -> PollFlags {
        if self.has_unsent() {
            PollFlags::OUT
        } else {
            PollFlags::IN
        }
    }

    /// Receives decrypted bytes, and continues the TLS handshake. Returns 0 at the end of the
    /// stream.
    ///
    /// # Errors
    /// Returns `WouldBlock` if there are no bytes yet, and other errors if the connection has
    /// failed.
    pub(crate) fn receive(&mut self, socket: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
        for _ in 0..READS {
            match self.0.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The client has closed the connection without a notification. NBD has its own end
                // of a session, so nothing was cut off unnoticed.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            match self.0.read_tls(&mut NonblockingSocket(socket.as_fd())) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.flush(&socket)?;
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
            self.process(&socket)?;
            self.flush(&socket)?;
        }
        Err(ErrorKind::WouldBlock.into())
    }

    /// Processes the records that were received.
    fn process(&mut self, socket: impl AsFd) -> io::Result<()> {
        let processed = self.0.process_new_packets();
        processed.map(drop).map_err(|error| {
            // This sends the alert that names the reason. The connection ends anyway.
            let _ = self.flush(socket);
            io::Error::new(ErrorKind::InvalidData, error)
        })
    }

    /// Accepts bytes for sending, and sends as many as possible. Returns the number of accepted
    /// bytes.
    ///
    /// # Errors
    /// Returns `WouldBlock` if too many bytes wait to be sent.
    pub(crate) fn send(&mut self, socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
        let count = self.0.writer().write(bytes)?;
        self.flush(&socket)?;
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(count)
    }

    /// Sends bytes that were accepted earlier. Returns true when all are sent.
    pub(crate) fn flush(&mut self, socket: impl AsFd) -> io::Result<bool> {
        while self.0.wants_write() {
            match self.0.write_tls(&mut NonblockingSocket(socket.as_fd())) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Notifies the client of the end of the stream, as far as that is possible without waiting.
    pub(super) fn close(&mut self, socket: impl AsFd) {
        self.0.send_close_notify();
        let _ = self.flush(&socket);
        let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
    }

    /// Returns the DNS names and URIs in the client's certificate. The certificate has been
    /// verified.
    pub(crate) fn names(&self) -> Vec<String> {
        certificate_names(self.0.peer_certificates().unwrap_or_default())
    }
}

/// Returns the DNS names and URIs among the subject alternative names of the first certificate of a
/// chain.
pub fn certificate_names(chain: &[CertificateDer<'_>]) -> Vec<String> {
    let Some(first) = chain.first() else {
        return Vec::new();
    };
    let Ok(certificate) = webpki::EndEntityCert::try_from(first) else {
        return Vec::new();
    };
    let names = certificate.valid_dns_names();
    names
        .chain(certificate.valid_uri_names())
        .map(str::to_owned)
        .collect()
}

/// Reads from and writes to a socket without waiting.
struct NonblockingSocket<'a>(BorrowedFd<'a>);

impl Read for NonblockingSocket<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recv(self.0, &mut *into, RecvFlags::DONTWAIT)
        });
        Ok(received?.0)
    }
}

impl Write for NonblockingSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::io::retry_on_intr(|| {
            rustix::net::send(self.0, bytes, flags)
        })?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
