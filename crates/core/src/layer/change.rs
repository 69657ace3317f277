//! Changes of groups, contracts, spaces and capacity, which are applied completely or refused
//! completely.

use super::Layer;
use crate::admission::{admit, admit_min};
use crate::group::{Edit, Groups};
use crate::{Capacity, GroupId, Instant, MaxDebt, PromiseSums, Refusal};

impl Layer {
    /// Applies a list of edits in order.
    ///
    /// The call takes memory and time in proportion to the number of groups, because it is not on
    /// the path of requests. There is one exception: a single edit that gives a group without
    /// children another min takes time in proportion to the outstanding requests, because servers
    /// that share a min change it frequently. Its result is that of a general change, except that
    /// the counters of other promises continue, which a general change starts again.
    ///
    /// # Errors
    /// Fails if the tree would become invalid or a promise could not be kept. No edit of the list
    /// is applied then.
    pub fn change(&mut self, now: Instant, edits: &[Edit]) -> Result<PromiseSums, Refusal> {
        let now = self.advance(now);
        self.run_timers(now);
        if let Some(promised) = self.change_min(edits) {
            return Ok(promised);
        }
        // The edits are made in a copy of the tree, so that a refusal leaves everything as it was.
        let (groups, capacity, promised) = self.edited(edits)?;
        self.cx.table.groups = groups;
        self.cx.table.shape.capacity = capacity;
        self.config.drive.capacity = capacity;
        self.chain.set(&mut self.cx);
        for edit in edits {
            // A later edit of the same change may have removed the group.
            if let Edit::SetDebt { id, debt } = edit
                && self.cx.table.groups.get(*id).is_some()
            {
                self.chain.set_debt(&mut self.cx, *id, debt);
            }
        }
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

    /// Applies a change of a single min in place. Returns `None` if the edits are others, or if the
    /// change is refused.
    fn change_min(&mut self, edits: &[Edit]) -> Option<PromiseSums> {
        let &[Edit::SetContract { id, contract }] = edits else {
            return None;
        };
        // `io.low` uses a min as a limit, which is inherited by the groups above, so all groups
        // must be computed again.
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

    /// Returns the debts of a group to its max at `now`, with which another layer can continue
    /// ([`Edit::SetDebt`]). They are zero if the group does not exist, if it has no max, or if the
    /// limits are in slices. Requests that wait for a limit are not part of a debt.
    pub fn debt(&self, now: Instant, group: GroupId) -> MaxDebt {
        self.chain.debt(now, group)
    }

    /// Checks a change without applying it, and returns the result that [`change`](Self::change)
    /// would return.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Layer::change`].
    pub fn would_change(&self, edits: &[Edit]) -> Result<PromiseSums, Refusal> {
        self.edited(edits).map(|(.., promised)| promised)
    }

    /// Returns the groups and the capacity with these edits, and the sums of the promises.
    fn edited(&self, edits: &[Edit]) -> Result<(Groups, Option<Capacity>, PromiseSums), Refusal> {
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

    /// Updates which streams may go directly to the elevator, after limits or listeners have
    /// changed.
    pub(super) fn update_paths(&mut self) {
        self.chain_counts = self.chain.counts();
        self.chain_for_all = self.chain_counts || self.cx.events.has_listeners();
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
