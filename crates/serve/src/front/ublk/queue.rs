//! One queue of a block device: the state of its places and its operations on the ring.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;

use weir_core::Op;
use weir_uring::{
    AnyRing, Arena, Buf, DriverCommand, DriverMemory, Errno, Handle, OpId, Ring, RingCompletion,
    Segment,
};
use weir_wire::ublk::{
    self, DESCRIPTOR_LEN, IoCommand, RESULT_OK, UblkDescriptor, UblkRules, descriptors_len,
    descriptors_offset, payload_offset,
};

use crate::errno::EIO;
use crate::shard::{
    AnswerLoad, Attach, AttachError, ClientRequest, ClientState, FrontContext, FrontEnd,
    FrontProgress, NextStep, RequestAnswer, RequestPayload, RequestResult, TakeStop,
};

/// A queue on its way to the shard of its volume.
#[derive(Debug)]
pub(super) struct AttachingQueue {
    /// The open file `/dev/ublkcN`.
    pub(super) device: OwnedFd,
    pub(super) number: u16,
    pub(super) depth: u16,
    pub(super) rules: UblkRules,
    /// Receives a message when all places have fetched their first request, or the reason why they
    /// cannot.
    pub(super) ready: Sender<Result<(), String>>,
}

/// The front end of one queue.
#[derive(Debug)]
pub(super) struct UblkQueue {
    device: Handle,
    number: u16,
    descriptors: DriverMemory,
    pub(super) rules: UblkRules,
    pub(super) places: Vec<QueuePlace>,
    /// Places with a new request, in the order of their arrival.
    pub(super) fresh: VecDeque<u16>,
    /// Places with a write whose payload has arrived and that the core has not received.
    pub(super) loaded: VecDeque<u16>,
    ready: Option<Sender<Result<(), String>>>,
    /// Answers that have left immediately.
    next: AnswerLoad,
    /// The number of payloads that are being written to the driver.
    storing: u32,
    /// The number of operations on the ring.
    under_way: u32,
    /// The number of places that the driver has ended.
    ended: usize,
    pub(super) broken: Option<String>,
}

/// The state of a place of the queue.
#[derive(Debug, Default)]
pub(super) struct QueuePlace {
    /// The command that the driver has.
    command: Option<OpId>,
    /// The result of the last request in this place.
    result: i32,
    /// True if the result must be committed again, because the copy of the payload was not complete
    /// at the first attempt.
    again: bool,
    /// True if a payload is being copied.
    copies: bool,
    /// The request, if it is a write whose payload is being read or has been read.
    pub(super) ask: Option<ClientRequest>,
    pub(super) cost: u64,
    pub(super) bufs: Vec<Buf>,
    /// A segment vector that is used again.
    segments: Vec<Segment>,
}

/// The kind of a place's operation on the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PlaceOperation {
    /// The command that the driver has.
    Command,
    /// The copy of a payload between the driver and the server.
    Copy,
}

impl PlaceOperation {
    /// Returns the number of the operation for [`FrontContext::token`].
    fn number(self, tag: u16) -> u32 {
        u32::from(tag) << 1 | u32::from(self == Self::Copy)
    }

    /// Returns the operation and the place of a number in [`FrontContext::token`].
    fn of(number: u32) -> (Self, u16) {
        let operation = if number & 1 == 0 {
            Self::Command
        } else {
            Self::Copy
        };
        (operation, (number >> 1) as u16)
    }
}

/// The reason for closing a queue if the ring rejects its operation.
const NO_PLACE: &str = "the ring is full";

impl Attach for AttachingQueue {
    fn attach(self: Box<Self>, _arena: &Arena) -> Result<Box<dyn FrontEnd>, AttachError> {
        let offset = descriptors_offset(self.number);
        let descriptors = DriverMemory::new(&self.device, offset, descriptors_len(self.depth));
        let descriptors = descriptors.map_err(|_| AttachError::Memory)?;
        Ok(Box::new(UblkQueue::new(*self, descriptors)))
    }
}

impl UblkQueue {
    pub(super) fn new(agreed: AttachingQueue, descriptors: DriverMemory) -> Self {
        let depth = usize::from(agreed.depth);
        Self {
            descriptors,
            device: Handle::driver(agreed.device),
            number: agreed.number,
            rules: agreed.rules,
            places: std::iter::repeat_with(QueuePlace::default)
                .take(depth)
                .collect(),
            // Each place has at most one request, so these queues never allocate later.
            fresh: VecDeque::with_capacity(depth),
            loaded: VecDeque::with_capacity(depth),
            ready: Some(agreed.ready),
            next: AnswerLoad::default(),
            storing: 0,
            under_way: 0,
            ended: 0,
            broken: None,
        }
    }

    /// Returns the driver's description of a place's request.
    pub(super) fn descriptor(&self, tag: u16) -> UblkDescriptor {
        self.descriptors.read(usize::from(tag) * DESCRIPTOR_LEN)
    }

    /// Fetches the first request of each place, on the first call only.
    pub(super) fn begin(&mut self, cx: &mut FrontContext<'_>) {
        let Some(ready) = self.ready.take() else {
            return;
        };
        for tag in 0..self.places.len() as u16 {
            self.queue_command(tag, None, cx);
        }
        let answer = match &self.broken {
            Some(reason) => Err(reason.clone()),
            None => Ok(()),
        };
        // The thread that creates the device may have stopped waiting, after a failure or a
        // timeout.
        let _ = ready.send(answer);
    }

    /// Passes a place's command to the driver.
    fn queue_command(&mut self, tag: u16, result: Option<i32>, cx: &mut FrontContext<'_>) {
        let command = IoCommand {
            queue: self.number,
            tag,
            result,
        };
        let token = cx.token(PlaceOperation::Command.number(tag));
        let command = DriverCommand {
            code: command.code(),
            bytes: command.encode(),
        };
        match cx.ring.command(token, &self.device, command) {
            Ok(id) => {
                self.under_way += 1;
                self.places[usize::from(tag)].command = Some(id);
            }
            Err(rejected) => self.broken = Some(rejected.to_string()),
        }
    }

    /// Commits the result of a request, and fetches the next one.
    pub(super) fn commit(&mut self, tag: u16, result: i32, cx: &mut FrontContext<'_>) {
        let place = &mut self.places[usize::from(tag)];
        place.result = result;
        place.again = false;
        self.queue_command(tag, Some(result), cx);
    }

    /// Copies the payload of a write into `bufs`.
    pub(super) fn load(&mut self, tag: u16, bufs: Vec<Buf>, cx: &mut FrontContext<'_>) {
        let token = cx.token(PlaceOperation::Copy.number(tag));
        let offset = payload_offset(self.number, tag);
        match cx.ring.read(token, &self.device, offset, bufs) {
            Ok(_) => {
                self.under_way += 1;
                self.places[usize::from(tag)].copies = true;
            }
            Err(_) => self.broken = Some(NO_PLACE.to_owned()),
        }
    }

    /// Copies read data to the driver, and then commits the result.
    fn store(
        &mut self,
        tag: u16,
        length: u32,
        bufs: impl Iterator<Item = Buf>,
        cx: &mut FrontContext<'_>,
    ) {
        let token = cx.token(PlaceOperation::Copy.number(tag));
        let offset = payload_offset(self.number, tag);
        let place = &mut self.places[usize::from(tag)];
        let mut segments = std::mem::take(&mut place.segments);
        segments.extend(bufs.map(Segment::from));
        // The linked command begins only after the copy. If the copy fails or is short, the
        // kernel cancels the command.
        match cx.ring.write_linked(token, &self.device, offset, segments) {
            Ok(_) => {
                place.copies = true;
                self.storing += 1;
                self.under_way += 1;
                self.commit(tag, length.cast_signed(), cx);
            }
            Err(_) => self.broken = Some(NO_PLACE.to_owned()),
        }
    }

    /// Processes the completion of a place's command.
    fn on_command_completed(
        &mut self,
        tag: u16,
        completion: &RingCompletion,
        cx: &mut FrontContext<'_>,
    ) -> NextStep {
        let place = &mut self.places[usize::from(tag)];
        // `close` has taken the id of the command that it cancelled.
        let closing = place.command.take().is_none();
        match completion.result {
            Ok(RESULT_OK) => {
                self.fresh.push_back(tag);
                return NextStep::Take;
            }
            // The shard has cancelled the command, because the client is closed.
            Err(Errno::CANCELED) if closing => return NextStep::Rest,
            // The copy in front of the command was short or failed, so the kernel has cancelled
            // the link.
            Err(Errno::CANCELED) => {
                place.again = true;
                self.commit_again(tag, cx);
                return NextStep::Rest;
            }
            // The device is being stopped. The client is gone when that holds for all places.
            Err(Errno::NODEV) => {
                self.ended += 1;
                return if self.ended == self.places.len() {
                    NextStep::Gone
                } else {
                    NextStep::Rest
                };
            }
            Ok(other) => self.broken = Some(format!("the driver returned {other} for a request")),
            Err(errno) => self.broken = Some(format!("the driver refused a command: {errno}")),
        }
        NextStep::Take
    }

    /// Commits a cancelled result again, unless its payload is still being copied.
    fn commit_again(&mut self, tag: u16, cx: &mut FrontContext<'_>) {
        let QueuePlace {
            again,
            copies,
            result,
            ..
        } = self.places[usize::from(tag)];
        if again && !copies {
            self.commit(tag, result, cx);
        }
    }

    /// Processes the end of a payload's copy.
    fn on_copy_completed(
        &mut self,
        tag: u16,
        completion: RingCompletion,
        cx: &mut FrontContext<'_>,
    ) -> (AnswerLoad, NextStep) {
        let mut left = AnswerLoad::default();
        let place = &mut self.places[usize::from(tag)];
        place.copies = false;
        let cost = place.cost;
        let whole = completion.payload.bytes();
        let done = completion.result == Ok(whole);
        if place.ask.is_some() {
            place.bufs = completion.payload.into_bufs().unwrap_or_default();
            if done {
                self.loaded.push_back(tag);
                return (left, NextStep::Take);
            }
            place.ask = None;
            place.bufs.clear();
            warn("the data of a write cannot be copied");
            cx.release_reservation(cost);
            if cx.client.state != ClientState::Gone {
                self.commit(tag, -i32::from(EIO), cx);
            }
            left.add(0);
            return (left, NextStep::Rest);
        }
        self.storing -= 1;
        let mut segments = completion.payload.into_segments().unwrap_or_default();
        segments.clear();
        place.segments = segments;
        if !done {
            warn("the data of a read cannot be copied");
            place.result = -i32::from(EIO);
        }
        self.commit_again(tag, cx);
        left.add(cost);
        (left, NextStep::Rest)
    }
}

/// Logs an operation that the driver has failed, unless too much was logged recently.
fn warn(reason: &str) {
    if crate::log::allowed() {
        tracing::warn!(reason, "a request of a block device failed");
    }
}

impl FrontEnd for UblkQueue {
    fn completed(
        &mut self,
        op: u32,
        completion: RingCompletion,
        cx: &mut FrontContext<'_>,
    ) -> FrontProgress {
        self.under_way -= 1;
        let (left, then) = match PlaceOperation::of(op) {
            (PlaceOperation::Copy, tag) => self.on_copy_completed(tag, completion, cx),
            (PlaceOperation::Command, tag) => (
                AnswerLoad::default(),
                self.on_command_completed(tag, &completion, cx),
            ),
        };
        FrontProgress { left, then }
    }

    fn take(&mut self, cx: &mut FrontContext<'_>) -> TakeStop {
        self.begin(cx);
        let stop = self.take_all(cx);
        match self.broken.take() {
            Some(reason) => TakeStop::Broken(reason.into()),
            None => stop,
        }
    }

    fn answer(&mut self, answer: RequestAnswer<'_>, cx: &mut FrontContext<'_>) -> u64 {
        let ClientRequest {
            op, length, token, ..
        } = *answer.ask;
        let tag = token as u16;
        match answer.result {
            Ok(RequestResult::Data(payload)) => {
                self.places[usize::from(tag)].cost = answer.cost;
                self.store(tag, length, payload.take_read(), cx);
                return answer.cost;
            }
            Ok(_) if op == Op::Write => self.commit(tag, length.cast_signed(), cx),
            Ok(_) => self.commit(tag, 0, cx),
            Err(errno) => self.commit(tag, -i32::from(errno), cx),
        }
        self.next.add(0);
        0
    }

    fn send(&mut self, _: &mut FrontContext<'_>) -> Result<AnswerLoad, &'static str> {
        if self.broken.is_some() {
            return Err(NO_PLACE);
        }
        Ok(std::mem::take(&mut self.next))
    }

    fn resized(&mut self, size: u64, _: weir_core::Instant) -> bool {
        self.rules.sectors = size / ublk::SECTOR;
        // `Devices::resize` reports a device that keeps its size.
        true
    }

    fn close(&mut self, ring: &mut AnyRing) -> AnswerLoad {
        for place in &mut self.places {
            if let Some(command) = place.command.take() {
                ring.cancel(command);
            }
        }
        std::mem::take(&mut self.next)
    }

    fn is_idle(&self) -> bool {
        self.storing == 0 && self.next == AnswerLoad::default()
    }

    fn is_over(&self) -> bool {
        self.under_way == 0
    }

    fn detach(&mut self, _: &mut AnyRing) -> bool {
        // The commands stay with the driver, which ends them together with the ring of this
        // process, and passes all requests to the process that recovers the device.
        true
    }

    fn take_back(&mut self, ask: &ClientRequest, _: &RequestPayload) {
        // The driver still has the request and its payload.
        self.fresh.push_back(ask.token as u16);
    }

    fn is_settled(&self) -> bool {
        self.is_idle() && !self.places.iter().any(|place| place.copies)
    }

    fn is_kernel(&self) -> bool {
        true
    }
}
