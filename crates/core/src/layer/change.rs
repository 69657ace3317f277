//! Groups, contracts, spaces and capacity change: in force as a whole, or refused as a whole.

use super::Layer;
use crate::admission::{admit, admit_min};
use crate::group::{Edit, Groups};
use crate::{Capacity, Instant, Promised, Refusal};

impl Layer {
    /// A list of edits, applied in order.
    ///
    /// Takes memory and time proportional to the number of groups, as a control path may. The
    /// exception is a single edit that gives a group without children another min: it takes time
    /// proportional to the outstanding requests, because servers that share a min divide it again
    /// all the time. Its decisions are those of a whole change, except that the counters of other
    /// promises go on, which a whole change takes anew.
    ///
    /// # Errors
    /// The tree would lose its shape or a promise could not be kept; then nothing of the list is in force.
    pub fn change(&mut self, now: Instant, edits: &[Edit]) -> Result<Promised, Refusal> {
        let now = self.advance(now);
        self.run_timers(now);
        if let Some(promised) = self.change_min(edits) {
            return Ok(promised);
        }
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
        let all = 0..self.cx.table.groups.capacity();
        self.elevator.change(&mut self.cx, edits, all);
        self.reconsider_pauses();
        #[cfg(debug_assertions)]
        self.check();
        Ok(promised)
    }

    /// Carries out a change of one min in place. `None`: the edits are others, or are refused.
    fn change_min(&mut self, edits: &[Edit]) -> Option<Promised> {
        let &[Edit::SetContract { id, contract }] = edits else {
            return None;
        };
        // `io.low` makes a min a limit, which the groups above inherit.
        if self.config.controllers.low.is_some() {
            return None;
        }
        let table = &mut self.cx.table;
        let promised = admit_min(&mut table.groups, (id, contract), table.shape.capacity)?;
        self.elevator.change(&mut self.cx, edits, id.0..id.0 + 1);
        #[cfg(debug_assertions)]
        self.check();
        Some(promised)
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
        let promised = admit(&mut groups, capacity)?;
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
