//! The back end's side of Xen's ring.

use super::super::event::crossed32;
use super::super::{Load, Shared, Store};
use super::{
    REQ_EVENT, REQ_PROD, RSP_EVENT, RSP_PROD, Response, RingError, RingTooSmall, SLOT, XenRequest,
    XenRequestError, check, slot, slots,
};

/// The time at which the back end requests an event for the next requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rearm {
    /// After every request that it has taken is answered, as Linux's back end did until 2011. Until
    /// then, the back end only checks the ring after each answer. A request that is pushed while
    /// another is in the drive has to wait until that one completes.
    Answered,
    /// As soon as it has taken all requests, whatever is in the drive. Linux's back end has done
    /// this since b4726a9df270 (2011).
    Drained,
}

/// The back end's side of a ring: it takes requests and writes responses.
#[derive(Debug)]
pub struct XenBackEnd<M> {
    shared: M,
    slots: u32,
    rearm: Rearm,
    /// The request index up to which requests were taken.
    taken: u32,
    /// The front end's request index, as last read.
    seen: u32,
    /// The response index after the last written response.
    answered: u32,
    /// The response index that the front end can see.
    published: u32,
    broken: Option<RingError>,
}

impl<M: Shared> XenBackEnd<M> {
    /// Creates the back end of a new ring.
    ///
    /// # Errors
    /// Returns [`RingTooSmall`] if the memory has no room for a slot.
    pub fn new(shared: M, rearm: Rearm) -> Result<Self, RingTooSmall> {
        Self::at(shared, rearm, 0)
    }

    /// Creates the back end of a ring that has passed `index` requests, all of them answered.
    ///
    /// # Errors
    /// Returns [`RingTooSmall`] if the memory has no room for a slot.
    pub fn at(shared: M, rearm: Rearm, index: u32) -> Result<Self, RingTooSmall> {
        Ok(Self {
            slots: slots(shared.len())?,
            shared,
            rearm,
            taken: index,
            seen: index,
            answered: index,
            published: index,
            broken: None,
        })
    }

    /// Returns how many requests were taken and not yet answered.
    pub fn in_flight(&self) -> u32 {
        self.taken.wrapping_sub(self.answered)
    }

    /// Returns how many requests can be taken now. Reads the front end's index only if all requests
    /// of the last reading were taken.
    ///
    /// # Errors
    /// Returns [`RingError`] if that index jumped or moved backwards.
    #[inline]
    pub fn poll_requests(&mut self) -> Result<u32, RingError> {
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
        // Acquire: the requests that the front end wrote before its index must be visible after
        // this load.
        let found = self.shared.load32(REQ_PROD, Load::Acquire);
        // A slot is free for a request once the front end can see the response in it.
        let most = self.published.wrapping_add(self.slots);
        check(found, self.seen, most).inspect_err(|broken| self.broken = Some(*broken))?;
        self.seen = found;
        Ok(found.wrapping_sub(self.taken))
    }

    /// Returns the next of the requests that [`Self::poll_requests`] counted, or `None` if there is
    /// none left.
    ///
    /// A request that is refused was taken as well, and must be answered
    /// ([`XenRequestError::response`]).
    #[inline]
    pub fn take(&mut self) -> Option<Result<XenRequest, XenRequestError>> {
        if self.seen == self.taken || self.broken.is_some() {
            return None;
        }
        // The slot is copied once and then decoded, because the front end may change it at any
        // time.
        let mut bytes = [0; SLOT];
        self.shared.read(slot(self.taken, self.slots), &mut bytes);
        self.taken = self.taken.wrapping_add(1);
        Some(XenRequest::decode(&bytes))
    }

    /// Writes a response. The front end does not see it before [`publish`](Self::publish).
    ///
    /// # Panics
    /// If every request that was taken is answered already.
    pub fn answer(&mut self, response: &Response) {
        assert!(self.in_flight() > 0, "a response without a request");
        let at = slot(self.answered, self.slots);
        self.shared.write(at, &response.encode());
        self.answered = self.answered.wrapping_add(1);
    }

    /// Makes the responses visible to the front end. Returns true if the front end needs an event
    /// now.
    #[must_use]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.published, self.answered);
        self.shared.store32(RSP_PROD, new, Store::Release);
        self.published = new;
        // The store of the index must be visible before the load of the front end's event.
        // Otherwise both sides could miss each other.
        self.shared.fence();
        crossed32(self.shared.load32(RSP_EVENT, Load::Relaxed), old, new)
    }

    /// Performs the final check: requests an event for the next request, then checks the ring once
    /// more. Returns true if there is a request already.
    ///
    /// # Errors
    /// Returns [`RingError`], like [`Self::poll_requests`].
    pub fn arm(&mut self) -> Result<bool, RingError> {
        self.ask();
        // The event must be visible before the index is read again, otherwise a request that is
        // pushed in between goes unnoticed.
        self.shared.fence();
        Ok(self.read_index()? > 0)
    }

    /// Requests an event for the next request.
    fn ask(&self) {
        let event = self.taken.wrapping_add(1);
        self.shared.store32(REQ_EVENT, event, Store::Relaxed);
    }

    /// Must be called when no request is left to take and the back end is going to sleep. Returns
    /// true if there is a request already.
    ///
    /// With [`Rearm::Drained`] it performs the final check, with [`Rearm::Answered`] it does
    /// nothing.
    ///
    /// # Errors
    /// Returns [`RingError`], like [`Self::poll_requests`].
    pub fn on_drained(&mut self) -> Result<bool, RingError> {
        match self.rearm {
            Rearm::Drained => self.arm(),
            Rearm::Answered => Ok(false),
        }
    }

    /// Must be called after each response. Returns true if there is a request to take.
    ///
    /// With [`Rearm::Answered`] it performs the final check after the last response, and checks the
    /// ring after the others. With [`Rearm::Drained`] it does nothing.
    ///
    /// # Errors
    /// Returns [`RingError`], like [`Self::poll_requests`].
    pub fn on_answered(&mut self) -> Result<bool, RingError> {
        match self.rearm {
            Rearm::Drained => Ok(false),
            Rearm::Answered if self.in_flight() == 0 => self.arm(),
            Rearm::Answered => Ok(self.poll_requests()? > 0),
        }
    }
}
