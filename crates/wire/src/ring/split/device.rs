//! The device's side of virtio's split queue.

use super::super::event::crossed16;
use super::super::{Guest, Load, Shared, Store};
use super::{
    Areas, BufferChain, ChainError, FLAGS, INDEX, LayoutError, NO_INTERRUPT, NO_NOTIFY, QueueError,
    Settings, avail_event, available_entry, used_entry, used_event,
};

/// The device's side of a queue: it takes chains and returns heads.
#[derive(Debug)]
pub struct Device<M> {
    areas: Areas<M>,
    settings: Settings,
    /// The available index up to which heads were taken.
    taken: u16,
    /// The driver's available index, as last read.
    seen: u16,
    /// The used index after the last returned head.
    finished: u16,
    /// The used index that the driver can see.
    published: u16,
    /// True once [`publish`](Self::publish) has decided whether to call.
    decided: bool,
    /// One bit for each head, set while it is in flight.
    heads: Vec<u64>,
    /// The number of heads in flight.
    in_flight: u32,
    broken: Option<QueueError>,
}

/// The reason why no chain can be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TakeError {
    /// The queue cannot continue.
    #[error("{0}")]
    Broken(QueueError),
    /// This chain is invalid. Its head was taken and must be returned ([`Device::finish`] with 0
    /// bytes). The queue continues.
    #[error("head {head}: {why}")]
    Chain {
        /// The head of the chain.
        head: u16,
        /// The reason why the chain is invalid.
        why: ChainError,
    },
}

impl From<QueueError> for TakeError {
    fn from(broken: QueueError) -> Self {
        Self::Broken(broken)
    }
}

impl<M: Shared> Device<M> {
    /// Creates the device's side of a queue.
    ///
    /// `base` is the available index at which the queue was last stopped, or 0 for a new queue. The
    /// used index is read from its ring.
    ///
    /// # Errors
    /// Returns [`LayoutError`] if the areas do not fit the size.
    pub fn new(areas: Areas<M>, settings: Settings, base: u16) -> Result<Self, LayoutError> {
        areas.check(settings.size)?;
        let used = areas.used.load16(INDEX, Load::Relaxed);
        Ok(Self {
            areas,
            settings,
            taken: base,
            seen: base,
            finished: used,
            published: used,
            decided: false,
            heads: vec![0; usize::from(settings.size).div_ceil(64)],
            in_flight: 0,
            broken: None,
        })
    }

    /// Returns the settings that both sides agreed on.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the memory areas of the queue.
    pub fn areas(&self) -> &Areas<M> {
        &self.areas
    }

    /// Returns the available index up to which heads were taken. `GET_VRING_BASE` must return it
    /// once no request is in flight.
    pub fn base(&self) -> u16 {
        self.taken
    }

    /// Returns the used index, including heads that are not yet published.
    pub fn used_index(&self) -> u16 {
        self.finished
    }

    /// Returns the reason why the queue cannot continue, if there is one.
    pub fn broken(&self) -> Option<QueueError> {
        self.broken
    }

    /// Returns how many chains were taken and not yet returned.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Returns how many chains can be taken now. Reads the driver's index only if all chains of the
    /// last reading were taken.
    ///
    /// # Errors
    /// Returns [`QueueError`] if the queue cannot continue.
    #[inline]
    pub fn poll_available(&mut self) -> Result<u16, QueueError> {
        let left = self.seen.wrapping_sub(self.taken);
        if left > 0 && self.broken.is_none() {
            return Ok(left);
        }
        self.read_index()
    }

    fn read_index(&mut self) -> Result<u16, QueueError> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        // Acquire: the entries and descriptors that the driver wrote before its index must be
        // visible after this load.
        let found = self.areas.available.load16(INDEX, Load::Acquire);
        let (taken, size) = (self.taken, self.settings.size);
        // The index may not be behind the last reading, and not more than the size of the queue
        // ahead of the taken heads. All differences wrap.
        if found.wrapping_sub(self.seen) > taken.wrapping_add(size).wrapping_sub(self.seen) {
            return Err(self.break_with(QueueError::Index { found, taken, size }));
        }
        self.seen = found;
        Ok(found.wrapping_sub(taken))
    }

    fn break_with(&mut self, broken: QueueError) -> QueueError {
        self.broken = Some(broken);
        broken
    }

    /// Takes the next chain. Returns its head and stores its buffers in `chain`. Returns `None` if
    /// there is no chain now.
    ///
    /// # Errors
    /// Returns [`TakeError`] if this chain is invalid or the whole queue cannot continue.
    #[inline]
    pub fn take<G: Guest>(
        &mut self,
        guest: &G,
        chain: &mut BufferChain,
    ) -> Result<Option<u16>, TakeError> {
        if self.poll_available()? == 0 {
            return Ok(None);
        }
        let size = self.settings.size;
        let place = available_entry(self.taken, size);
        let head = self.areas.available.load16(place, Load::Relaxed);
        self.taken = self.taken.wrapping_add(1);
        self.retake(head, guest, chain)?;
        Ok(Some(head))
    }

    /// Takes the chain of `head` although it is not in the available ring, because it was in flight
    /// when an earlier device process ended.
    ///
    /// # Errors
    /// Returns [`TakeError`], like [`take`](Self::take).
    pub fn retake<G: Guest>(
        &mut self,
        head: u16,
        guest: &G,
        chain: &mut BufferChain,
    ) -> Result<(), TakeError> {
        if let Some(broken) = self.broken {
            return Err(broken.into());
        }
        let size = self.settings.size;
        if head >= size {
            return Err(self.break_with(QueueError::Head { head, size }).into());
        }
        let (word, bit) = Self::bit(head);
        if self.heads[word] & bit != 0 {
            return Err(self.break_with(QueueError::HeadTwice { head }).into());
        }
        // The head counts as in flight even if its chain turns out to be invalid, because it must
        // be returned in that case as well.
        self.heads[word] |= bit;
        self.in_flight += 1;
        chain
            .read(&self.areas.descriptors, head, &self.settings, guest)
            .map_err(|why| TakeError::Chain { head, why })
    }

    /// Gives up a head that was taken, because nothing was done for it. It must be taken again
    /// ([`retake`](Self::retake)), here or by another device process.
    ///
    /// # Panics
    /// If the head is not in flight.
    pub fn put_back(&mut self, head: u16) {
        self.end_flight(head);
    }

    /// Returns a head, with `written` bytes written into its buffers. The driver does not see it
    /// before [`publish`](Self::publish).
    ///
    /// # Panics
    /// If the head is not in flight.
    pub fn finish(&mut self, head: u16, written: u32) {
        self.end_flight(head);
        let mut entry = [0; 8];
        entry[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        entry[4..].copy_from_slice(&written.to_le_bytes());
        let place = used_entry(self.finished, self.settings.size);
        self.areas.used.write(place, &entry);
        self.finished = self.finished.wrapping_add(1);
    }

    /// Makes the returned heads visible to the driver. Returns true if the driver needs a call for
    /// any of them.
    #[must_use]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.published, self.finished);
        if old == new {
            return false;
        }
        // Release: the entries must be visible before the index that covers them. The full barrier
        // then orders the store of the index before the load of the driver's event. Without the
        // barrier, both sides could miss each other.
        self.areas.used.store16(INDEX, new, Store::Release);
        self.published = new;
        self.areas.used.fence();
        // After a restart, it is not known which heads the driver has seen of the earlier device,
        // so the first decision is to call.
        let first = !std::mem::replace(&mut self.decided, true);
        let available = &self.areas.available;
        if self.settings.event_idx {
            let event = available.load16(used_event(self.settings.size), Load::Relaxed);
            first || crossed16(event, old, new)
        } else {
            available.load16(FLAGS, Load::Relaxed) & NO_INTERRUPT == 0
        }
    }

    /// Performs the final check: requests a kick for the next chain, then checks the ring once
    /// more. Returns true if there is a chain already.
    ///
    /// # Errors
    /// Returns [`QueueError`] if the queue cannot continue.
    pub fn arm(&mut self) -> Result<bool, QueueError> {
        self.ask();
        // The event must be visible before the index is read again, otherwise a chain that is added
        // in between goes unnoticed.
        self.areas.used.fence();
        Ok(self.read_index()? > 0)
    }

    /// Requests a kick for the next chain.
    fn ask(&self) {
        let used = &self.areas.used;
        if self.settings.event_idx {
            let event = avail_event(self.settings.size);
            used.store16(event, self.taken, Store::Relaxed);
        } else {
            used.store16(FLAGS, 0, Store::Relaxed);
        }
    }

    /// Stops requesting kicks, while the caller polls the queue.
    ///
    /// With `EVENT_IDX`, nothing needs to be done. The driver does not kick before its index passes
    /// the event, and its index has already passed it. A kick may still arrive.
    pub fn disarm(&mut self) {
        if !self.settings.event_idx {
            self.areas.used.store16(FLAGS, NO_NOTIFY, Store::Relaxed);
        }
    }

    fn end_flight(&mut self, head: u16) {
        let (word, bit) = Self::bit(head);
        assert!(
            self.heads.get(word).is_some_and(|bits| bits & bit != 0),
            "head {head} is not in flight"
        );
        self.heads[word] &= !bit;
        self.in_flight -= 1;
    }

    const fn bit(head: u16) -> (usize, u64) {
        (head as usize / 64, 1 << (head % 64))
    }
}
