//! NBD over a socket: the connection of one client in the transmission phase.
//!
//! Requests are parsed in [`take`], arrive through [`input`], and are answered through [`output`].
//! [`handshake`] comes before the transmission phase.

mod export;
mod handshake;
mod input;
mod output;
mod take;

use weir_uring::{
    AnyRing, Arena, Completion, Fill, Handle, MAX_PIECES, OpId, Reason, Ring, Segment,
};
use weir_wire::nbd::Rules;

use crate::shard::{Answer, Context, FrontEnd, Load, Progress, Stop, Then, Unattached};
use handshake::Agreed;
use input::{Gather, INPUT, INPUT_LARGE, Input, Receiver, Target};
use output::Output;

#[cfg(test)]
pub(crate) use handshake::agreed;
pub(crate) use handshake::greet;

/// The number of the receive operation.
const RECEIVE: u32 = 0;
/// The number of the send operation.
const SEND: u32 = 1;

/// A connection in the transmission phase.
#[derive(Debug)]
struct Connection {
    socket: Handle,
    rules: Rules,
    receiver: Receiver,
    receiving: Option<OpId>,
    /// Bytes of a refused request's payload that are still to come and are discarded.
    skip: u32,
    output: Output,
    /// Answers that wait until the current send has ended.
    next: Load,
    sending: Option<OpId>,
    /// The answers that leave with the current send.
    load: Load,
    /// The segment vector that is not in use.
    spare: Vec<Segment>,
}

impl Connection {
    fn new(agreed: Agreed, arena: &Arena) -> Result<Self, Unattached> {
        let Agreed {
            socket,
            session,
            rest,
        } = agreed;
        let buf = arena.alloc(INPUT).ok_or(Unattached::Memory)?;
        let mut input = Input::new(buf);
        if !input.preload(&rest) {
            return Err(Unattached::Early);
        }
        Ok(Self {
            socket: Handle::new(socket).map_err(|_| Unattached::Socket)?,
            rules: session.rules(u32::MAX),
            receiver: Receiver::new(input),
            receiving: None,
            skip: 0,
            output: Output::new(session.structured),
            next: Load::default(),
            sending: None,
            load: Load::default(),
            spare: Vec::new(),
        })
    }

    /// Processes received bytes, or the end of the stream.
    fn received(&mut self, completion: Completion) -> Then {
        self.receiving = None;
        let count = completion.result.unwrap_or(0);
        self.receiver.arrived(completion.payload, count);
        // A count of 0 is the end of the stream or an error. A client that still wants its answers
        // sends NBD_CMD_DISC and waits.
        if count > 0 { Then::Take } else { Then::Gone }
    }

    /// Processes the end of a send.
    fn sent(&mut self, completion: Completion) -> Progress {
        self.sending = None;
        let failed = completion.result.is_err();
        if let Some(mut segments) = completion.payload.into_segments() {
            segments.clear();
            self.spare = segments;
        }
        let then = if failed {
            Then::Gone
        } else if self.output.is_empty() {
            Then::Rest
        } else {
            Then::Send
        };
        Progress {
            left: std::mem::take(&mut self.load),
            then,
        }
    }

    /// Queues the receive of the next bytes.
    fn receive(&mut self, cx: &mut Context<'_>) -> Stop {
        self.fit_input(cx);
        if self.receiving.is_some() || !cx.client.is_open() {
            return Stop::Empty;
        }
        let token = cx.token(RECEIVE);
        let queued = match self.receiver.lend() {
            Some(Target::One(buf)) => cx.ring.recv(token, &self.socket, buf, Fill::Any),
            Some(Target::Many(bufs)) => cx.ring.recvv(token, &self.socket, bufs, Fill::Any),
            None => return Stop::Empty,
        };
        match queued {
            Ok(id) => {
                self.receiving = Some(id);
                Stop::Empty
            }
            Err(rejected) => {
                // The ring returns the buffers of an operation that it rejects.
                self.receiver.restore(rejected.payload, 0);
                debug_assert!(rejected.reason == Reason::Full);
                Stop::Broken(NO_PLACE.into())
            }
        }
    }

    /// Exchanges the receive buffer. A connection that fills its small buffer with requests gets a
    /// large one as long as it does.
    fn fit_input(&mut self, cx: &mut Context<'_>) {
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
                    cx.give_back(large);
                }
            }
            None if wanted == INPUT_LARGE => cx.give_back(large),
            None => {}
        }
    }
}

/// The reason for closing a connection if the ring rejects its operation.
const NO_PLACE: &str = "the ring is full";

impl FrontEnd for Connection {
    fn completed(&mut self, op: u32, completion: Completion, cx: &mut Context<'_>) -> Progress {
        if op == SEND {
            return self.sent(completion);
        }
        // The kernel has copied the bytes from the socket on this thread.
        cx.charge_copy(completion.result.unwrap_or(0));
        Progress {
            left: Load::default(),
            then: self.received(completion),
        }
    }

    fn take(&mut self, cx: &mut Context<'_>) -> Stop {
        match self.take_all(cx) {
            Stop::Empty => self.receive(cx),
            stop => stop,
        }
    }

    fn answer(&mut self, mut answer: Answer<'_>, cx: &mut Context<'_>) -> u64 {
        let keeps = self.output.answer(&mut answer, cx.ring.arena());
        let kept = if keeps { answer.cost } else { 0 };
        self.next.add(kept);
        kept
    }

    fn send(&mut self, cx: &mut Context<'_>) -> Result<Load, &'static str> {
        if self.sending.is_some() || self.output.is_empty() {
            return Ok(Load::default());
        }
        let spare = std::mem::take(&mut self.spare);
        let (segments, all) = self.output.take(spare, MAX_PIECES);
        if all {
            // A request's resources are released with the last of its segments, so they are counted
            // with the send that includes all segments.
            self.load = std::mem::take(&mut self.next);
        }
        cx.charge_message();
        match cx.ring.send(cx.token(SEND), &self.socket, segments) {
            Ok(id) => self.sending = Some(id),
            Err(rejected) => {
                drop(rejected.payload);
                return Err(NO_PLACE);
            }
        }
        Ok(Load::default())
    }

    fn close(&mut self, _: &mut AnyRing) -> Load {
        // This completes a pending receive and a pending send. It fails if the client has already
        // disconnected.
        let _ = self.socket.shutdown();
        self.output.clear();
        let mut load = std::mem::take(&mut self.next);
        if self.sending.is_none() {
            // The answers that were to leave with a send that could not be queued.
            let Load { requests, bytes } = std::mem::take(&mut self.load);
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
}
