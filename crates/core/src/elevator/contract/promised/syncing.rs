//! Flushes, as they are for promises: which one would make a promise late, and what a flush was like for one that waited for it.

use super::dirty::Synced;
use super::flush::Late;
use super::{Reservations, Syncs};
use crate::elevator::contract::constants::{CYCLE_OF_ANOTHER, FLUSH_PART, SYNC_LOOKED_AT};
use crate::list::NIL;
use crate::{GroupId, Instant, Span};

impl Reservations {
    /// A reservation that is behind, or would be beyond its deadline, while a flush that takes `time` runs after `running` others.
    /// Of those with nothing to be done, only one that is about to ask counts, and not one that waits for a flush itself (`syncs`); nor
    /// any that is less behind than one of those.
    pub(crate) fn late_by_flush(
        &self,
        now: Instant,
        time: Span,
        running: u64,
        behind: Span,
        syncs: impl Fn(u32) -> bool,
    ) -> Option<Late> {
        let due = now.saturating_sub(self.late);
        let wait = time.saturating_mul(running + 1);
        let waits = self.waiting.first_eligible(&self.behind, due.as_nanos());
        let others = self
            .forest
            .iter(&self.realtime)
            .chain(self.forest.iter(&self.starts));
        let mut found = None;
        for group in waits.into_iter().chain(others.take(SYNC_LOOKED_AT)) {
            let r = &self.table[group as usize];
            // A realtime client's clock shows what it did not ask for, not what it lacks.
            let lag = if r.realtime {
                Span::ZERO
            } else {
                due.since(r.clock.kept_until)
            };
            let in_time = lag + wait <= r.demand.period / FLUSH_PART;
            let is_late = lag > Span::ZERO;
            if in_time || !is_late && running == 0 || is_late && lag <= behind {
                continue;
            }
            let mut until = Instant::MAX;
            if r.requests() == 0 {
                until = r.demand.arrivals.expected();
                if now >= until || syncs(group) {
                    continue;
                }
            }
            let reachable = r.latency.reachable;
            found = Some(Late { reachable, until });
            if reachable {
                break;
            }
        }
        found
    }

    /// A flush of a group begins, or one that it may have to wait for: until no flush runs any longer the drive has something to do
    /// for it.
    pub(crate) fn observe_flush_begin(&mut self, now: Instant, group: GroupId) {
        self.for_each(group, |all, at| {
            let r = &mut all.table[at as usize];
            (r.syncs.flushes, r.demand.last_seen) = (all.flushes, now);
            all.update_bound(at);
        });
    }

    /// No flush runs any longer.
    pub(crate) fn forget_flushes(&mut self) {
        self.flushes = self.flushes.wrapping_add(1).max(1);
    }

    /// A flush of a group has ended: its client waited for it, and did not think.
    pub(crate) fn observe_flush_end(&mut self, now: Instant, group: GroupId) {
        self.for_each(group, |all, at| {
            let r = &mut all.table[at as usize];
            r.demand.arrivals.observe_quiet(now);
            r.demand.last_seen = now;
            r.syncs = Syncs::default();
        });
    }

    /// A flush of a group has ended: what it was like for the promise that is nearest to it; if there is none, for the one that is behind
    /// and has the earliest deadline, if there is one and it had to wait for that flush (unless `apart`).
    pub(crate) fn judge_flush(
        &mut self,
        now: Instant,
        group: GroupId,
        apart: bool,
    ) -> Option<Synced> {
        let at = self.nearest[group.0 as usize];
        if at == NIL && apart {
            return None;
        }
        if at == NIL {
            let behind = self.behind(now)?;
            return Some(Synced {
                lag: self.lag(now, behind),
                cycle: CYCLE_OF_ANOTHER,
            });
        }
        let r = &self.table[at as usize];
        (!r.realtime && r.syncs.cycle > Span::ZERO).then(|| Synced {
            lag: self.lag(now, at),
            cycle: r.syncs.cycle,
        })
    }
}
