//! Service trees: the busy queues of a group by class and kind, each tree in the order of turns.

use crate::elevator::common::think::Think;
use crate::stream::PriorityClass;
use crate::tree::Tree;

/// A priority class, the most important first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum CfqClass {
    Realtime,
    BestEffort,
    Idle,
}

impl From<PriorityClass> for CfqClass {
    fn from(class: PriorityClass) -> Self {
        match class {
            PriorityClass::Realtime => Self::Realtime,
            PriorityClass::BestEffort => Self::BestEffort,
            PriorityClass::Idle => Self::Idle,
        }
    }
}

/// The kind of queues that are served alike (Linux: `enum wl_type_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QueueKind {
    /// Asynchronous queues, whose requests no process waits for.
    Async,
    /// Random synchronous queues, for which the drive idles together.
    Together,
    /// Sequential synchronous queues, for each of which the drive idles.
    Alone,
}

/// The class and kind of queues that identify a service tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TreeKind {
    pub(super) class: CfqClass,
    pub(super) way: QueueKind,
}

/// The number of service trees of a group: three for each class, and one for the idle class.
const TREES: usize = 7;
/// The kinds of queues, in the order that decides ties.
pub(super) const TYPES: [QueueKind; 3] = [QueueKind::Async, QueueKind::Together, QueueKind::Alone];

impl TreeKind {
    pub(super) fn of(class: CfqClass, sync: bool, idles: bool) -> Self {
        let way = match (class, sync, idles) {
            (CfqClass::Idle, ..) | (_, false, _) => QueueKind::Async,
            (_, true, false) => QueueKind::Together,
            (_, true, true) => QueueKind::Alone,
        };
        Self { class, way }
    }

    fn index(self) -> usize {
        match self.class {
            CfqClass::Idle => TREES - 1,
            class => 3 * class as usize + self.way as usize,
        }
    }
}

/// The busy queues of one class and kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct CfqServiceTree {
    pub(super) order: Tree,
    pub(super) count: u32,
    /// The think time of the queues of the tree together.
    pub(super) think: Think,
}

/// The service trees of a group.
#[derive(Clone, Debug)]
pub(super) struct CfqServiceTrees([CfqServiceTree; TREES]);

impl CfqServiceTrees {
    pub(super) const NEW: Self = Self(
        [CfqServiceTree {
            order: Tree::EMPTY,
            count: 0,
            think: Think::NEW,
        }; TREES],
    );

    pub(super) fn get(&self, kind: TreeKind) -> &CfqServiceTree {
        &self.0[kind.index()]
    }

    pub(super) fn get_mut(&mut self, kind: TreeKind) -> &mut CfqServiceTree {
        &mut self.0[kind.index()]
    }

    /// Returns the number of busy queues of a class (Linux: `cfq_group_busy_queues_wl`).
    pub(super) fn busy(&self, class: CfqClass) -> u32 {
        let trees = TYPES.map(|way| TreeKind { class, way });
        match class {
            CfqClass::Idle => self.get(trees[0]).count,
            _ => trees.iter().map(|&kind| self.get(kind).count).sum(),
        }
    }

    /// Returns the number of busy asynchronous queues that are not of the idle class (Linux:
    /// `cfqg_busy_async_queues`).
    pub(super) fn busy_async(&self) -> u32 {
        let way = QueueKind::Async;
        let count = |class| self.get(TreeKind { class, way }).count;
        count(CfqClass::Realtime) + count(CfqClass::BestEffort)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_tree() {
        let mut services = CfqServiceTrees::NEW;
        let mut n = 0;
        for class in [CfqClass::Realtime, CfqClass::BestEffort] {
            for way in TYPES {
                n += 1;
                services.get_mut(TreeKind { class, way }).count = n;
            }
        }
        let idle = TreeKind::of(CfqClass::Idle, true, true);
        services.get_mut(idle).count = 7;
        assert_eq!(services.0.map(|s| s.count), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(services.busy(CfqClass::Realtime), 6);
        assert_eq!(services.busy(CfqClass::Idle), 7);
        assert_eq!(services.busy_async(), 5);
    }
}
