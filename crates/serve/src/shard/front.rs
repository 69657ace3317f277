//! How a front end attaches to a shard.
//!
//! A front end speaks one protocol with one client. The shard owns what every client has whatever it speaks ([`Client`]): the stream
//! in the core, the bounds, the hold, the memory that is reserved. It calls the front end when an operation of its has ended on the
//! ring, when requests may be taken, when one is over, and when answers may leave; nothing else of a shard knows the protocol.
//!
//! ```text
//! ring ──► completed ──► take ──► Ask ──► core, backend ──► answer ──► send ──► ring
//! ```
//!
//! A front end over a socket receives in `take` and sends in `send`. One over shared memory reads its descriptors in `take`, is looked
//! at in each turn ([`FrontEnd::look`]), asks for an event before the shard sleeps ([`FrontEnd::rest`]), and publishes in `send`.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;

use weir_config::Limits;
use weir_core::{Flags, Instant, Op, Span};
use weir_uring::{AnyRing, Arena, Buf, Completion, GuestSlice, Ring};

use super::client::{Client, State};
use super::memory::{self, Pool};
use super::payload::{GuestPayload, Payload};
use super::schedule::{self, Work};
use super::token;
use crate::backend::Extents;

/// What a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ask {
    pub(crate) op: Op,
    pub(crate) flags: Flags,
    /// First byte in the volume, and bytes; zero for a flush.
    pub(crate) offset: u64,
    pub(crate) length: u32,
    /// The front end's name for it; the shard never looks into it.
    pub(crate) token: u64,
}

/// A request that was taken from a client and is not over.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The slot of the client.
    pub(crate) client: u32,
    pub(crate) ask: Ask,
    /// Bytes reserved for it.
    pub(crate) cost: u64,
    pub(crate) payload: Payload,
    /// It had the drive to itself, in one piece.
    pub(crate) alone: bool,
    /// For how long it was there before it was taken.
    pub(crate) untaken: Span,
}

/// Why no further request was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// There is no whole one. The front end has seen to it that [`FrontEnd::completed`] is called when there is more.
    Empty,
    /// A bound is reached, or the core said to pause: [`FrontEnd::take`] is called again when that may have changed.
    Blocked,
    /// There may be more, but [`Context::is_spent`]: [`FrontEnd::take`] is called again when others were served.
    Spent,
    /// None will be taken any more.
    Ended,
    /// The client broke the protocol, or cannot be heard any more, for this reason: it is to go at once.
    Broken(Cow<'static, str>),
}

/// What came of an operation on the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Progress {
    /// Answers that have left, or never will.
    pub(crate) left: Load,
    pub(crate) then: Then,
}

/// What is to be done after an operation on the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    /// There may be requests to take.
    Take,
    /// There are answers to send.
    Send,
    /// Nothing.
    Rest,
    /// The client is not there any more.
    Gone,
}

/// What was found in memory that is shared with a client.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Look {
    /// There may be requests to take.
    pub(crate) take: bool,
    /// There is something to send.
    pub(crate) send: bool,
}

/// What answers hold until they have left.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Load {
    pub(crate) requests: u32,
    /// Bytes that stay reserved for them.
    pub(crate) bytes: u64,
}

impl Load {
    /// Adds what one more answer holds.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
    }
}

/// A request that is over.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) ask: &'a Ask,
    /// Bytes reserved for it.
    pub(crate) cost: u64,
    /// What was found, or an error number of Linux.
    pub(crate) result: Result<Found<'a>, u16>,
}

/// What came of a request that did not fail.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// Nothing but that it is done.
    Done,
    /// What was read. The front end takes out what it sends from.
    Data(&'a mut Payload),
    Extents(&'a Extents),
}

/// One client's protocol.
pub(crate) trait FrontEnd: fmt::Debug {
    /// An operation that it queued with the user value [`Context::token`]`(op)` has ended.
    fn completed(&mut self, op: u32, completion: Completion, cx: &mut Context<'_>) -> Progress;

    /// Takes requests ([`Context::take`]) until there are none or [`Context::may_take`] is false, and says why it stopped. While the
    /// client is leaving it takes what it had begun to take, and nothing new.
    fn take(&mut self, cx: &mut Context<'_>) -> Stop;

    /// A request is over. Returns how many bytes of its reservation the answer keeps until it has left; the rest is given back now.
    /// [`FrontEnd::send`] is called before the shard waits.
    fn answer(&mut self, answer: Answer<'_>, cx: &mut Context<'_>) -> u64;

    /// Lets answers leave, once in a turn in which there were any, and says which have left at once.
    ///
    /// # Errors
    /// Why they cannot: the client is to go at once.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<Load, &'static str>;

    /// The volume has `size` bytes: each front end is told when it has attached, and again when a volume of its drive has changed. False
    /// if the client does not learn of it, because its protocol has no message for it.
    fn resized(&mut self, _size: u64, _now: Instant) -> bool {
        false
    }

    /// The client is to go: ends what is under way on the ring and throws away what has not begun to leave, which is returned.
    fn close(&mut self, ring: &mut AnyRing) -> Load;

    /// Nothing is leaving, and nothing waits to.
    fn is_idle(&self) -> bool;

    /// No operation of its is on the ring.
    fn is_over(&self) -> bool;

    /// Its client is this machine's kernel, which has no other connection to ask by: it is not made to go for others' sake, and does not
    /// keep its volume from going.
    fn is_kernel(&self) -> bool {
        false
    }

    /// Its requests are in memory that it shares with its client, which can add to them without a word: the front end is looked at in every
    /// turn, and has to be asked before the shard sleeps.
    fn is_shared(&self) -> bool {
        false
    }

    /// Looks at what is shared, and does what is due.
    fn look(&mut self, _now: Instant) -> Look {
        Look::default()
    }

    /// When it wants to be looked at, whatever happens.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// The shard is about to sleep: asks the client to wake it, and looks once more. True if there may be requests to take.
    fn rest(&mut self) -> bool {
        false
    }
}

/// A client and its front end.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) client: Client,
    pub(crate) front: Box<dyn FrontEnd>,
}

impl Attached {
    /// Nothing of it is left anywhere.
    pub(crate) fn is_over(&self) -> bool {
        self.client.live == 0 && self.front.is_over()
    }
}

/// A front end on its way to the shard's thread, where its client's volume is.
pub(crate) trait Attach: Send + fmt::Debug {
    /// Makes the front end, on the thread of the shard.
    ///
    /// # Errors
    /// Why it cannot be served.
    fn attach(self: Box<Self>, arena: &Arena) -> Result<Box<dyn FrontEnd>, Unattached>;
}

/// Why a front end cannot be attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Unattached {
    #[error("no memory is left for it")]
    Memory,
    #[error("the client sent too much data during the handshake")]
    Early,
    #[error("its socket failed")]
    Socket,
}

/// What a front end works with during a call.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    /// The time of this turn.
    pub(crate) now: Instant,
    pub(crate) ring: &'a mut AnyRing,
    pub(crate) limits: &'a Limits,
    pub(crate) client: &'a mut Client,
    pub(super) slot: u32,
    pub(super) pool: &'a mut Pool,
    pub(super) taken: &'a mut Vec<Pending>,
    pub(super) waiting: &'a mut VecDeque<u32>,
    /// Vectors and payloads used again.
    pub(super) spare: &'a mut Spare,
    /// There are answers to send.
    pub(super) sends: bool,
    /// What this call made the processor do.
    pub(super) work: Work,
}

/// Empty vectors, to be filled without allocating.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    bufs: Vec<Vec<Buf>>,
    payloads: Vec<Payload>,
    guests: Vec<GuestPayload>,
}

impl Spare {
    /// Takes the memory of a request that is over.
    pub(super) fn put(&mut self, mut payload: Payload) {
        payload.clear();
        match payload {
            Payload::Guest(guest) => self.guests.push(guest),
            Payload::Arena(_) => self.payloads.push(payload),
        }
    }

    pub(super) fn payload(&mut self) -> Payload {
        self.payloads.pop().unwrap_or_default()
    }
}

impl Context<'_> {
    /// The user value for an operation of this front end on the ring; `op`, below 2^31, comes back in [`FrontEnd::completed`].
    pub(crate) fn token(&self, op: u32) -> u64 {
        token::front(self.slot, op)
    }

    /// Whether this call has cost as much as one client may before others are served: nothing more is to be taken now.
    pub(crate) fn is_spent(&self) -> bool {
        self.work.cost >= schedule::VISIT
    }

    /// A request never enters the core, since it is refused or answered at once. It moves no data, but `bytes` that came with it were
    /// copied.
    pub(crate) fn charge_overhead(&mut self, bytes: u32) {
        let cost = schedule::REQUEST + schedule::copied(bytes.into());
        self.work.cost += cost;
        self.work.overhead += cost;
    }

    /// Answers are sent to the client, or its guest is called: a thread of it is woken.
    pub(crate) fn charge_message(&mut self) {
        let bytes = std::mem::take(&mut self.client.transferred);
        self.work.send(bytes);
    }

    /// Bytes were copied from the client.
    pub(crate) fn charge_copy(&mut self, bytes: usize) {
        self.work.cost += schedule::copied(bytes as u64);
    }

    /// Whether another request may be taken now.
    pub(crate) fn may_take(&self) -> bool {
        let client = &*self.client;
        let full = client.outstanding >= self.limits.requests_per_connection;
        !client.paused && !full && client.queue.is_empty()
    }

    /// Reserves what a request takes of the shard's memory; false if it must wait, in which case [`Stop::Blocked`] is the reason to stop.
    pub(crate) fn reserve(&mut self, cost: u64) -> bool {
        let alone = self.client.outstanding == 0;
        if !alone && self.client.used + cost > self.limits.bytes_per_connection {
            return false;
        }
        if cost == 0 || self.pool.take(&mut self.client.used, cost, alone) {
            return true;
        }
        if alone {
            self.wait_for_memory();
        }
        false
    }

    /// Reserves memory that the front end can do without.
    pub(crate) fn reserve_spare(&mut self, bytes: u64) -> bool {
        self.pool.take(&mut self.client.used, bytes, false)
    }

    /// Gives back what was reserved and is not needed.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.pool.give(&mut self.client.used, bytes);
    }

    /// Cuts buffers for a payload whose cost is reserved; `None` if there are none: the reservation is given back then, and the client
    /// waits.
    pub(crate) fn cut_payload(&mut self, length: u32, cost: u64) -> Option<Vec<Buf>> {
        // As many payloads may be arriving at a time as there are clients: each has a vector.
        let mut bufs = self.spare.bufs.pop().unwrap_or_default();
        if memory::for_payload(self.ring.arena(), length, &mut bufs) {
            return Some(bufs);
        }
        self.spare.bufs.push(bufs);
        self.give_back(cost);
        self.wait_for_memory();
        None
    }

    /// A client that has nothing under way waits for memory: nothing of its own will look at it again.
    fn wait_for_memory(&mut self) {
        if !self.client.waiting {
            self.client.waiting = true;
            self.waiting.push_back(self.slot);
        }
    }

    /// One more request counts against the client's bounds until its answer has left.
    pub(crate) fn begin(&mut self) {
        self.client.outstanding += 1;
        self.work.cost += schedule::REQUEST;
    }

    /// A request that was begun is complete: to the core. `bufs` are what a write carries.
    pub(crate) fn take(&mut self, ask: Ask, cost: u64, bufs: Vec<Buf>) {
        let mut payload = self.spare.payload();
        if bufs.capacity() > 0 {
            self.spare.bufs.push(payload.fill(bufs));
        }
        self.push(ask, cost, payload);
    }

    /// An empty vector for [`Context::take_guest`].
    pub(crate) fn guest_slices(&mut self) -> Vec<GuestSlice> {
        self.spare.guests.pop().unwrap_or_default().0
    }

    /// A request that was begun is complete: to the core. `slices` are the client's own memory, from which a write's bytes are taken and
    /// into which those of a read are put; as many as the request has, none where it has none.
    pub(crate) fn take_guest(&mut self, ask: Ask, cost: u64, slices: Vec<GuestSlice>) {
        self.push(ask, cost, Payload::Guest(GuestPayload(slices)));
    }

    fn push(&mut self, ask: Ask, cost: u64, payload: Payload) {
        self.work.add(ask.op, ask.length);
        self.taken.push(Pending {
            client: self.slot,
            ask,
            cost,
            payload,
            alone: false,
            untaken: Span::ZERO,
        });
    }

    /// There is an answer to a request that was begun and never taken.
    pub(crate) fn mark_for_send(&mut self) {
        self.sends = true;
    }

    /// The client says that it leaves: what was taken is answered, nothing else is taken.
    pub(crate) fn leave(&mut self) {
        self.client.state = State::Leaving;
    }
}
