//! Donation as in Linux before 5.10, where each group donates alone, by its usage in the last
//! periods (Linux 5.4 to 5.9: `ioc_timer_fn`, `surplus_adjusted_hweight_inuse`).
//!
//! A group that is behind the drive by more than the target margin loses the excess. If other
//! groups have a shortage, it donates the part beyond its usage and a reserve. It takes back a part
//! at the end of a period in which it used more, and everything when one of its requests arrives
//! with little budget left.

use super::period::{PeriodResult, is_lagging};
use super::vtime::{Now, ahead};
use super::weights::ONE;
use super::{Account, CostController};
use alloc::vec;
use alloc::vec::Vec;

/// The number of periods with usage that count, and the least number that must be known.
const PERIODS: usize = 3;
const PERIODS_MIN: usize = 2;
/// The part that a group keeps: this percentage of its usage, plus `KEEPS_MORE`.
const KEEPS_PERCENT: u32 = 125;
const KEEPS_MORE: u32 = ONE / 50;
/// The least part that is worth donating.
const GIVES_MIN: u32 = ONE / 33;

/// The usage of one group in its last periods.
#[derive(Clone, Copy, Debug, Default)]
struct UsageHistory {
    /// The parts of the drive that the group used in its last periods, in a ring.
    usages: [u32; PERIODS],
    at: usize,
    /// The position on the group's clock up to which usage was counted.
    taken: u64,
    has_surplus: bool,
}

/// The histories of all groups.
#[derive(Debug)]
pub(super) struct Surplus {
    groups: Vec<UsageHistory>,
}

impl Surplus {
    pub(super) fn new(groups: u32) -> Self {
        Self {
            groups: vec![UsageHistory::default(); groups as usize],
        }
    }

    /// Begins the history of a group that became active.
    pub(super) fn begin(&mut self, group: u32, vtime: u64) {
        self.groups[group as usize].taken = vtime;
    }
}

impl UsageHistory {
    /// Returns the part of the drive that the group used in this period.
    fn use_of(&mut self, account: &Account, hwi: u32, now: &Now, passed: i64) -> u32 {
        let until = if account.waiters.is_empty() {
            account.vtime
        } else {
            // A group with waiters used everything up to the drive's clock.
            now.v
        };
        let new = ahead(until, self.taken).max(0);
        self.taken = self.taken.wrapping_add(new.cast_unsigned());
        // A request that stays in the drive for long uses it, although it was charged earlier.
        let used = new.max(ahead(account.vtime, account.done)).cast_unsigned();
        if used == 0 {
            return 0;
        }
        let period = passed.max(1).cast_unsigned();
        let part = used.saturating_mul(hwi.into()).div_ceil(period);
        let part = part.min(ONE.into()) as u32;
        self.at = (self.at + 1) % PERIODS;
        self.usages[self.at] = part;
        part
    }

    /// Returns the largest usage of the last periods, if enough of them are known.
    fn most_used(&self) -> Option<u32> {
        let known = self.usages.iter().filter(|&&used| used > 0).count();
        let most = self.usages.iter().copied().max();
        most.filter(|_| known >= PERIODS_MIN)
    }
}

/// Returns the part that a group keeps, or `None` if it would donate too little.
fn keeps(used: u32, hwi: u32) -> Option<u32> {
    let keeps = with_spare(used);
    (keeps + GIVES_MIN <= hwi).then_some(keeps)
}

fn with_spare(used: u32) -> u32 {
    (u64::from(used) * u64::from(KEEPS_PERCENT) / 100) as u32 + KEEPS_MORE
}

impl CostController {
    /// Determines the groups with a shortage and those with a surplus.
    pub(super) fn check_surplus(&mut self, now: &Now, passed: i64) -> PeriodResult {
        let mut found = PeriodResult::default();
        let has_targets = self.has_targets();
        for at in 0..self.scratch.len() {
            let group = self.scratch[at];
            let (hwa, hwi) = self.weights.parts(group);
            let account = &mut self.accounts[group as usize];
            found.usage += core::mem::take(&mut account.usage) / self.clock.base_rate;
            let account = self.account(group);
            found.lagging += u32::from(has_targets && is_lagging(account, now, passed));
            let history = &mut self.surplus.groups[group as usize];
            let used = history.use_of(&self.accounts[group as usize], hwi, now, passed);
            history.has_surplus = false;
            let account = &mut self.accounts[group as usize];
            let excess = ahead(now.v, account.vtime) - self.clock.margins.target;
            if account.waiters.is_empty() && excess > 0 {
                account.move_by(excess);
                history.taken = history.taken.wrapping_add(excess.cast_unsigned());
                history.has_surplus = keeps(used, hwi).is_some();
                found.surpluses += u32::from(history.has_surplus);
            } else if hwi < hwa {
                self.take_back(group, used, now);
            } else {
                found.shortages += 1;
            }
        }
        if found.shortages > 0 && found.surpluses > 0 {
            self.give_surplus(now);
        }
        found
    }

    /// Takes back donated weight of a group that is not far behind the drive: as much as it used,
    /// or everything if requests wait.
    fn take_back(&mut self, group: u32, used: u32, now: &Now) {
        let (hwa, hwi) = self.weights.parts(group);
        let wants = if self.account(group).waiters.is_empty() {
            hwi.max(with_spare(used))
        } else {
            hwa
        };
        let node = self.weights.node(group);
        let (active, before) = (node.active, node.inuse);
        let inuse = (u64::from(before) * u64::from(wants) / u64::from(hwi.max(1))) as u32;
        let inuse = inuse.clamp(1, active);
        if inuse > before {
            self.propagate(group, active, inuse, true, now);
        }
    }

    /// Donates the surplus of all groups that have one.
    fn give_surplus(&mut self, now: &Now) {
        for at in 0..self.scratch.len() {
            let group = self.scratch[at];
            let history = &self.surplus.groups[group as usize];
            if !history.has_surplus {
                continue;
            }
            let Some(used) = history.most_used() else {
                continue;
            };
            let (_, hwi) = self.weights.parts(group);
            let Some(keeps) = keeps(used, hwi) else {
                continue;
            };
            let node = self.weights.node(group);
            let (active, before) = (node.active, node.inuse);
            let inuse = (u64::from(before) * u64::from(keeps)).div_ceil(hwi.into()) as u32;
            if inuse < before {
                self.propagate(group, active, inuse.max(1), true, now);
            }
        }
    }

    /// Takes back all donated weight when a request arrives with little budget left (Linux 5.4 to
    /// 5.9: in `ioc_rqos_throttle`).
    pub(super) fn take_back_all(&mut self, group: u32, now: &Now) {
        let node = self.weights.node(group);
        let (active, inuse) = (node.active, node.inuse);
        let account = self.account(group);
        if inuse < active && account.lead(now) + self.clock.margins.min >= 0 {
            self.propagate(group, active, active, true, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::{Config, Control};
    use super::super::tests::with_groups;
    use super::*;

    #[test]
    fn a_group_keeps_a_quarter_and_a_fiftieth_more_than_it_used() {
        assert_eq!(keeps(8_000, ONE / 2), Some(10_000 + ONE / 50));
        assert_eq!(keeps(0, ONE / 2), Some(ONE / 50));
        // Of the 65,536 units of the drive, at least 1,985 are donated, or none.
        assert_eq!(keeps(0, KEEPS_MORE + GIVES_MIN), Some(KEEPS_MORE));
        assert_eq!(keeps(0, KEEPS_MORE + GIVES_MIN - 1), None);
    }

    #[test]
    fn the_most_of_three_periods_counts_once_two_are_known() {
        let mut history = UsageHistory::default();
        assert_eq!(history.most_used(), None);
        let now = |v| Now {
            at: crate::Instant::ZERO,
            us: 0,
            v,
        };
        let mut account = Account::NEW;
        let mut used = |vtime, history: &mut UsageHistory| {
            account.vtime = vtime;
            account.done = vtime;
            history.use_of(&account, ONE / 2, &now(vtime + 500), 1_000)
        };
        assert_eq!(used(400, &mut history), (ONE / 2 * 4).div_ceil(10));
        assert_eq!(history.most_used(), None);
        assert_eq!(used(400, &mut history), 0, "nothing was used");
        assert_eq!(used(1_000, &mut history), (ONE / 2 * 6).div_ceil(10));
        assert_eq!(history.most_used(), Some((ONE / 2 * 6).div_ceil(10)));
        for vtime in [1_100, 1_200, 1_300] {
            used(vtime, &mut history);
        }
        assert_eq!(history.most_used(), Some((ONE / 2).div_ceil(10)));
    }

    #[test]
    fn a_donor_takes_back_the_weight_that_it_uses() {
        let (mut cost, _) = with_groups(&Config::default(), 2);
        let now = Now {
            at: crate::Instant::ZERO,
            us: 0,
            v: 10_000,
        };
        let active = cost.weights.node(2).weight;
        for (group, inuse) in [(1, active), (2, active / 4)] {
            cost.propagate(group, active, inuse, false, &now);
        }
        let (hwa, hwi) = cost.weights.parts(2);
        assert!(hwi < hwa);
        cost.take_back(2, hwi / 2, &now);
        assert_eq!(cost.weights.node(2).inuse, active / 4, "it has enough");
        cost.take_back(2, hwa, &now);
        assert!(cost.weights.node(2).inuse > active / 4);
    }

    #[test]
    fn a_group_with_requests_older_than_the_period_lags() {
        let config = Config::default().qos(Control::User).rpct(8_000);
        let (mut cost, _) = with_groups(&config, 3);
        cost.scratch.extend([1, 2, 3]);
        // The period is 1,000 long. The first two groups have requests in the drive, and only those
        // of the first are older than the period.
        for (group, done) in [(1, 8_000), (2, 9_200), (3, 9_500)] {
            let account = cost.account_mut(group);
            (account.vtime, account.done) = (9_500, done);
        }
        let now = Now {
            at: crate::Instant::ZERO,
            us: 0,
            v: 10_000,
        };
        assert_eq!(cost.check_surplus(&now, 1_000).lagging, 1);
        cost.account_mut(2).done = 8_999;
        assert_eq!(cost.check_surplus(&now, 1_000).lagging, 2);
    }
}
