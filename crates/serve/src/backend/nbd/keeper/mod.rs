//! What is asked of a remote server, and what is kept until it is durable there: the decisions, without any I/O.
//!
//! A server may answer a write and lose it when it dies before a flush. So each change that it has answered is *kept* until a flush
//! that began later has succeeded. A server that comes back is first given all of that again, in the order of the answers (*replay*), and
//! then what it had not answered. A flush that was under way is among the latter, so it succeeds only after the replay, and covers it.
//!
//! Changes that overlap must not be under way at the same time: the caller sees to that ([`Ranges`](super::super::rmw::Ranges)). So of two that overlap the
//! order of answers is the order in which they were made, and one that is unanswered comes after all that are kept. A change that was
//! durable when it was answered (`FUA`) is kept, too, where it overlaps with one that is kept, which would else be put over it.
//!
//! A flush that the server fails, or a replay, means that something is lost that was answered: no flush succeeds after that.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;

use weir_core::{Flags, Op};

use crate::errno::{EIO, ENOTCONN};
use crate::slab::Slab;

/// A request to the server. `P` is what a write carries.
#[derive(Clone, Debug)]
pub(super) struct Ask<P> {
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) offset: u64,
    pub(super) length: u32,
    /// Of a write.
    pub(super) payload: Option<P>,
    /// Bytes of memory that it takes while it is kept.
    pub(super) cost: u64,
}

/// A request that is to be sent now. `id` names it until it is answered or the server is lost.
#[derive(Clone, Debug)]
pub(super) struct Sending<P> {
    pub(super) id: Id,
    pub(super) ask: Ask<P>,
}

/// Whose answer it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Id {
    /// A request.
    Call(u32),
    /// The change that is kept at this place, which is replayed.
    Kept(usize),
}

/// A request that is over: its owner's number, and an error number of Linux if it failed.
pub(super) type Ended = (u32, Result<(), u16>);

/// The decisions about one server.
#[derive(Debug)]
pub(super) struct Keeper<P> {
    calls: Slab<Call<P>>,
    /// Requests that are to be sent, in this order.
    queue: VecDeque<u32>,
    /// Changes that were answered and are not known to be durable, in the order of the answers.
    kept: VecDeque<Kept<P>>,
    /// Places of those that are replayed and unanswered.
    open: Vec<usize>,
    /// What these take, bytes.
    kept_bytes: u64,
    /// From this number of bytes on a flush is sent unasked.
    flush_from: u64,
    phase: Phase,
    /// The server does what `FUA` says. Otherwise a flush follows.
    fua: bool,
    /// The unasked flush that is under way.
    flush: Option<u32>,
    /// Memory is wanted that changes take which are kept.
    pressed: bool,
    /// Something is lost that was answered.
    failed: bool,
    /// How many requests there were, and how many changes were kept.
    arrivals: u64,
    keeps: u64,
    replayed_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Away,
    /// Of what is kept, all before this place was sent.
    Replay(usize),
    Up,
}

#[derive(Debug)]
struct Call<P> {
    ask: Ask<P>,
    /// `None`: a flush that nobody asked for.
    owner: Option<u32>,
    arrival: u64,
    /// It is sent; of a flush: how many changes were kept until then.
    sent: Option<u64>,
}

#[derive(Debug)]
struct Kept<P> {
    ask: Ask<P>,
    number: u64,
}

impl<P> Ask<P> {
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
    /// With a server that is away yet. When what is kept takes `flush_from` bytes, a flush is sent unasked.
    pub(super) fn new(flush_from: u64) -> Self {
        Self {
            calls: Slab::new(),
            queue: VecDeque::new(),
            kept: VecDeque::new(),
            open: Vec::new(),
            kept_bytes: 0,
            flush_from,
            phase: Phase::Away,
            fua: false,
            flush: None,
            pressed: false,
            failed: false,
            arrivals: 0,
            keeps: 0,
            replayed_bytes: 0,
        }
    }

    /// Something is lost that was answered: no flush and no `FUA` succeeds any more.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Bytes that what is kept takes.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// How many bytes were written again.
    pub(super) fn replayed_bytes(&self) -> u64 {
        self.replayed_bytes
    }

    /// What is kept is to become less, if there is any of it: memory is wanted.
    pub(super) fn press(&mut self) {
        self.pressed = true;
    }

    /// Whose request it is.
    pub(super) fn owner(&self, slot: u32) -> Option<u32> {
        self.calls.get(slot)?.owner
    }

    /// A request of `owner`'s.
    pub(super) fn submit(&mut self, owner: u32, ask: Ask<P>) {
        self.push(Some(owner), ask);
    }

    fn push(&mut self, owner: Option<u32>, ask: Ask<P>) -> u32 {
        self.arrivals += 1;
        let slot = self.calls.insert(Call {
            ask,
            owner,
            arrival: self.arrivals,
            sent: None,
        });
        self.queue.push_back(slot);
        slot
    }

    /// The server is there, and has nothing under way of what was sent before. It does what `FUA` says, or not.
    pub(super) fn connected(&mut self, fua: bool) {
        self.fua = fua;
        self.phase = Phase::Replay(0);
    }

    /// The server is away: what it has not answered is asked again when it is back.
    pub(super) fn lost(&mut self) {
        self.phase = Phase::Away;
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

    /// The server has been away for too long: everything that was asked fails, whether it was done or not. What is kept stays.
    pub(super) fn expire(&mut self) -> Vec<Ended> {
        debug_assert_eq!(self.phase, Phase::Away, "the server is there");
        self.queue.clear();
        self.flush = None;
        let gone = self.calls.slots().into_iter();
        let gone = gone.filter_map(|slot| self.calls.remove(slot)?.owner);
        gone.map(|owner| (owner, Err(ENOTCONN))).collect()
    }

    /// The request that is to be sent next, if there is one now.
    pub(super) fn next(&mut self) -> Option<Sending<P>> {
        match self.phase {
            Phase::Away => None,
            Phase::Replay(next) => self.replay(next),
            Phase::Up => self.call(),
        }
    }

    fn replay(&mut self, next: usize) -> Option<Sending<P>> {
        let Some(kept) = self.kept.get(next) else {
            if !self.open.is_empty() {
                return None;
            }
            self.phase = Phase::Up;
            return self.call();
        };
        let mut open = self.open.iter().map(|at| &self.kept[*at]);
        if open.any(|before| before.ask.overlaps(&kept.ask)) {
            return None;
        }
        self.open.push(next);
        self.replayed_bytes += u64::from(kept.ask.length);
        self.phase = Phase::Replay(next + 1);
        // It has to be done now, in whatever time. Whether it is durable the next flush says.
        let mut ask = kept.ask.clone();
        ask.flags =
            Flags::from_bits(ask.flags.bits() & !(Flags::FAST_ZERO.bits() | Flags::FUA.bits()));
        let id = Id::Kept(next);
        Some(Sending { id, ask })
    }

    fn call(&mut self) -> Option<Sending<P>> {
        let wanted = self.kept_bytes >= self.flush_from || self.pressed;
        if wanted && self.flush.is_none() && !self.kept.is_empty() {
            let ask = Ask {
                op: Op::Flush,
                flags: Flags::NONE,
                offset: 0,
                length: 0,
                payload: None,
                cost: 0,
            };
            // It goes before all others: these may wait for what it frees.
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

    /// The server has answered what was sent. Returns the request that is over thereby, if one is.
    pub(super) fn answered(&mut self, id: Id, result: Result<(), u16>) -> Option<Ended> {
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

    fn call_answered(&mut self, slot: u32, result: Result<(), u16>) -> Option<Ended> {
        let call = &mut self.calls[slot];
        if call.ask.op == Op::Flush {
            let covered = call.sent.unwrap_or(0);
            // Of what a flush failed for nothing can be promised any more, and its memory is wanted.
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

    /// Keeps a change that was answered. True if a flush is to make it durable before it is over.
    fn keep(&mut self, slot: u32) -> bool {
        let fua = self.fua;
        let call = &mut self.calls[slot];
        let durable = call.ask.flags.has(Flags::FUA);
        let covers = durable && fua && !self.kept.iter().any(|k| k.ask.overlaps(&call.ask));
        if self.failed || covers {
            return false;
        }
        self.keeps += 1;
        self.kept_bytes += call.ask.cost;
        self.kept.push_back(Kept {
            ask: call.ask.clone(),
            number: self.keeps,
        });
        if !durable || fua {
            return false;
        }
        call.ask.op = Op::Flush;
        call.ask.payload = None;
        call.sent = None;
        self.queue.push_back(slot);
        true
    }

    /// The first `covered` changes that were ever kept are durable.
    fn forget(&mut self, covered: u64) {
        while self.kept.front().is_some_and(|k| k.number <= covered) {
            let gone = self.kept.pop_front();
            self.kept_bytes -= gone.map_or(0, |k| k.ask.cost);
        }
    }
}
