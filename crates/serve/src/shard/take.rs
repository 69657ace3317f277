//! The way of requests from a client's front end to the core, within the client's bounds.

use weir_core::{Op, Reject, Request, SpaceId, Span, StreamId};

use super::Shard;
use super::client::ClientState;
use super::front::Attached;
use super::front::QueuedRequest;
use super::front::{ClientRequest, FrontContext, FrontEnd, RequestAnswer, TakeStop};
use super::schedule::ProcessorWork;
use crate::errno::EINVAL;

/// The length in bytes that the core gets for a look-up of extents, because its range does not
/// determine its work.
const LOOK_UP: u32 = 512;

impl Shard {
    /// Calls a client's front end, and applies the results that it has left in the context.
    pub(super) fn with_front<R>(
        &mut self,
        slot: u32,
        call: impl FnOnce(&mut dyn FrontEnd, &mut FrontContext<'_>) -> R,
    ) -> R {
        let hurries = !self.waiting.is_empty() || !self.changes.is_empty() || self.drain.is_some();
        let Attached { client, front } = &mut self.clients[slot];
        let mut cx = FrontContext {
            now: self.now,
            ring: &mut self.ring,
            limits: &self.limits,
            client,
            slot,
            pool: &mut self.pool,
            taken: &mut self.taken,
            waiting: &mut self.waiting,
            spare: &mut self.spare,
            hurries,
            sends: false,
            work: ProcessorWork::default(),
        };
        let result = call(front.as_mut(), &mut cx);
        let (work, flow) = (cx.work, cx.client.flow);
        if cx.sends {
            self.mark_for_send(slot);
        }
        if work.cost > 0 {
            self.schedule.charge(flow, self.now, work);
        }
        result
    }

    /// Takes requests from a client until there are none or a bound is reached. The requests for
    /// the core are then in `batch`.
    pub(super) fn take(&mut self, slot: u32) -> TakeStop {
        self.batch.clear();
        if self.clients[slot].client.state == ClientState::Gone {
            return TakeStop::Ended;
        }
        let stop = self.with_front(slot, |front, cx| front.take(cx));
        // The requests are entered even if the client violated the protocol after them. The core
        // then rejects them, because their stream is closed, and `refuse` withdraws them.
        let mut taken = std::mem::take(&mut self.taken);
        for pending in taken.drain(..) {
            self.enter(pending);
        }
        self.taken = taken;
        if let TakeStop::Broken(reason) = &stop {
            self.disconnect(slot, Some(reason));
        }
        stop
    }

    /// Counts a complete request and adds it to the batch for the core.
    fn enter(&mut self, mut pending: QueuedRequest) {
        let client = &mut self.clients[pending.client].client;
        let ask = pending.ask;
        client.live += 1;
        client.non_flush += u32::from(ask.op != Op::Flush);
        let drive = &mut self.drives[client.drive];
        let arrived = client.arrived.map(|arrived| arrived.earliest);
        drive.count_in(self.now, client.space, &ask, client.held, arrived);
        let likely = client.arrived.map(|arrived| arrived.likely);
        pending.untaken = likely.map_or(Span::ZERO, |at| self.now.since(at));
        let id = drive.requests.insert(pending);
        let request = request(client.stream, client.space, &ask, id);
        self.batch.push(request);
    }

    /// Submits the requests in `batch` to the core. Requests that the core has no room for wait
    /// with the client.
    pub(super) fn submit(&mut self, slot: u32) {
        let mut start = 0;
        while start < self.batch.len() {
            let client = &mut self.clients[slot].client;
            let drive = &mut self.drives[client.drive];
            drive.touched = true;
            let Err(rejected) = drive.layer.submit(self.now, &self.batch[start..]) else {
                break;
            };
            // The core accepts requests in order up to the first that it rejects.
            start += rejected.accepted;
            match rejected.reason {
                reason @ (Reject::Full | Reject::StreamFull) => {
                    // If the whole layer is full, it resumes the stream when there is room.
                    // Submitting earlier would be in vain.
                    client.paused |= reason == Reject::Full;
                    let rest = self.batch[start..].iter();
                    client.queue.extend(rest.map(|r| r.cookie as u32));
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

    /// Submits the requests again that the core had no room for.
    pub(super) fn resubmit(&mut self, slot: u32) {
        self.batch.clear();
        let client = &mut self.clients[slot].client;
        let drive = &self.drives[client.drive];
        // All queued requests are submitted again in their order, and those that are rejected again
        // return to the queue.
        for id in client.queue.drain(..) {
            let ask = &drive.requests[id].ask;
            let request = request(client.stream, client.space, ask, id);
            self.batch.push(request);
        }
        self.submit(slot);
    }

    /// Answers a request that the core refuses although the front end let it pass. The volume is
    /// being removed, or the server has a bug.
    fn refuse(&mut self, slot: u32, id: u32, reason: Reject) {
        let client = &mut self.clients[slot].client;
        client.live -= 1;
        let sends = client.state != ClientState::Gone;
        if sends && crate::log::allowed() {
            tracing::warn!(
                connection = client.id,
                ?reason,
                "the scheduler refused a request of a client"
            );
        }
        let drive = &mut self.drives[client.drive];
        let Some(pending) = drive.requests.remove(id) else {
            return;
        };
        let QueuedRequest {
            ask, cost, payload, ..
        } = pending;
        client.non_flush -= u32::from(ask.op != Op::Flush);
        drive.uncount_request(self.now, client.space, ask.op, client.held);
        self.spare.put(payload);
        if sends {
            let answer = RequestAnswer {
                ask: &ask,
                cost,
                result: Err(EINVAL),
            };
            self.with_front(slot, |front, cx| front.answer(answer, cx));
        }
        self.finish_answer(slot, cost, sends);
    }
}

/// Returns the request as the core receives it.
pub(super) fn request(stream: StreamId, space: u32, ask: &ClientRequest, id: u32) -> Request {
    Request {
        stream,
        space: SpaceId(space),
        op: ask.op,
        flags: ask.flags,
        offset: ask.offset,
        length: match ask.op {
            Op::Extents => ask.length.min(LOOK_UP),
            _ => ask.length,
        },
        cookie: u64::from(id),
        within: 0,
    }
}
