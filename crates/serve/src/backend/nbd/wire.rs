//! The connections to a remote server on the shard's ring: sends requests and receives replies.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::SendFlags;
use weir_core::{Flags, Op};
use weir_uring::{
    Arena, Buf, Errno, Handle, Header, MAX_PIECES, Payload, RejectedOperation, Ring,
    RingCompletion, Segment, SharedBuf,
};
use weir_wire::nbd::client::{Reply, ReplyError, ReplyParser};
use weir_wire::nbd::{self, CommandFlags, Extent, NbdCommand, NbdRequest};

use super::super::Context;
use super::coverage::Coverage;
use super::dial::ExportShape;
use super::keeper::{Id, RemoteRequest, Sending};
use crate::errno::{EIO, ENOMEM, ENOSPC, ENOTSUP, EPERM};
use crate::slab::Slab;

/// The number of bytes that one operation receives at most.
const INBOX: usize = 256 << 10;
/// The number of bits for the connection in an operation's number. One bit below is for the
/// direction, and the bits above count the sessions.
const LINK_BITS: u32 = 5;

/// One session: a set of connections that are opened and closed together.
#[derive(Debug)]
pub(super) struct Wire {
    links: Vec<RemoteConnection>,
    flights: Slab<SentRequest>,
    /// The number of the session. Completions of an earlier session are recognised by it and
    /// ignored.
    session: u32,
    /// The memory into which replies are received.
    arena: Arena,
    /// The maximum number of outstanding requests of a connection.
    most: u32,
    structured: bool,
    allocation: Option<u32>,
    /// The number of operations on the ring, of this session and of earlier ones.
    operations: u32,
    /// Requests that have ended and were not taken yet.
    ended: Vec<(Id, Result<(), u16>)>,
}

#[derive(Debug)]
struct RemoteConnection {
    handle: Handle,
    parser: ReplyParser,
    incoming: Incoming,
    inbox: Option<Buf>,
    receiving: bool,
    sending: bool,
    /// The data that are sent next. The vector of the last send is reused.
    outbox: Vec<Segment>,
    spare: Vec<Segment>,
    unanswered: u32,
}

/// The meaning of the next bytes of a connection.
#[derive(Clone, Copy, Debug)]
enum Incoming {
    Head,
    /// Data of a read, for this offset in the export.
    Data {
        flight: u32,
        offset: u64,
        left: u32,
        done: bool,
    },
    /// Extents. `filled` bytes of the current one are in `held`.
    Extents {
        flight: u32,
        left: u32,
        held: [u8; Extent::LEN],
        filled: usize,
        done: bool,
    },
}

/// A request that was sent and has not ended.
#[derive(Debug)]
struct SentRequest {
    id: Id,
    link: usize,
    op: Op,
    offset: u64,
    length: u32,
    coverage: Coverage,
    error: Option<u16>,
    /// True if extents were received.
    found: bool,
}

/// The content of a reply, which is passed on as it is received.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReplyContent<'a> {
    /// Bytes of the export from this offset on.
    Data(u64, &'a [u8]),
    /// Zeroes from this offset on, with their number.
    Zeroes(u64, u32),
    /// The next extent of a look-up.
    Extent(Extent),
}

/// The reason why a session has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("the server closed the connection")]
    Closed,
    #[error("the connection failed: {0}")]
    Socket(io::Error),
    #[error("the server violated the protocol: {0}")]
    Reply(#[from] ReplyError),
    #[error("the server violated the protocol: {0}")]
    Violation(&'static str),
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl Wire {
    /// Creates the object without connections. `most` is the maximum number of outstanding requests
    /// of each connection, and `links` the maximum number of connections.
    pub(super) fn new(most: u32, links: u32) -> io::Result<Self> {
        Ok(Self {
            links: Vec::new(),
            flights: Slab::new(),
            session: 0,
            // Twice the inboxes, because those of an earlier session return only when the ring has
            // completed their operations.
            arena: Arena::new(2 * INBOX * links as usize)?,
            most,
            structured: false,
            allocation: None,
            operations: 0,
            ended: Vec::new(),
        })
    }

    /// Begins a session with these sockets.
    pub(super) fn open(&mut self, sockets: Vec<OwnedFd>, shape: &ExportShape) -> Result<(), Errno> {
        self.structured = shape.structured;
        self.allocation = shape.allocation;
        for socket in sockets {
            self.links.push(RemoteConnection {
                handle: Handle::new(socket)?,
                parser: ReplyParser::new(),
                incoming: Incoming::Head,
                inbox: None,
                receiving: false,
                sending: false,
                outbox: Vec::new(),
                spare: Vec::new(),
                unanswered: 0,
            });
        }
        Ok(())
    }

    /// Ends the session: shuts the sockets down and forgets the requests that were sent. The keeper
    /// sends them again.
    pub(super) fn close(&mut self) {
        for link in self.links.drain(..) {
            let _ = link.handle.shutdown();
        }
        self.flights = Slab::new();
        self.ended.clear();
        self.session += 1;
    }

    /// Returns true if the ring has no operation of any session.
    pub(super) fn is_quiet(&self) -> bool {
        self.operations == 0
    }

    /// Returns true if a connection has space for another request.
    pub(super) fn has_room(&self) -> bool {
        self.links.iter().any(|link| link.unanswered < self.most)
    }

    /// Adds a request to the outbox of the connection with the fewest outstanding requests.
    pub(super) fn send(&mut self, sending: Sending<SharedBuf>) {
        let least = self.links.iter_mut().enumerate();
        let Some((at, link)) = least.min_by_key(|(_, link)| link.unanswered) else {
            return;
        };
        let RemoteRequest {
            op,
            flags,
            offset,
            length,
            payload,
            ..
        } = sending.ask;
        link.unanswered += 1;
        let flight = self.flights.insert(SentRequest {
            id: sending.id,
            link: at,
            op,
            offset,
            length,
            coverage: Coverage::default(),
            error: None,
            found: false,
        });
        let request = NbdRequest {
            command: command(op),
            flags: command_flags(op, flags),
            // The cookie contains the session, so that a late reply cannot be mistaken for one to a
            // newer request.
            cookie: u64::from(self.session) << 32 | u64::from(flight),
            offset,
            length,
        };
        let header = Header::new(request.encode());
        link.outbox.push(Segment::Header(header));
        link.outbox.extend(payload.map(Segment::Buf));
    }

    /// Queues sends and receives on the ring. Returns false if an operation could not be queued for
    /// lack of space.
    pub(super) fn queue(&mut self, cx: &mut Context<'_>) -> bool {
        let mut all = true;
        for (at, link) in self.links.iter_mut().enumerate() {
            let operation = |sends| self.session << (LINK_BITS + 1) | (at as u32) << 1 | sends;
            if !link.sending && !link.outbox.is_empty() {
                let mut segments =
                    std::mem::replace(&mut link.outbox, std::mem::take(&mut link.spare));
                if segments.len() > MAX_PIECES {
                    link.outbox.extend(segments.drain(MAX_PIECES..));
                }
                match cx.ring.send(cx.token(operation(1)), &link.handle, segments) {
                    Ok(_) => {
                        link.sending = true;
                        self.operations += 1;
                    }
                    Err(rejected) => {
                        // New requests may follow the rejected ones, whose order must not change.
                        let mut segments = rejected.payload.into_segments().unwrap_or_default();
                        segments.append(&mut link.outbox);
                        link.outbox = segments;
                        all = false;
                    }
                }
            }
            let arena = &self.arena;
            let inbox = link.inbox.take().or_else(|| arena.alloc(INBOX));
            match inbox {
                Some(inbox) if !link.receiving => {
                    let token = cx.token(operation(0));
                    match cx
                        .ring
                        .recv(token, &link.handle, inbox, weir_uring::FillMode::Any)
                    {
                        Ok(_) => {
                            link.receiving = true;
                            self.operations += 1;
                        }
                        Err(RejectedOperation { payload, .. }) => {
                            link.inbox = payload.into_buf();
                            all = false;
                        }
                    }
                }
                inbox => {
                    all &= link.receiving;
                    link.inbox = inbox;
                }
            }
        }
        all
    }

    /// Processes a completed operation. Received data are passed to `found`. Requests that have
    /// ended can be [taken](Self::take_ended) afterwards.
    pub(super) fn completed(
        &mut self,
        op: u32,
        completion: RingCompletion,
        found: &mut impl FnMut(Id, ReplyContent<'_>),
    ) -> Result<(), SessionError> {
        self.operations -= 1;
        let (session, at, sends) = (
            op >> (LINK_BITS + 1),
            op >> 1 & ((1 << LINK_BITS) - 1),
            op & 1,
        );
        // The session's number wraps in the bits that an operation has for it, so it is compared in
        // the same bits.
        if session != self.session << (LINK_BITS + 1) >> (LINK_BITS + 1) {
            return Ok(());
        }
        let Some(link) = self.links.get_mut(at as usize) else {
            return Ok(());
        };
        let asked = completion.payload.bytes();
        let bytes = match completion.result {
            Ok(bytes) => bytes,
            Err(Errno::PIPE | Errno::CONNRESET) => return Err(SessionError::Closed),
            Err(errno) => return Err(SessionError::Socket(errno.into())),
        };
        if sends == 1 {
            link.sending = false;
            if let Payload::Segments(mut segments) = completion.payload {
                segments.clear();
                link.spare = segments;
            }
            // A send that was cut short leaves half a request on the connection, which cannot
            // continue.
            return if bytes == asked {
                Ok(())
            } else {
                Err(SessionError::Closed)
            };
        }
        link.receiving = false;
        let inbox = completion.payload.into_buf().ok_or(SessionError::Closed)?;
        if bytes == 0 {
            return Err(SessionError::Closed);
        }
        self.feed(at as usize, &inbox[..bytes], found)?;
        self.links[at as usize].inbox = Some(inbox);
        Ok(())
    }

    /// Takes a request that has ended, and its result.
    pub(super) fn take_ended(&mut self) -> Option<(Id, Result<(), u16>)> {
        self.ended.pop()
    }

    /// Parses bytes that a connection has received.
    fn feed(
        &mut self,
        at: usize,
        mut rest: &[u8],
        found: &mut impl FnMut(Id, ReplyContent<'_>),
    ) -> Result<(), SessionError> {
        while !rest.is_empty() {
            let (here, next) = match self.links[at].incoming {
                Incoming::Head => {
                    let (used, reply) = self.links[at].parser.feed(rest)?;
                    rest = &rest[used..];
                    if let Some(reply) = reply {
                        self.links[at].incoming = self.head(at, &reply, found)?;
                    }
                    continue;
                }
                Incoming::Data {
                    flight,
                    offset,
                    left,
                    done,
                } => {
                    let (here, behind) = rest.split_at(rest.len().min(left as usize));
                    rest = behind;
                    found(self.flights[flight].id, ReplyContent::Data(offset, here));
                    let left = left - here.len() as u32;
                    let offset = offset + here.len() as u64;
                    let next = Incoming::Data {
                        flight,
                        offset,
                        left,
                        done,
                    };
                    ((flight, left, done), next)
                }
                Incoming::Extents {
                    flight,
                    mut left,
                    mut held,
                    mut filled,
                    done,
                } => {
                    let (here, behind) = rest.split_at(rest.len().min(Extent::LEN - filled));
                    rest = behind;
                    held[filled..][..here.len()].copy_from_slice(here);
                    filled += here.len();
                    if filled == Extent::LEN {
                        let extent = Extent::decode(held);
                        found(self.flights[flight].id, ReplyContent::Extent(extent));
                        (left, filled) = (left - 1, 0);
                    }
                    let next = Incoming::Extents {
                        flight,
                        left,
                        held,
                        filled,
                        done,
                    };
                    ((flight, left, done), next)
                }
            };
            let (flight, left, done) = here;
            self.links[at].incoming = if left > 0 { next } else { Incoming::Head };
            if left == 0 && done {
                self.end(flight)?;
            }
        }
        Ok(())
    }

    /// Processes the head of a reply. Returns the meaning of the bytes that follow it.
    fn head(
        &mut self,
        at: usize,
        reply: &Reply,
        found: &mut impl FnMut(Id, ReplyContent<'_>),
    ) -> Result<Incoming, SessionError> {
        let (slot, is_done) = match *reply {
            Reply::Simple { cookie, error } => return self.simple(at, cookie, error),
            Reply::Data {
                cookie,
                offset,
                length,
                done,
            } => {
                let (flight, _) = self.part(at, cookie, offset, length)?;
                return Ok(Incoming::Data {
                    flight,
                    offset,
                    left: length,
                    done,
                });
            }
            Reply::Hole {
                cookie,
                offset,
                length,
                done,
            } => {
                let (slot, id) = self.part(at, cookie, offset, length)?;
                found(id, ReplyContent::Zeroes(offset, length));
                (slot, done)
            }
            Reply::None { cookie } => (self.flight(at, cookie)?.0, true),
            Reply::Error {
                cookie,
                error,
                done,
                ..
            } => {
                let (slot, flight) = self.flight(at, cookie)?;
                let errno = number(error)?;
                flight.error.get_or_insert(errno);
                (slot, done)
            }
            Reply::BlockStatus {
                cookie,
                context,
                extents,
                done,
            } => {
                let known = self.allocation == Some(context);
                let (slot, flight) = self.flight(at, cookie)?;
                if !known || flight.op != Op::Extents || flight.found {
                    return Err(SessionError::Violation("extents that were not requested"));
                }
                flight.found = true;
                return Ok(Incoming::Extents {
                    flight: slot,
                    left: extents,
                    held: [0; Extent::LEN],
                    filled: 0,
                    done,
                });
            }
        };
        if is_done {
            self.end(slot)?;
        }
        Ok(Incoming::Head)
    }

    /// Processes a simple reply.
    fn simple(
        &mut self,
        at: usize,
        cookie: u64,
        error: Option<nbd::Errno>,
    ) -> Result<Incoming, SessionError> {
        let structured = self.structured;
        let (slot, flight) = self.flight(at, cookie)?;
        flight.error = error.map(number).transpose()?;
        match (flight.op, error) {
            // After the client has negotiated structured replies, a server must use them for the
            // data of these commands (`doc/proto.md`, "Simple reply message").
            (Op::Read | Op::Extents, None) if structured => {
                return Err(SessionError::Violation(
                    "a simple reply instead of the negotiated chunks",
                ));
            }
            (Op::Read, None) => {
                flight.coverage.add(0..flight.length.into());
                return Ok(Incoming::Data {
                    flight: slot,
                    offset: flight.offset,
                    left: flight.length,
                    done: true,
                });
            }
            _ => self.end(slot)?,
        }
        Ok(Incoming::Head)
    }

    /// Returns the request with a cookie, if it was sent on this connection in this session.
    fn flight(&mut self, at: usize, cookie: u64) -> Result<(u32, &mut SentRequest), SessionError> {
        let (session, slot) = ((cookie >> 32) as u32, cookie as u32);
        let flight = self.flights.get_mut(slot);
        let flight = flight.filter(|flight| session == self.session && flight.link == at);
        let flight = flight.ok_or(SessionError::Violation("a reply that matches no request"))?;
        Ok((slot, flight))
    }

    /// Checks a part of a read's data: it must be new and within the range of the request.
    fn part(
        &mut self,
        at: usize,
        cookie: u64,
        offset: u64,
        length: u32,
    ) -> Result<(u32, Id), SessionError> {
        let (slot, flight) = self.flight(at, cookie)?;
        let start = offset.checked_sub(flight.offset);
        let start = start.filter(|s| flight.op == Op::Read && *s < flight.length.into());
        let start = start.ok_or(SessionError::Violation("data that was not requested"))?;
        let end = start + u64::from(length);
        if end > flight.length.into() || !flight.coverage.add(start..end) {
            return Err(SessionError::Violation("data beyond the request, or twice"));
        }
        Ok((slot, flight.id))
    }

    fn end(&mut self, slot: u32) -> Result<(), SessionError> {
        let Some(flight) = self.flights.remove(slot) else {
            return Ok(());
        };
        let whole = match flight.op {
            Op::Read => flight.coverage.is_whole(flight.length.into()),
            Op::Extents => flight.found,
            Op::Write | Op::Flush | Op::Discard | Op::WriteZeroes => true,
        };
        // A server must send all data of a read, or an error.
        if flight.error.is_none() && !whole {
            return Err(SessionError::Violation(
                "a reply without all requested data",
            ));
        }
        self.links[flight.link].unanswered -= 1;
        let result = flight.error.map_or(Ok(()), Err);
        self.ended.push((flight.id, result));
        Ok(())
    }
}

impl Wire {
    /// Disconnects from a server to which everything was sent, and ends the session.
    pub(super) fn disconnect(&mut self) {
        let request = NbdRequest {
            command: NbdCommand::Disconnect,
            flags: CommandFlags::EMPTY,
            cookie: 0,
            offset: 0,
            length: 0,
        };
        let header = request.encode();
        for link in &self.links {
            // A connection in the middle of a request cannot take another message, and ends without
            // the notice. The notice is a courtesy, so its errors are ignored.
            if !link.sending && link.outbox.is_empty() {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                let _ = rustix::net::send(link.handle.as_fd(), &header, flags);
            }
        }
        self.close();
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.disconnect();
    }
}

const fn command(op: Op) -> NbdCommand {
    match op {
        Op::Read => NbdCommand::Read,
        Op::Write => NbdCommand::Write,
        Op::Flush => NbdCommand::Flush,
        Op::Discard => NbdCommand::Trim,
        Op::WriteZeroes => NbdCommand::WriteZeroes,
        Op::Extents => NbdCommand::BlockStatus,
    }
}

fn command_flags(op: Op, flags: Flags) -> CommandFlags {
    let changes = matches!(op, Op::Write | Op::Discard | Op::WriteZeroes);
    let mut all = CommandFlags::EMPTY;
    for (is, flag) in [
        (changes && flags.has(Flags::FUA), CommandFlags::FUA),
        (
            op == Op::WriteZeroes && flags.has(Flags::NO_HOLE),
            CommandFlags::NO_HOLE,
        ),
        (
            op == Op::WriteZeroes && flags.has(Flags::FAST_ZERO),
            CommandFlags::FAST_ZERO,
        ),
        (
            op == Op::Extents && flags.has(Flags::FIRST_ONLY),
            CommandFlags::REQ_ONE,
        ),
    ] {
        if is {
            all |= flag;
        }
    }
    all
}

/// Converts a server's error to an error number of Linux.
fn number(error: nbd::Errno) -> Result<u16, SessionError> {
    Ok(match error {
        nbd::Errno::Perm => EPERM,
        nbd::Errno::NoSpc => ENOSPC,
        nbd::Errno::NotSup => ENOTSUP,
        nbd::Errno::NoMem => ENOMEM,
        // The client's request was valid, so a server that calls it invalid has failed.
        nbd::Errno::Io | nbd::Errno::Inval | nbd::Errno::Overflow => EIO,
        // The server will not answer further requests (`NBD_ESHUTDOWN`), so they go to its next
        // session.
        nbd::Errno::Shutdown => return Err(SessionError::ShuttingDown),
    })
}
