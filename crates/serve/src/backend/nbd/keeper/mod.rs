//! The requests to a remote server, and the changes that are kept until they are durable there. The
//! keeper makes decisions only, and does no I/O.
//!
//! A server may complete a write and lose it when it dies before a flush. Each completed change is
//! therefore *kept* until a flush that began later has succeeded. After a server has returned, all
//! kept changes are sent again, in the order of their completion (*replay*). Requests that the
//! server had not answered follow. A flush that was in progress is among the latter, so that it
//! succeeds only after the replay, and covers it.
//!
//! Overlapping changes must not be in progress at the same time, which the caller ensures with
//! [`Ranges`](super::super::rmw::Ranges). Of two overlapping changes, the order of completion is
//! therefore the order in which they were made, and an unanswered change comes after all kept ones.
//! A change that was durable at its completion (`FUA`) is kept, too, if it overlaps with a kept
//! change. Otherwise, the replay would overwrite it.
//!
//! If the server fails a flush or a replayed change, completed data are lost. No flush succeeds
//! after that.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;

use weir_core::{Flags, Op};

use crate::errno::{EIO, ENOTCONN};
use crate::slab::Slab;

/// A request to the server. `P` is the type of a write's data.
#[derive(Clone, Debug)]
pub(super) struct RemoteRequest<P> {
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) offset: u64,
    pub(super) length: u32,
    /// The data of a write.
    pub(super) payload: Option<P>,
    /// The number of bytes of memory that the request takes while it is kept.
    pub(super) cost: u64,
}

/// A request that must be sent now. `id` identifies it until it is answered or the server is lost.
#[derive(Clone, Debug)]
pub(super) struct Sending<P> {
    pub(super) id: Id,
    pub(super) ask: RemoteRequest<P>,
}

/// The identity of a request that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Id {
    /// A request of the caller, or a flush of the keeper.
    Call(u32),
    /// A kept change at this index, which is replayed.
    Kept(usize),
}

/// A request that has ended: the number of its owner, and an error number of Linux if it has
/// failed.
pub(super) type EndedRequest = (u32, Result<(), u16>);

/// The state of one server's requests and kept changes.
#[derive(Debug)]
pub(super) struct Keeper<P> {
    calls: Slab<PendingRequest<P>>,
    /// The requests to send, in this order.
    queue: VecDeque<u32>,
    /// Completed changes that may not be durable yet, in the order of their completion.
    kept: VecDeque<KeptChange<P>>,
    /// The indices of kept changes that are being replayed.
    open: Vec<usize>,
    /// The number of bytes of memory that the kept changes take.
    kept_bytes: u64,
    /// The number of kept bytes from which on the keeper sends a flush of its own.
    flush_from: u64,
    phase: KeeperPhase,
    /// True if the server supports `FUA`. Otherwise, a flush follows each such change.
    fua: bool,
    /// The keeper's own flush, while it is outstanding.
    flush: Option<u32>,
    /// True if the caller waits for memory that kept changes take.
    pressed: bool,
    /// True after completed data were lost.
    failed: bool,
    /// The number of requests so far.
    arrivals: u64,
    keeps: u64,
    replayed_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KeeperPhase {
    Away,
    /// Of the kept changes, those before this index have been sent.
    Replay(usize),
    Up,
}

#[derive(Debug)]
struct PendingRequest<P> {
    ask: RemoteRequest<P>,
    /// The number of the caller's request, or `None` for a flush of the keeper itself.
    owner: Option<u32>,
    arrival: u64,
    /// Set once the request was sent. The value is the number of changes that had been kept until
    /// then, which is the number that a flush covers.
    sent: Option<u64>,
}

#[derive(Debug)]
struct KeptChange<P> {
    ask: RemoteRequest<P>,
    number: u64,
}

impl<P> RemoteRequest<P> {
    fn range(&self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.length)
    }

    fn changes(&self) -> bool {
        matches!(self.op, Op::Write | Op::Discard | Op::WriteZeroes)
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (one, two) = (self.range(), other.range());
        one.start < two.end && two.start < one.end
    }
}

impl<P: Clone> Keeper<P> {
    /// Creates a keeper for a server that is not connected yet. A flush is sent when the kept
    /// changes take `flush_from` bytes.
    pub(super) fn new(flush_from: u64) -> Self {
        Self {
            calls: Slab::new(),
            queue: VecDeque::new(),
            kept: VecDeque::new(),
            open: Vec::new(),
            kept_bytes: 0,
            flush_from,
            phase: KeeperPhase::Away,
            fua: false,
            flush: None,
            pressed: false,
            failed: false,
            arrivals: 0,
            keeps: 0,
            replayed_bytes: 0,
        }
    }

    /// Returns true after completed data were lost. No flush and no `FUA` succeeds any more.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Returns the number of bytes that kept changes take.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Returns the number of bytes that were replayed.
    pub(super) fn replayed_bytes(&self) -> u64 {
        self.replayed_bytes
    }

    /// Requests a flush to free memory, if any change is kept.
    pub(super) fn request_flush(&mut self) {
        self.pressed = true;
    }

    /// Returns the owner of a request, or `None` for a flush of the keeper.
    pub(super) fn owner(&self, slot: u32) -> Option<u32> {
        self.calls.get(slot)?.owner
    }

    /// Adds a request of `owner`.
    pub(super) fn submit(&mut self, owner: u32, ask: RemoteRequest<P>) {
        self.push(Some(owner), ask);
    }

    fn push(&mut self, owner: Option<u32>, ask: RemoteRequest<P>) -> u32 {
        self.arrivals += 1;
        let slot = self.calls.insert(PendingRequest {
            ask,
            owner,
            arrival: self.arrivals,
            sent: None,
        });
        self.queue.push_back(slot);
        slot
    }

    /// Starts a session. The server must have no request of an earlier session in progress. `fua`
    /// is true if it supports `FUA`.
    pub(super) fn connected(&mut self, fua: bool) {
        self.fua = fua;
        self.phase = KeeperPhase::Replay(0);
    }

    /// Ends the session. Unanswered requests will be sent again in the next one.
    pub(super) fn lost(&mut self) {
        self.phase = KeeperPhase::Away;
        self.open.clear();
        for slot in self.calls.slots() {
            let call = &mut self.calls[slot];
            if call.sent.take().is_some() {
                self.queue.push_back(slot);
            }
        }
        let calls = &self.calls;
        let queue = self.queue.make_contiguous();
        queue.sort_unstable_by_key(|slot| calls[*slot].arrival);
    }

    /// Ends all requests with an error, whether the server has carried them out or not, because it
    /// has been away for too long. Kept changes stay.
    pub(super) fn expire(&mut self) -> Vec<EndedRequest> {
        debug_assert_eq!(self.phase, KeeperPhase::Away, "the server is there");
        self.queue.clear();
        self.flush = None;
        let gone = self.calls.slots().into_iter();
        let gone = gone.filter_map(|slot| self.calls.remove(slot)?.owner);
        gone.map(|owner| (owner, Err(ENOTCONN))).collect()
    }

    /// Returns the next request to send, if one can be sent now.
    pub(super) fn next(&mut self) -> Option<Sending<P>> {
        match self.phase {
            KeeperPhase::Away => None,
            KeeperPhase::Replay(next) => self.replay(next),
            KeeperPhase::Up => self.call(),
        }
    }

    fn replay(&mut self, next: usize) -> Option<Sending<P>> {
        let Some(kept) = self.kept.get(next) else {
            // Other requests follow only after the whole replay has been answered, so that they
            // find the data that clients know.
            if !self.open.is_empty() {
                return None;
            }
            self.phase = KeeperPhase::Up;
            return self.call();
        };
        // Overlapping changes must take effect in their order, so the later one waits.
        let mut open = self.open.iter().map(|at| &self.kept[*at]);
        if open.any(|before| before.ask.overlaps(&kept.ask)) {
            return None;
        }
        self.open.push(next);
        self.replayed_bytes += u64::from(kept.ask.length);
        self.phase = KeeperPhase::Replay(next + 1);
        // The change must be carried out now, even slowly, so `FAST_ZERO` is removed. The next
        // flush makes it durable, so `FUA` is removed as well.
        let mut ask = kept.ask.clone();
        ask.flags =
            Flags::from_bits(ask.flags.bits() & !(Flags::FAST_ZERO.bits() | Flags::FUA.bits()));
        let id = Id::Kept(next);
        Some(Sending { id, ask })
    }

    fn call(&mut self) -> Option<Sending<P>> {
        let wanted = self.kept_bytes >= self.flush_from || self.pressed;
        if wanted && self.flush.is_none() && !self.kept.is_empty() {
            let ask = RemoteRequest {
                op: Op::Flush,
                flags: Flags::NONE,
                offset: 0,
                length: 0,
                payload: None,
                cost: 0,
            };
            // The flush precedes all other requests, because they may wait for the memory that it
            // frees.
            let slot = self.push(None, ask);
            self.queue.rotate_right(1);
            self.flush = Some(slot);
        }
        self.pressed = false;
        let slot = self.queue.pop_front()?;
        let call = &mut self.calls[slot];
        call.sent = Some(self.keeps);
        let mut ask = call.ask.clone();
        if !self.fua {
            ask.flags = Flags::from_bits(ask.flags.bits() & !Flags::FUA.bits());
        }
        let id = Id::Call(slot);
        Some(Sending { id, ask })
    }

    /// Processes the server's answer to a request. Returns the caller's request that has ended with
    /// it, if there is one.
    pub(super) fn answered(&mut self, id: Id, result: Result<(), u16>) -> Option<EndedRequest> {
        match id {
            Id::Kept(at) => {
                self.replayed(at, result);
                None
            }
            Id::Call(slot) => self.call_answered(slot, result),
        }
    }

    fn replayed(&mut self, at: usize, result: Result<(), u16>) {
        self.open.retain(|open| *open != at);
        self.failed |= result.is_err();
    }

    fn call_answered(&mut self, slot: u32, result: Result<(), u16>) -> Option<EndedRequest> {
        let call = &mut self.calls[slot];
        if call.ask.op == Op::Flush {
            let covered = call.sent.unwrap_or(0);
            // After a failed flush, nothing can be promised about the kept changes any more, so
            // their memory is freed.
            self.failed |= result.is_err();
            self.forget(result.map_or(u64::MAX, |()| covered));
        } else if call.ask.changes() && result.is_ok() && self.keep(slot) {
            return None;
        }
        let call = self.calls.remove(slot)?;
        if self.flush == Some(slot) {
            self.flush = None;
        }
        let syncs =
            call.ask.op == Op::Flush || call.ask.changes() && call.ask.flags.has(Flags::FUA);
        if syncs && self.failed {
            return call.owner.map(|owner| (owner, Err(EIO)));
        }
        call.owner.map(|owner| (owner, result))
    }

    /// Keeps a completed change. Returns true if a flush must make it durable before it ends.
    fn keep(&mut self, slot: u32) -> bool {
        let fua = self.fua;
        let call = &mut self.calls[slot];
        let durable = call.ask.flags.has(Flags::FUA);
        // A durable change must be kept only if a replay of an older one could overwrite it. After
        // a failure, nothing is kept any more.
        let covers = durable && fua && !self.kept.iter().any(|k| k.ask.overlaps(&call.ask));
        if self.failed || covers {
            return false;
        }
        self.keeps += 1;
        self.kept_bytes += call.ask.cost;
        self.kept.push_back(KeptChange {
            ask: call.ask.clone(),
            number: self.keeps,
        });
        if !durable || fua {
            return false;
        }
        // The request continues as a flush, so that it ends when its change is durable.
        call.ask.op = Op::Flush;
        call.ask.payload = None;
        call.sent = None;
        self.queue.push_back(slot);
        true
    }

    /// Drops the changes up to number `covered`, which are durable.
    fn forget(&mut self, covered: u64) {
        while self.kept.front().is_some_and(|k| k.number <= covered) {
            let gone = self.kept.pop_front();
            self.kept_bytes -= gone.map_or(0, |k| k.ask.cost);
        }
    }
}
