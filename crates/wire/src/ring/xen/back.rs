//! The back end's half of the ring.

use super::super::event::crossed32;
use super::super::{Load, Shared, Store};
use super::{
    Broken, REQ_EVENT, REQ_PROD, RSP_EVENT, RSP_PROD, Refused, Request, Response, SLOT, TooSmall,
    check, slot, slots,
};

/// When the back end asks for the next event of requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rearm {
    /// When every request that it has taken is answered. Until then it only looks at each answer: a request that is pushed while
    /// another is in the drive waits for that one. Linux's back end until 2011.
    Answered,
    /// When it has taken all there is, whatever is in the drive. Linux's back end since b4726a9df270 (2011).
    Drained,
}

/// The back end's half: takes requests, gives responses.
#[derive(Debug)]
pub struct Back<M> {
    shared: M,
    slots: u32,
    rearm: Rearm,
    /// Requests taken.
    taken: u32,
    /// Requests there are, as last read.
    seen: u32,
    /// Responses written.
    answered: u32,
    /// Responses the front end can see.
    published: u32,
    broken: Option<Broken>,
}

impl<M: Shared> Back<M> {
    /// The back end of a new ring.
    ///
    /// # Errors
    /// [`TooSmall`].
    pub fn new(shared: M, rearm: Rearm) -> Result<Self, TooSmall> {
        Self::at(shared, rearm, 0)
    }

    /// The back end of a ring that has seen `index` requests, all of them answered.
    ///
    /// # Errors
    /// [`TooSmall`].
    pub fn at(shared: M, rearm: Rearm, index: u32) -> Result<Self, TooSmall> {
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

    /// How many requests were taken and not answered.
    pub fn in_flight(&self) -> u32 {
        self.taken.wrapping_sub(self.answered)
    }

    /// How many requests can be taken now. It reads the front end's index only if there is none left of those it saw last time.
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
        let found = self.shared.load32(REQ_PROD, Load::Acquire);
        // A slot is free for a request when the front end has seen its response.
        let most = self.published.wrapping_add(self.slots);
        check(found, self.seen, most).inspect_err(|broken| self.broken = Some(*broken))?;
        self.seen = found;
        Ok(found.wrapping_sub(self.taken))
    }

    /// The next of the requests that [`look`](Self::look) counted; `None` if there is none left. One that is refused was taken, too,
    /// and is to be answered ([`Refused::response`]).
    #[inline]
    pub fn take(&mut self) -> Option<Result<Request, Refused>> {
        if self.seen == self.taken || self.broken.is_some() {
            return None;
        }
        // Copied once, then decoded: the front end may write it meanwhile.
        let mut bytes = [0; SLOT];
        self.shared.read(slot(self.taken, self.slots), &mut bytes);
        self.taken = self.taken.wrapping_add(1);
        Some(Request::decode(&bytes))
    }

    /// Writes a response. The front end does not see it before [`publish`](Self::publish).
    ///
    /// # Panics
    /// If every request taken was answered.
    pub fn answer(&mut self, response: &Response) {
        assert!(self.in_flight() > 0, "a response without a request");
        let at = slot(self.answered, self.slots);
        self.shared.write(at, &response.encode());
        self.answered = self.answered.wrapping_add(1);
    }

    /// Lets the front end see the responses; true if it wants an event now.
    #[must_use]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.published, self.answered);
        self.shared.store32(RSP_PROD, new, Store::Release);
        self.published = new;
        self.shared.fence();
        crossed32(self.shared.load32(RSP_EVENT, Load::Relaxed), old, new)
    }

    /// The final check: asks for an event at the next request, then looks once more. True if there is one already.
    ///
    /// # Errors
    /// [`Broken`], as [`look`](Self::look).
    pub fn arm(&mut self) -> Result<bool, Broken> {
        self.ask();
        self.shared.fence();
        Ok(self.read_index()? > 0)
    }

    /// Asks for an event at the next request.
    fn ask(&self) {
        let event = self.taken.wrapping_add(1);
        self.shared.store32(REQ_EVENT, event, Store::Relaxed);
    }

    /// To be called when there is nothing left to take and the back end would sleep: by [`Rearm::Drained`], the final check; by
    /// [`Rearm::Answered`], nothing. True if there is a request already.
    ///
    /// # Errors
    /// [`Broken`], as [`look`](Self::look).
    pub fn drained(&mut self) -> Result<bool, Broken> {
        match self.rearm {
            Rearm::Drained => self.arm(),
            Rearm::Answered => Ok(false),
        }
    }

    /// To be called after each response: by [`Rearm::Answered`], the final check if it was the last, else a look; by
    /// [`Rearm::Drained`], nothing. True if there is a request to take.
    ///
    /// # Errors
    /// [`Broken`], as [`look`](Self::look).
    pub fn answered(&mut self) -> Result<bool, Broken> {
        match self.rearm {
            Rearm::Drained => Ok(false),
            Rearm::Answered if self.in_flight() == 0 => self.arm(),
            Rearm::Answered => Ok(self.look()? > 0),
        }
    }
}
