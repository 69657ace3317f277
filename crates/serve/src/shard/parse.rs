//! From bytes to requests: what is taken from a connection's input, within its bounds.

use weir_core::{Flags, Op, Reject, Request as CoreRequest, SpaceId, StreamId};
use weir_uring::{Buf, Ring};
use weir_wire::nbd::{self, Command, CommandFlags, Errno, REQUEST_LEN, Request};

use super::Shard;
use super::connection::{Gather, State, Stop};
use super::memory;

/// What came of one look at the input.
enum Step {
    /// A request was taken; perhaps there is another.
    Taken,
    Stop(Stop),
}

impl Shard {
    /// Takes requests from the input until it is empty or a bound is reached. What is for the core is in `batch` then.
    pub(super) fn parse(&mut self, slot: u32) -> Stop {
        self.batch.clear();
        loop {
            if let Step::Stop(stop) = self.step(slot) {
                return stop;
            }
        }
    }

    fn step(&mut self, slot: u32) -> Step {
        let connection = &mut self.connections[slot];
        if connection.state == State::Gone {
            return Step::Stop(Stop::Ended);
        }
        if connection.skip > 0 {
            connection.skip -= connection.input.discard(connection.skip as usize) as u32;
            if connection.skip > 0 {
                return Step::Stop(Stop::Input);
            }
        }
        if let Some(gather) = &mut connection.gather {
            gather.take(&mut connection.input);
            if gather.left > 0 {
                return Step::Stop(Stop::Input);
            }
            if let Some(gather) = connection.gather.take() {
                self.enter(slot, gather.request, gather.cost, gather.bufs);
            }
            return Step::Taken;
        }
        if connection.state == State::Leaving {
            return Step::Stop(Stop::Ended);
        }
        let full = connection.outstanding >= self.limits.requests_per_connection;
        if connection.paused || full || !connection.queue.is_empty() {
            return Step::Stop(Stop::Blocked);
        }
        match nbd::parse_request(connection.input.bytes()) {
            Ok(Some(request)) => self.request(slot, request),
            Ok(None) => Step::Stop(Stop::Input),
            Err(error) => self.hostile(slot, &error),
        }
    }

    /// Takes one request, if there is room for it.
    fn request(&mut self, slot: u32, request: Request) -> Step {
        let connection = &mut self.connections[slot];
        // The protocol asks to skip up to 32 MiB, whatever is allowed.
        let limit = self.limits.request_size.max(32 << 20);
        if let Err(error) = request.check_payload(limit) {
            return self.hostile(slot, &error);
        }
        let refused = match request.validate(&connection.rules) {
            Ok(()) => None,
            Err(error) => Some(error.errno()),
        };
        if request.command == Command::Disconnect {
            connection.input.advance(REQUEST_LEN);
            connection.state = State::Leaving;
            return Step::Stop(Stop::Ended);
        }
        if refused.is_some() || request.command == Command::Cache {
            // Volumes need no warming: CACHE is done when it is asked.
            connection.input.advance(REQUEST_LEN);
            connection.skip = request.payload_len();
            connection.outstanding += 1;
            let structured = connection.structured;
            connection.output.answer(structured, &request, refused);
            self.soil(slot);
            return Step::Taken;
        }
        let Some(cost) = self.reserve(slot, &request) else {
            return Step::Stop(Stop::Blocked);
        };
        let payload = request.payload_len();
        // As many payloads may be arriving at a time as there are connections: each has a vector.
        let mut bufs = if payload > 0 {
            self.spare.pop().unwrap_or_default()
        } else {
            Vec::new()
        };
        if payload > 0 && !memory::for_payload(self.ring.arena(), payload, &mut bufs) {
            self.spare.push(bufs);
            let connection = &mut self.connections[slot];
            self.pool.give(&mut connection.used, cost);
            self.wait(slot);
            return Step::Stop(Stop::Blocked);
        }
        let connection = &mut self.connections[slot];
        connection.input.advance(REQUEST_LEN);
        connection.outstanding += 1;
        connection.taken += 1;
        if payload > 0 {
            connection.gather = Some(Gather {
                request,
                cost,
                bufs,
                at: 0,
                filled: 0,
                left: payload as usize,
            });
        } else {
            self.enter(slot, request, cost, bufs);
        }
        Step::Taken
    }

    /// Reserves what the request needs; `None` if it must wait.
    fn reserve(&mut self, slot: u32, request: &Request) -> Option<u64> {
        let connection = &mut self.connections[slot];
        let volume = self.drives[connection.drive].volumes[connection.space as usize].as_ref();
        let align = volume.map_or(1, |v| v.traits.align);
        let cost = match request.command {
            Command::Read => memory::cost(request.length, align),
            Command::Write => memory::cost(request.length, 1),
            Command::BlockStatus => memory::PAGE as u64,
            _ => 0,
        };
        let alone = connection.outstanding == 0;
        if !alone && connection.used + cost > self.limits.bytes_per_connection {
            return None;
        }
        if cost == 0 || self.pool.take(&mut connection.used, cost, alone) {
            return Some(cost);
        }
        if alone {
            self.wait(slot);
        }
        None
    }

    /// A connection without anything under way waits for memory: nothing of its own will look at it again.
    fn wait(&mut self, slot: u32) {
        let connection = &mut self.connections[slot];
        if !connection.waiting {
            connection.waiting = true;
            self.waiting.push_back(slot);
        }
    }

    /// A request is complete and goes to the core.
    fn enter(&mut self, slot: u32, request: Request, cost: u64, mut bufs: Vec<Buf>) {
        let connection = &mut self.connections[slot];
        connection.live += 1;
        let drive = &mut self.drives[connection.drive];
        let id = drive.take_in(slot, request, cost, &mut bufs);
        if bufs.capacity() > 0 {
            self.spare.push(bufs);
        }
        if let Some(core) = core_request(connection.stream, connection.space, &request, id) {
            drive.count_in(self.now, connection.space, core.op, connection.held);
            connection.asking += u32::from(core.op != Op::Flush);
            self.batch.push(core);
        }
    }

    /// Gives the requests in `batch` to the core; what it has no room for waits in the connection.
    pub(super) fn submit(&mut self, slot: u32) {
        let mut start = 0;
        while start < self.batch.len() {
            let connection = &mut self.connections[slot];
            let drive = &mut self.drives[connection.drive];
            drive.touched = true;
            let Err(rejected) = drive.layer.submit(self.now, &self.batch[start..]) else {
                break;
            };
            start += rejected.accepted;
            match rejected.reason {
                reason @ (Reject::Full | Reject::StreamFull) => {
                    // Whom the layer had no room for hears of it when there is some; to ask before is in vain.
                    connection.paused |= reason == Reject::Full;
                    let rest = self.batch[start..].iter();
                    connection.queue.extend(rest.map(|r| r.cookie as u32));
                    break;
                }
                reason => {
                    let id = self.batch[start].cookie as u32;
                    start += 1;
                    self.refuse(slot, id, reason);
                }
            }
        }
        self.batch.clear();
    }

    /// Tries again what the core had no room for.
    pub(super) fn resubmit(&mut self, slot: u32) {
        self.batch.clear();
        let connection = &mut self.connections[slot];
        let drive = &self.drives[connection.drive];
        for id in connection.queue.drain(..) {
            let request = &drive.requests[id].request;
            self.batch.extend(core_request(
                connection.stream,
                connection.space,
                request,
                id,
            ));
        }
        self.submit(slot);
    }

    /// The core refuses a request that the rules let pass: the volume is going, or a fault of ours.
    fn refuse(&mut self, slot: u32, id: u32, reason: Reject) {
        let connection = &mut self.connections[slot];
        connection.live -= 1;
        if connection.state != State::Gone {
            tracing::warn!(
                connection = connection.id,
                ?reason,
                "the core refused a request"
            );
        }
        let drive = &mut self.drives[connection.drive];
        let Some(pending) = drive.requests.remove(id) else {
            return;
        };
        let sends = connection.state != State::Gone;
        if sends {
            let structured = connection.structured;
            connection
                .output
                .answer(structured, &pending.request, Some(Errno::Inval));
        }
        let cost = pending.cost;
        let op = op(pending.request.command).unwrap_or(Op::Flush);
        connection.asking -= u32::from(op != Op::Flush);
        drive.recycle(pending);
        drive.withdraw(self.now, connection.space, op, connection.held);
        self.answered(slot, cost, sends);
    }

    fn hostile(&mut self, slot: u32, error: &nbd::Fatal) -> Step {
        let reason = error.to_string();
        self.gone(slot, Some(&reason));
        Step::Stop(Stop::Ended)
    }
}

/// The core's word for a command; `None` for those the core does not know.
pub(super) fn op(command: Command) -> Option<Op> {
    match command {
        Command::Read => Some(Op::Read),
        Command::Write => Some(Op::Write),
        Command::Flush => Some(Op::Flush),
        Command::Trim => Some(Op::Discard),
        Command::WriteZeroes => Some(Op::WriteZeroes),
        Command::BlockStatus => Some(Op::Extents),
        Command::Disconnect | Command::Cache | Command::Unknown(_) => None,
    }
}

/// The core's request for one of the protocol; `None` for those the core does not know.
fn core_request(stream: StreamId, space: u32, request: &Request, id: u32) -> Option<CoreRequest> {
    let op = op(request.command)?;
    let mut flags = Flags::NONE;
    // Where FUA means nothing it is dropped, as the protocol allows.
    let modifies = request.command.modifies();
    for (bit, flag) in [
        (
            modifies && request.flags.contains(CommandFlags::FUA),
            Flags::FUA.with(Flags::SYNC),
        ),
        (op == Op::Flush, Flags::SYNC),
        (
            request.flags.contains(CommandFlags::NO_HOLE),
            Flags::NO_HOLE,
        ),
        (
            request.flags.contains(CommandFlags::FAST_ZERO),
            Flags::FAST_ZERO,
        ),
        (
            request.flags.contains(CommandFlags::REQ_ONE),
            Flags::FIRST_ONLY,
        ),
    ] {
        if bit {
            flags = flags.with(flag);
        }
    }
    Some(CoreRequest {
        stream,
        space: SpaceId(space),
        op,
        flags,
        offset: request.offset,
        length: match op {
            // How long the range is says nothing about the work.
            Op::Extents => request.length.min(512),
            _ => request.length,
        },
        cookie: u64::from(id),
    })
}
