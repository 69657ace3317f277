//! A client that sends arbitrary bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use weir_config::ListenAddress;
use weir_wire::nbd::client::{
    ClientHandshakeConfig, ClientHandshakeOutcome, ClientSession, NbdClientHandshake, Reply,
    ReplyParser,
};
use weir_wire::nbd::{CommandFlags, Errno, Extent, NbdCommand, NbdRequest, REQUEST_LEN};

/// The patience with a server. One that does not answer for longer counts as hung.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A connected socket of either kind.
#[derive(Debug)]
pub(crate) struct RawStream(pub(crate) File);

impl RawStream {
    pub(crate) fn connect(address: &ListenAddress) -> io::Result<Self> {
        let socket = match address {
            ListenAddress::Unix(path) => OwnedFd::from(UnixStream::connect(path)?),
            ListenAddress::Tcp(address) => OwnedFd::from(TcpStream::connect(address)?),
        };
        let stream = Self(socket.into());
        stream.patience(PATIENCE);
        Ok(stream)
    }

    /// Sets the time after which reads and writes fail.
    pub(crate) fn patience(&self, patience: Duration) {
        for side in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&self.0, side, Some(patience)).unwrap();
        }
    }

    /// Makes reads and writes fail instead of waiting.
    pub(crate) fn never_wait(&self) {
        rustix::io::ioctl_fionbio(&self.0, true).unwrap();
    }

    /// Makes reads and writes wait again.
    pub(crate) fn wait(&self) {
        rustix::io::ioctl_fionbio(&self.0, false).unwrap();
    }
}

impl Read for RawStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for RawStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.0.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the bytes of a request's header.
pub(crate) fn header(
    command: NbdCommand,
    flags: CommandFlags,
    cookie: u64,
    offset: u64,
    length: u32,
) -> [u8; REQUEST_LEN] {
    let request = NbdRequest {
        command,
        flags,
        cookie,
        offset,
        length,
    };
    request.encode()
}

/// Returns the flags of a request, with FUA if it is to be durable.
pub(crate) fn fua(durable: bool) -> CommandFlags {
    if durable {
        CommandFlags::FUA
    } else {
        CommandFlags::EMPTY
    }
}

/// A connection in the transmission phase.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) stream: RawStream,
    pub(crate) session: ClientSession,
    parser: ReplyParser,
    received: Vec<u8>,
    /// The last cookie that [`Raw::request`] has used.
    cookie: u64,
    /// The lengths of outstanding reads, which a simple reply does not contain.
    reads: BTreeMap<u64, u32>,
    /// The answers with some chunks received and others missing.
    parts: BTreeMap<u64, RawAnswer>,
}

/// The complete answer to a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RawAnswer {
    pub(crate) data: Vec<u8>,
    pub(crate) extents: Vec<(u32, u32)>,
    pub(crate) error: Option<Errno>,
}

/// The result of a request: its data or its error.
pub(crate) type RequestOutcome = Result<Vec<u8>, Errno>;

impl Raw {
    /// Connects and completes the handshake.
    pub(crate) fn open(address: &ListenAddress, export: &str) -> io::Result<Self> {
        Self::over(
            RawStream::connect(address)?,
            ClientHandshakeConfig::new(export),
        )
    }

    /// Completes the handshake over a connected socket.
    pub(crate) fn over(mut stream: RawStream, config: ClientHandshakeConfig) -> io::Result<Self> {
        let mut handshake = NbdClientHandshake::new(config);
        let (mut received, mut answer) = (Vec::new(), Vec::new());
        loop {
            let fed = handshake.feed(&received, &mut answer);
            let (used, outcome) = fed.map_err(|e| io::Error::other(e.to_string()))?;
            received.drain(..used);
            stream.write_all(&answer)?;
            answer.clear();
            match outcome {
                Some(ClientHandshakeOutcome::Transmission(session)) => {
                    return Ok(Self {
                        stream,
                        session,
                        parser: ReplyParser::new(),
                        received,
                        cookie: 0,
                        reads: BTreeMap::new(),
                        parts: BTreeMap::new(),
                    });
                }
                Some(ClientHandshakeOutcome::Refused { message, .. }) => {
                    return Err(io::Error::other(message));
                }
                // The configuration of a test does not begin TLS here.
                Some(ClientHandshakeOutcome::StartTls) | None => {}
            }
            take_more(&mut stream, &mut received)?;
        }
    }

    /// Sends a request without flags.
    pub(crate) fn send(
        &mut self,
        command: NbdCommand,
        cookie: u64,
        offset: u64,
        length: u32,
    ) -> io::Result<()> {
        if command == NbdCommand::Read {
            self.reads.insert(cookie, length);
        }
        let header = header(command, CommandFlags::EMPTY, cookie, offset, length);
        self.stream.write_all(&header)
    }

    /// Sends a write with its payload.
    pub(crate) fn write(&mut self, cookie: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.send(NbdCommand::Write, cookie, offset, bytes.len() as u32)?;
        self.stream.write_all(bytes)
    }

    /// Sends a request without waiting for the answer. Returns its cookie.
    pub(crate) fn request(
        &mut self,
        command: NbdCommand,
        flags: CommandFlags,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> io::Result<u64> {
        self.cookie += 1;
        if command == NbdCommand::Read {
            self.reads.insert(self.cookie, length);
        }
        let header = header(command, flags, self.cookie, offset, length);
        self.stream.write_all(&header)?;
        self.stream.write_all(payload)?;
        Ok(self.cookie)
    }

    /// Sends a request and waits for its answer, which must be the next one.
    pub(crate) fn call(
        &mut self,
        command: NbdCommand,
        flags: CommandFlags,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> io::Result<RawAnswer> {
        let cookie = self.request(command, flags, offset, length, payload)?;
        let (got, answer) = self.receive()?;
        assert_eq!(got, cookie);
        Ok(answer)
    }

    /// Returns the next complete answer with its cookie.
    pub(crate) fn receive(&mut self) -> io::Result<(u64, RawAnswer)> {
        loop {
            let parsed = self.parser.feed(&self.received);
            let (used, reply) = parsed.map_err(|e| io::Error::other(e.to_string()))?;
            self.received.drain(..used);
            let Some(reply) = reply else {
                take_more(&mut self.stream, &mut self.received)?;
                continue;
            };
            let (cookie, done) = self.part(&reply)?;
            if done {
                self.reads.remove(&cookie);
                return Ok((cookie, self.parts.remove(&cookie).unwrap_or_default()));
            }
        }
    }

    /// Returns the next complete answer, which must not be one to `BLOCK_STATUS`.
    pub(crate) fn answer(&mut self) -> io::Result<(u64, RequestOutcome)> {
        let (cookie, answer) = self.receive()?;
        Ok((cookie, answer.error.map_or(Ok(answer.data), Err)))
    }

    /// Sends a read and returns its data.
    pub(crate) fn read(&mut self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        let answer = self.call(NbdCommand::Read, CommandFlags::EMPTY, offset, length, &[])?;
        match answer.error {
            Some(errno) => Err(io::Error::other(format!("{errno:?}"))),
            None => Ok(answer.data),
        }
    }

    /// Adds a chunk of an answer. Returns its cookie, and true if the answer is complete.
    fn part(&mut self, reply: &Reply) -> io::Result<(u64, bool)> {
        let (cookie, done) = match *reply {
            Reply::Simple { cookie, .. } | Reply::None { cookie } => (cookie, true),
            Reply::Data { cookie, done, .. }
            | Reply::Hole { cookie, done, .. }
            | Reply::BlockStatus { cookie, done, .. }
            | Reply::Error { cookie, done, .. } => (cookie, done),
        };
        let mut part = self.parts.remove(&cookie).unwrap_or_default();
        match *reply {
            Reply::Simple { error, .. } => {
                let length = self.reads.get(&cookie).filter(|_| error.is_none());
                part.data = self.take(length.copied().unwrap_or(0))?;
                part.error = error;
            }
            Reply::Data { length, .. } => part.data.extend(self.take(length)?),
            Reply::Hole { length, .. } => part.data.resize(part.data.len() + length as usize, 0),
            Reply::BlockStatus { extents, .. } => {
                for _ in 0..extents {
                    let bytes = self.take(Extent::LEN as u32)?;
                    let extent = Extent::decode(bytes.try_into().unwrap());
                    part.extents.push((extent.length, extent.flags.bits()));
                }
            }
            Reply::Error { error, .. } => part.error = Some(error),
            Reply::None { .. } => {}
        }
        self.parts.insert(cookie, part);
        Ok((cookie, done))
    }

    fn take(&mut self, count: u32) -> io::Result<Vec<u8>> {
        while self.received.len() < count as usize {
            take_more(&mut self.stream, &mut self.received)?;
        }
        let rest = self.received.split_off(count as usize);
        Ok(std::mem::replace(&mut self.received, rest))
    }
}

/// Connects a client that sends as many requests as the server takes, and reads no answer.
pub(crate) fn deaf(address: &ListenAddress, export: &str, length: u32) -> Raw {
    let mut raw = Raw::open(address, export).unwrap();
    raw.stream.never_wait();
    for cookie in 0..2_000 {
        // The loop ends when the socket is full, which shows that the server has stopped reading.
        let request = header(NbdCommand::Read, CommandFlags::EMPTY, cookie, 0, length);
        if !matches!(raw.stream.write(&request), Ok(n) if n == request.len()) {
            break;
        }
    }
    raw
}

/// Waits until the server closes the connection, whatever it sends before. Returns false if it does
/// not.
pub(crate) fn closes(stream: &mut RawStream) -> bool {
    let mut bytes = [0; 4096];
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
    false
}

fn take_more(stream: &mut RawStream, into: &mut Vec<u8>) -> io::Result<()> {
    let mut chunk = vec![0; 64 << 10];
    match stream.read(&mut chunk)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        n => {
            into.extend_from_slice(&chunk[..n]);
            Ok(())
        }
    }
}
