//! The connections to a server, on the shard's ring: requests out, answers in.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::SendFlags;
use weir_core::{Flags, Op};
use weir_uring::{
    Arena, Buf, Completion, Errno, Handle, Header, MAX_PIECES, Payload, Rejected, Ring, Segment,
    SharedBuf,
};
use weir_wire::nbd::client::{Reply, ReplyError, ReplyParser};
use weir_wire::nbd::{self, Command, CommandFlags, Extent, Request};

use super::super::Context;
use super::coverage::Coverage;
use super::dial::Shape;
use super::keeper::{Ask, Id, Sending};
use crate::errno::{EIO, ENOMEM, ENOSPC, ENOTSUP, EPERM};
use crate::slab::Slab;

/// Bytes that are received at a time.
const INBOX: usize = 256 << 10;
/// Connections' numbers take these bits of an operation's, beside one for its direction; the rest counts the sessions.
const LINK_BITS: u32 = 5;

/// One session: connections that came together and go together.
#[derive(Debug)]
pub(super) struct Wire {
    links: Vec<Link>,
    flights: Slab<Flight>,
    /// Counts the sessions: what comes back of one before is not taken for this one's.
    session: u32,
    /// Where answers are received.
    arena: Arena,
    /// The most that a connection has unanswered.
    most: u32,
    structured: bool,
    allocation: Option<u32>,
    /// Operations on the ring, of this session and those before.
    operations: u32,
    /// What has ended and was not told yet.
    ended: Vec<(Id, Result<(), u16>)>,
}

#[derive(Debug)]
struct Link {
    handle: Handle,
    parser: ReplyParser,
    incoming: Incoming,
    inbox: Option<Buf>,
    receiving: bool,
    sending: bool,
    /// What leaves next; a vector that is used again.
    outbox: Vec<Segment>,
    spare: Vec<Segment>,
    unanswered: u32,
}

/// What the next bytes of a connection are.
#[derive(Clone, Copy, Debug)]
enum Incoming {
    Head,
    /// Data of a read, of this place in the export.
    Data {
        flight: u32,
        offset: u64,
        left: u32,
        done: bool,
    },
    /// Extents, of one of which `filled` bytes have come.
    Extents {
        flight: u32,
        left: u32,
        held: [u8; Extent::LEN],
        filled: usize,
        done: bool,
    },
}

/// A request that was sent.
#[derive(Debug)]
struct Flight {
    id: Id,
    link: usize,
    op: Op,
    offset: u64,
    length: u32,
    coverage: Coverage,
    error: Option<u16>,
    /// Extents have come.
    found: bool,
}

/// What an answer brings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'a> {
    /// These bytes from this place in the export on.
    Data(u64, &'a [u8]),
    /// Zeroes from there on, this number of them.
    Zeroes(u64, u32),
    /// The next extent of a look-up.
    Extent(Extent),
}

/// Why a session is over.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
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
    /// Without connections. `most`: how many requests each may have unanswered; `links`: how many there may be.
    pub(super) fn new(most: u32, links: u32) -> io::Result<Self> {
        Ok(Self {
            links: Vec::new(),
            flights: Slab::new(),
            session: 0,
            // Those of the session before come back when the ring is done with them.
            arena: Arena::new(2 * INBOX * links as usize)?,
            most,
            structured: false,
            allocation: None,
            operations: 0,
            ended: Vec::new(),
        })
    }

    /// Begins a session.
    pub(super) fn open(&mut self, sockets: Vec<OwnedFd>, shape: &Shape) -> Result<(), Errno> {
        self.structured = shape.structured;
        self.allocation = shape.allocation;
        for socket in sockets {
            self.links.push(Link {
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

    /// Ends the session: its sockets are shut before there are others, and what was sent is forgotten.
    pub(super) fn close(&mut self) {
        for link in self.links.drain(..) {
            let _ = link.handle.shutdown();
        }
        self.flights = Slab::new();
        self.ended.clear();
        self.session += 1;
    }

    /// The ring has nothing of it.
    pub(super) fn is_quiet(&self) -> bool {
        self.operations == 0
    }

    /// A connection may have one more request.
    pub(super) fn has_room(&self) -> bool {
        self.links.iter().any(|link| link.unanswered < self.most)
    }

    /// Puts a request into the outbox of the connection with the fewest unanswered.
    pub(super) fn send(&mut self, sending: Sending<SharedBuf>) {
        let least = self.links.iter_mut().enumerate();
        let Some((at, link)) = least.min_by_key(|(_, link)| link.unanswered) else {
            return;
        };
        let Ask {
            op,
            flags,
            offset,
            length,
            payload,
            ..
        } = sending.ask;
        link.unanswered += 1;
        let flight = self.flights.insert(Flight {
            id: sending.id,
            link: at,
            op,
            offset,
            length,
            coverage: Coverage::default(),
            error: None,
            found: false,
        });
        let request = Request {
            command: command(op),
            flags: command_flags(op, flags),
            cookie: u64::from(self.session) << 32 | u64::from(flight),
            offset,
            length,
        };
        let header = Header::new(request.encode());
        link.outbox.push(Segment::Header(header));
        link.outbox.extend(payload.map(Segment::Buf));
    }

    /// Queues what is to be sent and received on the ring. False if it had no room for something.
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
                        .recv(token, &link.handle, inbox, weir_uring::Fill::Any)
                    {
                        Ok(_) => {
                            link.receiving = true;
                            self.operations += 1;
                        }
                        Err(Rejected { payload, .. }) => {
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

    /// An operation on the ring has ended: `found` is told what answers bring; what is over is [taken](Self::take_ended) afterwards.
    pub(super) fn completed(
        &mut self,
        op: u32,
        completion: Completion,
        found: &mut impl FnMut(Id, Found<'_>),
    ) -> Result<(), Broken> {
        self.operations -= 1;
        let (session, at, sends) = (
            op >> (LINK_BITS + 1),
            op >> 1 & ((1 << LINK_BITS) - 1),
            op & 1,
        );
        if session != self.session << (LINK_BITS + 1) >> (LINK_BITS + 1) {
            return Ok(());
        }
        let Some(link) = self.links.get_mut(at as usize) else {
            return Ok(());
        };
        let asked = completion.payload.bytes();
        let bytes = match completion.result {
            Ok(bytes) => bytes,
            Err(Errno::PIPE | Errno::CONNRESET) => return Err(Broken::Closed),
            Err(errno) => return Err(Broken::Socket(errno.into())),
        };
        if sends == 1 {
            link.sending = false;
            if let Payload::Segments(mut segments) = completion.payload {
                segments.clear();
                link.spare = segments;
            }
            return if bytes == asked {
                Ok(())
            } else {
                Err(Broken::Closed)
            };
        }
        link.receiving = false;
        let inbox = completion.payload.into_buf().ok_or(Broken::Closed)?;
        if bytes == 0 {
            return Err(Broken::Closed);
        }
        self.feed(at as usize, &inbox[..bytes], found)?;
        self.links[at as usize].inbox = Some(inbox);
        Ok(())
    }

    /// A request that is over, and how.
    pub(super) fn take_ended(&mut self) -> Option<(Id, Result<(), u16>)> {
        self.ended.pop()
    }

    /// Takes bytes that a connection has received.
    fn feed(
        &mut self,
        at: usize,
        mut rest: &[u8],
        found: &mut impl FnMut(Id, Found<'_>),
    ) -> Result<(), Broken> {
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
                    found(self.flights[flight].id, Found::Data(offset, here));
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
                        found(self.flights[flight].id, Found::Extent(extent));
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

    /// Takes the head of a reply; what follows it.
    fn head(
        &mut self,
        at: usize,
        reply: &Reply,
        found: &mut impl FnMut(Id, Found<'_>),
    ) -> Result<Incoming, Broken> {
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
                found(id, Found::Zeroes(offset, length));
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
                    return Err(Broken::Violation("extents that were not requested"));
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

    /// Takes a simple reply.
    fn simple(
        &mut self,
        at: usize,
        cookie: u64,
        error: Option<nbd::Errno>,
    ) -> Result<Incoming, Broken> {
        let structured = self.structured;
        let (slot, flight) = self.flight(at, cookie)?;
        flight.error = error.map(number).transpose()?;
        match (flight.op, error) {
            (Op::Read | Op::Extents, None) if structured => {
                return Err(Broken::Violation(
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

    /// The request of a cookie on a connection.
    fn flight(&mut self, at: usize, cookie: u64) -> Result<(u32, &mut Flight), Broken> {
        let (session, slot) = ((cookie >> 32) as u32, cookie as u32);
        let flight = self.flights.get_mut(slot);
        let flight = flight.filter(|flight| session == self.session && flight.link == at);
        let flight = flight.ok_or(Broken::Violation("a reply that matches no request"))?;
        Ok((slot, flight))
    }

    /// A part of a read's data: new, and within its range.
    fn part(
        &mut self,
        at: usize,
        cookie: u64,
        offset: u64,
        length: u32,
    ) -> Result<(u32, Id), Broken> {
        let (slot, flight) = self.flight(at, cookie)?;
        let start = offset.checked_sub(flight.offset);
        let start = start.filter(|s| flight.op == Op::Read && *s < flight.length.into());
        let start = start.ok_or(Broken::Violation("data that was not requested"))?;
        let end = start + u64::from(length);
        if end > flight.length.into() || !flight.coverage.add(start..end) {
            return Err(Broken::Violation("data beyond the request, or twice"));
        }
        Ok((slot, flight.id))
    }

    fn end(&mut self, slot: u32) -> Result<(), Broken> {
        let Some(flight) = self.flights.remove(slot) else {
            return Ok(());
        };
        let whole = match flight.op {
            Op::Read => flight.coverage.is_whole(flight.length.into()),
            Op::Extents => flight.found,
            Op::Write | Op::Flush | Op::Discard | Op::WriteZeroes => true,
        };
        if flight.error.is_none() && !whole {
            return Err(Broken::Violation("a reply without all requested data"));
        }
        self.links[flight.link].unanswered -= 1;
        let result = flight.error.map_or(Ok(()), Err);
        self.ended.push((flight.id, result));
        Ok(())
    }
}

impl Wire {
    /// Takes leave of a server that has been sent everything, and ends the session.
    pub(super) fn leave(&mut self) {
        let request = Request {
            command: Command::Disconnect,
            flags: CommandFlags::EMPTY,
            cookie: 0,
            offset: 0,
            length: 0,
        };
        let header = request.encode();
        for link in &self.links {
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
        self.leave();
    }
}

const fn command(op: Op) -> Command {
    match op {
        Op::Read => Command::Read,
        Op::Write => Command::Write,
        Op::Flush => Command::Flush,
        Op::Discard => Command::Trim,
        Op::WriteZeroes => Command::WriteZeroes,
        Op::Extents => Command::BlockStatus,
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

/// A server's error as an error number of Linux.
fn number(error: nbd::Errno) -> Result<u16, Broken> {
    Ok(match error {
        nbd::Errno::Perm => EPERM,
        nbd::Errno::NoSpc => ENOSPC,
        nbd::Errno::NotSup => ENOTSUP,
        nbd::Errno::NoMem => ENOMEM,
        nbd::Errno::Io | nbd::Errno::Inval | nbd::Errno::Overflow => EIO,
        nbd::Errno::Shutdown => return Err(Broken::ShuttingDown),
    })
}
