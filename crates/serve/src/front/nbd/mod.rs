//! NBD over a socket: the connection of one client in the transmission phase.
//!
//! Requests are parsed in [`take`], arrive through [`input`], and are answered through [`output`].
//! [`handshake`] comes before the transmission phase.

mod export;
mod handshake;
mod input;
mod output;
mod take;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use weir_uring::{
    AnyRing, Arena, Errno, FillMode, Handle, MAX_PIECES, OpId, RejectReason, Ring, RingCompletion,
    Segment,
};
use weir_wire::nbd::{RuleSettings, Rules, TransmissionFlags};

use crate::shard::{
    AnswerLoad, Attach, AttachError, ClientRequest, FrontContext, FrontEnd, FrontProgress,
    NextStep, RequestAnswer, RequestPayload, TakeStop,
};
use crate::upgrade::{FrontRecord, FrontState, NbdRecord};
use handshake::NegotiatedConnection;
use input::{INPUT, INPUT_LARGE, PayloadAssembly, ReceiveTarget, Receiver, RequestInput};
use output::ReplyOutput;

#[cfg(test)]
pub(crate) use handshake::agreed;
pub(crate) use handshake::greeter;

/// The number of the receive operation.
const RECEIVE: u32 = 0;
/// The number of the send operation.
const SEND: u32 = 1;

/// A connection in the transmission phase.
#[derive(Debug)]
struct NbdConnection {
    socket: Handle,
    rules: Rules,
    receiver: Receiver,
    receiving: Option<OpId>,
    /// Bytes of a refused request's payload that are still to come and are discarded.
    skip: u32,
    /// The same, but behind the bytes that the receiver carries.
    skip_later: u32,
    output: ReplyOutput,
    /// Answers that wait until the current send has ended.
    next: AnswerLoad,
    sending: Option<OpId>,
    /// The answers that leave with the current send.
    load: AnswerLoad,
    /// The segment vector that is not in use.
    spare: Vec<Segment>,
    /// Requests that were taken back for a hand-over, as the client sent them.
    returned: Vec<u8>,
    /// True while answers are kept for a hand-over instead of being sent.
    keeps_answers: bool,
}

impl NbdConnection {
    /// Begins the transmission phase of a negotiated connection.
    ///
    /// # Errors
    /// Fails without memory for the input, if the client has already sent more than the input
    /// holds, or if the socket cannot be used.
    fn new(agreed: NegotiatedConnection, arena: &Arena) -> Result<Self, AttachError> {
        let NegotiatedConnection {
            socket,
            session,
            rest,
        } = agreed;
        // Requests without payload, such as TRIM, may have any length.
        let rules = session.rules(u32::MAX);
        let mut connection = Self::with_rules(socket, rules, session.structured, arena)?;
        if !connection.receiver.input.preload(&rest) {
            return Err(AttachError::Early);
        }
        Ok(connection)
    }

    fn with_rules(
        socket: OwnedFd,
        rules: Rules,
        structured: bool,
        arena: &Arena,
    ) -> Result<Self, AttachError> {
        let buf = arena.alloc(INPUT).ok_or(AttachError::Memory)?;
        Ok(Self {
            socket: Handle::new(socket).map_err(|_| AttachError::Socket)?,
            rules,
            receiver: Receiver::new(RequestInput::new(buf)),
            receiving: None,
            skip: 0,
            skip_later: 0,
            output: ReplyOutput::new(structured),
            next: AnswerLoad::default(),
            sending: None,
            load: AnswerLoad::default(),
            spare: Vec::new(),
            returned: Vec::new(),
            keeps_answers: false,
        })
    }

    /// Processes received bytes, or the end of the stream.
    fn received(&mut self, completion: RingCompletion) -> NextStep {
        self.receiving = None;
        let is_detached = completion.result == Err(Errno::CANCELED);
        let count = completion.result.unwrap_or(0);
        self.receiver.arrived(completion.payload, count);
        if is_detached {
            return NextStep::Rest;
        }
        // A count of 0 is the end of the stream or an error. A client that still wants its answers
        // sends NBD_CMD_DISC and waits.
        if count > 0 {
            NextStep::Take
        } else {
            NextStep::Gone
        }
    }

    /// Processes the end of a send.
    fn sent(&mut self, completion: RingCompletion) -> FrontProgress {
        self.sending = None;
        let failed = completion.result.is_err();
        let (sent, total) = (completion.result.unwrap_or(0), completion.payload.bytes());
        if let Some(mut segments) = completion.payload.into_segments() {
            if !failed && sent < total {
                return self.stopped_sending(segments, sent);
            }
            segments.clear();
            self.spare = segments;
        }
        let then = if failed {
            NextStep::Gone
        } else if self.output.is_empty() {
            NextStep::Rest
        } else {
            NextStep::Send
        };
        FrontProgress {
            left: std::mem::take(&mut self.load),
            then,
        }
    }

    /// Keeps the rest of a send that was cancelled after `sent` bytes.
    fn stopped_sending(&mut self, segments: Vec<Segment>, sent: usize) -> FrontProgress {
        self.output.put_back(segments, sent);
        let AnswerLoad { requests, bytes } = std::mem::take(&mut self.load);
        self.next.requests += requests;
        self.next.bytes += bytes;
        FrontProgress {
            left: AnswerLoad::default(),
            then: NextStep::Rest,
        }
    }

    /// Queues the receive of the next bytes.
    fn receive(&mut self, cx: &mut FrontContext<'_>) -> TakeStop {
        self.fit_input(cx);
        if self.receiving.is_some() || !cx.client.is_open() {
            return TakeStop::Empty;
        }
        let token = cx.token(RECEIVE);
        let queued = match self.receiver.lend() {
            Some(ReceiveTarget::One(buf)) => cx.ring.recv(token, &self.socket, buf, FillMode::Any),
            Some(ReceiveTarget::Many(bufs)) => {
                cx.ring.recvv(token, &self.socket, bufs, FillMode::Any)
            }
            None => return TakeStop::Empty,
        };
        match queued {
            Ok(id) => {
                self.receiving = Some(id);
                TakeStop::Empty
            }
            Err(rejected) => {
                // The ring returns the buffers of an operation that it rejects.
                self.receiver.restore(rejected.payload, 0);
                debug_assert!(rejected.reason == RejectReason::Full);
                TakeStop::Broken(NO_PLACE.into())
            }
        }
    }

    /// Exchanges the receive buffer. A connection that fills its small buffer with requests gets a
    /// large one as long as it does.
    fn fit_input(&mut self, cx: &mut FrontContext<'_>) {
        let Some(wanted) = self.receiver.wanted() else {
            return;
        };
        let large = INPUT_LARGE as u64;
        // The small buffer needs no reservation, because the pool leaves an eighth of the memory
        // for receive buffers.
        // A large buffer only saves system calls, so a connection does without it if memory is
        // scarce.
        if wanted == INPUT_LARGE && !cx.reserve_spare(large) {
            return;
        }
        match cx.ring.arena().alloc(wanted) {
            Some(buf) => {
                self.receiver.input.replace(buf);
                if wanted == INPUT {
                    cx.release_reservation(large);
                }
            }
            None if wanted == INPUT_LARGE => cx.release_reservation(large),
            None => {}
        }
    }
}

/// The reason for closing a connection if the ring rejects its operation.
const NO_PLACE: &str = "the ring is full";

impl FrontEnd for NbdConnection {
    fn completed(
        &mut self,
        op: u32,
        completion: RingCompletion,
        cx: &mut FrontContext<'_>,
    ) -> FrontProgress {
        if op == SEND {
            return self.sent(completion);
        }
        // The kernel has copied the bytes from the socket on this thread.
        cx.charge_copy(completion.result.unwrap_or(0));
        FrontProgress {
            left: AnswerLoad::default(),
            then: self.received(completion),
        }
    }

    fn take(&mut self, cx: &mut FrontContext<'_>) -> TakeStop {
        loop {
            match self.take_all(cx) {
                TakeStop::Empty if self.receiver.move_carried() => {}
                TakeStop::Empty if self.skip_later > 0 => {
                    self.skip = std::mem::take(&mut self.skip_later);
                }
                TakeStop::Empty => return self.receive(cx),
                stop => return stop,
            }
        }
    }

    fn answer(&mut self, mut answer: RequestAnswer<'_>, cx: &mut FrontContext<'_>) -> u64 {
        let keeps = self.output.answer(&mut answer, cx.ring.arena());
        let kept = if keeps { answer.cost } else { 0 };
        self.next.add(kept);
        kept
    }

    fn send(&mut self, cx: &mut FrontContext<'_>) -> Result<AnswerLoad, &'static str> {
        if self.sending.is_some() || self.output.is_empty() || self.keeps_answers {
            return Ok(AnswerLoad::default());
        }
        let spare = std::mem::take(&mut self.spare);
        let (segments, all) = self.output.take(spare, MAX_PIECES);
        if all {
            // A request's resources are released with the last of its segments, so they are counted
            // with the send that includes all segments.
            self.load = std::mem::take(&mut self.next);
        }
        cx.charge_message();
        let token = cx.token(SEND);
        // Answers that are left over are sent as soon as this send has ended.
        let sent = if all && cx.may_send_quietly() {
            cx.client.note_activity(cx.now);
            cx.ring.send_quietly(token, &self.socket, segments)
        } else {
            cx.ring.send(token, &self.socket, segments)
        };
        match sent {
            Ok(id) => self.sending = Some(id),
            Err(rejected) => {
                drop(rejected.payload);
                return Err(NO_PLACE);
            }
        }
        Ok(AnswerLoad::default())
    }

    fn close(&mut self, _: &mut AnyRing) -> AnswerLoad {
        // This completes a pending receive and a pending send. It fails if the client has already
        // disconnected.
        let _ = self.socket.shutdown();
        self.output.clear();
        let mut load = std::mem::take(&mut self.next);
        if self.sending.is_none() {
            // The answers that were to leave with a send that could not be queued.
            let AnswerLoad { requests, bytes } = std::mem::take(&mut self.load);
            load.requests += requests;
            load.bytes += bytes;
        }
        load
    }

    fn is_idle(&self) -> bool {
        self.sending.is_none() && self.output.is_empty()
    }

    fn is_over(&self) -> bool {
        self.receiving.is_none() && self.sending.is_none()
    }

    fn detach(&mut self, ring: &mut AnyRing) -> bool {
        // Bytes that have arrived before the cancellation takes effect are kept in the buffers.
        if let Some(id) = self.receiving {
            ring.cancel(id);
        }
        true
    }

    fn resume(&mut self) {
        self.keeps_answers = false;
    }

    fn take_back(&mut self, ask: &ClientRequest, payload: &RequestPayload) {
        self.returned.extend_from_slice(&take::encode(ask));
        payload.for_each_written(|bytes| self.returned.extend_from_slice(bytes));
    }

    fn stop_sending(&mut self, ring: &mut AnyRing) {
        self.keeps_answers = true;
        if let Some(id) = self.sending {
            ring.cancel(id);
        }
    }

    fn reserve_inherited(&mut self, cx: &mut FrontContext<'_>) {
        // The answers do not count as requests, because their number is not known.
        self.next.bytes += cx.reserve_answers(self.output.memory());
        // The shard holds the client's requests if the client has too many answers to take.
        cx.mark_for_send();
    }

    fn hand_over(&mut self, cx: &mut FrontContext<'_>) -> io::Result<Option<FrontState>> {
        let mut rest = self.receiver.untaken();
        // Requests that were taken back come first, so nothing may be left to discard in front of
        // them. Their order among themselves does not matter, because NBD permits the server to
        // reorder requests.
        let skipped = rest.len().min(self.skip as usize);
        self.skip_later += std::mem::take(&mut self.skip) - skipped as u32;
        let mut untaken = std::mem::take(&mut self.returned);
        untaken.extend_from_slice(&rest.split_off(skipped));
        if let Some(gather) = self.receiver.gather.take() {
            // It is taken again with the carried bytes.
            cx.give_up_begun(gather.cost);
        }
        // The connection keeps the same bytes, so that it needs nothing from the other process if
        // that fails.
        self.receiver.carry(untaken.clone());
        let mut bytes = self.output.bytes();
        let unsent = bytes.len();
        bytes.append(&mut untaken);
        Ok(Some(FrontState {
            record: FrontRecord::Nbd(NbdRecord {
                structured: self.output.is_structured(),
                skip: self.skip_later,
                unsent,
                ..NbdRecord::new(self.rules.settings())
            }),
            descriptors: vec![self.socket.as_fd().try_clone_to_owned()?],
            bytes,
        }))
    }
}

/// A connection that another process has handed over.
#[derive(Debug)]
pub(crate) struct InheritedConnection {
    pub(crate) socket: OwnedFd,
    pub(crate) record: NbdRecord,
    /// The unsent and the untaken bytes ([`FrontState::bytes`]).
    pub(crate) bytes: Vec<u8>,
}

impl Attach for InheritedConnection {
    fn attach(self: Box<Self>, arena: &Arena) -> Result<Box<dyn FrontEnd>, AttachError> {
        let Self {
            socket,
            record,
            mut bytes,
        } = *self;
        let rules = Rules::new(record.rules().ok_or(AttachError::Record)?);
        let mut connection = NbdConnection::with_rules(socket, rules, record.structured, arena)?;
        // A record of another version is not trusted to be consistent, so the split is limited to
        // the bytes that are there.
        let untaken = bytes.split_off(record.unsent.min(bytes.len()));
        if !connection.output.carry(&bytes, arena) {
            return Err(AttachError::Memory);
        }
        connection.receiver.carry(untaken);
        connection.skip_later = record.skip;
        Ok(Box::new(connection))
    }
}

impl NbdRecord {
    /// Returns the record of a connection with these rules, without structured replies, and with
    /// nothing in progress.
    pub(crate) fn new(rules: &RuleSettings) -> Self {
        Self {
            size: rules.size,
            flags: rules.flags.bits(),
            structured: false,
            meta_allocation: rules.meta_allocation,
            minimum_block: rules.minimum_block,
            maximum_payload: rules.maximum_payload,
            maximum_range: rules.maximum_range,
            skip: 0,
            unsent: 0,
        }
    }

    /// Returns the rules of the connection, or `None` if no server can have agreed on them.
    pub(crate) fn rules(&self) -> Option<RuleSettings> {
        self.minimum_block
            .is_power_of_two()
            .then_some(RuleSettings {
                size: self.size,
                flags: TransmissionFlags::from_bits(self.flags),
                meta_allocation: self.meta_allocation,
                minimum_block: self.minimum_block,
                maximum_payload: self.maximum_payload,
                maximum_range: self.maximum_range,
            })
    }
}

#[cfg(test)]
mod tests;
