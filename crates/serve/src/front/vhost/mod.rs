//! `vhost-user`: a volume as the disk of a virtual machine. The VMM (the vhost-user front end)
//! passes the guest's memory and virtqueues over a socket.
//!
//! A [`VhostSession`] is the connection of one VMM. It has one stream and up to [`QUEUES`]
//! virtqueues. Requests are read from the guest's memory. If the storage can use that memory, data
//! is transferred between the two without a copy.
//!
//! While the shard is awake, it polls the queues in each turn ([`FrontEnd::poll_shared`]). Before
//! it sleeps, it enables kicks and polls once more ([`FrontEnd::arm_notifications`]). A kick
//! completes a poll operation on the ring. Completed requests are published once per turn. If the
//! guest wants a call, an operation on the ring makes it, so that a call that blocks does not block
//! the shard.
//!
//! A session can be handed over to another process ([`hand_over`]), which sets up the same session
//! again. The requests that did not reach the drive are taken again there.
//!
//! An invalid request of the guest gets an error status, or makes the server stop serving the
//! queue, and is logged. An invalid message of the VMM is refused, or ends the connection.

mod control;
mod disk;
mod hand_over;
mod handshake;
mod inflight;
mod queue;
mod take;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_core::{Instant, Span};
use weir_uring::{
    AnyRing, Errno, GuestMemory, GuestSlice, Handle, Mapping, MappingPart, OpId, Ring,
    RingCompletion,
};
use weir_wire::ring::split::BufferChain;
use weir_wire::vhost::Assembler;
use weir_wire::virtio_blk::{BlkRequest, Status};

use crate::shard::{
    AnswerLoad, AttachError, ClientRequest, FrontContext, FrontEnd, FrontProgress, NextStep,
    PollResult, RequestAnswer, RequestPayload, TakeStop,
};
use crate::slab::Slab;
use crate::upgrade::FrontState;
use control::MessageProgress;
use disk::{QUEUES, VhostDisk};
use handshake::ConnectedVmm;
use queue::{TakenHead, Virtqueue};

pub(crate) use hand_over::InheritedSession;
pub(crate) use handshake::{EndingSessions, greeter};

/// The number of the operation that waits for a message from the VMM.
const CONTROL: u32 = 0;
/// The first operation number of queues. Queue n has two numbers from `FIRST_QUEUE + 2 * n` on, for
/// the wait for a kick and for the call.
const FIRST_QUEUE: u32 = 1;

/// The connection of one VMM.
#[derive(Debug)]
struct VhostSession {
    socket: Handle,
    /// The channel for requests to the VMM (`VHOST_USER_SET_BACKEND_REQ_FD`).
    backend: Option<OwnedFd>,
    /// The due time of a notification that the configuration space has changed.
    news: Option<Instant>,
    disk: VhostDisk,
    messages: Assembler<OwnedFd>,
    /// The operation that waits for a message from the VMM.
    watching: Option<OpId>,
    /// The negotiated features of virtio and of the vhost-user protocol.
    features: u64,
    protocol: u64,
    /// The driver's choice of write-back mode, in which writes may complete before they are
    /// durable.
    write_back: bool,
    memory: GuestMemory,
    /// The descriptor of each region of the memory, by the guest's address of the region. Another
    /// process needs it to map the region.
    files: BTreeMap<u64, OwnedFd>,
    queues: Vec<Virtqueue>,
    /// The index of the queue that is served first in the next turn.
    first: usize,
    /// The queue that the VMM has asked to stop (`VHOST_USER_GET_VRING_BASE`), while requests of it
    /// are in flight.
    stopping: Option<u32>,
    notes: Option<InflightMemory>,
    under: Slab<GuestRequest>,
    /// A taken request that waits for memory and is in `chain`.
    waiting: Option<WaitingChain>,
    /// Completed requests that wait to be published.
    next: AnswerLoad,
    /// True if a call is to be made for at least one queue.
    calls: bool,
    /// The reason why the session has to end.
    broken: Option<Cow<'static, str>>,
    /// The number of ended sessions at this socket that still have requests in progress. While it
    /// is not zero, no request is taken. The VMM can resubmit the same requests in a new session,
    /// and the old ones must not access memory that the guest has reused since.
    ending: Arc<AtomicU32>,
    closed: bool,
    stage: SessionStage,
    chain: BufferChain,
    request: BlkRequest,
}

/// The relation of a session to its VMM and guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SessionStage {
    Serving,
    /// The session is being handed over. Nothing is read from the VMM or the rings. Responses are
    /// published, and the guest is called for them.
    Detached,
    /// The guest is not called either, because a call has blocked for too long.
    Silent,
}

/// The shared memory that records requests in flight.
#[derive(Debug)]
struct InflightMemory {
    mapping: Mapping,
    file: OwnedFd,
    /// The first byte of the memory in its descriptor.
    offset: u64,
    queues: u16,
    queue_size: u16,
}

/// A request in progress.
#[derive(Debug)]
struct GuestRequest {
    queue: u8,
    generation: u32,
    taken: TakenHead,
    /// The request's status byte in the guest's memory.
    status: GuestSlice,
    /// The number of bytes written if the request succeeds, including the status byte.
    written: u32,
}

/// A request that waits for memory.
#[derive(Debug)]
struct WaitingChain {
    queue: usize,
    generation: u32,
    taken: TakenHead,
}

impl InflightMemory {
    /// Returns the region of a queue.
    fn part(&self, number: usize) -> Option<MappingPart> {
        let length = inflight::length(self.queue_size);
        let within = number < usize::from(self.queues);
        within
            .then(|| self.mapping.part((number * length) as u64, length))
            .flatten()
    }
}

impl VhostSession {
    fn new(agreed: ConnectedVmm) -> Result<Self, AttachError> {
        let queues = std::iter::repeat_with(|| Virtqueue::new(false)).take(QUEUES.into());
        Ok(Self {
            socket: Handle::new(agreed.socket).map_err(|_| AttachError::Socket)?,
            backend: None,
            news: None,
            disk: VhostDisk::new(&agreed.export),
            messages: Assembler::default(),
            watching: None,
            features: 0,
            protocol: 0,
            write_back: true,
            memory: GuestMemory::default(),
            files: BTreeMap::new(),
            queues: queues.collect(),
            first: 0,
            stopping: None,
            notes: None,
            under: Slab::new(),
            waiting: None,
            next: AnswerLoad::default(),
            calls: false,
            broken: None,
            ending: agreed.ending,
            closed: false,
            stage: SessionStage::Serving,
            chain: BufferChain::default(),
            request: BlkRequest::default(),
        })
    }

    /// Logs a violation of the protocol, unless too much was logged recently.
    fn warn(&self, reason: fmt::Arguments<'_>) {
        if crate::log::allowed() {
            tracing::warn!(volume = %self.disk.name, %reason, "a virtual machine violated the protocol");
        }
    }

    /// Stops serving a queue after an error, and logs the reason.
    fn break_queue(&mut self, number: usize, reason: &str) {
        self.queues[number].broken = true;
        self.calls |= self.queues[number].error.is_some();
        if crate::log::allowed() {
            tracing::warn!(volume = %self.disk.name, queue = number, reason, "stopped serving a virtqueue after an invalid request");
        }
    }

    /// Queues the operations that wait for messages and for kicks.
    fn watch(&mut self, cx: &mut FrontContext<'_>) -> Result<(), &'static str> {
        if self.stage != SessionStage::Serving {
            return Ok(());
        }
        if self.watching.is_none() && self.stopping.is_none() {
            let queued = cx.ring.poll_readable(cx.token(CONTROL), &self.socket);
            self.watching = Some(queued.map_err(|_| NO_PLACE)?);
        }
        for (queue, number) in self.queues.iter_mut().zip(0..) {
            if let Some(polling) = queue.polling {
                // The poll waits on a descriptor that the VMM has replaced.
                if std::mem::take(&mut queue.exchanged) {
                    cx.ring.cancel(polling);
                }
                continue;
            }
            queue.exchanged = false;
            // If kicks are throttled, they stay in their descriptor until the queue is polled
            // again.
            let listens = !queue.broken && !queue.is_waiting();
            if let Some(kick) = queue.kick.as_ref().filter(|_| listens) {
                let token = cx.token(FIRST_QUEUE + 2 * number);
                let queued = cx.ring.poll_readable(token, kick);
                queue.polling = Some(queued.map_err(|_| NO_PLACE)?);
            }
        }
        Ok(())
    }

    /// Processes the completion of the poll on a kick descriptor.
    fn on_kick_ready(&mut self, number: usize, now: Instant) -> NextStep {
        let queue = &mut self.queues[number];
        queue.polling = None;
        if self.stage != SessionStage::Serving {
            // The kick stays in its descriptor, for whoever polls it next.
            return NextStep::Rest;
        }
        queue.on_kick(now);
        if let Some(kick) = &queue.kick
            && let Err(errno) = kick.take_event()
        {
            queue.kick = None;
            self.break_queue(number, &format!("its kicks cannot be read: {errno}"));
        }
        NextStep::Take
    }

    /// Processes messages of the VMM, or the end of the wait for them.
    fn on_message_ready(&mut self, now: Instant) -> NextStep {
        self.watching = None;
        if self.stage != SessionStage::Serving {
            return NextStep::Rest;
        }
        let heard = self.read_messages();
        if let Some(at) = &mut self.news {
            *at = now + QUIET;
        }
        match heard {
            MessageProgress::All => NextStep::Take,
            MessageProgress::End => NextStep::Gone,
            MessageProgress::Broken(reason) => {
                self.broken = Some(reason);
                NextStep::Take
            }
        }
    }

    /// Processes the end of a call.
    fn on_called(&mut self, number: usize, result: Result<usize, Errno>) -> NextStep {
        let queue = &mut self.queues[number];
        queue.calling = None;
        // The call was cancelled, so the guest has not been called.
        queue.call_again |= self.stage == SessionStage::Silent && result.is_err();
        self.calls |= queue.call_again;
        NextStep::Rest
    }

    /// Calls the guest. If a call is in progress, another call is made when it ends.
    fn call(&mut self, number: usize, cx: &mut FrontContext<'_>) -> Result<(), &'static str> {
        let queue = &mut self.queues[number];
        if queue.calling.is_some() {
            queue.call_again = true;
            return Ok(());
        }
        queue.call_again = false;
        let event = if queue.broken {
            queue.error.take()
        } else {
            queue.call.clone()
        };
        if let Some(event) = event {
            cx.charge_message();
            let token = cx.token(FIRST_QUEUE + 2 * number as u32 + 1);
            let queued = if cx.may_send_quietly() {
                cx.ring.signal_quietly(token, &event)
            } else {
                cx.ring.signal(token, &event)
            };
            queue.calling = Some(queued.map_err(|_| NO_PLACE)?);
        }
        Ok(())
    }

    /// Returns true if no requests may be taken at present.
    fn is_paused(&self) -> bool {
        self.closed || self.ending.load(Ordering::Relaxed) > 0
    }

    /// Returns true if memory of the guest was truncated.
    fn has_lost_memory(&self) -> bool {
        let notes = self.notes.as_ref();
        self.memory.is_broken() || notes.is_some_and(|notes| notes.mapping.is_broken())
    }
}

/// The silence of the VMM that must precede a notification of a changed configuration. A VMM may
/// not expect the notification while it waits for a reply: QEMU 6.0 to 7.2.0 then asks for the
/// configuration space immediately, and mistakes the reply that it waited for as the reply to that.
const QUIET: Span = Span::from_millis(100);
/// The reason for closing a session if the ring rejects its operation.
const NO_PLACE: &str = "the ring is full";
/// The reason for closing a session whose guest's memory was truncated.
const LOST: &str = "memory of its guest was removed";

impl FrontEnd for VhostSession {
    fn completed(
        &mut self,
        op: u32,
        completion: RingCompletion,
        cx: &mut FrontContext<'_>,
    ) -> FrontProgress {
        let then = if op == CONTROL {
            self.on_message_ready(cx.now)
        } else {
            let number = ((op - FIRST_QUEUE) / 2) as usize;
            if (op - FIRST_QUEUE).is_multiple_of(2) {
                self.on_kick_ready(number, cx.now)
            } else {
                self.on_called(number, completion.result)
            }
        };
        if self.calls {
            cx.mark_for_send();
        }
        FrontProgress {
            left: AnswerLoad::default(),
            then,
        }
    }

    fn take(&mut self, cx: &mut FrontContext<'_>) -> TakeStop {
        if let Some(reason) = self.broken.take() {
            return TakeStop::Broken(reason);
        }
        if !cx.client.is_open() {
            return TakeStop::Ended;
        }
        let stop = if self.is_paused() {
            TakeStop::Empty
        } else {
            self.take_all(cx)
        };
        if self.has_lost_memory() {
            return TakeStop::Broken(LOST.into());
        }
        if self.calls {
            cx.mark_for_send();
        }
        match self.watch(cx) {
            Ok(()) => stop,
            Err(reason) => TakeStop::Broken(reason.into()),
        }
    }

    fn answer(&mut self, answer: RequestAnswer<'_>, _: &mut FrontContext<'_>) -> u64 {
        self.next.add(0);
        let Some(under) = self.under.remove(answer.ask.token as u32) else {
            return 0;
        };
        let queue = &mut self.queues[usize::from(under.queue)];
        // The guest may have set up the queue again since, and then the head is that of another
        // request.
        if queue.generation == under.generation {
            let (status, written) = match answer.result {
                Ok(_) => (Status::Ok, under.written),
                // Only the status byte is valid after an error.
                Err(_) => (Status::IoError, 1),
            };
            under.status.copy_from(0, &[status as u8]);
            queue.finish(under.taken.head, written);
        }
        0
    }

    fn send(&mut self, cx: &mut FrontContext<'_>) -> Result<AnswerLoad, &'static str> {
        for number in 0..self.queues.len() {
            let queue = &mut self.queues[number];
            let answers = queue.dirty && queue.publish(cx.now);
            let wanted = queue.call_again && queue.calling.is_none();
            let broken = queue.broken && queue.error.is_some();
            if self.stage == SessionStage::Silent {
                queue.call_again |= answers;
            } else if answers || wanted || broken {
                self.call(number, cx)?;
            }
        }
        // Calls that were not made are made when the session is served again.
        self.calls = self.stage == SessionStage::Silent;
        if self.has_lost_memory() {
            return Err(LOST);
        }
        if self.stopping.is_some() {
            self.stopped()?;
            self.watch(cx)?;
        }
        Ok(std::mem::take(&mut self.next))
    }

    fn resized(&mut self, size: u64, now: Instant) -> bool {
        if self.disk.resize(size) && self.backend.is_some() {
            self.news = Some(now + QUIET);
        }
        self.backend.is_some()
    }

    fn close(&mut self, ring: &mut AnyRing) -> AnswerLoad {
        // The socket stays open until no operation uses the guest's memory any more, so that a VMM
        // that reconnects does so after that.
        self.closed = true;
        self.ending.fetch_add(1, Ordering::Relaxed);
        let queues = self.queues.iter();
        let under_way = queues.flat_map(|queue| [queue.polling, queue.calling]);
        for id in under_way.chain([self.watching]).flatten() {
            ring.cancel(id);
        }
        std::mem::take(&mut self.next)
    }

    fn is_idle(&self) -> bool {
        self.next == AnswerLoad::default()
    }

    fn is_over(&self) -> bool {
        let mut queues = self.queues.iter();
        self.watching.is_none()
            && queues.all(|queue| queue.polling.is_none() && queue.calling.is_none())
    }

    fn detach(&mut self, ring: &mut AnyRing) -> bool {
        if self.broken.is_some() || self.has_lost_memory() {
            return false;
        }
        self.begin_hand_over(ring);
        true
    }

    fn resume(&mut self) {
        self.stage = SessionStage::Serving;
    }

    fn take_back(&mut self, ask: &ClientRequest, _: &RequestPayload) {
        if let Some(under) = self.under.remove(ask.token as u32) {
            self.put_back(under.queue.into(), under.generation, under.taken);
        }
    }

    fn stop_sending(&mut self, ring: &mut AnyRing) {
        self.stage = SessionStage::Silent;
        for id in self.queues.iter().filter_map(|queue| queue.calling) {
            ring.cancel(id);
        }
    }

    fn is_settled(&self) -> bool {
        // A call that is due need not be made here, because whoever serves the guest next makes it.
        self.is_idle() && self.is_over() && self.queues.iter().all(|queue| !queue.dirty)
    }

    fn hand_over(&mut self, _: &mut FrontContext<'_>) -> io::Result<Option<FrontState>> {
        self.state().map(Some)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn poll_shared(&mut self, now: Instant) -> PollResult {
        if self.stage != SessionStage::Serving {
            // Another process may serve the rings already.
            return PollResult::default();
        }
        let mut take = false;
        for queue in &mut self.queues {
            let waited = queue.is_waiting();
            if queue.run_timers(now) {
                queue.call_again = true;
                self.calls = true;
            }
            // The throttling of kicks has ended for a queue.
            take |= waited && !queue.is_waiting();
        }
        take |= !self.is_paused() && self.queues.iter_mut().any(Virtqueue::has_more);
        if self.news.take_if(|at| *at <= now).is_some() {
            self.notify_config_changed();
        }
        PollResult {
            take,
            send: self.calls && !self.closed,
        }
    }

    fn poll_deadline(&self) -> Option<Instant> {
        if self.closed || self.stage != SessionStage::Serving {
            return None;
        }
        let queues = self.queues.iter().filter_map(Virtqueue::due);
        queues.chain(self.news).min()
    }

    fn arm_notifications(&mut self) -> bool {
        if self.is_paused() {
            return false;
        }
        // All queues must be armed, and not only those up to the first with requests, so the
        // iterator is not short-circuited.
        let found = self.queues.iter_mut().map(Virtqueue::arm);
        let count = found.filter(|found| *found).count();
        count > 0
    }
}

impl Drop for VhostSession {
    /// Runs when no operation of the session is in progress any more.
    fn drop(&mut self) {
        if self.closed {
            self.ending.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
