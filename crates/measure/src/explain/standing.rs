//! The waits of a group's requests in the second that ended last.

use crate::SECOND_NS;
use crate::explain::rows::{DriveSecond, GroupRow};
use crate::explain::slice::is_limited;
use crate::explain::terms::GroupTree;
use crate::promise::SecondWaits;
use weir_core::GroupId;

/// The second that ended last, with the statistics of each group and of the drive.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClosedSecond {
    /// The rows by number of the group. A row with another second belongs to a group without
    /// activity in this one.
    pub(crate) rows: Vec<GroupRow>,
    /// The numbers of the groups that have a row.
    pub(crate) touched: Vec<u32>,
    /// The statistics of the drive in this second.
    pub(crate) whole: DriveSecond,
    /// The last of the seconds that ended at the same call, if several did. No call was made in
    /// those.
    pub(crate) later: DriveSecond,
    /// The sum of all groups' shares of the drive's time, in nanoseconds. The whole share of a
    /// piece counts in the second in which the piece completes, so the sum can exceed a second.
    share: u64,
    /// The two groups with the largest shares, each as its share and its number.
    largest: [(u64, u32); 2],
}

impl ClosedSecond {
    /// Adds up the rows, which are complete, and finds the two largest groups.
    pub(crate) fn summarise(&mut self) {
        // Two groups are enough to find the largest group other than a given one.
        (self.share, self.largest) = (0, [(0, 0); 2]);
        for group in &self.touched {
            let share = self.rows[*group as usize].share;
            self.share += share;
            if share > self.largest[0].0 {
                self.largest = [(share, *group), self.largest[0]];
            } else if share > self.largest[1].0 {
                self.largest[1] = (share, *group);
            }
        }
    }

    /// Returns the row of a group itself, without the groups below it.
    fn row(&self, group: GroupId) -> GroupRow {
        let row = self.rows.get(group.0 as usize);
        let row = row.filter(|row| row.second == self.whole.second);
        row.copied().unwrap_or_default()
    }

    /// Returns the row of a group including the groups below it, and the largest other group.
    fn own(&self, groups: &GroupTree, group: GroupId) -> (GroupRow, Option<u32>) {
        if !groups.is_parent(group) {
            // A group without children needs no search, because the two largest groups are known.
            let others = self.largest.iter().filter(|of| of.0 > 0);
            let other = others.map(|of| of.1).find(|other| *other != group.0);
            return (self.row(group), other);
        }
        let (mut own, mut other) = (self.row(group), (0, None));
        for number in self.touched.iter().filter(|number| **number != group.0) {
            let row = self.rows[*number as usize];
            if groups.is_within(GroupId(*number), group) {
                own = own.and(&row);
            } else if row.share > other.0 {
                other = (row.share, Some(*number));
            }
        }
        (own, other.1)
    }

    /// Returns the waits of a group's requests in this second, and in those that ended with it.
    pub(crate) fn standing(
        &self,
        groups: &GroupTree,
        group: GroupId,
        is_stated: bool,
    ) -> [SecondWaits; 2] {
        let (row, neighbour) = self.own(groups, group);
        let did = self.whole.did(is_stated);
        let mut standing = SecondWaits {
            held_ns: row.limit,
            has_max: is_limited(groups, group),
            neighbour,
            drive_did: did.map(thousandths),
            backlogged_did: self.whole.did_with_backlog(is_stated).map(thousandths),
            late_ns: row.late,
            stalled_ns: self.whole.late,
            has_stalled: has_stood(&self.whole),
            ..SecondWaits::default()
        };
        let slow = standing.slowness();
        let (others, own) = ((self.share - row.share) as f64, row.share as f64);
        let idle = SECOND_NS.saturating_sub(self.whole.busy) as f64;
        let mut wait = |time: f64, [others, own, idle]: [f64; 3]| {
            // If there is no time to divide by, every part is 0.
            let part = time / (others + own + idle).max(1.0);
            standing.neighbours_ns += (others * part * (1.0 - slow)) as u64;
            standing.own_ns += (own * part * (1.0 - slow)) as u64;
            standing.slow_ns += ((others + own) * part * slow) as u64;
            standing.idle_ns += (idle * part) as u64;
        };
        // If no request of a client completed, its requests may have waited all the time.
        let waited = if row.requests == 0 {
            SECOND_NS
        } else {
            row.elevator
        };
        wait(waited as f64, [others, own, idle]);
        // All of the requests that a client has in the drive, except one, are in front of its next
        // request.
        let depth = (row.drive as f64 / SECOND_NS as f64).max(1.0);
        let own = own - own / depth;
        let service = row.service.min(row.drive);
        // Time in the drive beyond the own service was spent behind other pieces.
        if others + own > 0.0 {
            wait((row.drive - service) as f64, [others, own, 0.0]);
        }
        standing.slow_ns += (service as f64 * slow) as u64;
        // No call was made in the later seconds, so only lateness and a stalled drive are known.
        let later = SecondWaits {
            has_max: standing.has_max,
            stalled_ns: self.later.late,
            late_ns: self.later.late,
            has_stalled: has_stood(&self.later),
            ..SecondWaits::default()
        };
        [standing, later]
    }
}

/// Returns a fraction in thousandths.
fn thousandths(part: f64) -> u16 {
    (part * 1e3) as u16
}

/// Returns true if pieces were in the drive for most of a second, but none completed.
fn has_stood(second: &DriveSecond) -> bool {
    second.busy >= SECOND_NS / 2 && second.pieces == 0
}
