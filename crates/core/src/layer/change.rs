//! Groups, contracts, spaces and capacity change: in force as a whole, or refused as a whole.

use super::Layer;
use crate::admission::admit;
use crate::group::{Edit, Groups};
use crate::{Capacity, Instant, Promised, Refusal};

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
        self.cx.table.groups = groups;
        self.cx.table.shape.capacity = capacity;
        self.config.drive.capacity = capacity;
        self.chain.set(&mut self.cx);
        self.update_paths();
        self.release(now);
        for edit in edits {
            if let Edit::SetSpace { id, size } = *edit {
                self.space_changed(now, id, size);
            }
        }
        self.elevator.change(&mut self.cx, edits);
        self.reconsider_pauses();
        #[cfg(debug_assertions)]
        self.check();
        Ok(promised)
    }

    /// What [`change`](Self::change) would answer; nothing changes.
    ///
    /// # Errors
    /// Those of [`Layer::change`].
    pub fn would_change(&self, edits: &[Edit]) -> Result<Promised, Refusal> {
        self.edited(edits).map(|(.., promised)| promised)
    }

    /// The groups and the capacity as they are with these edits, and what is promised then.
    fn edited(&self, edits: &[Edit]) -> Result<(Groups, Option<Capacity>, Promised), Refusal> {
        let mut groups = self.cx.table.groups.clone();
        let mut capacity = self.cx.table.shape.capacity;
        let share_max = self.config.elevator.share_max();
        for edit in edits {
            groups.apply(edit, share_max)?;
            if let Edit::AddGroup { id, .. }
            | Edit::SetContract { id, .. }
            | Edit::SetKnobs { id, .. } = *edit
                && let Some(group) = groups.get(id)
            {
                let controllers = &self.config.controllers;
                controllers.check(id, &group.contract, &group.knobs)?;
            }
            match *edit {
                Edit::SetSpace { id, .. } if id.0 >= self.cx.table.spaces.capacity() => {
                    return Err(Refusal::SlotOutOfRange(id.0));
                }
                Edit::SetCapacity(new) => capacity = new,
                _ => {}
            }
        }
        let promised = admit(&groups, capacity)?;
        Ok((groups, capacity, promised))
    }

    /// Limits have come or gone, or a listener that must see every request: takes anew which streams may go straight to the elevator.
    pub(super) fn update_paths(&mut self) {
        self.chain_counts = self.chain.counts();
        self.chain_for_all = self.chain_counts || self.cx.events.listening();
        self.fast_path_off = self.chain_for_all
            || self.limits_tags
            || self.merging
            || self.config.merge.ahead
            || self.config.drive.queues > 1;
        self.update_ends_seen();
        for index in 0..self.cx.table.streams.capacity() {
            if let Some(stream) = self.cx.table.streams.get_mut(index) {
                let covered = self.chain.covers(stream.spec.group);
                stream.set_path(self.chain_for_all || covered, self.fast_path_off);
            }
        }
    }

    fn reconsider_pauses(&mut self) {
        for index in 0..self.cx.table.streams.capacity() {
            let stream = self.cx.table.streams.get_mut(index);
            if stream.is_some_and(|s| s.paused || s.is_throttled()) {
                self.reconsider_pause(index);
            }
        }
    }
}
