//! Relates flushes to promises: finds the promise that a flush would make late, and the effect of a
//! flush on the client that waited for it.

use super::dirty::JudgedFlush;
use super::flush::LatePromise;
use super::{FlushDemand, Reservations};
use crate::elevator::contract::constants::{CYCLE_OF_ANOTHER, FLUSH_PART, SYNC_LOOKED_AT};
use crate::list::NIL;
use crate::{GroupId, Instant, Span};

impl Reservations {
    /// Finds a reservation that is behind, or would miss its deadline, while a flush of duration
    /// `time` runs after `running` others.
    ///
    /// A reservation without requests counts only if its client is about to send one, and does not
    /// wait for a flush itself (`syncs`). A reservation that is behind by no more than `behind`,
    /// the largest lag of the clients that sync, does not count. A reservation that is not behind
    /// counts only if other flushes run.
    pub(crate) fn late_by_flush(
        &self,
        now: Instant,
        time: Span,
        running: u64,
        behind: Span,
        syncs: impl Fn(u32) -> bool,
    ) -> Option<LatePromise> {
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
            // The clock of a realtime client shows the service that it did not request, and not a
            // deficit.
            let lag = if r.realtime {
                Span::ZERO
            } else {
                due.since(r.kept_until)
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
            found = Some(LatePromise { reachable, until });
            // One that an idle drive would serve delays the flush for longer, so it decides.
            if reachable {
                break;
            }
        }
        found
    }

    /// Records that a group waits for a flush that begins now. Until no flush runs any more, the
    /// drive has work for the group.
    pub(crate) fn observe_flush_begin(&mut self, now: Instant, group: GroupId) {
        self.for_each(group, |all, at| {
            let r = &mut all.table[at as usize];
            (r.syncs.flushes, r.demand.last_seen) = (all.flushes, now);
            all.update_bound(at);
        });
    }

    /// Ends the current period of flushes, because no flush runs any more.
    pub(crate) fn forget_flushes(&mut self) {
        // Zero is the initial value of a reservation that waits for no flush.
        self.flushes = self.flushes.wrapping_add(1).max(1);
    }

    /// Accounts for the end of a flush of a group. Its client waited for the flush, so that time
    /// does not count as think time.
    pub(crate) fn observe_flush_end(&mut self, now: Instant, group: GroupId) {
        self.for_each(group, |all, at| {
            let r = &mut all.table[at as usize];
            r.demand.arrivals.observe_quiet(now);
            r.demand.last_seen = now;
            r.syncs = FlushDemand::default();
        });
    }

    /// Returns the effect of a flush of a group on the group's nearest promise. If the group has no
    /// promise, the effect on the promise that is behind and has the earliest deadline is returned,
    /// because its client had to wait for the flush (unless flushes run `apart`).
    pub(crate) fn judge_flush(
        &mut self,
        now: Instant,
        group: GroupId,
        apart: bool,
    ) -> Option<JudgedFlush> {
        let at = self.nearest[group.0 as usize];
        if at == NIL && apart {
            return None;
        }
        if at == NIL {
            let behind = self.behind(now)?;
            return Some(JudgedFlush {
                lag: self.lag(now, behind),
                cycle: CYCLE_OF_ANOTHER,
            });
        }
        let r = &self.table[at as usize];
        (!r.realtime && r.syncs.cycle > Span::ZERO).then(|| JudgedFlush {
            lag: self.lag(now, at),
            cycle: r.syncs.cycle,
        })
    }
}
