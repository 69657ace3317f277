//! An encrypted connection. Each function states the socket, which must not block.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use super::buffer::TransferBuffer;

/// The maximum amount of data that waits to be sent, in bytes.
const UNSENT: usize = 64 << 10;
/// The maximum number of reads from the socket in one call. A client can send records without
/// content, which must not occupy the thread.
const READS: usize = 2;
/// The size of the buffer for encrypted bytes. rustls reads at most 4 KiB at a time, which would be
/// a system call each.
const RECEIVED: usize = 64 << 10;

/// The state of TLS on one connection. No function waits.
#[derive(Debug)]
pub(crate) struct TlsSession {
    tls: Connection,
    /// Encrypted bytes from the socket that are not processed.
    received: TransferBuffer,
}

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
        Self {
            tls,
            received: TransferBuffer::new(RECEIVED),
        }
    }

    /// Conducts the whole handshake of TLS, and waits for the other side for at most `within`.
    pub(super) fn handshake(&mut self, socket: impl AsFd, within: Duration) -> io::Result<()> {
        let deadline = Instant::now() + within;
        loop {
            let is_sent = self.flush(&socket)?;
            if is_sent && !self.tls.is_handshaking() {
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
            match self.read_records(&socket) {
                Ok(true) => {}
                Ok(false) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns true if data wait to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// Returns the events for which the next call of [`receive`](Self::receive) must wait.
    pub(crate) fn interest(&self) -> PollFlags {
        if self.has_unsent() {
            PollFlags::OUT
        } else {
            PollFlags::IN
        }
    }

    /// Receives the decrypted bytes of all records that have arrived, as far as there is room for
    /// them, and continues the TLS handshake. Returns 0 at the end of the stream.
    ///
    /// # Errors
    /// Returns `WouldBlock` if there are no bytes yet, and other errors if the connection has
    /// failed.
    pub(crate) fn receive(&mut self, socket: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < into.len() {
            match self.receive_some(&socket, &mut into[count..]) {
                Ok(0) => break,
                Ok(some) => count += some,
                Err(error) if error.kind() == ErrorKind::WouldBlock && count > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    /// Receives like [`receive`](Self::receive), but no more than is decrypted at a time.
    fn receive_some(&mut self, socket: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
        let mut reads = 0;
        loop {
            match self.tls.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The client has closed the connection without a notification. NBD has its own end
                // of a session, so nothing was cut off unnoticed.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            // The caller waits for the socket, so that nothing may be left in the buffers.
            if self.received.is_empty() {
                if reads == READS {
                    return Err(ErrorKind::WouldBlock.into());
                }
                reads += 1;
            }
            let read = self.read_records(&socket);
            self.flush(&socket)?;
            read?;
        }
    }

    /// Processes records in the buffer, which is filled from the socket if it is empty. Returns
    /// false at the end of the stream.
    fn read_records(&mut self, socket: impl AsFd) -> io::Result<bool> {
        if self.received.is_empty() {
            self.received.fill_from(&socket)?;
        }
        let count = self.tls.read_tls(&mut self.received)?;
        self.process(&socket)?;
        Ok(count > 0)
    }

    /// Processes the records that were received.
    fn process(&mut self, socket: impl AsFd) -> io::Result<()> {
        let processed = self.tls.process_new_packets();
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
        let count = self.tls.writer().write(bytes)?;
        self.flush(&socket)?;
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(count)
    }

    /// Sends bytes that were accepted earlier. Returns true when all are sent.
    pub(crate) fn flush(&mut self, socket: impl AsFd) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut NonblockingSocket(socket.as_fd())) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Notifies the client of the end of the stream, as far as that is possible without waiting.
    pub(super) fn close(&mut self, socket: impl AsFd) {
        self.tls.send_close_notify();
        let _ = self.flush(&socket);
        let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
    }

    /// Returns the DNS names and URIs in the client's certificate. The certificate has been
    /// verified.
    pub(crate) fn names(&self) -> Vec<String> {
        certificate_names(self.tls.peer_certificates().unwrap_or_default())
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

/// Writes to a socket without waiting.
struct NonblockingSocket<'a>(BorrowedFd<'a>);

impl Write for NonblockingSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::io::retry_on_intr(|| {
            rustix::net::send(self.0, bytes, flags)
        })?)
    }

    // rustls has a buffer for each record. The default of this function would send one record.
    fn write_vectored(&mut self, records: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let control = &mut SendAncillaryBuffer::default();
        Ok(rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(self.0, records, control, flags)
        })?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
