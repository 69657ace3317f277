//! Servers of the tests' own, and clients that expect to be answered.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use weir_config::Address;
use weir_serve::{Options, Server};
use weir_wire::nbd::client::HandshakeConfig;
use weir_wire::nbd::{Command, CommandFlags};

use crate::tools::Temp;
use crate::tools::raw::{Answer, Raw, Stream};

/// A server on a Unix socket in a directory of its own.
pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) directory: Temp,
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
    let directory = Temp::new();
    let server = Server::start(&config(directory.path(), text), options).unwrap();
    Bench { server, directory }
}

/// One drive with one volume of 16 MiB in memory, named `v`.
pub(crate) const ONE: &str = "drive.d.policy = \"none\"\n\
    volume.v = { drive = \"d\", memory = true, size = \"16MiB\" }\n";

impl Bench {
    pub(crate) fn connect(&self, export: &str) -> Client {
        self.connect_with(HandshakeConfig::new(export)).unwrap()
    }

    /// Connects; an error if the server refuses.
    pub(crate) fn connect_with(&self, config: HandshakeConfig) -> std::io::Result<Client> {
        let address = Address::Unix(self.directory.path().join("nbd.sock"));
        Raw::over(Stream::connect(&address)?, config).map(Client)
    }
}

/// A client that fails where it is not answered.
pub(crate) struct Client(pub(crate) Raw);

impl Deref for Client {
    type Target = Raw;

    fn deref(&self) -> &Raw {
        &self.0
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut Raw {
        &mut self.0
    }
}

impl Client {
    /// Sends a request without waiting; gives its cookie.
    pub(crate) fn send(
        &mut self,
        command: Command,
        flags: CommandFlags,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> u64 {
        let sent = self.request(command, flags, offset, length, payload);
        sent.unwrap()
    }

    /// The next whole answer; `None` when the server has closed.
    pub(crate) fn receive(&mut self) -> Option<(u64, Answer)> {
        use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
        match self.0.receive() {
            Err(error) if matches!(error.kind(), UnexpectedEof | ConnectionReset) => None,
            received => Some(received.unwrap()),
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
        let called = self.0.call(command, flags, offset, length, payload);
        called.unwrap()
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.0.read(offset, length).unwrap()
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
