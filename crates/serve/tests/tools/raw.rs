//! A client that sends exactly the bytes it is told to.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use weir_config::Address;
use weir_wire::nbd::client::{Handshake, HandshakeConfig, Outcome, Reply, ReplyParser, Session};
use weir_wire::nbd::{Command, CommandFlags, Errno, REQUEST_LEN, Request};

/// A server that does not answer for this long has hung.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A connected socket of either kind.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(crate) fn connect(address: &Address) -> io::Result<Self> {
        let stream = match address {
            Address::Unix(path) => Self::Unix(UnixStream::connect(path)?),
            Address::Tcp(address) => Self::Tcp(TcpStream::connect(address)?),
        };
        stream.patience(PATIENCE);
        Ok(stream)
    }

    /// Reads and writes that take longer fail.
    pub(crate) fn patience(&self, patience: Duration) {
        let patience = Some(patience);
        match self {
            Self::Unix(s) => {
                (s.set_read_timeout(patience)).and_then(|()| s.set_write_timeout(patience))
            }
            Self::Tcp(s) => {
                (s.set_read_timeout(patience)).and_then(|()| s.set_write_timeout(patience))
            }
        }
        .unwrap();
    }

    /// Reads and writes fail instead of waiting.
    pub(crate) fn never_wait(&self) {
        match self {
            Self::Unix(s) => s.set_nonblocking(true),
            Self::Tcp(s) => s.set_nonblocking(true),
        }
        .unwrap();
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(s) => s.read(into),
            Self::Tcp(s) => s.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(s) => s.write(from),
            Self::Tcp(s) => s.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes of a request's header.
pub(crate) fn header(
    command: Command,
    flags: CommandFlags,
    cookie: u64,
    offset: u64,
    length: u32,
) -> [u8; REQUEST_LEN] {
    let mut bytes = [0; REQUEST_LEN];
    let request = Request {
        command,
        flags,
        cookie,
        offset,
        length,
    };
    request.encode(&mut bytes);
    bytes
}

/// A connection in its transmission phase.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) stream: Stream,
    pub(crate) session: Session,
    parser: ReplyParser,
    received: Vec<u8>,
}

/// An answer: whose, and its data or error.
pub(crate) type Answer = (u64, Result<Vec<u8>, Errno>);

impl Raw {
    /// Connects and shakes hands.
    pub(crate) fn open(address: &Address, export: &str) -> io::Result<Self> {
        Self::over(Stream::connect(address)?, HandshakeConfig::new(export))
    }

    /// Shakes hands over a connected socket.
    pub(crate) fn over(mut stream: Stream, config: HandshakeConfig) -> io::Result<Self> {
        let mut handshake = Handshake::new(config);
        let (mut received, mut answer) = (Vec::new(), Vec::new());
        loop {
            let fed = handshake.feed(&received, &mut answer);
            let (used, outcome) = fed.map_err(|e| io::Error::other(e.to_string()))?;
            received.drain(..used);
            stream.write_all(&answer)?;
            answer.clear();
            match outcome {
                Some(Outcome::Transmission(session)) => {
                    return Ok(Self {
                        stream,
                        session,
                        parser: ReplyParser::new(),
                        received,
                    });
                }
                Some(Outcome::Refused { message, .. }) => return Err(io::Error::other(message)),
                None => {}
            }
            take_more(&mut stream, &mut received)?;
        }
    }

    /// Sends a request of a command without flags.
    pub(crate) fn send(
        &mut self,
        command: Command,
        cookie: u64,
        offset: u64,
        length: u32,
    ) -> io::Result<()> {
        let header = header(command, CommandFlags::EMPTY, cookie, offset, length);
        self.stream.write_all(&header)
    }

    /// Sends a write with its payload.
    pub(crate) fn write(&mut self, cookie: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.send(Command::Write, cookie, offset, bytes.len() as u32)?;
        self.stream.write_all(bytes)
    }

    /// Waits for an answer that comes in one chunk, as all but those to `BLOCK_STATUS` do. `length` is that of the data that a
    /// read asked for.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        loop {
            let parsed = self.parser.feed(&self.received);
            let (used, reply) = parsed.map_err(|e| io::Error::other(e.to_string()))?;
            self.received.drain(..used);
            match reply {
                None => take_more(&mut self.stream, &mut self.received)?,
                Some(Reply::Data { cookie, length, .. }) => {
                    while self.received.len() < length as usize {
                        take_more(&mut self.stream, &mut self.received)?;
                    }
                    let rest = self.received.split_off(length as usize);
                    let data = std::mem::replace(&mut self.received, rest);
                    return Ok((cookie, Ok(data)));
                }
                Some(Reply::Simple { cookie, error }) => {
                    return Ok((cookie, error.map_or(Ok(Vec::new()), Err)));
                }
                Some(Reply::Error { cookie, error, .. }) => return Ok((cookie, Err(error))),
                Some(Reply::None { cookie }) => return Ok((cookie, Ok(Vec::new()))),
                Some(other) => return Err(io::Error::other(format!("{other:?}"))),
            }
        }
    }

    /// A read from start to end.
    pub(crate) fn read(&mut self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        self.send(Command::Read, 1, offset, length)?;
        let (_, data) = self.answer()?;
        data.map_err(|errno| io::Error::other(format!("{errno:?}")))
    }
}

fn take_more(stream: &mut Stream, into: &mut Vec<u8>) -> io::Result<()> {
    let mut chunk = vec![0; 64 << 10];
    match stream.read(&mut chunk)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        n => {
            into.extend_from_slice(&chunk[..n]);
            Ok(())
        }
    }
}
