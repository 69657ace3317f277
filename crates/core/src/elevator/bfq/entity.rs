//! What is scheduled: a queue, or a group of them.

use crate::PriorityClass;

/// Fraction bits of virtual time (Linux: `WFQ_SERVICE_SHIFT`).
const SERVICE_SHIFT: u32 = 22;

/// Service trees at each node, by class: realtime, best effort, idle.
pub(super) const CLASSES: usize = 3;
/// The class of every group.
pub(super) const BEST_EFFORT: u8 = 1;
/// The class that is served when no other waits, and once in a while.
pub(super) const IDLE: u8 = 2;

/// The class's number: smaller ones first.
pub(super) const fn class_number(class: PriorityClass) -> u8 {
    match class {
        PriorityClass::Realtime => 0,
        PriorityClass::BestEffort => BEST_EFFORT,
        PriorityClass::Idle => IDLE,
    }
}

/// Where an entity is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Nowhere; its weight counts nowhere.
    Out,
    /// In its active tree (a group perhaps in service at the same time).
    Active,
    /// In its idle tree: without requests, but ahead of virtual time.
    Idle,
    /// In service, and out of the active tree.
    Service,
}

/// A queue or a group in the eyes of B-WF2Q+ (Linux: `bfq_entity`). Amounts are sectors, times virtual.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entity {
    /// The group it hangs on.
    pub(super) parent: u32,
    pub(super) class: u8,
    /// The service tree it belongs to.
    pub(super) tree: u32,
    pub(super) place: Place,
    pub(super) weight: u32,
    /// Its weight from its next activation on.
    pub(super) new_weight: u32,
    /// How many times its weight it was given, from its next activation on; 1: it is not raised.
    pub(super) raised: u32,
    pub(super) start: u64,
    pub(super) finish: u64,
    pub(super) budget: u64,
    /// What it was charged of its budget.
    pub(super) service: u64,
}

impl Entity {
    pub(super) const NEW: Self = Self {
        parent: 0,
        class: BEST_EFFORT,
        tree: 0,
        place: Place::Out,
        weight: 1,
        new_weight: 1,
        raised: 1,
        start: 0,
        finish: 0,
        budget: 0,
        service: 0,
    };

    pub(super) fn budget_left(&self) -> u64 {
        self.budget.saturating_sub(self.service)
    }
}

/// The virtual time that `service` sectors take at `weight` (Linux: `bfq_delta`). Weights are not zero.
#[inline]
pub(super) fn delta(service: u64, weight: u64) -> u64 {
    (service << SERVICE_SHIFT) / weight
}
