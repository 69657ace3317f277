//! The size of a queue's next budget, in sectors.
//!
//! A budget adapts to the reason for which the last turn ended: it grows if it was too small, and
//! shrinks if the queue did not use it.

use crate::event::Expiry;

/// The largest budget until the drive has been measured (Linux: `bfq_default_max_budget`).
const DEFAULT_MAX: u64 = 16 * 1024;
/// The decaying average of assigned budgets from which on the estimate is trusted (Linux:
/// `bfq_stats_min_budgets`).
const TRUSTED: u32 = 194;

/// The result of a turn, from which the next budget is derived.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnResult {
    pub(super) reason: Expiry,
    pub(super) sync: bool,
    pub(super) raised: bool,
    /// The budget of the turn.
    pub(super) budget: u64,
    /// Sectors that the queue was charged in the turn.
    pub(super) service: u64,
    /// Pieces of the queue in the drive.
    pub(super) dispatched: u32,
}

/// The bounds that all budgets have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budgets {
    assigned: u32,
    max: u64,
    fixed: bool,
}

impl Budgets {
    /// Creates the bounds. `fixed` is the administrator's largest budget, or 0 if it is to be
    /// estimated.
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

    /// Returns the largest budget in sectors.
    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// Adopts a new estimate of the largest budget (Linux: `update_thr_responsiveness_params`).
    pub(super) fn estimate(&mut self, max: u64) {
        if !self.fixed {
            self.max = max;
        }
    }

    /// Counts a budget at the beginning of a turn.
    pub(super) fn assign(&mut self) {
        // In integers, the average converges to 249 and reaches 194 with the eleventh budget.
        self.assigned = (7 * self.assigned + 256) / 8;
    }

    /// Returns the first budget of a new queue.
    pub(super) fn first(&self) -> u64 {
        self.trusted_max() * 2 / 3
    }

    /// Returns the budget of a raised queue, which is small so that raised queues wait little for
    /// each other.
    pub(super) fn raised(&self) -> u64 {
        2 * self.min()
    }

    /// Returns a queue's budget after a turn (Linux: `__bfq_bfqq_recalc_budget`).
    pub(super) fn feedback(&self, turn: &TurnResult) -> u64 {
        let (budget, min) = (turn.budget, self.min());
        let next = match turn.reason {
            // No process waits for asynchronous requests, so they get the largest budget for the
            // sake of throughput.
            _ if !turn.sync => self.max,
            _ if turn.raised => self.raised(),
            Expiry::Preempted => return budget,
            // The queue was idle because its requests were in the drive, so it may need more.
            Expiry::TooIdle if turn.dispatched > 0 => (budget * 2).min(self.max),
            // A queue that thinks for long gets a smaller budget, so that it is served sooner.
            Expiry::TooIdle if budget > 5 * min => budget - 4 * min,
            Expiry::TooIdle => min,
            // The queue could have used more. Longer turns raise the throughput, and the queue is
            // sequential if it used its budget in time.
            Expiry::BudgetTimeout => (budget * 2).min(self.max),
            Expiry::BudgetExhausted => (budget * 4).min(self.max),
            // The queue needs no more than it used.
            Expiry::NoMoreRequests => turn.service.max(min),
        };
        if self.assigned >= TRUSTED && !self.fixed {
            next.min(self.max)
        } else {
            next
        }
    }

    // Before enough budgets were assigned, the estimate of the drive's rate is not reliable.
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
        // 2/3 of the default of 16,384.
        assert_eq!(budgets.first(), 10_922);
        for _ in 0..10 {
            budgets.assign();
        }
        assert_eq!(budgets.first(), 10_922);
        budgets.assign();
        // 2/3 of 1,500, and 1,500 / 32.
        assert_eq!((budgets.first(), budgets.min()), (1_000, 46));
        budgets.estimate(9);
        assert_eq!(budgets.max(), 1_500, "fixed");
    }

    #[test]
    fn budgets_stay_within_a_trusted_maximum() {
        let mut budgets = Budgets::new(0);
        budgets.estimate(8_000);
        // It had more than that while the drive seemed faster.
        let turn = TurnResult {
            reason: Expiry::TooIdle,
            sync: true,
            raised: false,
            budget: 16_000,
            service: 9,
            dispatched: 0,
        };
        // The decrease is four times the least budget, which is 16,384 / 32 = 512.
        assert_eq!(budgets.feedback(&turn), 16_000 - 2_048);
        for _ in 0..TRUSTED {
            budgets.assign();
        }
        assert_eq!(budgets.feedback(&turn), 8_000);
    }

    #[test]
    fn each_reason_has_its_feedback() {
        let budgets = Budgets::new(0);
        let turn = |reason, budget, service, dispatched| TurnResult {
            reason,
            sync: true,
            raised: false,
            budget,
            service,
            dispatched,
        };
        // Each row has the reason, budget, service and pieces in the drive, and the next budget.
        // The largest budget is 16,384 and the smallest 512.
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
                TurnResult {
                    sync: false,
                    ..turn(Expiry::NoMoreRequests, 4_000, 9, 0)
                },
                16_384,
            ),
            (
                TurnResult {
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
