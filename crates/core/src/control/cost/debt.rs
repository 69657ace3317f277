//! Debts: requests that must not wait although their group has no budget left (Linux:
//! `iocg_incur_debt`, `iocg_kick_delay`, `ioc_forgive_debts`).
//!
//! Other requests may wait for a request of a file system's metadata, so it continues, and its
//! group owes the cost. No other request of the group continues until the debt is paid. In the
//! meantime, the group donates the rest of its weight. A group that owes far too much is delayed:
//! after each such request, its next one waits for a while.

use super::vtime::Now;
use super::weights::relative;
use super::{Account, CostController};
use crate::time::Span;

/// The debt from which on a group is delayed, in percent of a period. From `DELAY_MOST_FROM` on, it
/// has the longest delay (Linux: `MIN_DELAY_THR_PCT`, `MAX_DELAY_THR_PCT`).
const DELAY_FROM: i64 = 500;
const DELAY_MOST_FROM: i64 = 25_000;
/// The shortest and the longest delay, in microseconds (Linux: `MIN_DELAY`, `MAX_DELAY`).
const DELAY_MIN: u64 = 250;
const DELAY_MAX: u64 = 250_000;
/// The time in which a delay halves, in microseconds.
const HALF_LIFE: u64 = 1_000_000;
/// The time in which debts halve, in microseconds, while at most `FORGIVE_USAGE` percent of the
/// drive is used (Linux: `DFGV_PERIOD`, `DFGV_USAGE_PCT`).
const FORGIVE_PERIOD: u64 = 100_000;
const FORGIVE_USAGE: u64 = 50;

/// The use of the drive since debts were last forgiven.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DebtForgiveness {
    since: u64,
    rest: u64,
    usage: u64,
}

impl DebtForgiveness {
    /// Starts at `now`, without any usage.
    pub(super) fn from(now: u64) -> Self {
        Self {
            since: now,
            ..Self::default()
        }
    }

    /// Returns the number of times that debts are to be halved, after `usage` more was used, in
    /// microseconds of the drive's time.
    fn halvings(&mut self, now: u64, usage: u64) -> u64 {
        self.usage += usage;
        let passed = now.saturating_sub(self.since);
        if passed < FORGIVE_PERIOD {
            return 0;
        }
        let percent = 100 * self.usage / passed;
        (self.since, self.usage) = (now, 0);
        if percent > FORGIVE_USAGE {
            self.rest = 0;
            return 0;
        }
        // The rest of a period counts in the next call, so that the average rate of forgiving is
        // exact.
        let all = passed + self.rest;
        self.rest = all % FORGIVE_PERIOD;
        all / FORGIVE_PERIOD
    }
}

impl Account {
    /// Returns the present delay after its decay.
    fn decayed(&self, now: u64) -> u64 {
        self.delay
            // A shift by 64 bits or more is zero.
            .checked_shr(((now - self.delay_at) / HALF_LIFE) as u32)
            .unwrap_or(0)
    }
}

impl CostController {
    /// Adds a cost to a group's debt.
    pub(super) fn incur(&mut self, group: u32, cost: u64, now: &Now) {
        if self.account(group).debt == 0 && cost > 0 {
            // While a group is in debt, it uses almost no weight, and other groups get its part.
            let active = self.weights.node(group).active;
            self.propagate(group, active, 0, false, now);
        }
        self.active.wake(group);
        let account = self.account_mut(group);
        account.usage = account.usage.saturating_add(cost);
        account.debt = account.debt.saturating_add(cost);
    }

    /// Pays a part of a group's debt.
    pub(super) fn pay(&mut self, group: u32, cost: u64, now: &Now) {
        let account = self.account_mut(group);
        account.debt = account.debt.saturating_sub(cost);
        // The weight in use from before the debt is restored.
        if account.debt == 0 {
            let &super::weights::WeightNode {
                active, last_inuse, ..
            } = self.weights.node(group);
            self.propagate(group, active, last_inuse, false, now);
        }
    }

    /// Updates a group's delay and returns it, or `None` if the group is not delayed.
    pub(super) fn set_delay(&mut self, group: u32, now: &Now) -> Option<Span> {
        let (hwa, _) = self.weights.parts(group);
        let period = (self.clock.period * self.clock.base_rate)
            .cast_signed()
            .max(1);
        let account = self.account_mut(group);
        let decayed = account.decayed(now.us);
        // The limit keeps the product with 100 below in range.
        let owed = relative(account.debt, hwa)
            .min(i64::MAX as u64 / 200)
            .cast_signed();
        // Budget overrun and debt count together, as hundredths of a period.
        let over = account.lead(now).saturating_add(owed).saturating_mul(100) / period;
        let delay = delay_for(over);
        let delay = if delay > decayed {
            (account.delay, account.delay_at) = (delay, now.us);
            delay
        } else {
            decayed
        };
        if delay >= DELAY_MIN {
            return Some(Span::from_micros(delay));
        }
        account.delay = 0;
        None
    }

    /// Halves debts while the drive is not fully used. `usage` is the used part of the period in
    /// microseconds.
    pub(super) fn forgive(&mut self, usage: u64, debtors: u32, now: &Now) {
        if debtors == 0 {
            self.forgiving = DebtForgiveness::from(now.us);
            return;
        }
        // A busy drive, whose requests miss their targets or wait for tags, counts as fully used.
        let usage = if self.busy_level > 0 {
            usage.max(self.clock.period)
        } else {
            usage
        };
        let halvings = self.forgiving.halvings(now.us, usage);
        if halvings == 0 {
            return;
        }
        for at in 0..self.scratch.len() {
            let group = self.scratch[at];
            let account = self.account_mut(group);
            if account.debt == 0 && account.delay == 0 {
                continue;
            }
            let halve = |amount: &mut u64| {
                if *amount > 0 {
                    // At least one unit remains, so that the kick below ends the debt in the
                    // regular way.
                    *amount = amount.checked_shr(halvings as u32).unwrap_or(0).max(1);
                }
            };
            halve(&mut account.debt);
            halve(&mut account.delay);
            self.kick(group, true, now);
        }
    }
}

/// Returns the delay of a group that is over its budget by `over` hundredths of a period.
fn delay_for(over: i64) -> u64 {
    if over <= DELAY_FROM {
        0
    } else if over >= DELAY_MOST_FROM {
        DELAY_MAX
    } else {
        let (beyond, all) = (over - DELAY_FROM, DELAY_MOST_FROM - DELAY_FROM);
        DELAY_MIN + (DELAY_MAX - DELAY_MIN) * beyond as u64 / all as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_linearly_with_the_debt() {
        assert_eq!(
            (delay_for(500), delay_for(501)),
            // The delay rises linearly from 250 us at 500 to 250 ms at 25,000, so each step adds
            // 249,750 / 24,500 us.
            (0, 250 + 249_750 / 24_500)
        );
        assert_eq!(delay_for(12_750), 250 + 249_750 / 2);
        assert_eq!(delay_for(25_000), 250_000);
    }

    #[test]
    fn debts_halve_for_every_100_ms_of_low_usage() {
        let mut forgiving = DebtForgiveness::default();
        assert_eq!(forgiving.halvings(75_000, 0), 0);
        assert_eq!(forgiving.halvings(150_000, 0), 1);
        assert_eq!(
            forgiving.halvings(300_000, 75_000),
            2,
            "and what was left over"
        );
        assert_eq!(forgiving.halvings(400_000, 51_000), 0, "too busy");
        assert_eq!(forgiving.halvings(500_000, 50_000), 1);
    }
}
