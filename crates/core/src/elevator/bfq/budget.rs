//! How large a queue's next budget is. Amounts are sectors.

use crate::event::Expiry;

/// Until the largest budget is known (Linux: `bfq_default_max_budget`).
const DEFAULT_MAX: u64 = 16 * 1024;
/// Budgets assigned, as a decaying average, before the estimate is trusted (Linux: `bfq_stats_min_budgets`).
const TRUSTED: u32 = 194;

/// A turn that is over, as feedback looks at it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    pub(super) reason: Expiry,
    pub(super) sync: bool,
    pub(super) raised: bool,
    /// Its budget before.
    pub(super) budget: u64,
    /// What it was charged.
    pub(super) service: u64,
    /// Pieces of it in the drive.
    pub(super) dispatched: u32,
}

/// The bounds of all budgets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budgets {
    assigned: u32,
    max: u64,
    fixed: bool,
}

impl Budgets {
    /// `fixed` is the administrator's largest budget; 0: to be estimated.
    pub(super) fn new(fixed: u32) -> Self {
        Self {
            assigned: 0,
            max: if fixed == 0 {
                DEFAULT_MAX
            } else {
                u64::from(fixed)
            },
            fixed: fixed > 0,
        }
    }

    /// The largest budget.
    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// A new estimate of the largest budget (Linux: `update_thr_responsiveness_params`).
    pub(super) fn estimate(&mut self, max: u64) {
        if !self.fixed {
            self.max = max;
        }
    }

    /// A turn begins.
    pub(super) fn assign(&mut self) {
        self.assigned = (7 * self.assigned + 256) / 8;
    }

    /// What a new queue starts with.
    pub(super) fn first(&self) -> u64 {
        self.trusted_max() * 2 / 3
    }

    /// What a queue has while it is raised, so that it waits little for others that are.
    pub(super) fn raised(&self) -> u64 {
        2 * self.min()
    }

    /// A queue's budget after a turn (Linux: `__bfq_bfqq_recalc_budget`).
    pub(super) fn feedback(&self, turn: &Spent) -> u64 {
        let (budget, min) = (turn.budget, self.min());
        let next = match turn.reason {
            _ if !turn.sync => self.max,
            _ if turn.raised => self.raised(),
            Expiry::Preempted => return budget,
            Expiry::TooIdle if turn.dispatched > 0 => (budget * 2).min(self.max),
            Expiry::TooIdle if budget > 5 * min => budget - 4 * min,
            Expiry::TooIdle => min,
            Expiry::BudgetTimeout => (budget * 2).min(self.max),
            Expiry::BudgetExhausted => (budget * 4).min(self.max),
            Expiry::NoMoreRequests => turn.service.max(min),
        };
        if self.assigned >= TRUSTED && !self.fixed {
            next.min(self.max)
        } else {
            next
        }
    }

    fn trusted_max(&self) -> u64 {
        if self.assigned < TRUSTED {
            DEFAULT_MAX
        } else {
            self.max
        }
    }

    fn min(&self) -> u64 {
        self.trusted_max() / 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_is_trusted_after_eleven_budgets() {
        let mut budgets = Budgets::new(1_500);
        assert_eq!(budgets.first(), 10_922);
        for _ in 0..10 {
            budgets.assign();
        }
        assert_eq!(budgets.first(), 10_922);
        budgets.assign();
        assert_eq!((budgets.first(), budgets.min()), (1_000, 46));
        budgets.estimate(9);
        assert_eq!(budgets.max(), 1_500, "fixed");
    }

    #[test]
    fn no_budget_exceeds_a_maximum_that_is_trusted() {
        let mut budgets = Budgets::new(0);
        budgets.estimate(8_000);
        // It had more than that while the drive seemed faster.
        let turn = Spent {
            reason: Expiry::TooIdle,
            sync: true,
            raised: false,
            budget: 16_000,
            service: 9,
            dispatched: 0,
        };
        assert_eq!(budgets.feedback(&turn), 16_000 - 2_048);
        for _ in 0..TRUSTED {
            budgets.assign();
        }
        assert_eq!(budgets.feedback(&turn), 8_000);
    }

    #[test]
    fn each_reason_has_its_feedback() {
        let budgets = Budgets::new(0);
        let turn = |reason, budget, service, dispatched| Spent {
            reason,
            sync: true,
            raised: false,
            budget,
            service,
            dispatched,
        };
        // (reason, budget, service, in the drive) -> next; the largest is 16384, the smallest 512.
        for (given, next) in [
            (turn(Expiry::TooIdle, 4_000, 9, 0), 1_952),
            (turn(Expiry::TooIdle, 2_560, 9, 0), 512),
            (turn(Expiry::TooIdle, 4_000, 9, 1), 8_000),
            (turn(Expiry::TooIdle, 9_000, 9, 1), 16_384),
            (turn(Expiry::BudgetTimeout, 4_000, 9, 0), 8_000),
            (turn(Expiry::BudgetTimeout, 9_000, 9, 0), 16_384),
            (turn(Expiry::BudgetExhausted, 4_000, 9, 0), 16_000),
            (turn(Expiry::BudgetExhausted, 5_000, 9, 0), 16_384),
            (turn(Expiry::NoMoreRequests, 4_000, 900, 0), 900),
            (turn(Expiry::NoMoreRequests, 4_000, 9, 0), 512),
            (turn(Expiry::Preempted, 4_000, 9, 0), 4_000),
            (
                Spent {
                    sync: false,
                    ..turn(Expiry::NoMoreRequests, 4_000, 9, 0)
                },
                16_384,
            ),
            (
                Spent {
                    raised: true,
                    ..turn(Expiry::BudgetExhausted, 4_000, 9, 0)
                },
                1_024,
            ),
        ] {
            assert_eq!(budgets.feedback(&given), next, "{given:?}");
        }
    }
}
