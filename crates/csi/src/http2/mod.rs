//! Removes `:authority` from the requests of HTTP/2 connections.
//!
//! gRPC over a Unix socket has no host to name. Clients in Go send `localhost`. Clients of the C
//! core (Python, C++, Ruby), in Java and in C# can send the path of the socket, in percent encoding
//! or as it is.
//!
//! The HTTP/2 library of tonic (`h2`) checks that `:authority` has the form of RFC 3986. If it does
//! not, the library resets the stream before any code of the driver runs. There is no option to
//! turn this off. [`Http2Connection`] therefore removes the field from the bytes of a client.
//! HTTP/2 compresses fields against a table that both sides maintain, so that header blocks have to
//! be decoded and encoded again without compression (`hpack`).

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

/// The number of bytes to read from a client at once.
const CHUNK: usize = 8 << 10;

/// The reason why a client's bytes are not HTTP/2. The connection is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum MalformedHttp2 {
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

/// A client's connection. Requests arrive without `:authority`, and responses leave unchanged.
#[derive(Debug)]
pub(crate) struct Http2Connection {
    stream: UnixStream,
    frames: Frames,
    /// The bytes for the library, and the number of them that it has read.
    ready: (Vec<u8>, usize),
}

impl Http2Connection {
    /// Wraps a connection from which nothing has been read yet.
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            frames: Frames::default(),
            ready: (Vec::new(), 0),
        }
    }
}

impl Connected for Http2Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Http2Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        // A chunk can end within a header block, which is withheld until it is complete.
        while this.ready.1 == this.ready.0.len() {
            let mut bytes = [0; CHUNK];
            let mut chunk = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut chunk))?;
            // No bytes mean the end of the stream, which is passed on as such.
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

impl AsyncWrite for Http2Connection {
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
