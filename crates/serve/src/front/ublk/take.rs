//! The way of requests from the places of a queue to the core.

use weir_core::{Flags, Op};
use weir_wire::ublk::{UblkOperation, UblkRequest, UblkRequestError};

use super::queue::UblkQueue;
use crate::errno::{EINVAL, ENOTSUP, EPERM};
use crate::shard::{ClientRequest, FrontContext, TakeStop, cost};

impl UblkQueue {
    /// Takes requests in the order of their arrival, until there are none or a bound is reached.
    pub(super) fn take_all(&mut self, cx: &mut FrontContext<'_>) -> TakeStop {
        // Writes whose payload has arrived count as begun, so they come first, even if the client
        // is leaving.
        while let Some(tag) = self.loaded.pop_front() {
            let place = &mut self.places[usize::from(tag)];
            let bufs = std::mem::take(&mut place.bufs);
            if let Some(ask) = place.ask.take() {
                cx.take(ask, place.cost, bufs);
            }
        }
        if !cx.client.is_open() {
            // The driver sends new requests again to the server that recovers the device.
            return TakeStop::Ended;
        }
        while let Some(&tag) = self.fresh.front() {
            if cx.is_spent() {
                return TakeStop::Spent;
            }
            if !cx.may_take() || !self.step(tag, cx) {
                return TakeStop::Blocked;
            }
            self.fresh.pop_front();
            if self.broken.is_some() {
                break;
            }
        }
        TakeStop::Empty
    }

    /// Takes the request of a place. Returns false if there is no room for it.
    fn step(&mut self, tag: u16, cx: &mut FrontContext<'_>) -> bool {
        let request = match UblkRequest::parse(&self.descriptor(tag), &self.rules) {
            Ok(request) => request,
            Err(refused) => {
                if crate::log::allowed() {
                    tracing::warn!(reason = %refused, "the kernel sent an invalid request to a block device; the server refused it");
                }
                cx.charge_overhead(0);
                self.commit(tag, -i32::from(errno(&refused)), cx);
                return true;
            }
        };
        let ask = ask(&request, tag);
        let cost = match ask.op {
            Op::Read => cost(ask.length, cx.client.align),
            Op::Write => cost(ask.length, 1),
            _ => 0,
        };
        if !cx.reserve(cost) {
            return false;
        }
        if ask.op != Op::Write {
            cx.begin();
            cx.take(ask, cost, Vec::new());
            return true;
        }
        let Some(bufs) = cx.allocate_payload(ask.length, cost) else {
            return false;
        };
        cx.begin();
        let place = &mut self.places[usize::from(tag)];
        (place.ask, place.cost) = (Some(ask), cost);
        self.load(tag, bufs, cx);
        true
    }
}

/// Returns the operation for the core.
fn ask(request: &UblkRequest, tag: u16) -> ClientRequest {
    let op = match request.operation {
        UblkOperation::Read => Op::Read,
        UblkOperation::Write => Op::Write,
        UblkOperation::Flush => Op::Flush,
        UblkOperation::Discard => Op::Discard,
        UblkOperation::WriteZeroes => Op::WriteZeroes,
    };
    let mut flags = Flags::NONE;
    for (set, flag) in [
        // FUA has no meaning for a discard.
        (
            request.fua && op != Op::Discard,
            Flags::FUA.with(Flags::SYNC),
        ),
        (op == Op::Flush, Flags::SYNC),
        (request.keep, Flags::NO_HOLE),
    ] {
        if set {
            flags = flags.with(flag);
        }
    }
    ClientRequest {
        op,
        flags,
        offset: request.offset,
        length: request.length,
        token: tag.into(),
    }
}

/// Returns the error number for the kernel if its request is invalid.
fn errno(refused: &UblkRequestError) -> u16 {
    match refused {
        UblkRequestError::Operation(_) => ENOTSUP,
        UblkRequestError::ReadOnly => EPERM,
        UblkRequestError::Range { .. } => EINVAL,
    }
}
