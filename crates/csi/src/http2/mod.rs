//! Connections of HTTP/2 whose `:authority` does not matter.
//!
//! gRPC over a Unix socket has no host to name. Clients in Go send `localhost`; clients of the C core (Python, C++, Ruby), in Java and in
//! C# can send the socket's path, in percent encoding or as it is. The HTTP/2 library of tonic (`h2`) checks `:authority` for the form
//! that RFC 3986 gives it, and resets the stream of a request that has another form, before any code of the driver runs. The library has
//! no option against that. Therefore [`Connection`] removes the field from what a client sends. HTTP/2 compresses fields against a table
//! that both sides keep, so the header blocks are decoded and written again without compression (`hpack`).

mod frames;
mod hpack;
mod huffman;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use frames::Frames;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::Connected;

/// Bytes read from a client at once.
const CHUNK: usize = 8 << 10;

/// Why a client's bytes are not HTTP/2. The connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Malformed {
    /// A frame has a length or an order that HTTP/2 does not allow.
    #[error("a frame is too long, too short or out of order")]
    Frame,
    /// A header block cannot be decoded.
    #[error("a header block cannot be decoded")]
    Fields,
    /// A header block is longer than any request of the interface.
    #[error("a header block is too long")]
    Long,
}

/// A client's connection: requests arrive without `:authority`, answers leave as they are.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    frames: Frames,
    /// Bytes that are ready for the library, and how many of them it has.
    ready: (Vec<u8>, usize),
}

impl Connection {
    /// Takes a connection from which nothing was read.
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            frames: Frames::default(),
            ready: (Vec::new(), 0),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.ready.1 == this.ready.0.len() {
            let mut bytes = [0; CHUNK];
            let mut chunk = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut chunk))?;
            if chunk.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.ready = (Vec::new(), 0);
            let taken = this.frames.take(chunk.filled(), &mut this.ready.0);
            taken.map_err(|malformed| {
                tracing::warn!("the driver closes a client's connection: {malformed}");
                io::Error::new(io::ErrorKind::InvalidData, malformed)
            })?;
        }
        let (bytes, had) = &mut this.ready;
        let left = &bytes[*had..];
        let now = left.len().min(into.remaining());
        into.put_slice(&left[..now]);
        *had += now;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
