//! The end of a period: idle and donating groups, the load of the drive, and the rate of its clock
//! (Linux: `ioc_timer_fn`).

use super::vtime::{MARGIN_TARGET, Now, PER_NSEC, ahead};
use super::weights::{ONE, absolute};
use super::{Account, CostController};
use crate::request::Op;
use crate::time::Span;

/// The wait of requests for tags above which the drive is busy, in percent of a period (Linux:
/// `RQ_WAIT_BUSY_PCT`).
const TAG_WAIT_BUSY: u64 = 5;
/// The part of the busy thresholds up to which the drive has room, in percent (Linux:
/// `UNBUSY_THR_PCT`).
const UNBUSY: u64 = 75;
/// The bound of the busy level in both directions.
const LEVEL_MAX: i32 = 1_000;
/// The step in percent by which vrate returns after its bounds were changed (Linux:
/// `VRATE_CLAMP_ADJ_PCT`).
const CLAMP_STEP: u64 = 4;
/// The number of periods behind which a group no longer counts as lagging (Linux:
/// `MAX_LAGGING_PERIODS`).
const LAGGING_MAX: i64 = 10;

/// The change of vrate in percent by busy level: the number of levels and the step for each of them
/// (Linux: `vrate_adj_pct`).
const STEPS: [(u32, u64); 6] = [(4, 0), (16, 1), (16, 2), (8, 4), (8, 8), (u32::MAX, 16)];

/// Returns the change of vrate at a busy level, in percent.
fn step(level: u32) -> u64 {
    let mut left = level;
    for (levels, percent) in STEPS {
        if left < levels {
            return percent;
        }
        left -= levels;
    }
    16
}

/// The latencies and waits of requests since the period began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeriodLatencies {
    /// Reads and writes that met their targets. `missed` counts the others.
    met: [u64; 2],
    missed: [u64; 2],
    /// The sum of the times for which requests waited for a tag.
    tag_wait: Span,
}

impl PeriodLatencies {
    /// Records a request. `size_cost` is the cost of its transfer alone, whose time does not count
    /// against the target (Linux: `ioc_rqos_done`).
    pub(super) fn record(
        &mut self,
        op: Op,
        took: Span,
        tag_wait: Span,
        size_cost: u64,
        target: u64,
    ) {
        let way = usize::from(op == Op::Write);
        let moving = Span::from_nanos(size_cost / PER_NSEC);
        if took.saturating_sub(moving) <= Span::from_micros(target) {
            self.met[way] += 1;
        } else {
            self.missed[way] += 1;
        }
        self.tag_wait += tag_wait;
    }

    /// Returns the number of requests in a million that missed their target.
    fn missed_ppm(&self, way: usize) -> u64 {
        let (met, missed) = (self.met[way], self.missed[way]);
        match met + missed {
            0 => 0,
            // `all / 2` rounds to the nearest number.
            all => (missed * 1_000_000 + all / 2) / all,
        }
    }
}

/// The observations of a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeriodResult {
    /// Groups that could use more. `lagging` counts those whose requests are in the drive for
    /// longer than a period.
    pub(super) shortages: u32,
    pub(super) lagging: u32,
    /// Groups that donate alone. Their weight goes to other groups before the rate is raised (Linux
    /// 5.4 to 5.9).
    pub(super) surpluses: u32,
    /// The used time of the drive in microseconds.
    pub(super) usage: u64,
}

impl CostController {
    /// Ends the period and begins the next one, if a group is active.
    pub(super) fn end_period(&mut self, now: &Now) {
        let latencies = core::mem::take(&mut self.latencies);
        let passed = ahead(now.v, self.clock.period_at_v);
        let (resting, debtors) = self.check_groups(now);
        let found = if self.is_flat() {
            self.check_surplus(now, passed)
        } else {
            self.check_usage(resting, now, passed)
        };
        // Without a group that could use more, donations would only be taken back later.
        if found.shortages > 0 && !self.donation.donors.is_empty() {
            self.transfer(now);
        }
        self.weights.commit();
        self.set_level(&latencies, &found);
        self.lagging = found.lagging;
        self.adjust_rate(found.lagging);
        if self.auto.follow(now.at, self.clock.base_rate) {
            self.clock.reset_rate();
            self.take_params();
        }
        self.forgive(found.usage, debtors, now);
        self.number += 1;
        // The timer of periods stops with the last group, so an idle drive costs nothing.
        if self.active.len() == 0 {
            self.busy_level = 0;
            self.clock.error = 0;
            self.is_running = false;
        } else {
            self.clock.start_period(now);
        }
        self.clock.spread_error(now);
    }

    /// Kicks groups with waiters, and deactivates idle ones (Linux: `ioc_check_iocgs`). Lists the
    /// active groups except those that rest. Returns the number of resting groups and of those in
    /// debt.
    fn check_groups(&mut self, now: &Now) -> (u32, u32) {
        let retimes = self.wake_resting(now);
        let glance = (!retimes).then(|| self.rests.glance(now));
        let begun = self.weights.generation();
        let (mut debtors, mut place) = (0, 0);
        self.scratch.clear();
        if retimes {
            self.timers.loosen();
        }
        loop {
            let next = if retimes {
                self.active.next(place)
            } else {
                self.active.next_awake(place)
            };
            let Some((group, behind)) = next else {
                break;
            };
            place = behind;
            if self.active.rests(group) && self.retime(group, now) {
                debug_assert!(self.would_rest(group, now), "group {group} does not rest");
                continue;
            }
            let account = self.account(group);
            let is_plain = (account.debt, account.delay) == (0, 0);
            if let Some(glance) = &glance
                && is_plain
                && !account.waiters.is_empty()
                && self.rests.waits(group, self.weights.generation(), glance)
            {
                debug_assert!(self.would_wait(group, now), "group {group} does not wait");
            } else if !is_plain || !account.waiters.is_empty() {
                self.kick(group, true, now);
                let account = self.account(group);
                debtors += u32::from(account.debt > 0 || account.delay > 0);
                self.wake_if_reweighted();
            } else if account.is_idle(self.number) {
                // The group was idle for a period, and begins with the target margin when it
                // returns. Budget above that is returned to all groups.
                let excess = ahead(now.v, account.vtime) - self.clock.margins.target;
                if excess > 0 {
                    let (_, hwi) = self.weights.parts(group);
                    self.clock.error -= part(excess, hwi);
                }
                self.deactivate(group);
                continue;
            }
            self.scratch.push(group);
        }
        self.timers.tighten();
        self.weights.commit();
        self.wake_if_reweighted();
        if self.weights.generation() != begun {
            // The groups that rested have other parts of the drive now.
            self.scratch.clear();
            self.scratch.extend(self.active.iter());
        }
        (self.active.len() - self.scratch.len() as u32, debtors)
    }

    /// Wakes the resting groups that a check would change. Returns true, without waking them, if
    /// the rate is new, because the timers of all resting groups must be set again then.
    pub(super) fn wake_resting(&mut self, now: &Now) -> bool {
        self.wake_if_reweighted();
        if self.rests.is_new_rate(&self.clock) {
            return true;
        }
        let glance = self.rests.glance(now);
        if !self.rests.all_timers_stay(&glance) {
            self.rests.forget_offsets();
            let mut place = 0;
            while let Some((group, behind)) = self.active.next(place) {
                place = behind;
                if self.active.rests(group) && !self.rests.still_rests(group, &glance) {
                    self.active.wake(group);
                }
            }
        }
        let groups = self.accounts.len() as u32;
        let (active, rests) = (&mut self.active, &self.rests);
        self.timers.each_before(rests.horizon(now), &mut |timer| {
            if timer < groups && active.rests(timer) && ahead(rests.until(timer), now.v) <= 0 {
                active.wake(timer);
            }
        });
        #[cfg(debug_assertions)]
        self.check_resting(now);
        false
    }

    #[cfg(debug_assertions)]
    fn check_resting(&mut self, now: &Now) {
        let mut place = 0;
        while let Some((group, behind)) = self.active.next(place) {
            place = behind;
            let rests = self.active.rests(group);
            assert!(
                !rests || self.would_rest(group, now),
                "group {group} does not rest"
            );
        }
    }

    /// Wakes all groups after weights have changed, because their parts of the drive are different.
    fn wake_if_reweighted(&mut self) {
        if self.rests.is_new_generation(self.weights.generation()) {
            self.active.wake_all();
        }
    }

    /// Determines the groups with a shortage and those that donate. Resting groups have a shortage.
    fn check_usage(&mut self, resting: u32, now: &Now, passed: i64) -> PeriodResult {
        self.donation.begin();
        let mut found = PeriodResult {
            shortages: resting,
            ..PeriodResult::default()
        };
        let has_targets = self.has_targets();
        for at in 0..self.scratch.len() {
            let group = self.scratch[at];
            let (hwa, hwi) = self.weights.parts(group);
            let base_rate = self.clock.base_rate;
            let account = self.account_mut(group);
            let used = core::mem::take(&mut account.usage) / base_rate;
            let account = self.account(group);
            found.usage += used;
            found.lagging += u32::from(has_targets && is_lagging(account, now, passed));
            let margin = ahead(now.v, account.vtime);
            let has_more = account.waiters.is_empty() && margin > self.clock.margins.low;
            if hwi >= hwa && !has_more {
                found.shortages += 1;
                self.rest(group);
                continue;
            }
            // Requests that stay in the drive use it, even if they were charged in an earlier
            // period.
            let used = match ahead(account.vtime, account.done) {
                in_flight if in_flight > 0 => {
                    let cost = absolute(in_flight.cast_unsigned(), hwi);
                    used.max(cost.div_ceil(base_rate))
                }
                _ => used,
            };
            let since = account.activated_at.max(self.clock.period_at);
            let span = now.us.saturating_sub(since).max(1);
            let one = u64::from(ONE);
            let used = (used.saturating_mul(one)).div_ceil(span).clamp(1, one);
            let most = self.weights.most(group);
            let keeps = self.part_to_keep(group, hwi, most, used, now, passed);
            if keeps < most && hwa >= 2 {
                self.donation.add(group, hwa, keeps);
            } else if self.account(group).debt == 0 {
                let active = self.weights.node(group).active;
                self.spread(group, active, active, true, now);
                found.shortages += 1;
            }
        }
        found
    }

    /// Returns true if latencies matter, because some requests must meet a target.
    pub(super) fn has_targets(&self) -> bool {
        self.params.may_miss.iter().any(|&m| m != 1_000_000)
    }

    /// Returns the part of the drive that a group needs to reach the target margin at the end of
    /// the next period, if its usage stays the same (Linux: `hweight_after_donation`).
    fn part_to_keep(
        &mut self,
        group: u32,
        hwi: u32,
        most: u32,
        used: u64,
        now: &Now,
        passed: i64,
    ) -> u32 {
        let margins = self.clock.margins;
        let account = self.account_mut(group);
        // A group in debt keeps as little as possible, because it must not send anyway.
        if account.debt > 0 {
            return 1;
        }
        let margin = ahead(now.v, account.vtime);
        if !account.waiters.is_empty() || margin < margins.min {
            return most;
        }
        let excess = margin - margins.target;
        if excess > 0 {
            account.move_by(excess);
            self.clock.error -= part(excess, hwi);
        }
        let one = i64::from(ONE);
        let account = self.account(group);
        let left = one * ahead(now.v, account.vtime) / passed.max(1);
        let target = one * MARGIN_TARGET.cast_signed() / 100;
        let keeps = one * used.cast_signed() / (one - target + left).max(1);
        keeps.clamp(1, most.into()) as u32
    }

    fn transfer(&mut self, now: &Now) {
        if !self.donation.settle(&self.weights) {
            return;
        }
        for at in 0..self.donation.donors.len() {
            let donor = self.donation.donors[at];
            // The weight in use of a group in debt is fixed until the debt is paid.
            if self.account(donor.group).debt == 0 {
                let active = self.weights.node(donor.group).active;
                self.spread(donor.group, active, donor.inuse, true, now);
            }
        }
    }

    /// Updates the busy level: positive if the drive is too busy, negative if it has room, counted
    /// in periods.
    fn set_level(&mut self, latencies: &PeriodLatencies, found: &PeriodResult) {
        let period = self.clock.period * 1_000;
        let tag_wait = latencies.tag_wait.as_nanos().saturating_mul(100) / period;
        let missed = [0, 1].map(|way| latencies.missed_ppm(way));
        let may_miss = self.params.may_miss;
        let most = |allowed: u64, part| allowed * part / 100;
        let is_busy =
            tag_wait > TAG_WAIT_BUSY || missed[0] > may_miss[0] || missed[1] > may_miss[1];
        let has_room = tag_wait <= most(TAG_WAIT_BUSY, UNBUSY)
            && missed[0] <= most(may_miss[0], UNBUSY)
            && missed[1] <= most(may_miss[1], UNBUSY);
        let level = if is_busy {
            self.busy_level.max(0) + 1
        } else if has_room && found.shortages > 0 {
            // A lagging group hides the latency of its requests, and surpluses must be used up
            // first. In both cases, the level waits.
            self.busy_level.min(0) - i32::from(found.lagging == 0 && found.surpluses == 0)
        } else {
            0
        };
        self.busy_level = level.clamp(-LEVEL_MAX, LEVEL_MAX);
    }

    /// Adjusts the base rate for the next period.
    fn adjust_rate(&mut self, lagging: u32) {
        let level = self.busy_level;
        if level == 0 || (level < 0 && lagging > 0) {
            return;
        }
        let (min, max) = (self.params.vrate_min, self.params.vrate_max);
        let rate = self.clock.base_rate;
        let percent = step(level.unsigned_abs());
        let rate = if rate < min {
            (rate * (100 + CLAMP_STEP) / 100).min(min)
        } else if rate > max {
            (rate * (100 - CLAMP_STEP) / 100).max(max)
        } else if level > 0 {
            (rate * (100 - percent)).div_ceil(100).clamp(min, max)
        } else {
            (rate * (100 + percent)).div_ceil(100).clamp(min, max)
        };
        self.clock.set_base_rate(rate);
    }
}

/// Returns true if requests of a group have been in the drive since before the period, so that
/// their latency is not known yet.
pub(super) fn is_lagging(account: &Account, now: &Now, passed: i64) -> bool {
    account.delay == 0
        && ahead(account.vtime, account.done) > 0
        && ahead(now.v, account.vtime) < LAGGING_MAX * passed
        && ahead(now.v, account.done) > passed
}

/// Returns `of` parts, in units of 1 / [`ONE`], of an amount of vtime.
fn part(vtime: i64, of: u32) -> i64 {
    (i128::from(vtime) * i128::from(of) / i128::from(ONE)) as i64
}

#[cfg(test)]
mod tests {
    use super::super::config::{Config, Control};
    use super::super::vtime::PER_USEC;
    use super::*;
    use crate::cx::Cx;
    use crate::shape::{DriveShape, Sizes};

    /// Creates a controller in which 20 % of reads and 10 % of writes may miss their targets. Its
    /// period is twice the longer target, which is 8 ms.
    fn cost() -> CostController {
        let config = Config::default()
            .qos(Control::User)
            .rpct(8_000)
            .rlat(Span::from_millis(3))
            .wpct(9_000)
            .wlat(Span::from_millis(4))
            .min(5_000)
            .max(20_000);
        let cx = Cx::bare(Sizes::default(), DriveShape::default(), &[]);
        CostController::new(&config, &cx.table, false)
    }

    /// Returns the level after a period. `missed` counts reads and writes of a hundred each, and
    /// `wait` is the wait for tags in microseconds.
    fn level(before: i32, missed: [u64; 2], wait: u64, shortages: u32, lagging: u32) -> i32 {
        let mut cost = cost();
        assert_eq!(cost.clock.period, 8_000);
        cost.busy_level = before;
        let latencies = PeriodLatencies {
            met: missed.map(|n| 100 - n),
            missed,
            tag_wait: Span::from_micros(wait),
        };
        let found = PeriodResult {
            shortages,
            lagging,
            surpluses: 0,
            usage: 0,
        };
        cost.set_level(&latencies, &found);
        cost.busy_level
    }

    #[test]
    fn the_drive_is_busy_above_its_targets_and_free_below_75_percent() {
        for (missed, wait, found) in [
            // Busy: more than 20 % of reads, more than 10 % of writes, or at least 6 % of 8 ms,
            // which is 480 us.
            ([21, 0], 0, 1),
            ([0, 11], 0, 1),
            ([0, 0], 480, 1),
            // Neither busy nor with room.
            ([20, 0], 0, 0),
            ([0, 10], 0, 0),
            ([0, 0], 479, 0),
            ([16, 0], 0, 0),
            ([0, 8], 0, 0),
            ([0, 0], 320, 0),
            // Room for more: at most 75 % of each threshold, which is 15 % and 7 %. The wait must
            // be below 4 %, which is 320 us.
            ([15, 7], 319, -1),
            ([15, 0], 0, -1),
            ([0, 7], 0, -1),
            ([0, 0], 0, -1),
        ] {
            assert_eq!(level(0, missed, wait, 1, 0), found, "{missed:?} {wait}");
        }
        assert_eq!(level(3, [10, 3], 200, 0, 0), 0, "nobody could use more");
    }

    #[test]
    fn busy_levels_count_periods_and_change_sign_at_once() {
        let busy = |before| level(before, [50, 0], 0, 1, 0);
        let idle = |before, lagging| level(before, [0, 0], 0, 1, lagging);
        assert_eq!([-3, 0, 4, 1_000].map(busy), [1, 1, 5, 1_000]);
        assert_eq!([3, 0, -4, -1_000].map(|n| idle(n, 0)), [-1, -1, -5, -1_000]);
        assert_eq!(
            [3, 0, -4].map(|n| idle(n, 1)),
            [0, 0, -4],
            "a group that lags is waited for"
        );
    }

    #[test]
    fn a_shortage_next_to_a_surplus_does_not_raise_the_rate() {
        let mut cost = cost();
        let found = PeriodResult {
            shortages: 1,
            surpluses: 1,
            ..PeriodResult::default()
        };
        cost.set_level(&PeriodLatencies::default(), &found);
        assert_eq!(cost.busy_level, 0);
    }

    #[test]
    fn vrate_moves_by_its_level_within_its_bounds_and_comes_back_into_them_by_four_hundredths() {
        let after = |level: i32, percent: u64, lagging: u32| {
            let mut cost = cost();
            cost.clock.set_base_rate(PER_USEC * percent / 100);
            cost.busy_level = level;
            cost.adjust_rate(lagging);
            // In units of 0.01 %.
            (cost.clock.base_rate * 10_000).div_ceil(PER_USEC)
        };
        for (level, percent, lagging, rate) in [
            (0, 100, 0, 10_000),
            (4, 100, 0, 9_900),
            (4, 100, 3, 9_900),
            (60, 100, 0, 8_400),
            (-4, 100, 0, 10_100),
            (-4, 100, 1, 10_000),
            (-60, 100, 0, 11_600),
            // At the bounds of 50 % and 200 %.
            (60, 50, 0, 5_000),
            (60, 51, 0, 5_000),
            (-60, 200, 0, 20_000),
            (-60, 190, 0, 20_000),
            // Beyond the bounds, each step is 4 % of the rate.
            (0, 40, 0, 4_000),
            (1, 40, 0, 4_160),
            (-60, 40, 0, 4_160),
            (1, 49, 0, 5_000),
            (1, 300, 0, 28_800),
            (-60, 300, 0, 28_800),
            (1, 201, 0, 20_000),
        ] {
            let found = after(level, percent, lagging);
            assert!(
                found.abs_diff(rate) <= 1,
                "{level} {percent} {lagging}: {found}"
            );
        }
    }

    #[test]
    fn vrate_begins_to_move_slowly() {
        let steps = [0, 3, 4, 19, 20, 35, 36, 43, 44, 51, 52, 1_000].map(step);
        assert_eq!(steps, [0, 0, 1, 1, 2, 2, 4, 4, 8, 8, 16, 16]);
    }

    #[test]
    fn the_latency_target_grows_by_the_transfer_time_of_a_request() {
        let mut latencies = PeriodLatencies::default();
        let target = 100;
        let mut record = |micros, size| {
            let took = Span::from_micros(micros);
            latencies.record(Op::Read, took, Span::ZERO, size, target);
        };
        record(100, 0);
        record(101, 0);
        record(110, 10_000 * PER_NSEC);
        record(111, 10_000 * PER_NSEC);
        assert_eq!(
            (latencies.missed_ppm(0), latencies.missed_ppm(1)),
            (500_000, 0)
        );
    }

    #[test]
    fn parts_of_a_million_are_rounded_to_the_nearest() {
        let of = |met, missed| {
            let latencies = PeriodLatencies {
                met: [met, 0],
                missed: [missed, 0],
                ..PeriodLatencies::default()
            };
            latencies.missed_ppm(0)
        };
        assert_eq!([of(0, 0), of(9, 0), of(0, 9)], [0, 0, 1_000_000]);
        assert_eq!([of(5, 1), of(2, 1), of(1, 5)], [166_667, 333_333, 833_333]);
    }

    #[test]
    fn a_group_below_the_minimum_margin_donates_nothing() {
        let mut cost = cost();
        let min = cost.clock.margins.min;
        let mut keeps = |margin: i64| {
            let now = Now {
                at: crate::Instant::ZERO,
                us: 0,
                v: 1 << 40,
            };
            cost.account_mut(1).vtime = (1 << 40) - margin.cast_unsigned();
            cost.part_to_keep(1, ONE / 2, ONE / 2, 0, &now, 1 << 30)
        };
        assert!(min > 0);
        assert_eq!(keeps(min - 1), ONE / 2);
        assert!(keeps(min) < ONE / 2, "it used nothing");
    }
}
