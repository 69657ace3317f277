//! The test whether all competing queues are alike.
//!
//! If they are, the drive's own queue shares fairly enough, and fairness does not require idling.
//! Counts are updated with each change, so that no list is scanned.

use super::config::Asymmetry;
use super::entity::{CLASSES, IDLE};
use super::queue::{BfqQueue, LEVELS};
use super::weights::GroupWeights;
use alloc::vec;
use alloc::vec::Vec;

/// Counts of competing queues and groups.
#[derive(Debug)]
pub(super) struct Symmetry {
    /// Queues in the scheduler by class.
    busy: [u32; CLASSES],
    /// Asynchronous queues in the scheduler. `raised` counts the raised ones.
    async_busy: u32,
    raised: u32,
    /// Queues by level that have requests waiting or in the drive and are not raised. `level_mask`
    /// has a bit for each level that occurs.
    levels: [u32; LEVELS],
    level_mask: u8,
    /// Queues by group that have requests waiting or in the drive. `groups_pending` counts the
    /// groups that occur.
    groups: Vec<u32>,
    groups_pending: u32,
    /// True if several groups or several classes compete. Under [`Asymmetry::Weights`], it is true
    /// if the weights of competing groups differ.
    uneven: bool,
    /// The weights of competing groups under [`Asymmetry::Weights`].
    weights: Option<GroupWeights>,
}

impl Symmetry {
    pub(super) fn new(groups: u32, rule: Asymmetry) -> Self {
        Self {
            busy: [0; CLASSES],
            async_busy: 0,
            raised: 0,
            levels: [0; LEVELS],
            level_mask: 0,
            groups: vec![0; groups as usize],
            groups_pending: 0,
            uneven: false,
            weights: (rule == Asymmetry::Weights).then(|| GroupWeights::new(groups)),
        }
    }

    /// Adds a group or changes its weight or parent.
    pub(super) fn set_group(&mut self, group: u32, parent: u32, weight: u32) {
        if let Some(weights) = &mut self.weights {
            weights.set(group, parent, weight);
        }
    }

    /// Returns the number of queues in the scheduler.
    pub(super) fn busy(&self) -> u32 {
        self.busy.iter().sum()
    }

    /// Returns true if a queue in the scheduler is raised or of the idle class.
    #[inline]
    pub(super) fn is_special(&self) -> bool {
        self.raised | self.busy[usize::from(IDLE)] > 0
    }

    /// Returns the number of asynchronous queues in the scheduler.
    #[inline]
    pub(super) fn async_busy(&self) -> u32 {
        self.async_busy
    }

    /// Returns the number of raised queues in the scheduler (Linux: `wr_busy_queues`).
    #[inline]
    pub(super) fn raised_busy(&self) -> u32 {
        self.raised
    }

    /// Counts a queue that enters the scheduler (Linux: `bfq_add_bfqq_busy`).
    pub(super) fn enter(&mut self, queue: &mut BfqQueue) {
        debug_assert!(!queue.busy, "the queue is in the scheduler");
        queue.busy = true;
        self.busy[usize::from(queue.class)] += 1;
        let is_raised = queue.raising.is_raised();
        self.raised += u32::from(is_raised);
        self.async_busy += u32::from(!queue.sync);
        // A queue that left the scheduler with requests in the drive is still counted.
        if !queue.pending {
            queue.pending = true;
            if !is_raised {
                self.count_level(queue.level);
            }
            let group = &mut self.groups[queue.group as usize];
            *group += 1;
            self.groups_pending += u32::from(*group == 1);
            if let Some(weights) = &mut self.weights {
                weights.enter(queue.group);
            }
        }
        self.compare();
    }

    /// Removes a queue that leaves the scheduler from the counts (Linux: `bfq_del_bfqq_busy`).
    pub(super) fn leave(&mut self, queue: &mut BfqQueue) {
        debug_assert!(queue.busy, "the queue is not in the scheduler");
        queue.busy = false;
        self.busy[usize::from(queue.class)] -= 1;
        self.raised -= u32::from(queue.raising.is_raised());
        self.async_busy -= u32::from(!queue.sync);
        // While the queue has requests in the drive, it still competes for the drive.
        self.settle(queue);
        self.compare();
    }

    /// Stops counting a queue that has nothing waiting and nothing in the drive (Linux:
    /// `bfq_weights_tree_remove`, `bfq_del_bfqq_in_groups_with_pending_reqs`).
    #[inline]
    pub(super) fn settle(&mut self, queue: &mut BfqQueue) {
        if queue.pending && !queue.busy && queue.dispatched == 0 {
            self.uncount(queue);
        }
    }

    /// Updates the counts after raising of a queue began or ended. `before` is true if the queue
    /// was raised before.
    pub(super) fn update_raised(&mut self, queue: &BfqQueue, before: bool) {
        let after = queue.raising.is_raised();
        if before == after {
            return;
        }
        if queue.busy && after {
            self.raised += 1;
        } else if queue.busy {
            self.raised -= 1;
        }
        if queue.pending && after {
            self.uncount_level(queue.level);
        } else if queue.pending {
            self.count_level(queue.level);
        }
    }

    fn count_level(&mut self, level: u8) {
        self.levels[usize::from(level)] += 1;
        self.level_mask |= 1 << level;
    }

    fn uncount_level(&mut self, level: u8) {
        let count = &mut self.levels[usize::from(level)];
        debug_assert!(*count > 0, "no queue of level {level} is counted");
        *count -= 1;
        if *count == 0 {
            self.level_mask &= !(1 << level);
        }
    }

    fn uncount(&mut self, queue: &mut BfqQueue) {
        debug_assert!(queue.pending && !queue.busy && queue.dispatched == 0);
        queue.pending = false;
        if !queue.raising.is_raised() {
            self.uncount_level(queue.level);
        }
        let group = &mut self.groups[queue.group as usize];
        *group -= 1;
        self.groups_pending -= u32::from(*group == 0);
        if let Some(weights) = &mut self.weights {
            weights.leave(queue.group);
        }
        self.compare();
    }

    fn compare(&mut self) {
        if let Some(weights) = &self.weights {
            self.uneven = weights.differ();
            return;
        }
        let classes = self.busy.iter().filter(|&&n| n > 0).count();
        self.uneven = self.groups_pending > 1 || classes > 1;
    }

    /// Returns true if `queue` would suffer from being treated like all others (Linux:
    /// `bfq_asymmetric_scenario`).
    ///
    /// This is the case if classes differ, if several groups compete, or if weights differ and the
    /// queue is not of the lowest. Under [`Asymmetry::Weights`], it is the case if weights of
    /// queues or groups differ (Linux before 4.20: `bfq_symmetric_scenario`).
    #[inline]
    pub(super) fn is_broken_for(&self, queue: &BfqQueue) -> bool {
        self.uneven
            // `mask & (mask - 1)` clears the lowest bit. The result is not zero if two or more
            // levels occur. An empty mask stays zero, even with the wrapped difference.
            || (self.level_mask & (self.level_mask.wrapping_sub(1)) != 0
                && !(self.weights.is_none()
                    && queue.pending
                    && !queue.raising.is_raised()
                    && self.is_lowest(queue.level)))
    }

    /// Returns true if no level with a lower weight competes, since higher levels have lower
    /// weights.
    fn is_lowest(&self, level: u8) -> bool {
        u32::from(level) == self.level_mask.ilog2()
    }
}
