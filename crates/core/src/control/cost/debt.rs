//! Debts: requests that must not wait although their group has no budget left (Linux: `iocg_incur_debt`, `iocg_kick_delay`,
//! `ioc_forgive_debts`).
//!
//! A request of a file system's metadata may be waited for by others, so it goes on and its group owes its cost. Nothing else of the
//! group goes on until that is paid, and the group gives the rest of its weight away meanwhile. One that owes far too much is delayed:
//! after each such request its next waits for a while.

use super::vtime::Now;
use super::weights::relative;
use super::{Account, Cost};
use crate::time::Span;

/// Debt from which on a group is delayed, and from which on it is delayed longest, in hundredths of a period.
const DELAY_FROM: i64 = 500;
const DELAY_MOST_FROM: i64 = 25_000;
/// The shortest and the longest delay, in microseconds.
const DELAY_MIN: u64 = 250;
const DELAY_MAX: u64 = 250_000;
/// A second, in which a delay halves.
const HALF_LIFE: u64 = 1_000_000;
/// Microseconds in which debts halve, while at most this part of the drive, in hundredths, is used.
const FORGIVE_PERIOD: u64 = 100_000;
const FORGIVE_USAGE: u64 = 50;

/// How much of the drive was used since debts were forgiven last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forgiving {
    since: u64,
    rest: u64,
    usage: u64,
}

impl Forgiving {
    /// Nothing is owed as of now.
    pub(super) fn from(now: u64) -> Self {
        Self {
            since: now,
            ..Self::default()
        }
    }

    /// How often debts are to be halved now that `usage` more was used (in microseconds of the drive's time).
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
        let all = passed + self.rest;
        self.rest = all % FORGIVE_PERIOD;
        all / FORGIVE_PERIOD
    }
}

impl Account {
    /// The delay in force.
    fn decayed(&self, now: u64) -> u64 {
        self.delay
            .checked_shr(((now - self.delay_at) / HALF_LIFE) as u32)
            .unwrap_or(0)
    }
}

impl Cost {
    /// A group owes this much more.
    pub(super) fn incur(&mut self, group: u32, cost: u64, now: &Now) {
        if self.account(group).debt == 0 && cost > 0 {
            // Debts own the weight in use until they are paid.
            let active = self.weights.node(group).active;
            self.propagate(group, active, 0, false, now);
        }
        self.active.wake(group);
        let account = self.account_mut(group);
        account.usage = account.usage.saturating_add(cost);
        account.debt = account.debt.saturating_add(cost);
    }

    /// A group pays.
    pub(super) fn pay(&mut self, group: u32, cost: u64, now: &Now) {
        let account = self.account_mut(group);
        account.debt = account.debt.saturating_sub(cost);
        if account.debt == 0 {
            let &super::weights::Node {
                active, last_inuse, ..
            } = self.weights.node(group);
            self.propagate(group, active, last_inuse, false, now);
        }
    }

    /// Takes a group's delay anew; `None`: it has none.
    pub(super) fn set_delay(&mut self, group: u32, now: &Now) -> Option<Span> {
        let (hwa, _) = self.weights.parts(group);
        let period = (self.clock.period * self.clock.base_rate)
            .cast_signed()
            .max(1);
        let account = self.account_mut(group);
        let decayed = account.decayed(now.us);
        let owed = relative(account.debt, hwa)
            .min(i64::MAX as u64 / 200)
            .cast_signed();
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

    /// Halves debts while the drive has time to spare. `usage`: the part of the period that was used, in microseconds.
    pub(super) fn forgive(&mut self, usage: u64, debtors: u32, now: &Now) {
        if debtors == 0 {
            self.forgiving = Forgiving::from(now.us);
            return;
        }
        // A drive that misses its targets has no time to spare.
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
                    *amount = amount.checked_shr(halvings as u32).unwrap_or(0).max(1);
                }
            };
            halve(&mut account.debt);
            halve(&mut account.delay);
            self.kick(group, true, now);
        }
    }
}

/// The delay of a group that is over its budget by `over` hundredths of a period.
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
    fn delays_grow_with_what_is_owed() {
        assert_eq!(
            (delay_for(500), delay_for(501)),
            (0, 250 + 249_750 / 24_500)
        );
        assert_eq!(delay_for(12_750), 250 + 249_750 / 2);
        assert_eq!(delay_for(25_000), 250_000);
    }

    #[test]
    fn debts_halve_every_tenth_of_a_second_of_leisure() {
        let mut forgiving = Forgiving::default();
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
