//! One handshake on its socket.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use weir_wire::nbd::{Exports, Handshake, HandshakeConfig, Outcome, Session};

use super::exports::Offer;
use super::places::{Evicted, Ticket};
use super::{Peer, Places, Table};

/// Most bytes taken from the socket at a time. What follows the handshake must fit into a connection's receive buffer.
const READ: usize = 4096;

/// A client that has not chosen its volume.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) id: u64,
    pub(crate) peer: Peer,
    pub(crate) name: String,
    pub(crate) socket: OwnedFd,
    /// Its place, once it has chosen its volume.
    pub(crate) ticket: Option<Ticket>,
    /// It has sent nothing yet.
    pub(crate) silent: bool,
    pub(crate) since: Instant,
    pub(crate) deadline: Instant,
    handshake: Handshake,
    /// Received and not consumed.
    pub(crate) input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of the output that have been sent.
    sent: usize,
    /// How it ended, once the output is sent.
    outcome: Option<Result<Outcome, String>>,
}

/// What is to be done with a handshake.
#[derive(Debug)]
pub(crate) enum Next {
    Wait,
    /// It is over; with a reason if that is the client's fault.
    Over(Option<String>),
    Transmission(Box<Session>),
}

impl Opening {
    pub(crate) fn new(
        id: u64,
        (socket, peer, name): (OwnedFd, Peer, String),
        timeout: Duration,
    ) -> Self {
        let since = Instant::now();
        let handshake = Handshake::new(HandshakeConfig::default());
        let mut output = Vec::new();
        handshake.greet(&mut output);
        Self {
            id,
            peer,
            name,
            socket,
            ticket: None,
            silent: true,
            since,
            deadline: since + timeout,
            handshake,
            input: Vec::new(),
            output,
            sent: 0,
            outcome: None,
        }
    }

    /// What it waits for: room to send if there is something to send, else bytes.
    pub(crate) fn interest(&self) -> PollFd<'_> {
        let flags = if self.sent < self.output.len() {
            PollFlags::OUT
        } else {
            PollFlags::IN
        };
        PollFd::new(&self.socket, flags)
    }

    /// Sends and receives as far as it goes without waiting. Whoever has to go for it is put into `evicted`.
    pub(crate) fn advance(
        &mut self,
        table: &Table,
        places: &RefCell<Places>,
        evicted: &mut Vec<Evicted>,
    ) -> Next {
        let name = self.name.clone();
        let offer = Offer {
            name: &name,
            table,
            places,
            connection: self.id,
            peer: self.peer,
            taken: Cell::new(None),
        };
        let next = self.go_on(&offer);
        if let Some((ticket, gone)) = offer.taken.take() {
            self.ticket = Some(ticket);
            evicted.extend(gone);
        }
        next
    }

    fn go_on(&mut self, exports: &dyn Exports) -> Next {
        loop {
            match self.send() {
                Ok(true) => {}
                Ok(false) => return Next::Wait,
                // The client went away; nobody's fault.
                Err(_) => return Next::Over(None),
            }
            match self.outcome.take() {
                Some(Ok(Outcome::Transmission(session))) => return Next::Transmission(session),
                Some(Ok(Outcome::Aborted)) => return Next::Over(None),
                Some(Err(reason)) => return Next::Over(Some(reason)),
                None => {}
            }
            if self.input.is_empty() {
                match self.receive() {
                    Ok(0) => return Next::Over(None),
                    Ok(_) => {}
                    Err(Errno::AGAIN) => return Next::Wait,
                    Err(Errno::INTR) => continue,
                    Err(_) => return Next::Over(None),
                }
            }
            match self.handshake.feed(&self.input, exports, &mut self.output) {
                Ok((used, outcome)) => {
                    self.input.drain(..used);
                    self.outcome = outcome.map(Ok);
                }
                Err(error) => self.outcome = Some(Err(error.to_string())),
            }
        }
    }

    /// True when everything is sent.
    fn send(&mut self) -> Result<bool, Errno> {
        while self.sent < self.output.len() {
            let rest = &self.output[self.sent..];
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.socket, rest, flags) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(true)
    }

    fn receive(&mut self) -> Result<usize, Errno> {
        let mut bytes = [0; READ];
        let (count, _) = rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT)?;
        self.input.extend_from_slice(&bytes[..count]);
        self.silent &= count == 0;
        Ok(count)
    }
}
