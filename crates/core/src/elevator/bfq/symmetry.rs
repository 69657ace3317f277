//! Whether all that compete are alike. Where they are, the drive's own queue shares fairly enough and nobody is idled for. Counts
//! are kept as things change; nothing is scanned.

use super::config::Asymmetry;
use super::entity::{CLASSES, IDLE};
use super::queue::{LEVELS, Queue};
use super::weights::GroupWeights;
use alloc::vec;
use alloc::vec::Vec;

/// Counts of what competes.
#[derive(Debug)]
pub(super) struct Symmetry {
    /// Queues in the scheduler, by class.
    busy: [u32; CLASSES],
    /// Of these, how many are asynchronous, and how many are raised.
    async_busy: u32,
    raised: u32,
    /// Queues with requests waiting or in the drive that are not raised, by level, and a bit for each level that has some.
    levels: [u32; LEVELS],
    level_mask: u8,
    /// Queues with requests waiting or in the drive, by group, and how many groups have some.
    groups: Vec<u32>,
    groups_pending: u32,
    /// Several groups or several classes compete.
    uneven: bool,
    /// The weights of these groups, where they alone decide.
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

    /// A group came, or it has another weight.
    pub(super) fn set_group(&mut self, group: u32, parent: u32, weight: u32) {
        if let Some(weights) = &mut self.weights {
            weights.set(group, parent, weight);
        }
    }

    /// Queues in the scheduler.
    pub(super) fn busy(&self) -> u32 {
        self.busy.iter().sum()
    }

    /// Some queue in the scheduler is raised or of the idle class.
    #[inline]
    pub(super) fn is_special(&self) -> bool {
        self.raised | self.busy[usize::from(IDLE)] > 0
    }

    /// Asynchronous queues in the scheduler.
    #[inline]
    pub(super) fn async_busy(&self) -> u32 {
        self.async_busy
    }

    /// Raised queues in the scheduler (Linux: `wr_busy_queues`).
    #[inline]
    pub(super) fn raised_busy(&self) -> u32 {
        self.raised
    }

    /// The queue enters the scheduler (Linux: `bfq_add_bfqq_busy`).
    pub(super) fn enter(&mut self, queue: &mut Queue) {
        debug_assert!(!queue.busy, "the queue is in the scheduler");
        queue.busy = true;
        self.busy[usize::from(queue.class)] += 1;
        let is_raised = queue.raising.is_raised();
        self.raised += u32::from(is_raised);
        self.async_busy += u32::from(!queue.sync);
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

    /// The queue leaves the scheduler (Linux: `bfq_del_bfqq_busy`).
    pub(super) fn leave(&mut self, queue: &mut Queue) {
        debug_assert!(queue.busy, "the queue is not in the scheduler");
        queue.busy = false;
        self.busy[usize::from(queue.class)] -= 1;
        self.raised -= u32::from(queue.raising.is_raised());
        self.async_busy -= u32::from(!queue.sync);
        self.settle(queue);
        self.compare();
    }

    /// Stops counting a queue that has nothing waiting and nothing in the drive (Linux: `bfq_weights_tree_remove`,
    /// `bfq_del_bfqq_in_groups_with_pending_reqs`).
    #[inline]
    pub(super) fn settle(&mut self, queue: &mut Queue) {
        if queue.pending && !queue.busy && queue.dispatched == 0 {
            self.uncount(queue);
        }
    }

    /// The queue is raised now, or no longer.
    pub(super) fn raised(&mut self, queue: &Queue, before: bool) {
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

    fn uncount(&mut self, queue: &mut Queue) {
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

    /// True if `queue` would suffer from being treated like all others: weights differ and it is not of the lowest, or classes
    /// differ, or several groups compete (Linux: `bfq_asymmetric_scenario`). Before 4.20: weights differ, of queues or of groups
    /// (`bfq_symmetric_scenario`).
    #[inline]
    pub(super) fn is_broken_for(&self, queue: &Queue) -> bool {
        self.uneven
            || (self.level_mask & (self.level_mask.wrapping_sub(1)) != 0
                && !(self.weights.is_none()
                    && queue.pending
                    && !queue.raising.is_raised()
                    && self.is_lowest(queue.level)))
    }

    /// The higher the level, the lower the weight.
    fn is_lowest(&self, level: u8) -> bool {
        u32::from(level) == self.level_mask.ilog2()
    }
}
