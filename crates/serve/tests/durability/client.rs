//! A client that sends a batch, then reads its answers: blocking, on one socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use weir_wire::nbd::client::{Handshake, HandshakeConfig, Outcome, Reply, ReplyParser};
use weir_wire::nbd::{Command, CommandFlags, REQUEST_LEN, Request};

/// A server that does not answer for this long has hung.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection in its transmission phase.
#[derive(Debug)]
pub(crate) struct Client {
    socket: UnixStream,
    parser: ReplyParser,
    received: Vec<u8>,
    cookies: u64,
    out: Vec<u8>,
}

/// How a request ended: as asked, with the data of a read.
pub(crate) type Ended = Result<Vec<u8>, String>;

impl Client {
    pub(crate) fn connect(socket: &Path, export: &str) -> Self {
        let mut client = Self {
            socket: UnixStream::connect(socket).unwrap(),
            parser: ReplyParser::new(),
            received: Vec::new(),
            cookies: 0,
            out: Vec::new(),
        };
        client.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut handshake = Handshake::new(HandshakeConfig::new(export));
        loop {
            let (used, outcome) = handshake.feed(&client.received, &mut client.out).unwrap();
            client.received.drain(..used);
            client.send();
            match outcome {
                Some(Outcome::Transmission(_)) => return client,
                Some(Outcome::Refused { message, .. }) => panic!("{message}"),
                None => assert!(client.receive(), "the server hung up"),
            }
        }
    }

    /// Adds a request to the batch; gives its cookie.
    pub(crate) fn queue(
        &mut self,
        command: Command,
        flags: CommandFlags,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> u64 {
        self.cookies += 1;
        let request = Request {
            command,
            flags,
            cookie: self.cookies,
            offset,
            length,
        };
        let mut header = [0; REQUEST_LEN];
        request.encode(&mut header);
        self.out.extend_from_slice(&header);
        self.out.extend_from_slice(payload);
        self.cookies
    }

    /// Sends the batch.
    pub(crate) fn send(&mut self) {
        self.socket.write_all(&self.out).unwrap();
        self.out.clear();
    }

    /// The next answer: to which request, and how it ended.
    pub(crate) fn answer(&mut self) -> (u64, Ended) {
        loop {
            let (used, reply) = self.parser.feed(&self.received).unwrap();
            self.received.drain(..used);
            match reply {
                None => assert!(self.receive(), "the server hung up"),
                Some(Reply::Data { cookie, length, .. }) => {
                    while self.received.len() < length as usize {
                        assert!(self.receive(), "the server hung up");
                    }
                    return (cookie, Ok(self.received.drain(..length as usize).collect()));
                }
                Some(Reply::Simple { cookie, error }) => {
                    return (cookie, error.map_or(Ok(Vec::new()), |e| Err(e.to_string())));
                }
                Some(Reply::Error { cookie, error, .. }) => {
                    return (cookie, Err(error.to_string()));
                }
                Some(Reply::None { cookie }) => return (cookie, Ok(Vec::new())),
                Some(other) => panic!("{other:?}"),
            }
        }
    }

    fn receive(&mut self) -> bool {
        let mut chunk = [0; 16 << 10];
        let count = self.socket.read(&mut chunk).unwrap();
        self.received.extend_from_slice(&chunk[..count]);
        count > 0
    }
}
