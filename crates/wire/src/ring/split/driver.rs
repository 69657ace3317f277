//! The driver's side of virtio's split queue. It is the guest's side, for simulations and tests.

use super::super::event::crossed16;
use super::super::{Load, Shared, Store};
use super::{
    Areas, Buffer, DESCRIPTOR, Descriptor, FLAGS, INDEX, LayoutError, NO_INTERRUPT, NO_NOTIFY,
    Settings, avail_event, available_entry, used_entry, used_event,
};

/// The driver's side of a queue: it adds chains and takes heads back.
#[derive(Debug)]
pub struct Driver<M> {
    areas: Areas<M>,
    settings: Settings,
    /// The indices of free descriptors.
    free: Vec<u16>,
    /// The descriptors of each head in flight.
    chains: Vec<Vec<u16>>,
    /// The available index after the last added chain.
    given: u16,
    /// The available index at the last decision whether to kick.
    decided: u16,
    /// The used index up to which heads were taken back.
    taken: u16,
    /// The device's used index, as last read.
    seen: u16,
}

/// A head that the device returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsedHead {
    /// The head of the chain.
    pub head: u16,
    /// The number of bytes that the device claims to have written.
    pub written: u32,
}

/// The error for a chain that needs more descriptors than are free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there are not enough free descriptors")]
pub struct NoRoom;

/// A violation of the protocol by the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DriverError {
    /// The used index is further ahead than the number of heads in flight.
    #[error("the used index changed from {taken} to {found}, which is invalid")]
    Index {
        /// The index that was read.
        found: u16,
        /// The index up to which heads were taken back.
        taken: u16,
    },
    /// The device returned a head that is not in flight.
    #[error("head {head} was returned, but is not in flight")]
    Head {
        /// The head that the device returned.
        head: u32,
    },
}

impl<M: Shared> Driver<M> {
    /// Creates the driver's side of a new queue, whose memory must be zero.
    ///
    /// # Errors
    /// Returns [`LayoutError`] if the areas do not fit the size.
    pub fn new(areas: Areas<M>, settings: Settings) -> Result<Self, LayoutError> {
        Self::at(areas, settings, 0)
    }

    /// Creates a queue in the state after `index` requests, all of them returned, for tests of
    /// indices that wrap.
    ///
    /// It writes the indices. Create the device's side afterwards, with the same `index` as its
    /// base.
    ///
    /// # Errors
    /// Returns [`LayoutError`] if the areas do not fit the size.
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

    /// Returns the number of free descriptors.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Writes a chain of `buffers` and returns its head. The device does not see it before
    /// [`publish`](Self::publish).
    ///
    /// # Errors
    /// Returns [`NoRoom`] if there are not enough free descriptors, or no buffers.
    pub fn add(&mut self, buffers: &[Buffer]) -> Result<u16, NoRoom> {
        let descriptors: Vec<_> = buffers
            .iter()
            .map(|buffer| Descriptor::of(*buffer))
            .collect();
        self.add_descriptors(&descriptors)
    }

    /// Writes a chain of one descriptor that leads to a table of `count` descriptors at `address`
    /// ([`write_table`](super::write_table)). Returns its head.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if no descriptor is free.
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

    /// Makes the added chains visible to the device. Returns true if the device needs a kick.
    #[must_use]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.decided, self.given);
        self.areas.available.store16(INDEX, new, Store::Release);
        self.decided = new;
        // The store of the index must be visible before the load of the device's event. Otherwise
        // both sides could miss each other.
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

    /// Returns how many heads can be taken back now.
    ///
    /// # Errors
    /// Returns [`DriverError::Index`] if the device's index is invalid.
    pub fn poll_used(&mut self) -> Result<u16, DriverError> {
        let left = self.seen.wrapping_sub(self.taken);
        if left > 0 {
            return Ok(left);
        }
        self.read_index()
    }

    fn read_index(&mut self) -> Result<u16, DriverError> {
        let found = self.areas.used.load16(INDEX, Load::Acquire);
        let taken = self.taken;
        // The device can have returned at most the heads that it can see. The differences wrap.
        if found.wrapping_sub(taken) > self.decided.wrapping_sub(taken) {
            return Err(DriverError::Index { found, taken });
        }
        self.seen = found;
        Ok(found.wrapping_sub(taken))
    }

    /// Takes the next head back. Returns `None` if there is none now.
    ///
    /// # Errors
    /// Returns [`DriverError`] if the device violated the protocol.
    pub fn take(&mut self) -> Result<Option<UsedHead>, DriverError> {
        if self.poll_used()? == 0 {
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
            // The chain of a head that is not in flight is empty, so the device cannot return a
            // head twice.
            Some(chain) if !chain.is_empty() => {
                self.free.append(chain);
                let head = head as u16;
                Ok(Some(UsedHead { head, written }))
            }
            _ => Err(DriverError::Head { head }),
        }
    }

    /// Performs the final check: requests a call for the next head, then checks the ring once more.
    /// Returns true if there is a head already.
    ///
    /// # Errors
    /// Returns [`DriverError::Index`] if the device's index is invalid.
    pub fn arm(&mut self) -> Result<bool, DriverError> {
        self.arm_after(1)
    }

    /// Performs the final check like [`arm`](Self::arm), but requests a call only when `count`
    /// heads are returned. Returns true if there are that many already.
    ///
    /// This is the only means by which a driver can influence how often it is called. `count` is
    /// relative to the heads that were taken back and is at least 1. Without `EVENT_IDX` it has no
    /// effect.
    ///
    /// # Errors
    /// Returns [`DriverError::Index`] if the device's index is invalid.
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

    /// Requests a call when there are `count` heads to take back.
    fn ask(&self, count: u16) {
        let available = &self.areas.available;
        if self.settings.event_idx {
            let event = used_event(self.settings.size);
            available.store16(event, self.taken.wrapping_add(count - 1), Store::Relaxed);
        } else {
            available.store16(FLAGS, 0, Store::Relaxed);
        }
    }

    /// Stops requesting calls, while the caller polls the queue.
    pub fn disarm(&mut self) {
        if !self.settings.event_idx {
            self.areas
                .available
                .store16(FLAGS, NO_INTERRUPT, Store::Relaxed);
        }
    }
}
