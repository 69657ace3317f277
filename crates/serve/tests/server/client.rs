//! A raw client: blocking, one socket, nothing hidden.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weir_serve::{Options, Server};
use weir_wire::nbd::client::{self, HandshakeConfig, Outcome, Reply, ReplyParser};
use weir_wire::nbd::{Command, CommandFlags, Errno, Extent, REQUEST_LEN, Request};

/// A server of the test's own, on a Unix socket in a directory of its own.
pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) directory: PathBuf,
    _directory: Remove,
}

/// Removes a directory in the end.
struct Remove(PathBuf);

impl Drop for Remove {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A directory that no other test uses.
pub(crate) fn directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("weir-serve-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A configuration: the drives and volumes of `text` behind the socket of a directory.
pub(crate) fn config(directory: &Path, text: &str) -> weir_config::Server {
    let socket = directory.join("nbd.sock");
    let text = format!("listen.nbd = [\"unix:{}\"]\n{text}", socket.display());
    let parsed = weir_config::parse("test.toml", &text);
    parsed.unwrap_or_else(|problems| panic!("{problems:?}\n{text}"))
}

pub(crate) fn serve(text: &str) -> Bench {
    serve_with(text, &Options::default())
}

pub(crate) fn serve_with(text: &str, options: &Options) -> Bench {
    let directory = directory();
    let server = Server::start(&config(&directory, text), options).unwrap();
    Bench {
        server,
        _directory: Remove(directory.clone()),
        directory,
    }
}

/// One drive with one volume of 16 MiB in memory, named `v`.
pub(crate) const ONE: &str = "drive.d.policy = \"none\"\n\
    volume.v = { drive = \"d\", memory = true, size = \"16MiB\" }\n";

impl Bench {
    pub(crate) fn socket(&self) -> UnixStream {
        let socket = UnixStream::connect(self.directory.join("nbd.sock")).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        socket
    }

    pub(crate) fn connect(&self, export: &str) -> Client {
        self.connect_with(HandshakeConfig::new(export)).unwrap()
    }

    /// Connects; the server's message if it refuses.
    pub(crate) fn connect_with(&self, config: HandshakeConfig) -> Result<Client, String> {
        Client::new(self.socket(), config)
    }
}

/// What came back for a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) data: Vec<u8>,
    pub(crate) extents: Vec<(u32, u32)>,
    pub(crate) error: Option<Errno>,
}

pub(crate) struct Client {
    pub(crate) socket: UnixStream,
    pub(crate) session: client::Session,
    parser: ReplyParser,
    input: Vec<u8>,
    next: u64,
    /// Lengths of reads under way, for simple replies.
    reads: BTreeMap<u64, u32>,
    /// Answers of which only a part has come.
    parts: BTreeMap<u64, Answer>,
}

impl Client {
    pub(crate) fn new(mut socket: UnixStream, config: HandshakeConfig) -> Result<Self, String> {
        let mut handshake = client::Handshake::new(config);
        let (mut input, mut output) = (Vec::new(), Vec::new());
        loop {
            let (used, outcome) = handshake
                .feed(&input, &mut output)
                .map_err(|error| error.to_string())?;
            input.drain(..used);
            socket.write_all(&output).map_err(|e| e.to_string())?;
            output.clear();
            match outcome {
                Some(Outcome::Transmission(session)) => {
                    return Ok(Self {
                        socket,
                        session,
                        parser: ReplyParser::new(),
                        input,
                        next: 1,
                        reads: BTreeMap::new(),
                        parts: BTreeMap::new(),
                    });
                }
                Some(Outcome::Refused { message, .. }) => return Err(message),
                None => {}
            }
            let mut part = [0; 4096];
            match socket.read(&mut part) {
                Ok(0) => return Err("closed".to_owned()),
                Ok(count) => input.extend_from_slice(&part[..count]),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Sends a request without waiting; returns its cookie.
    pub(crate) fn send(
        &mut self,
        command: Command,
        flags: CommandFlags,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> u64 {
        let cookie = self.next;
        self.next += 1;
        let request = Request {
            command,
            flags,
            cookie,
            offset,
            length,
        };
        let mut header = [0; REQUEST_LEN];
        request.encode(&mut header);
        self.socket.write_all(&header).unwrap();
        self.socket.write_all(payload).unwrap();
        if command == Command::Read {
            self.reads.insert(cookie, length);
        }
        cookie
    }

    /// The next complete answer; `None` when the server has closed.
    pub(crate) fn receive(&mut self) -> Option<(u64, Answer)> {
        loop {
            let (used, reply) = self.parser.feed(&self.input).unwrap();
            self.input.drain(..used);
            let Some(reply) = reply else {
                if !self.more() {
                    return None;
                }
                continue;
            };
            if let Some(answer) = self.part(&reply) {
                return Some(answer);
            }
        }
    }

    fn part(&mut self, reply: &Reply) -> Option<(u64, Answer)> {
        let (cookie, done) = match *reply {
            Reply::Simple { cookie, error } => {
                let length = self.reads.get(&cookie).copied().unwrap_or(0);
                let data = if error.is_none() {
                    self.take(length)
                } else {
                    Vec::new()
                };
                let part = self.parts.entry(cookie).or_default();
                (part.data, part.error) = (data, error);
                (cookie, true)
            }
            Reply::Data {
                cookie,
                length,
                done,
                ..
            } => {
                let data = self.take(length);
                self.parts.entry(cookie).or_default().data.extend(data);
                (cookie, done)
            }
            Reply::Hole {
                cookie,
                length,
                done,
                ..
            } => {
                let data = &mut self.parts.entry(cookie).or_default().data;
                data.resize(data.len() + length as usize, 0);
                (cookie, done)
            }
            Reply::BlockStatus {
                cookie,
                extents,
                done,
                ..
            } => {
                for _ in 0..extents {
                    let bytes = self.take(Extent::LEN as u32);
                    let extent = Extent::decode(bytes.try_into().unwrap());
                    let part = self.parts.entry(cookie).or_default();
                    part.extents.push((extent.length, extent.flags.bits()));
                }
                (cookie, done)
            }
            Reply::Error {
                cookie,
                error,
                done,
                ..
            } => {
                self.parts.entry(cookie).or_default().error = Some(error);
                (cookie, done)
            }
            Reply::None { cookie } => (cookie, true),
        };
        if !done {
            return None;
        }
        self.reads.remove(&cookie);
        Some((cookie, self.parts.remove(&cookie).unwrap_or_default()))
    }

    fn take(&mut self, count: u32) -> Vec<u8> {
        while self.input.len() < count as usize {
            assert!(self.more(), "closed in the middle of an answer");
        }
        self.input.drain(..count as usize).collect()
    }

    fn more(&mut self) -> bool {
        let mut part = vec![0; 256 << 10];
        match self.socket.read(&mut part) {
            Ok(0) => false,
            Ok(count) => {
                self.input.extend_from_slice(&part[..count]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// Sends a request and waits for its answer, which must be the next.
    pub(crate) fn call(
        &mut self,
        command: Command,
        flags: CommandFlags,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> Answer {
        let cookie = self.send(command, flags, offset, length, payload);
        let (got, answer) = self.receive().expect("an answer");
        assert_eq!(got, cookie);
        answer
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        let answer = self.call(Command::Read, CommandFlags::EMPTY, offset, length, &[]);
        assert_eq!(answer.error, None);
        answer.data
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let length = bytes.len() as u32;
        let answer = self.call(Command::Write, CommandFlags::EMPTY, offset, length, bytes);
        assert_eq!(answer.error, None);
    }

    /// Says goodbye; true if the server closes then, with nothing more to say.
    pub(crate) fn leave(mut self) -> bool {
        self.send(Command::Disconnect, CommandFlags::EMPTY, 0, 0, &[]);
        self.receive().is_none()
    }
}

/// Bytes that are different everywhere.
pub(crate) fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = weir_random::Rng::new(seed);
    (0..length).map(|_| rng.next_u64() as u8).collect()
}
