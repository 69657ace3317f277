//! Groups, contracts, spaces and capacity change: in force as a whole, or refused as a whole.

use super::Layer;
use crate::contract::{Promised, Refusal};
use crate::group::{Edit, Groups};
use crate::{Capacity, Instant};

impl Layer {
    /// A list of edits, applied in order.
    ///
    /// Takes memory and time in proportion to the number of groups: a control path.
    ///
    /// # Errors
    /// The tree would lose its shape or a promise could not be kept; then nothing of the list is in force.
    pub fn change(&mut self, now: Instant, edits: &[Edit]) -> Result<Promised, Refusal> {
        let now = self.advance(now);
        self.run_timers(now);
        let (groups, capacity, promised) = self.edited(edits)?;
        self.table.groups = groups;
        self.table.shape.capacity = capacity;
        self.config.drive.capacity = capacity;
        self.limits.set(now, &self.table.groups);
        self.latency.set(now, &self.table.groups);
        self.set_ways();
        self.pass_latency(now);
        for edit in edits {
            if let Edit::SetSpace { id, size } = *edit {
                self.table.spaces.set(id, size);
            }
        }
        self.elevator.change(now, edits, &self.table);
        self.reconsider_pauses();
        Ok(promised)
    }

    /// What [`change`](Self::change) would answer; nothing changes.
    ///
    /// # Errors
    /// As there.
    pub fn would_change(&self, edits: &[Edit]) -> Result<Promised, Refusal> {
        self.edited(edits).map(|(.., promised)| promised)
    }

    /// The groups and the capacity as they are with these edits, and what is promised then.
    fn edited(&self, edits: &[Edit]) -> Result<(Groups, Option<Capacity>, Promised), Refusal> {
        let mut groups = self.table.groups.clone();
        let mut capacity = self.table.shape.capacity;
        let share_max = self.config.elevator.share_max();
        for edit in edits {
            groups.apply(edit, share_max)?;
            match *edit {
                Edit::SetSpace { id, .. } if id.0 >= self.table.spaces.capacity() => {
                    return Err(Refusal::SlotOutOfRange(id.0));
                }
                Edit::SetCapacity(new) => capacity = new,
                _ => {}
            }
        }
        let promised = groups.admit(capacity)?;
        Ok((groups, capacity, promised))
    }

    /// Limits have come or gone, or somebody who wants to see every request.
    pub(super) fn set_ways(&mut self) {
        self.looks_at_all = self.limits_tags || self.events.listening() || self.latency.is_in_use();
        for index in 0..self.table.streams.capacity() {
            if let Some(stream) = self.table.streams.get_mut(index) {
                let limited_path = self.limits.apply_to(stream.spec.group);
                stream.set_way(limited_path, self.looks_at_all);
            }
        }
    }

    fn reconsider_pauses(&mut self) {
        for index in 0..self.table.streams.capacity() {
            let stream = self.table.streams.get_mut(index);
            if stream.is_some_and(|s| s.paused || s.is_limited()) {
                self.reconsider_pause(index);
            }
        }
    }
}
