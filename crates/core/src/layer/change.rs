//! Groups, contracts, spaces and capacity change: in force as a whole, or refused as a whole.

use super::Layer;
use crate::Instant;
use crate::contract::{Promised, Refusal};
use crate::group::Edit;

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
        self.table.groups = groups;
        self.table.shape.capacity = capacity;
        self.config.drive.capacity = capacity;
        self.limits.set(now, &self.table.groups);
        self.latency.set(now, &self.table.groups);
        self.pass_latency(now);
        for edit in edits {
            match *edit {
                Edit::AddGroup { id, .. } | Edit::SetContract { id, .. } => {
                    if self.table.groups.get(id).is_some() {
                        self.elevator.set_group(now, id, &self.table);
                    }
                }
                Edit::RemoveGroup(id) => self.elevator.remove_group(now, id, &self.table),
                Edit::SetSpace { id, size } => self.table.spaces.set(id, size),
                Edit::SetCapacity(_) => self.elevator.set_capacity(now, &self.table),
            }
        }
        self.elevator.settle(now, &self.table);
        for index in 0..self.table.streams.capacity() {
            if self
                .table
                .streams
                .get(index)
                .is_some_and(|s| s.paused || s.limited.iter().any(|l| l.requests > 0))
            {
                self.reconsider_pause(index);
            }
        }
        Ok(promised)
    }
}
