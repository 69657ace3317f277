//! The driver's half of the queue: the guest's, for simulations and tests.

use super::super::event::crossed16;
use super::super::{Load, Shared, Store};
use super::{
    Areas, Buffer, DESCRIPTOR, Descriptor, FLAGS, INDEX, LayoutError, NO_INTERRUPT, NO_NOTIFY,
    Settings, avail_event, available_entry, used_entry, used_event,
};

/// The driver's half: gives chains, takes heads back.
#[derive(Debug)]
pub struct Driver<M> {
    areas: Areas<M>,
    settings: Settings,
    /// Descriptors that are free.
    free: Vec<u16>,
    /// The descriptors of each head in flight.
    chains: Vec<Vec<u16>>,
    /// Heads given.
    given: u16,
    /// The available index at which it was last decided whether to kick.
    decided: u16,
    /// Heads taken back.
    taken: u16,
    /// Heads there are to take back, as last read.
    seen: u16,
}

/// A head that came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Used {
    /// The head.
    pub head: u16,
    /// How many bytes the device says it has written.
    pub written: u32,
}

/// There are not enough free descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there are not enough free descriptors")]
pub struct NoRoom;

/// What the device did that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DriverError {
    /// The used index is further ahead than there are heads in flight.
    #[error("the used index changed from {taken} to {found}, which is invalid")]
    Index {
        /// The index as read.
        found: u16,
        /// How far we had taken.
        taken: u16,
    },
    /// A head that is not in flight.
    #[error("head {head} was returned, but is not in flight")]
    Head {
        /// The head.
        head: u32,
    },
}

impl<M: Shared> Driver<M> {
    /// The driver's half of a new queue, whose memory is zero.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub fn new(areas: Areas<M>, settings: Settings) -> Result<Self, LayoutError> {
        Self::at(areas, settings, 0)
    }

    /// A queue that has seen `index` requests, all of them returned: for tests of what happens where indices wrap. It writes the
    /// indices; the device's half is to be made after it, with the same `index` as its base.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub fn at(areas: Areas<M>, settings: Settings, index: u16) -> Result<Self, LayoutError> {
        areas.check(settings.size)?;
        for (area, event) in [
            (&areas.available, used_event(settings.size)),
            (&areas.used, avail_event(settings.size)),
        ] {
            area.store16(INDEX, index, Store::Relaxed);
            if settings.event_idx {
                area.store16(event, index, Store::Relaxed);
            }
        }
        Ok(Self {
            areas,
            settings,
            free: (0..settings.size).rev().collect(),
            chains: vec![Vec::new(); usize::from(settings.size)],
            given: index,
            decided: index,
            taken: index,
            seen: index,
        })
    }

    /// How many descriptors are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Writes a chain of `buffers`: its head. The device does not see it before [`publish`](Self::publish).
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn add(&mut self, buffers: &[Buffer]) -> Result<u16, NoRoom> {
        let descriptors: Vec<_> = buffers
            .iter()
            .map(|buffer| Descriptor::of(*buffer))
            .collect();
        self.add_descriptors(&descriptors)
    }

    /// Writes a chain of one descriptor that leads to a table of `count` descriptors at `address`
    /// ([`write_table`](super::write_table)): its head.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn add_table(&mut self, address: u64, count: u16) -> Result<u16, NoRoom> {
        self.add_descriptors(&[Descriptor::table(address, count)])
    }

    fn add_descriptors(&mut self, descriptors: &[Descriptor]) -> Result<u16, NoRoom> {
        if descriptors.is_empty() || descriptors.len() > self.free.len() {
            return Err(NoRoom);
        }
        let ids = self.free.split_off(self.free.len() - descriptors.len());
        for (place, descriptor) in descriptors.iter().enumerate() {
            let descriptor = match ids.get(place + 1) {
                Some(next) => descriptor.then(*next),
                None => *descriptor,
            };
            let at = usize::from(ids[place]) * DESCRIPTOR;
            self.areas.descriptors.write(at, &descriptor.encode());
        }
        let head = ids[0];
        self.chains[usize::from(head)] = ids;
        let place = available_entry(self.given, self.settings.size);
        self.areas.available.store16(place, head, Store::Relaxed);
        self.given = self.given.wrapping_add(1);
        Ok(head)
    }

    /// Lets the device see the chains; true if it wants a kick.
    #[must_use]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.decided, self.given);
        self.areas.available.store16(INDEX, new, Store::Release);
        self.decided = new;
        self.areas.available.fence();
        let used = &self.areas.used;
        if self.settings.event_idx {
            crossed16(
                used.load16(avail_event(self.settings.size), Load::Relaxed),
                old,
                new,
            )
        } else {
            old != new && used.load16(FLAGS, Load::Relaxed) & NO_NOTIFY == 0
        }
    }

    /// How many heads can be taken back now.
    ///
    /// # Errors
    /// [`DriverError::Index`].
    pub fn look(&mut self) -> Result<u16, DriverError> {
        let left = self.seen.wrapping_sub(self.taken);
        if left > 0 {
            return Ok(left);
        }
        self.read_index()
    }

    fn read_index(&mut self) -> Result<u16, DriverError> {
        let found = self.areas.used.load16(INDEX, Load::Acquire);
        let taken = self.taken;
        if found.wrapping_sub(taken) > self.decided.wrapping_sub(taken) {
            return Err(DriverError::Index { found, taken });
        }
        self.seen = found;
        Ok(found.wrapping_sub(taken))
    }

    /// Takes the next head back; `None` if there is none now.
    ///
    /// # Errors
    /// [`DriverError`].
    pub fn take(&mut self) -> Result<Option<Used>, DriverError> {
        if self.look()? == 0 {
            return Ok(None);
        }
        let mut entry = [0; 8];
        let place = used_entry(self.taken, self.settings.size);
        self.areas.used.read(place, &mut entry);
        self.taken = self.taken.wrapping_add(1);
        let head = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let written = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let chain = usize::try_from(head)
            .ok()
            .and_then(|head| self.chains.get_mut(head));
        match chain {
            Some(chain) if !chain.is_empty() => {
                self.free.append(chain);
                let head = head as u16;
                Ok(Some(Used { head, written }))
            }
            _ => Err(DriverError::Head { head }),
        }
    }

    /// The final check: asks for a call at the next head, then looks once more. True if there is one already.
    ///
    /// # Errors
    /// [`DriverError::Index`].
    pub fn arm(&mut self) -> Result<bool, DriverError> {
        self.arm_after(1)
    }

    /// As [`arm`](Self::arm), but asks for a call only when `count` heads are there: the one lever that a driver has on how often it
    /// is called. True if there are as many already. `count` counts from the heads taken back, and is at least 1; without events by
    /// index it has no effect.
    ///
    /// # Errors
    /// [`DriverError::Index`].
    pub fn arm_after(&mut self, count: u16) -> Result<bool, DriverError> {
        let count = if self.settings.event_idx {
            count.max(1)
        } else {
            1
        };
        self.ask(count);
        self.areas.available.fence();
        Ok(self.read_index()? >= count)
    }

    /// Asks for a call when there are `count` heads to take back.
    fn ask(&self, count: u16) {
        let available = &self.areas.available;
        if self.settings.event_idx {
            let event = used_event(self.settings.size);
            available.store16(event, self.taken.wrapping_add(count - 1), Store::Relaxed);
        } else {
            available.store16(FLAGS, 0, Store::Relaxed);
        }
    }

    /// Asks for no more calls, while we look by ourselves.
    pub fn disarm(&mut self) {
        if !self.settings.event_idx {
            self.areas
                .available
                .store16(FLAGS, NO_INTERRUPT, Store::Relaxed);
        }
    }
}
