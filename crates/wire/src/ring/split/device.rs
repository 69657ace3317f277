//! The device's half of the queue.

use super::super::event::crossed16;
use super::super::{Guest, Load, Shared, Store};
use super::{
    Areas, Broken, Chain, ChainError, FLAGS, INDEX, LayoutError, NO_INTERRUPT, NO_NOTIFY, Settings,
    avail_event, available_entry, used_entry, used_event,
};

/// The device's half: takes chains, returns heads.
#[derive(Debug)]
pub struct Device<M> {
    areas: Areas<M>,
    settings: Settings,
    /// Heads taken.
    taken: u16,
    /// Heads there are, as last read.
    seen: u16,
    /// Heads returned.
    finished: u16,
    /// Heads returned that the driver can see.
    published: u16,
    /// Whether it was ever decided whether to call.
    decided: bool,
    /// A bit for each head in flight.
    heads: Vec<u64>,
    /// How many there are.
    in_flight: u32,
    broken: Option<Broken>,
}

/// Why no chain can be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TakeError {
    /// The queue cannot go on.
    #[error("{0}")]
    Broken(Broken),
    /// This one makes no sense: its head was taken, and is to be returned ([`Device::finish`] with 0 bytes). The queue goes on.
    #[error("head {head}: {why}")]
    Chain {
        /// The head.
        head: u16,
        /// What is wrong.
        why: ChainError,
    },
}

impl From<Broken> for TakeError {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl<M: Shared> Device<M> {
    /// The device's half of a queue whose available index stood at `base` when it was last left; 0 for a new one. The used index is
    /// read from its ring.
    ///
    /// # Errors
    /// [`LayoutError`].
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

    /// What was agreed on.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where it lies.
    pub fn areas(&self) -> &Areas<M> {
        &self.areas
    }

    /// The available index up to which heads were taken: what `GET_VRING_BASE` returns once nothing is in flight.
    pub fn base(&self) -> u16 {
        self.taken
    }

    /// The used index, with what is not yet published.
    pub fn used_index(&self) -> u16 {
        self.finished
    }

    /// Why it cannot go on, if it cannot.
    pub fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// How many chains were taken and not returned.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// How many chains can be taken now. It reads the driver's index only if there is none left of those it saw last time.
    ///
    /// # Errors
    /// [`Broken`].
    #[inline]
    pub fn look(&mut self) -> Result<u16, Broken> {
        let left = self.seen.wrapping_sub(self.taken);
        if left > 0 && self.broken.is_none() {
            return Ok(left);
        }
        self.read_index()
    }

    fn read_index(&mut self) -> Result<u16, Broken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let found = self.areas.available.load16(INDEX, Load::Acquire);
        let (taken, size) = (self.taken, self.settings.size);
        // Not behind what it was, and never further ahead than the ring is long.
        if found.wrapping_sub(self.seen) > taken.wrapping_add(size).wrapping_sub(self.seen) {
            return Err(self.break_with(Broken::Index { found, taken, size }));
        }
        self.seen = found;
        Ok(found.wrapping_sub(taken))
    }

    fn break_with(&mut self, broken: Broken) -> Broken {
        self.broken = Some(broken);
        broken
    }

    /// Takes the next chain: its head, and its buffers in `chain`. `None` if there is none now.
    ///
    /// # Errors
    /// [`TakeError`]: either this chain or the whole queue makes no sense.
    #[inline]
    pub fn take<G: Guest>(
        &mut self,
        guest: &G,
        chain: &mut Chain,
    ) -> Result<Option<u16>, TakeError> {
        if self.look()? == 0 {
            return Ok(None);
        }
        let size = self.settings.size;
        let place = available_entry(self.taken, size);
        let head = self.areas.available.load16(place, Load::Relaxed);
        self.taken = self.taken.wrapping_add(1);
        self.retake(head, guest, chain)?;
        Ok(Some(head))
    }

    /// Takes the chain of `head` though it is not in the available ring: one that was in flight when its device went away.
    ///
    /// # Errors
    /// [`TakeError`], as [`take`](Self::take).
    pub fn retake<G: Guest>(
        &mut self,
        head: u16,
        guest: &G,
        chain: &mut Chain,
    ) -> Result<(), TakeError> {
        if let Some(broken) = self.broken {
            return Err(broken.into());
        }
        let size = self.settings.size;
        if head >= size {
            return Err(self.break_with(Broken::Head { head, size }).into());
        }
        let (word, bit) = Self::bit(head);
        if self.heads[word] & bit != 0 {
            return Err(self.break_with(Broken::HeadTwice { head }).into());
        }
        self.heads[word] |= bit;
        self.in_flight += 1;
        chain
            .read(&self.areas.descriptors, head, &self.settings, guest)
            .map_err(|why| TakeError::Chain { head, why })
    }

    /// Returns a head, with `written` bytes written into its buffers. The driver does not see it before [`publish`](Self::publish).
    ///
    /// # Panics
    /// If it is not in flight.
    pub fn finish(&mut self, head: u16, written: u32) {
        let (word, bit) = Self::bit(head);
        assert!(
            self.heads.get(word).is_some_and(|bits| bits & bit != 0),
            "head {head} is not in flight"
        );
        self.heads[word] &= !bit;
        self.in_flight -= 1;
        let mut entry = [0; 8];
        entry[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        entry[4..].copy_from_slice(&written.to_le_bytes());
        let place = used_entry(self.finished, self.settings.size);
        self.areas.used.write(place, &entry);
        self.finished = self.finished.wrapping_add(1);
    }

    /// Lets the driver see what was returned since the last time; true if it wants a call for any of that.
    #[must_use]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.published, self.finished);
        if old == new {
            return false;
        }
        self.areas.used.store16(INDEX, new, Store::Release);
        self.published = new;
        self.areas.used.fence();
        // The first time, nobody knows what the driver has seen of the device that was here before us.
        let first = !std::mem::replace(&mut self.decided, true);
        let available = &self.areas.available;
        if self.settings.event_idx {
            let event = available.load16(used_event(self.settings.size), Load::Relaxed);
            first || crossed16(event, old, new)
        } else {
            available.load16(FLAGS, Load::Relaxed) & NO_INTERRUPT == 0
        }
    }

    /// The final check: asks for a kick at the next chain, then looks once more. True if there is one already.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn arm(&mut self) -> Result<bool, Broken> {
        self.ask();
        self.areas.used.fence();
        Ok(self.read_index()? > 0)
    }

    /// Asks for a kick at the next chain.
    fn ask(&self) {
        let used = &self.areas.used;
        if self.settings.event_idx {
            let event = avail_event(self.settings.size);
            used.store16(event, self.taken, Store::Relaxed);
        } else {
            used.store16(FLAGS, 0, Store::Relaxed);
        }
    }

    /// Asks for no more kicks, while we look by ourselves. With events by index nothing is to be done: the driver does not kick
    /// before its index passes the event, which it has. A kick may come all the same.
    pub fn disarm(&mut self) {
        if !self.settings.event_idx {
            self.areas.used.store16(FLAGS, NO_NOTIFY, Store::Relaxed);
        }
    }

    const fn bit(head: u16) -> (usize, u64) {
        (head as usize / 64, 1 << (head % 64))
    }
}
