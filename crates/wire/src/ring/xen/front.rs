//! The front end's side of Xen's ring. It is the guest's side, for simulations and tests.

use super::super::event::crossed32;
use super::super::{Load, Shared, Store};
use super::{
    REQ_EVENT, REQ_PROD, RSP_EVENT, RSP_PROD, Response, RingError, RingTooSmall, XenRequest, check,
    slot, slots,
};

/// The front end's side of a ring: it pushes requests and takes responses.
#[derive(Debug)]
pub struct XenFrontEnd<M> {
    shared: M,
    slots: u32,
    /// The request index after the last written request.
    pushed: u32,
    /// The request index that the back end can see.
    published: u32,
    /// The response index up to which responses were taken.
    taken: u32,
    /// The back end's response index, as last read.
    seen: u32,
    broken: Option<RingError>,
}

/// The error for a ring without a free slot. Responses must be taken first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("every slot of the ring is taken")]
pub struct RingFull;

impl<M: Shared> XenFrontEnd<M> {
    /// Creates the front end of a new ring.
    ///
    /// # Errors
    /// Returns [`RingTooSmall`] if the memory has no room for a slot.
    pub fn new(shared: M) -> Result<Self, RingTooSmall> {
        Self::at(shared, 0)
    }

    /// Creates the front end of a ring that has passed `index` requests, all of them answered.
    ///
    /// # Errors
    /// Returns [`RingTooSmall`] if the memory has no room for a slot.
    pub fn at(shared: M, index: u32) -> Result<Self, RingTooSmall> {
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

    /// Returns the number of slots of the ring.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns how many requests can be pushed now.
    pub fn free(&self) -> u32 {
        self.slots - self.in_flight()
    }

    /// Returns how many requests were pushed whose response was not yet taken.
    pub fn in_flight(&self) -> u32 {
        self.pushed.wrapping_sub(self.taken)
    }

    /// Writes a request. The back end does not see it before [`publish`](Self::publish).
    ///
    /// # Errors
    /// Returns [`RingFull`] if no slot is free.
    pub fn push(&mut self, request: &XenRequest) -> Result<(), RingFull> {
        if self.free() == 0 {
            return Err(RingFull);
        }
        let at = slot(self.pushed, self.slots);
        self.shared.write(at, &request.encode());
        self.pushed = self.pushed.wrapping_add(1);
        Ok(())
    }

    /// Makes the requests visible to the back end. Returns true if the back end needs an event now.
    #[must_use]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.published, self.pushed);
        self.shared.store32(REQ_PROD, new, Store::Release);
        self.published = new;
        // The store of the index must be visible before the load of the back end's event. Otherwise
        // both sides could miss each other.
        self.shared.fence();
        crossed32(self.shared.load32(REQ_EVENT, Load::Relaxed), old, new)
    }

    /// Returns how many responses can be taken now. Reads the back end's index only if all
    /// responses of the last reading were taken.
    ///
    /// # Errors
    /// Returns [`RingError`] if that index jumped or moved backwards.
    #[inline]
    pub fn poll_responses(&mut self) -> Result<u32, RingError> {
        let left = self.seen.wrapping_sub(self.taken);
        if left > 0 && self.broken.is_none() {
            return Ok(left);
        }
        self.read_index()
    }

    fn read_index(&mut self) -> Result<u32, RingError> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let found = self.shared.load32(RSP_PROD, Load::Acquire);
        // The back end may have answered at most the requests that it can see.
        check(found, self.seen, self.published)
            .inspect_err(|broken| self.broken = Some(*broken))?;
        self.seen = found;
        Ok(found.wrapping_sub(self.taken))
    }

    /// Returns the next of the responses that [`Self::poll_responses`] counted, or `None` if there
    /// is none left. The caller must check that its id belongs to a request.
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

    /// Performs the final check: requests an event for the next response, then checks the ring once
    /// more. Returns true if there is a response already.
    ///
    /// # Errors
    /// Returns [`RingError`], like [`Self::poll_responses`].
    pub fn arm(&mut self) -> Result<bool, RingError> {
        self.arm_after(1)
    }

    /// Performs the final check like [`arm`](Self::arm), but requests an event only when there are
    /// `count` responses. Returns true if there are that many already.
    ///
    /// A front end can reduce its number of events with this. `count` is relative to the responses
    /// that were taken and is at least 1.
    ///
    /// # Errors
    /// Returns [`RingError`], like [`Self::poll_responses`].
    pub fn arm_after(&mut self, count: u32) -> Result<bool, RingError> {
        let count = count.max(1);
        self.ask(count);
        self.shared.fence();
        Ok(self.read_index()? >= count)
    }

    /// Requests an event when there are `count` responses to take.
    fn ask(&self, count: u32) {
        let event = self.taken.wrapping_add(count);
        self.shared.store32(RSP_EVENT, event, Store::Relaxed);
    }
}
