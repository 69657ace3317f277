//! The parsing of received bytes into requests.

use weir_core::{Flags, Op};
use weir_wire::nbd::{self, CommandFlags, NbdCommand, NbdRequest, REQUEST_LEN};

use super::{NbdConnection, PayloadAssembly};
use crate::shard::{ClientRequest, ClientState, FrontContext, PAGE, TakeStop, cost};

/// The result of one step of parsing.
enum TakeStep {
    /// A request was taken, and there may be another.
    Taken,
    Stop(TakeStop),
}

impl NbdConnection {
    /// Takes requests from the input until it is empty or a bound is reached.
    pub(super) fn take_all(&mut self, cx: &mut FrontContext<'_>) -> TakeStop {
        loop {
            if let TakeStep::Stop(stop) = self.step(cx) {
                return stop;
            }
        }
    }

    /// Discards or completes a payload, or takes the next request.
    fn step(&mut self, cx: &mut FrontContext<'_>) -> TakeStep {
        let receiver = &mut self.receiver;
        if self.skip > 0 {
            self.skip -= receiver.input.discard(self.skip as usize) as u32;
            if self.skip > 0 {
                return TakeStep::Stop(TakeStop::Empty);
            }
        }
        if let Some(gather) = &mut receiver.gather {
            gather.take(&mut receiver.input);
            if gather.left > 0 {
                return TakeStep::Stop(TakeStop::Empty);
            }
            if let Some(gather) = receiver.gather.take() {
                cx.take(gather.ask, gather.cost, gather.bufs);
            }
            return TakeStep::Taken;
        }
        // A payload that had begun to arrive is completed above, but no further request is
        // taken.
        if cx.client.state != ClientState::Open {
            return TakeStep::Stop(TakeStop::Ended);
        }
        if !cx.may_take() {
            return TakeStep::Stop(TakeStop::Blocked);
        }
        if cx.is_spent() {
            return TakeStep::Stop(TakeStop::Spent);
        }
        match nbd::parse_request(receiver.input.bytes()) {
            Ok(Some(request)) => self.request(&request, cx),
            Ok(None) => TakeStep::Stop(TakeStop::Empty),
            Err(error) => broken_stop(&error),
        }
    }

    /// Takes one request if there is room for it.
    fn request(&mut self, request: &NbdRequest, cx: &mut FrontContext<'_>) -> TakeStep {
        // The NBD protocol asks servers to skip a refused payload of up to 32 MiB instead of
        // disconnecting, whatever their own limit is.
        let limit = cx.limits.request_size.max(32 << 20);
        let payload = match request.check_payload(limit) {
            Ok(payload) => payload,
            Err(error) => return broken_stop(&error),
        };
        let refused = match request.validate(&self.rules) {
            Ok(()) => None,
            Err(error) => Some(error.errno()),
        };
        let input = &mut self.receiver.input;
        if request.command == NbdCommand::Disconnect {
            input.advance(REQUEST_LEN);
            cx.leave();
            return TakeStep::Stop(TakeStop::Ended);
        }
        let ask = ask(request).filter(|_| refused.is_none());
        let Some(ask) = ask else {
            // A request that is refused or needs no work is answered immediately. CACHE is one of
            // these, because volumes need no warming.
            input.advance(REQUEST_LEN);
            self.skip = payload;
            cx.begin();
            cx.charge_overhead(payload);
            self.output.plain(request.cookie, chunked(request), refused);
            self.next.add(0);
            cx.mark_for_send();
            return TakeStep::Taken;
        };
        let cost = match ask.op {
            Op::Read => cost(ask.length, cx.client.align),
            Op::Write => cost(ask.length, 1),
            // The block status is written into a page of the arena (`ReplyOutput::extents`).
            Op::Extents => PAGE as u64,
            Op::Flush | Op::Discard | Op::WriteZeroes => 0,
        };
        if !cx.reserve(cost) {
            return TakeStep::Stop(TakeStop::Blocked);
        }
        if payload == 0 {
            self.receiver.begin();
            cx.begin();
            cx.take(ask, cost, Vec::new());
            return TakeStep::Taken;
        }
        let Some(bufs) = cx.allocate_payload(payload, cost) else {
            return TakeStep::Stop(TakeStop::Blocked);
        };
        self.receiver.begin();
        cx.begin();
        self.receiver.gather = Some(PayloadAssembly::new(ask, cost, bufs, payload));
        TakeStep::Taken
    }
}

/// Returns true if the answer to a request consists of chunks once structured replies are
/// negotiated.
fn chunked(request: &NbdRequest) -> bool {
    matches!(request.command, NbdCommand::Read | NbdCommand::BlockStatus)
}

/// Returns the operation of a request, or `None` if it does not concern a volume.
fn ask(request: &NbdRequest) -> Option<ClientRequest> {
    let op = match request.command {
        NbdCommand::Read => Op::Read,
        NbdCommand::Write => Op::Write,
        NbdCommand::Flush => Op::Flush,
        NbdCommand::Trim => Op::Discard,
        NbdCommand::WriteZeroes => Op::WriteZeroes,
        NbdCommand::BlockStatus => Op::Extents,
        NbdCommand::Disconnect | NbdCommand::Cache | NbdCommand::Unknown(_) => return None,
    };
    Some(ClientRequest {
        op,
        flags: flags(request, op),
        offset: request.offset,
        length: request.length,
        token: request.cookie,
    })
}

/// Encodes a request as the client sent it, apart from flags without an effect.
pub(super) fn encode(ask: &ClientRequest) -> [u8; REQUEST_LEN] {
    let command = match ask.op {
        Op::Read => NbdCommand::Read,
        Op::Write => NbdCommand::Write,
        Op::Flush => NbdCommand::Flush,
        Op::Discard => NbdCommand::Trim,
        Op::WriteZeroes => NbdCommand::WriteZeroes,
        Op::Extents => NbdCommand::BlockStatus,
    };
    let mut flags = CommandFlags::EMPTY;
    // The flag SYNC follows from FUA and from the operation, so that it is not encoded.
    for (core, wire) in [
        (Flags::FUA, CommandFlags::FUA),
        (Flags::NO_HOLE, CommandFlags::NO_HOLE),
        (Flags::FAST_ZERO, CommandFlags::FAST_ZERO),
        (Flags::FIRST_ONLY, CommandFlags::REQ_ONE),
    ] {
        if ask.flags.has(core) {
            flags |= wire;
        }
    }
    let request = NbdRequest {
        command,
        flags,
        cookie: ask.token,
        offset: ask.offset,
        length: ask.length,
    };
    request.encode()
}

/// Returns the flags of a request for the core.
fn flags(request: &NbdRequest, op: Op) -> Flags {
    let asked = |flag| request.flags.contains(flag);
    let mut flags = Flags::NONE;
    for (bit, flag) in [
        // FUA is ignored for commands that do not write, as the NBD protocol permits.
        (
            request.command.modifies() && asked(CommandFlags::FUA),
            Flags::FUA.with(Flags::SYNC),
        ),
        (op == Op::Flush, Flags::SYNC),
        (asked(CommandFlags::NO_HOLE), Flags::NO_HOLE),
        (asked(CommandFlags::FAST_ZERO), Flags::FAST_ZERO),
        (asked(CommandFlags::REQ_ONE), Flags::FIRST_ONLY),
    ] {
        if bit {
            flags = flags.with(flag);
        }
    }
    flags
}

/// Returns the step that closes the connection after a violation of the protocol.
fn broken_stop(error: &nbd::FatalError) -> TakeStep {
    TakeStep::Stop(TakeStop::Broken(error.to_string().into()))
}

#[cfg(test)]
mod tests {
    use weir_core::random::Rng;

    use super::*;

    /// A request that is taken back for a hand-over is parsed again by another process.
    #[test]
    fn an_encoded_request_is_parsed_as_the_same_request() {
        let mut rng = Rng::new(5);
        for _ in 0..1000 {
            let wire = NbdRequest {
                command: NbdCommand::from_wire(rng.range(0, 7) as u16),
                flags: CommandFlags::from_bits(rng.range(0, 31) as u16),
                cookie: rng.range(0, u64::MAX),
                offset: rng.range(0, 1 << 40),
                length: rng.range(0, 1 << 25) as u32,
            };
            let Some(request) = ask(&wire) else { continue };
            let again = nbd::parse_request(&encode(&request)).unwrap().unwrap();
            assert_eq!(ask(&again), Some(request), "{wire:?}");
        }
    }
}
