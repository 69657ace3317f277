//! The loop that carries out the requests of one program on one connection.
//!
//! [`run`] measures a [`LoadClient`](crate::load::LoadClient). [`drive`] takes any
//! [`RequestSource`](crate::load::RequestSource) of requests, for example one that checks the data
//! it reads.

use crate::client::connection::Connection;
use crate::load::{Io, LoadClient, RequestSource, Step};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_core::{Flags, Op};
use weir_measure::Meter;
use weir_wire::nbd::client::{Reply, ReplyError, ReplyParser};
use weir_wire::nbd::{CommandFlags, NbdCommand, NbdRequest};

/// The size of the receive buffer in bytes.
const RECEIVE: usize = 256 << 10;

/// The settings under which a program runs on a connection.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// The origin of the program's time: its zero.
    pub origin: Instant,
    /// A request to stop, which another thread sets. The program then issues nothing more, and
    /// returns when all its requests have completed.
    pub stop: &'a AtomicBool,
    /// The longest time without a reply while requests are outstanding. A longer silence ends the
    /// run.
    pub patience: Duration,
}

/// The reason why a program ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The socket of the connection failed.
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
    /// The server closed the connection early.
    #[error("the server closed the connection with {0} requests in flight")]
    Closed(usize),
    /// The server violated the NBD protocol.
    #[error("the server violated the protocol: {0}")]
    Protocol(#[from] ReplyError),
    /// A reply matches no request, or is of the wrong kind.
    #[error("the server sent a reply that matches no request (cookie {0})")]
    Stray(u64),
    /// The server sent no reply for longer than the program's patience.
    #[error("the server sent no reply for {0:?}")]
    Silent(Duration),
}

/// Runs `client` on `connection` until it finishes or must stop, and records its requests in
/// `meter`.
///
/// Times in the meter are nanoseconds since the origin. The meter is restricted to the time of the
/// client's own program ([`Meter::set_own_time`]).
///
/// # Errors
/// The connection or the server failed. Errors of single requests are only counted in the meter.
pub fn run(
    connection: Connection,
    client: LoadClient,
    meter: &mut Meter,
    settings: &Settings<'_>,
) -> Result<(), RunError> {
    let mut metered = Metered { client, meter };
    drive(connection, &mut metered, settings)?;
    let Metered { client, meter } = metered;
    let ends = client.time_end(weir_core::Instant::from_nanos(meter.end_ns()));
    let ends = ends.map(weir_core::Instant::as_nanos);
    meter.set_own_time(client.time_start().as_nanos(), ends);
    Ok(())
}

/// Carries out the requests of `source` on `connection` until the source finishes or must stop.
///
/// The times that the source receives are nanoseconds since the origin.
///
/// # Errors
/// The connection or the server failed. Errors of single requests are passed to `source`.
pub fn drive<S: RequestSource>(
    connection: Connection,
    source: &mut S,
    settings: &Settings<'_>,
) -> Result<(), RunError> {
    Runner::new(connection, source, settings).run()
}

/// A client whose requests are recorded.
struct Metered<'a> {
    client: LoadClient,
    meter: &'a mut Meter,
}

impl RequestSource for Metered<'_> {
    fn next(&mut self, now: weir_core::Instant) -> Step {
        let step = self.client.next(now);
        if let Step::Issue(io) = step {
            let bytes = io.op.transfer(io.length.into());
            self.meter.issued(io.op, io.due.as_nanos(), bytes);
        }
        step
    }

    fn completed(&mut self, now: weir_core::Instant, io: &Io, failed: bool) {
        let (due, ns) = (io.due.as_nanos(), now.as_nanos());
        let bytes = io.op.transfer(io.length.into());
        self.meter.ended(io.op, due, ns, bytes, failed);
        self.client.completed(now);
    }
}

/// A request that was sent and has no complete reply.
#[derive(Debug, Clone, Copy)]
struct Outstanding {
    io: Io,
    failed: bool,
}

/// The event that a client waits for.
#[derive(Debug, Clone, Copy)]
enum ClientWait {
    /// A reply, at any time.
    Answer,
    /// A reply, or the time of its next request.
    Due(weir_core::Instant),
    /// No event, because the client has finished.
    Leave,
}

/// A read reply with a part of its payload still to come.
#[derive(Debug, Clone, Copy)]
struct Incoming {
    cookie: u64,
    /// The position of the next byte within the request's range.
    at: u64,
    /// The bytes of the payload that have not arrived yet.
    left: u64,
}

struct Runner<'a, S> {
    connection: Connection,
    source: &'a mut S,
    settings: &'a Settings<'a>,
    parser: ReplyParser,
    /// The outstanding requests in the order in which they were sent. A server mostly replies in
    /// that order, so the search is short.
    outstanding: VecDeque<Outstanding>,
    /// Bytes to send, of which those from `sent` on have not been sent.
    sending: Vec<u8>,
    sent: usize,
    /// The read reply whose payload is being received.
    incoming: Option<Incoming>,
    /// The cookie of the request that completes as soon as the payload in `incoming` has been
    /// received.
    ends: Option<u64>,
    last_input: Instant,
}

impl<'a, S: RequestSource> Runner<'a, S> {
    fn new(connection: Connection, source: &'a mut S, settings: &'a Settings<'a>) -> Self {
        Self {
            connection,
            source,
            settings,
            parser: ReplyParser::new(),
            outstanding: VecDeque::new(),
            sending: Vec::new(),
            sent: 0,
            incoming: None,
            ends: None,
            last_input: Instant::now(),
        }
    }

    fn run(mut self) -> Result<(), RunError> {
        let mut buffer = vec![0; RECEIVE];
        // The server may have sent replies right after the handshake.
        let behind = std::mem::take(&mut self.connection.received);
        self.process_input(&behind)?;
        loop {
            let wake = match self.issue() {
                // A client leaves only when no request is outstanding.
                ClientWait::Leave => return self.leave(),
                ClientWait::Answer => None,
                ClientWait::Due(at) => Some(at),
            };
            self.flush()?;
            let timeout = self.timeout(wake);
            let socket = &self.connection.socket;
            // The timeout ends when the next request is due or the stop flag must be checked.
            if !socket.wait(!self.is_sent(), timeout)? {
                self.check_patience()?;
            }
            match self.connection.socket.receive(&mut buffer)? {
                Some(0) => return Err(RunError::Closed(self.outstanding.len())),
                Some(n) => self.process_input(&buffer[..n])?,
                None => {}
            }
        }
    }

    /// Issues all requests that are due, and returns the event to wait for.
    fn issue(&mut self) -> ClientWait {
        loop {
            // Checked before each request, so that a stop takes effect within a burst. Nothing else
            // depends on the flag, so relaxed ordering is sufficient.
            if self.settings.stop.load(Ordering::Relaxed) {
                return if self.outstanding.is_empty() {
                    ClientWait::Leave
                } else {
                    ClientWait::Answer
                };
            }
            match self.source.next(self.now()) {
                Step::Issue(io) => self.send(io),
                Step::WaitUntil(at) => return ClientWait::Due(at),
                Step::WaitForCompletion => return ClientWait::Answer,
                Step::Finished => return ClientWait::Leave,
            }
        }
    }

    fn send(&mut self, io: Io) {
        let flags = if io.flags.has(Flags::FUA) {
            CommandFlags::FUA
        } else {
            CommandFlags::EMPTY
        };
        let command = match io.op {
            Op::Read => NbdCommand::Read,
            Op::Write => NbdCommand::Write,
            Op::Flush => NbdCommand::Flush,
            Op::Discard => NbdCommand::Trim,
            Op::WriteZeroes => NbdCommand::WriteZeroes,
            Op::Extents => NbdCommand::BlockStatus,
        };
        let request = NbdRequest {
            command,
            flags,
            cookie: io.number,
            offset: io.offset,
            length: io.length,
        };
        self.sending.extend_from_slice(&request.encode());
        if io.op == Op::Write {
            self.source.payload(&io, &mut self.sending);
        }
        // Patience begins with the first outstanding request. An idle connection is not a silent
        // server.
        if self.outstanding.is_empty() {
            self.last_input = Instant::now();
        }
        self.outstanding
            .push_back(Outstanding { io, failed: false });
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.is_sent() {
            match self.connection.socket.send(&self.sending[self.sent..])? {
                Some(n) => self.sent += n,
                None => return Ok(()),
            }
        }
        // Keeps the allocation for the next requests.
        self.sending.clear();
        self.sent = 0;
        Ok(())
    }

    fn is_sent(&self) -> bool {
        self.sent == self.sending.len()
    }

    /// Processes bytes from the server: payloads and replies.
    fn process_input(&mut self, mut input: &[u8]) -> Result<(), RunError> {
        // Any input shows that the server is not silent.
        self.last_input = Instant::now();
        loop {
            input = self.receive(input)?;
            // More payload has to arrive before the next reply can be parsed.
            if self.incoming.is_some() {
                return Ok(());
            }
            if let Some(cookie) = self.ends.take() {
                self.complete_request(cookie)?;
            }
            if input.is_empty() {
                return Ok(());
            }
            let (used, reply) = self.parser.feed(input)?;
            input = &input[used..];
            if let Some(reply) = reply {
                self.reply(&reply)?;
            }
        }
    }

    /// Passes the payload at the beginning of `input` to the source, and returns the rest of the
    /// input.
    fn receive<'b>(&mut self, input: &'b [u8]) -> Result<&'b [u8], RunError> {
        let Some(incoming) = &mut self.incoming else {
            return Ok(input);
        };
        let length = usize::try_from(incoming.left).map_or(input.len(), |n| n.min(input.len()));
        let (bytes, rest) = input.split_at(length);
        let (cookie, at) = (incoming.cookie, incoming.at);
        incoming.at += length as u64;
        incoming.left -= length as u64;
        if incoming.left == 0 {
            self.incoming = None;
        }
        let of = self.find(cookie)?;
        self.source.received(&self.outstanding[of].io, at, bytes);
        Ok(rest)
    }

    /// Parses the head of a reply: how much payload follows, and whether the request completes with
    /// it.
    fn reply(&mut self, reply: &Reply) -> Result<(), RunError> {
        let mut behind = 0;
        let (cookie, payload, failed, done) = match *reply {
            Reply::Simple { cookie, error } => {
                let of = self.find(cookie)?;
                // A simple reply carries data only for a successful read (NBD protocol, "Simple
                // reply message").
                let read = self.outstanding[of].io.op == Op::Read && error.is_none();
                let payload = if read {
                    self.outstanding[of].io.length
                } else {
                    0
                };
                (cookie, payload, error.is_some(), true)
            }
            Reply::Data {
                cookie,
                offset,
                length,
                done,
            } => {
                let of = self.find(cookie)?;
                // A structured reply states the offset in the export. An offset before the request
                // violates the protocol, and is treated as its beginning.
                behind = offset.saturating_sub(self.outstanding[of].io.offset);
                (cookie, length, false, done)
            }
            // A hole carries no payload: the bytes are zero.
            Reply::Hole { cookie, done, .. } => (cookie, 0, false, done),
            Reply::None { cookie } => (cookie, 0, false, true),
            Reply::Error { cookie, done, .. } => (cookie, 0, true, done),
            // Programs send no block status requests.
            Reply::BlockStatus { cookie, .. } => return Err(RunError::Stray(cookie)),
        };
        let of = self.find(cookie)?;
        // One failed chunk fails the whole request (NBD protocol, "Structured reply chunk
        // message").
        self.outstanding[of].failed |= failed;
        self.incoming = (payload > 0).then_some(Incoming {
            cookie,
            at: behind,
            left: payload.into(),
        });
        self.ends = done.then_some(cookie);
        Ok(())
    }

    fn complete_request(&mut self, cookie: u64) -> Result<(), RunError> {
        let of = self.find(cookie)?;
        let Outstanding { io, failed } = self.outstanding.remove(of).expect("it was just found");
        let now = self.now();
        self.source.completed(now, &io, failed);
        Ok(())
    }

    fn find(&self, cookie: u64) -> Result<usize, RunError> {
        self.outstanding
            .iter()
            .position(|o| o.io.number == cookie)
            .ok_or(RunError::Stray(cookie))
    }

    fn now(&self) -> weir_core::Instant {
        let since = Instant::now().saturating_duration_since(self.settings.origin);
        weir_core::Instant::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time to wait: until the next request is due, but at most so long that a request to stop
    /// is noticed in time.
    fn timeout(&self, wake: Option<weir_core::Instant>) -> Duration {
        // The stop flag does not wake the thread, so the thread checks it at least this often.
        const LISTEN: Duration = Duration::from_millis(50);
        let due = wake.map_or(LISTEN, |at| {
            Duration::from_nanos(at.since(self.now()).as_nanos())
        });
        due.min(LISTEN)
    }

    fn check_patience(&self) -> Result<(), RunError> {
        let silent =
            !self.outstanding.is_empty() && self.last_input.elapsed() > self.settings.patience;
        if silent {
            Err(RunError::Silent(self.settings.patience))
        } else {
            Ok(())
        }
    }

    /// Sends a disconnect, and does not wait until the server has received it.
    fn leave(mut self) -> Result<(), RunError> {
        let flags = CommandFlags::EMPTY;
        let goodbye = NbdRequest {
            command: NbdCommand::Disconnect,
            flags,
            cookie: 0,
            offset: 0,
            length: 0,
        };
        self.connection.socket.send(&goodbye.encode())?;
        Ok(())
    }
}
