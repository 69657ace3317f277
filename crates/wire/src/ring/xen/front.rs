//! The front end's half of the ring: the guest's, for simulations and tests.

use super::super::event::crossed32;
use super::super::{Load, Shared, Store};
use super::{
    Broken, REQ_EVENT, REQ_PROD, RSP_EVENT, RSP_PROD, Request, Response, TooSmall, check, slot,
    slots,
};

/// The front end's half: gives requests, takes responses.
#[derive(Debug)]
pub struct Front<M> {
    shared: M,
    slots: u32,
    /// Requests written.
    pushed: u32,
    /// Requests the back end can see.
    published: u32,
    /// Responses taken.
    taken: u32,
    /// Responses there are, as last read.
    seen: u32,
    broken: Option<Broken>,
}

/// There is no free slot: responses have to be taken first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("every slot of the ring is taken")]
pub struct Full;

impl<M: Shared> Front<M> {
    /// The front end of a new ring.
    ///
    /// # Errors
    /// [`TooSmall`].
    pub fn new(shared: M) -> Result<Self, TooSmall> {
        Self::at(shared, 0)
    }

    /// The front end of a ring that has seen `index` requests, all of them answered.
    ///
    /// # Errors
    /// [`TooSmall`].
    pub fn at(shared: M, index: u32) -> Result<Self, TooSmall> {
        Ok(Self {
            slots: slots(shared.len())?,
            shared,
            pushed: index,
            published: index,
            taken: index,
            seen: index,
            broken: None,
        })
    }

    /// How many slots the ring has.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// How many requests can be pushed.
    pub fn free(&self) -> u32 {
        self.slots - self.in_flight()
    }

    /// How many requests were pushed whose response was not taken.
    pub fn in_flight(&self) -> u32 {
        self.pushed.wrapping_sub(self.taken)
    }

    /// Writes a request. The back end does not see it before [`publish`](Self::publish).
    ///
    /// # Errors
    /// [`Full`].
    pub fn push(&mut self, request: &Request) -> Result<(), Full> {
        if self.free() == 0 {
            return Err(Full);
        }
        let at = slot(self.pushed, self.slots);
        self.shared.write(at, &request.encode());
        self.pushed = self.pushed.wrapping_add(1);
        Ok(())
    }

    /// Lets the back end see the requests; true if it wants an event now.
    #[must_use]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.published, self.pushed);
        self.shared.store32(REQ_PROD, new, Store::Release);
        self.published = new;
        self.shared.fence();
        crossed32(self.shared.load32(REQ_EVENT, Load::Relaxed), old, new)
    }

    /// How many responses can be taken now. It reads the back end's index only if there is none left of those it saw last time.
    ///
    /// # Errors
    /// [`Broken`] if that index jumped or went back.
    #[inline]
    pub fn look(&mut self) -> Result<u32, Broken> {
        let left = self.seen.wrapping_sub(self.taken);
        if left > 0 && self.broken.is_none() {
            return Ok(left);
        }
        self.read_index()
    }

    fn read_index(&mut self) -> Result<u32, Broken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let found = self.shared.load32(RSP_PROD, Load::Acquire);
        check(found, self.seen, self.published)
            .inspect_err(|broken| self.broken = Some(*broken))?;
        self.seen = found;
        Ok(found.wrapping_sub(self.taken))
    }

    /// The next of the responses that [`look`](Self::look) counted; `None` if there is none left. Whether its id is one that was
    /// pushed is for the caller to see.
    #[inline]
    pub fn take(&mut self) -> Option<Response> {
        if self.seen == self.taken || self.broken.is_some() {
            return None;
        }
        let mut bytes = [0; Response::LEN];
        self.shared.read(slot(self.taken, self.slots), &mut bytes);
        self.taken = self.taken.wrapping_add(1);
        Some(Response::decode(&bytes))
    }

    /// The final check: asks for an event at the next response, then looks once more. True if there is one already.
    ///
    /// # Errors
    /// [`Broken`], as [`look`](Self::look).
    pub fn arm(&mut self) -> Result<bool, Broken> {
        self.arm_after(1)
    }

    /// As [`arm`](Self::arm), but asks for an event only when there are `count` responses: what a front end may do that would rather
    /// have fewer events. True if there are as many already. `count` counts from the responses taken, and is at least 1.
    ///
    /// # Errors
    /// [`Broken`], as [`look`](Self::look).
    pub fn arm_after(&mut self, count: u32) -> Result<bool, Broken> {
        let count = count.max(1);
        self.ask(count);
        self.shared.fence();
        Ok(self.read_index()? >= count)
    }

    /// Asks for an event when there are `count` responses to take.
    fn ask(&self, count: u32) {
        let event = self.taken.wrapping_add(count);
        self.shared.store32(RSP_EVENT, event, Store::Relaxed);
    }
}
