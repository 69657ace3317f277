//! The interface between a shard and its front ends.
//!
//! A front end speaks one protocol with one client. The shard owns everything about a client that
//! does not depend on the protocol ([`ShardClient`]): the stream in the core, the bounds, the hold,
//! and the reserved memory. It calls the front end when one of the front end's operations on the
//! ring has completed, when requests may be taken, when a request has completed, and when answers
//! may be sent. Nothing else in a shard knows the protocol.
//!
//! ```text
//! ring ──► completed ──► take ──► ClientRequest ──► core, backend ──► answer ──► send ──► ring
//! ```
//!
//! A front end over a socket receives in `take` and sends in `send`. A front end over shared memory
//! reads its descriptors in `take` and publishes in `send`. The shard also polls it in each turn
//! ([`FrontEnd::poll_shared`]), and lets it request a notification before the shard sleeps
//! ([`FrontEnd::arm_notifications`]).

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::io;

use weir_config::Limits;
use weir_core::{Flags, Instant, Op, Span};
use weir_uring::{AnyRing, Arena, Buf, GuestSlice, Ring, RingCompletion};

use super::client::{ClientState, ShardClient};
use super::memory::{self, MemoryPool};
use super::payload::{GuestPayload, RequestPayload};
use super::schedule::{self, ProcessorWork};
use super::token;
use crate::backend::Extents;
use crate::upgrade::FrontState;

/// An operation that a client requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClientRequest {
    pub(crate) op: Op,
    pub(crate) flags: Flags,
    /// The first byte in the volume. Offset and length are zero for a flush.
    pub(crate) offset: u64,
    pub(crate) length: u32,
    /// The front end's identifier of the request, which the shard passes back unchanged.
    pub(crate) token: u64,
}

/// A request that was taken from a client and has not completed.
#[derive(Debug)]
pub(crate) struct QueuedRequest {
    /// The slot of the client that sent the request.
    pub(crate) client: u32,
    pub(crate) ask: ClientRequest,
    /// Bytes of the shard's memory that are reserved for the request.
    pub(crate) cost: u64,
    pub(crate) payload: RequestPayload,
    /// True if the request was a single piece that had the drive to itself.
    pub(crate) alone: bool,
    /// The time between the request's arrival and its being taken.
    pub(crate) untaken: Span,
}

/// The reason why no further request was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TakeStop {
    /// There is no complete request. The front end has arranged that [`FrontEnd::completed`] is
    /// called when more arrives.
    Empty,
    /// A bound is reached, or the core has paused the stream. [`FrontEnd::take`] is called again
    /// when that may have changed.
    Blocked,
    /// There may be more requests, but [`FrontContext::is_spent`] is true. [`FrontEnd::take`] is
    /// called again after others were served.
    Spent,
    /// No further request will be taken from this client.
    Ended,
    /// The client violated the protocol or its connection failed, for the given reason. It is
    /// disconnected immediately.
    Broken(Cow<'static, str>),
}

/// The consequences of a completed operation on the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrontProgress {
    /// The answers that have left or never will.
    pub(crate) left: AnswerLoad,
    pub(crate) then: NextStep,
}

/// The shard's next step after an operation on the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NextStep {
    /// Take requests, because there may be some.
    Take,
    /// Send answers, because there are some.
    Send,
    /// There is nothing to do.
    Rest,
    /// Close the client, which has disconnected.
    Gone,
}

/// The result of polling memory that is shared with a client.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct PollResult {
    /// True if there may be requests to take.
    pub(crate) take: bool,
    /// True if there is something to send.
    pub(crate) send: bool,
}

/// The requests and memory that answers occupy until they have left.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct AnswerLoad {
    pub(crate) requests: u32,
    /// Bytes that stay reserved for the answers.
    pub(crate) bytes: u64,
}

impl AnswerLoad {
    /// Adds one more answer, which occupies `bytes`.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
    }
}

/// A completed request that the front end is to answer.
#[derive(Debug)]
pub(crate) struct RequestAnswer<'a> {
    pub(crate) ask: &'a ClientRequest,
    /// Bytes that are reserved for the request.
    pub(crate) cost: u64,
    /// The result, or an error number of Linux.
    pub(crate) result: Result<RequestResult<'a>, u16>,
}

/// The result of a request that succeeded.
#[derive(Debug)]
pub(crate) enum RequestResult<'a> {
    /// The request succeeded and has no data.
    Done,
    /// The data that was read. The front end takes out the buffers and sends from them.
    Data(&'a mut RequestPayload),
    Extents(&'a Extents),
}

/// The protocol of one client.
pub(crate) trait FrontEnd: fmt::Debug {
    /// Processes the completion of an operation that was queued with the user value
    /// [`FrontContext::token`]`(op)`.
    fn completed(
        &mut self,
        op: u32,
        completion: RingCompletion,
        cx: &mut FrontContext<'_>,
    ) -> FrontProgress;

    /// Takes requests ([`FrontContext::take`]) until there are none or [`FrontContext::may_take`]
    /// is false. Returns the reason why it stopped. While the client is leaving, the front end
    /// completes a request that it had begun to take, and takes no new ones.
    fn take(&mut self, cx: &mut FrontContext<'_>) -> TakeStop;

    /// Prepares the answer to a completed request. Returns the number of reserved bytes that the
    /// answer keeps until it has left. The rest is released immediately. [`FrontEnd::send`] is
    /// called before the shard waits.
    fn answer(&mut self, answer: RequestAnswer<'_>, cx: &mut FrontContext<'_>) -> u64;

    /// Sends answers. Called once in each turn that has produced answers. Returns those that have
    /// left immediately.
    ///
    /// # Errors
    /// Returns the reason why answers cannot be sent. The client is then disconnected.
    fn send(&mut self, cx: &mut FrontContext<'_>) -> Result<AnswerLoad, &'static str>;

    /// Notifies the front end that the volume has `size` bytes. Called after attaching, and
    /// whenever a changed configuration of the drive was applied. Returns false if the client does
    /// not learn of it, because its protocol has no message for it.
    fn resized(&mut self, _size: u64, _now: Instant) -> bool {
        false
    }

    /// Closes the front end, because the client is to be disconnected. Cancels its operations on
    /// the ring, and returns the discarded answers, which had not begun to leave.
    fn close(&mut self, ring: &mut AnyRing) -> AnswerLoad;

    /// Returns true if no answer is being sent or waits to be sent.
    fn is_idle(&self) -> bool;

    /// Returns true if no operation of the front end is on the ring.
    fn is_over(&self) -> bool;

    /// Stops waiting for the client, because it is to be handed over ([`Self::hand_over`]). Until
    /// then, the front end is not asked to take requests. Returns false if the front end cannot be
    /// handed over, so that its client has to be disconnected.
    fn detach(&mut self, _ring: &mut AnyRing) -> bool {
        false
    }

    /// Serves a detached client again, because the other process has failed. The front end is asked
    /// to take requests and to send answers afterwards.
    fn resume(&mut self) {}

    /// Takes back a request of a client that is to be handed over, because no part of it has
    /// reached the drive. It is taken again later, here or in another process.
    fn take_back(&mut self, _ask: &ClientRequest, _payload: &RequestPayload) {}

    /// Stops sending, because the client takes its answers too slowly to wait for it. What was not
    /// sent is handed over. Called repeatedly once all requests are answered or were taken back.
    fn stop_sending(&mut self, _ring: &mut AnyRing) {}

    /// Returns true if the state of a detached client can be handed over: all requests are answered
    /// or were taken back, and no operation refers to the client.
    fn is_settled(&self) -> bool {
        self.is_over()
    }

    /// Returns the state of a settled client for another process, or `None` if the client turns to
    /// the other process by itself. The front end keeps its own state, so that the client can be
    /// served here again if the other process fails.
    ///
    /// # Errors
    /// Returns the system's error for a descriptor that cannot be duplicated.
    fn hand_over(&mut self, _cx: &mut FrontContext<'_>) -> io::Result<Option<FrontState>> {
        Ok(None)
    }

    /// Reserves memory for answers that another process has handed over. Called after attaching.
    fn reserve_inherited(&mut self, _cx: &mut FrontContext<'_>) {}

    /// Returns true if the client is the kernel of this machine, which cannot reconnect by itself.
    /// Such a client is not disconnected in favour of others, and does not prevent the removal of
    /// its volume.
    fn is_kernel(&self) -> bool {
        false
    }

    /// Returns true if the requests are in memory that the client shares, so that it can add
    /// requests without a notification. The shard polls such a front end in every turn, and calls
    /// [`Self::arm_notifications`] before it sleeps.
    fn is_shared(&self) -> bool {
        false
    }

    /// Polls the shared memory, and does anything that is due.
    fn poll_shared(&mut self, _now: Instant) -> PollResult {
        PollResult::default()
    }

    /// Returns the deadline of the next poll of the front end, even if nothing happens.
    fn poll_deadline(&self) -> Option<Instant> {
        None
    }

    /// Asks the client to wake the shard, which is about to sleep, and polls once more. Returns
    /// true if there may be requests to take.
    fn arm_notifications(&mut self) -> bool {
        false
    }
}

/// A client together with its front end.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) client: ShardClient,
    pub(crate) front: Box<dyn FrontEnd>,
}

impl Attached {
    /// Returns true if no request and no operation of the client is left.
    pub(crate) fn is_over(&self) -> bool {
        self.client.live == 0 && self.front.is_over()
    }
}

/// A front end that is sent to the thread of the shard that has its client's volume.
pub(crate) trait Attach: Send + fmt::Debug {
    /// Creates the front end on the thread of the shard.
    ///
    /// # Errors
    /// Returns the reason why the client cannot be served.
    fn attach(self: Box<Self>, arena: &Arena) -> Result<Box<dyn FrontEnd>, AttachError>;
}

/// The reason why a front end cannot be attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum AttachError {
    #[error("no memory is left for it")]
    Memory,
    #[error("the client sent too much data during the handshake")]
    Early,
    #[error("its socket failed")]
    Socket,
    #[error("the other process handed over an impossible state")]
    Record,
}

/// The state of the shard that a front end can use during a call.
#[derive(Debug)]
pub(crate) struct FrontContext<'a> {
    /// The start of this turn.
    pub(crate) now: Instant,
    pub(crate) ring: &'a mut AnyRing,
    pub(crate) limits: &'a Limits,
    pub(crate) client: &'a mut ShardClient,
    pub(super) slot: u32,
    pub(super) pool: &'a mut MemoryPool,
    pub(super) taken: &'a mut Vec<QueuedRequest>,
    pub(super) waiting: &'a mut VecDeque<u32>,
    /// Vectors and payloads that are used again.
    pub(super) spare: &'a mut SpareBuffers,
    /// True if another part of the shard waits for resources that clients release.
    pub(super) hurries: bool,
    /// Set by the front end if there are answers to send.
    pub(super) sends: bool,
    /// The processor work that this call has caused.
    pub(super) work: ProcessorWork,
}

/// Empty vectors that are used again, so that requests do not allocate.
#[derive(Debug, Default)]
pub(crate) struct SpareBuffers {
    bufs: Vec<Vec<Buf>>,
    payloads: Vec<RequestPayload>,
    guests: Vec<GuestPayload>,
}

impl SpareBuffers {
    /// Takes back the memory of a completed request.
    pub(super) fn put(&mut self, mut payload: RequestPayload) {
        payload.clear();
        match payload {
            RequestPayload::Guest(guest) => self.guests.push(guest),
            RequestPayload::Arena(_) => self.payloads.push(payload),
        }
    }

    pub(super) fn payload(&mut self) -> RequestPayload {
        self.payloads.pop().unwrap_or_default()
    }
}

impl FrontContext<'_> {
    /// Returns the user value for an operation of this front end on the ring. `op` must be below
    /// 2^31, and is passed to [`FrontEnd::completed`].
    pub(crate) fn token(&self, op: u32) -> u64 {
        token::front(self.slot, op)
    }

    /// Returns true if this call has cost as much as one client may use before others are served.
    /// No more requests should be taken then.
    pub(crate) fn is_spent(&self) -> bool {
        self.work.cost >= schedule::VISIT
    }

    /// Charges a request that never enters the core because it is refused or answered immediately.
    /// It moves no data, but `bytes` that came with it were copied.
    pub(crate) fn charge_overhead(&mut self, bytes: u32) {
        let cost = schedule::REQUEST + schedule::copy_cost(bytes.into());
        self.work.cost += cost;
        self.work.overhead += cost;
    }

    /// Charges a message to the client, or a call of its guest, either of which wakes a thread.
    pub(crate) fn charge_message(&mut self) {
        let bytes = std::mem::take(&mut self.client.transferred);
        self.work.send(bytes);
    }

    /// Charges the copying of bytes that came from the client.
    pub(crate) fn charge_copy(&mut self, bytes: usize) {
        self.work.cost += schedule::copy_cost(bytes as u64);
    }

    /// Returns true if nothing waits for the resources of the answers that are being sent, so that
    /// the shard can release them when it wakes the next time.
    pub(crate) fn may_send_quietly(&self) -> bool {
        let client = &*self.client;
        client.is_open() && !client.blocked && !client.held && !self.hurries
    }

    /// Returns true if another request may be taken now.
    pub(crate) fn may_take(&self) -> bool {
        let client = &*self.client;
        // Requests that the core had no room for go first, because a client's requests must stay
        // in order.
        let full = client.outstanding >= self.limits.requests_per_connection;
        !client.paused && !full && client.queue.is_empty()
    }

    /// Reserves shard memory for a request. Returns false if the request must wait. The front end
    /// must then stop with [`TakeStop::Blocked`].
    pub(crate) fn reserve(&mut self, cost: u64) -> bool {
        // Answers of another process occupy memory without being counted as requests.
        let alone = self.client.outstanding == 0 && self.client.unsent == 0;
        // A client with nothing under way is let through, or a request larger than the bound
        // would never be served.
        if !alone && self.client.used + cost > self.limits.bytes_per_connection {
            return false;
        }
        if cost == 0 || self.pool.take(&mut self.client.used, cost, alone) {
            return true;
        }
        // Otherwise the completion of one of its own requests makes the client ready again.
        if alone {
            self.wait_for_memory();
        }
        false
    }

    /// Reserves memory that the front end can do without. Returns false if there is none.
    pub(crate) fn reserve_spare(&mut self, bytes: u64) -> bool {
        self.pool.take(&mut self.client.used, bytes, false)
    }

    /// Reserves memory for answers that have `bytes` of it already, or as much of that as is left.
    /// Returns the number of bytes, which the answers keep until they have left.
    pub(crate) fn reserve_answers(&mut self, bytes: u64) -> u64 {
        let reserved = self.pool.take_most(&mut self.client.used, bytes);
        self.client.unsent += reserved;
        reserved
    }

    /// Releases reserved memory that is not needed.
    pub(crate) fn release_reservation(&mut self, bytes: u64) {
        self.pool.unreserve(&mut self.client.used, bytes);
    }

    /// Allocates buffers for a payload whose cost is reserved. If there is no memory, the
    /// reservation is released, the client is listed as waiting for memory, and `None` is returned.
    pub(crate) fn allocate_payload(&mut self, length: u32, cost: u64) -> Option<Vec<Buf>> {
        // Each client can have one payload that is arriving, and each of these uses one vector.
        let mut bufs = self.spare.bufs.pop().unwrap_or_default();
        if memory::allocate_payload_buffers(self.ring.arena(), length, &mut bufs) {
            return Some(bufs);
        }
        self.spare.bufs.push(bufs);
        self.release_reservation(cost);
        self.wait_for_memory();
        None
    }

    /// Lists the client as waiting for memory. It has nothing under way, so no event of its own
    /// would make it ready again.
    fn wait_for_memory(&mut self) {
        if !self.client.waiting {
            self.client.waiting = true;
            self.waiting.push_back(self.slot);
        }
    }

    /// Counts one more request against the client's bounds, until its answer has left.
    pub(crate) fn begin(&mut self) {
        self.client.outstanding += 1;
        self.work.cost += schedule::REQUEST;
    }

    /// Gives up a request that was begun, and its reservation of `cost`, before it is passed on.
    pub(crate) fn give_up_begun(&mut self, cost: u64) {
        self.client.outstanding -= 1;
        self.release_reservation(cost);
    }

    /// Passes on a complete request that was begun before. `bufs` is the payload of a write.
    pub(crate) fn take(&mut self, ask: ClientRequest, cost: u64, bufs: Vec<Buf>) {
        let mut payload = self.spare.payload();
        if bufs.capacity() > 0 {
            self.spare.bufs.push(payload.fill(bufs));
        }
        self.push(ask, cost, payload);
    }

    /// Returns an empty vector for [`FrontContext::take_guest`].
    pub(crate) fn guest_slices(&mut self) -> Vec<GuestSlice> {
        self.spare.guests.pop().unwrap_or_default().0
    }

    /// Passes on a complete request that was begun before. `slices` is the client's own memory,
    /// which a write is read from and a read is written to. Its length is that of the request's
    /// data.
    pub(crate) fn take_guest(&mut self, ask: ClientRequest, cost: u64, slices: Vec<GuestSlice>) {
        self.push(ask, cost, RequestPayload::Guest(GuestPayload(slices)));
    }

    fn push(&mut self, ask: ClientRequest, cost: u64, payload: RequestPayload) {
        self.work.add(ask.op, ask.length);
        self.taken.push(QueuedRequest {
            client: self.slot,
            ask,
            cost,
            payload,
            alone: false,
            untaken: Span::ZERO,
        });
    }

    /// Notes that there is something to send of which the shard does not know, such as the answer
    /// to a request that was begun but not taken, or a call of the guest.
    pub(crate) fn mark_for_send(&mut self) {
        self.sends = true;
    }

    /// Notes that the client wants to disconnect. Taken requests are still answered, but no more
    /// are taken.
    pub(crate) fn leave(&mut self) {
        self.client.state = ClientState::Leaving;
    }
}
