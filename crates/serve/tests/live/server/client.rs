//! Servers started by these tests, and clients that expect an answer to each request.

use std::ops::{Deref, DerefMut};

use weir_serve::ServerOptions;
use weir_wire::nbd::client::ClientHandshakeConfig;
use weir_wire::nbd::{CommandFlags, NbdCommand};

use crate::tools::TestSite;
use crate::tools::raw::{Raw, RawAnswer, RawStream};

pub(crate) fn serve(text: &str) -> TestSite {
    TestSite::beside(text, &ServerOptions::default())
}

/// A configuration with one drive and one volume of 16 MiB in memory, named `v`.
pub(crate) const ONE: &str = "drive.d.policy = \"none\"\n\
    volume.v = { drive = \"d\", memory = true, size = \"16MiB\" }\n";

impl TestSite {
    pub(crate) fn connect(&self, export: &str) -> NbdTestClient {
        self.connect_with(ClientHandshakeConfig::new(export))
            .unwrap()
    }

    /// Connects to an export. Returns an error if the server refuses.
    pub(crate) fn connect_with(
        &self,
        config: ClientHandshakeConfig,
    ) -> std::io::Result<NbdTestClient> {
        Raw::over(RawStream::connect(&self.unix)?, config).map(NbdTestClient)
    }
}

/// A client that panics if it gets no answer.
pub(crate) struct NbdTestClient(pub(crate) Raw);

impl Deref for NbdTestClient {
    type Target = Raw;

    fn deref(&self) -> &Raw {
        &self.0
    }
}

impl DerefMut for NbdTestClient {
    fn deref_mut(&mut self) -> &mut Raw {
        &mut self.0
    }
}

impl NbdTestClient {
    /// Sends a request without waiting for the answer. Returns its cookie.
    pub(crate) fn send(
        &mut self,
        command: NbdCommand,
        flags: CommandFlags,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> u64 {
        let sent = self.request(command, flags, offset, length, payload);
        sent.unwrap()
    }

    /// Returns the next complete answer, or `None` if the server has closed the connection.
    pub(crate) fn receive(&mut self) -> Option<(u64, RawAnswer)> {
        use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
        match self.0.receive() {
            Err(error) if matches!(error.kind(), UnexpectedEof | ConnectionReset) => None,
            received => Some(received.unwrap()),
        }
    }

    /// Sends a request and waits for its answer, which must be the next one.
    pub(crate) fn call(
        &mut self,
        command: NbdCommand,
        flags: CommandFlags,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> RawAnswer {
        let called = self.0.call(command, flags, offset, length, payload);
        called.unwrap()
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.0.read(offset, length).unwrap()
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let length = bytes.len() as u32;
        let answer = self.call(
            NbdCommand::Write,
            CommandFlags::EMPTY,
            offset,
            length,
            bytes,
        );
        assert_eq!(answer.error, None);
    }

    /// Sends a disconnect request. Returns true if the server then closes the connection without
    /// another answer.
    pub(crate) fn leave(mut self) -> bool {
        self.send(NbdCommand::Disconnect, CommandFlags::EMPTY, 0, 0, &[]);
        self.receive().is_none()
    }
}
