//! Entities of B-WF2Q+: queues and groups, with their weights, budgets and times.

use crate::PriorityClass;

/// The number of fraction bits of virtual time (Linux: `WFQ_SERVICE_SHIFT`).
const SERVICE_SHIFT: u32 = 22;

/// The number of service trees at each node, one for each class: realtime, best effort, idle.
pub(super) const CLASSES: usize = 3;
/// The class of every group and of most queues.
pub(super) const BEST_EFFORT: u8 = 1;
/// The class that is served if no other class waits, and at least every 200 ms otherwise.
pub(super) const IDLE: u8 = 2;

/// Returns the number of a class. Classes with smaller numbers are served first.
pub(super) const fn class_number(class: PriorityClass) -> u8 {
    match class {
        PriorityClass::Realtime => 0,
        PriorityClass::BestEffort => BEST_EFFORT,
        PriorityClass::Idle => IDLE,
    }
}

/// The position of an entity in the trees of its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EntityState {
    /// In no tree, so that its weight does not count.
    Out,
    /// In the active tree. A group can be in service at the same time.
    Active,
    /// In the idle tree: without requests, but with a finish time ahead of virtual time.
    Idle,
    /// In service, and therefore not in the active tree.
    Service,
}

/// A queue or group that B-WF2Q+ schedules (Linux: `bfq_entity`). Amounts are sectors, and times
/// are virtual.
#[derive(Clone, Copy, Debug)]
pub(super) struct BfqEntity {
    /// The group that contains the entity.
    pub(super) parent: u32,
    pub(super) class: u8,
    /// The number of the service tree that the entity belongs to.
    pub(super) tree: u32,
    pub(super) place: EntityState,
    pub(super) weight: u32,
    /// The weight from the entity's next activation on.
    pub(super) new_weight: u32,
    /// The factor of weight raising from the next activation on, or 1 if the queue is not raised.
    pub(super) raised: u32,
    pub(super) start: u64,
    pub(super) finish: u64,
    pub(super) budget: u64,
    /// Sectors charged to the present budget.
    pub(super) service: u64,
}

impl BfqEntity {
    pub(super) const NEW: Self = Self {
        parent: 0,
        class: BEST_EFFORT,
        tree: 0,
        place: EntityState::Out,
        weight: 1,
        new_weight: 1,
        raised: 1,
        start: 0,
        finish: 0,
        budget: 0,
        service: 0,
    };

    pub(super) fn budget_left(&self) -> u64 {
        // Time-based charges and injection can exceed the budget.
        self.budget.saturating_sub(self.service)
    }
}

/// Returns the virtual time that `service` sectors take at `weight` (Linux: `bfq_delta`). The
/// weight must not be zero.
#[inline]
pub(super) fn delta(service: u64, weight: u64) -> u64 {
    (service << SERVICE_SHIFT) / weight
}
