//! Write-back of the page cache: the flusher of each group, and the throttling of writers.
//!
//! With cgroup v2, Linux has one `bdi_writeback` for each memory cgroup and drive. Its flusher
//! writes the pages that the processes of that cgroup have dirtied, and the writes belong to the
//! cgroup's I/O controller (`fs/fs-writeback.c`, Documentation/admin-guide/cgroup-v2.rst,
//! "Writeback"). A process that dirties pages faster than they can be written sleeps in
//! `balance_dirty_pages` (`mm/page-writeback.c`): each group has a rate at which each of its
//! processes may dirty pages. The rate follows from the measured speed of the group's flusher. It
//! is scaled by a factor that keeps the dirty pages of the host near the middle between the level
//! at which throttling begins and the limit, and those of the group near the group's part of that.
//! The part is the group's part of the pages that were written recently. Rules and constants are
//! those of Linux 6.1.
//!
//! The model leaves out limits of memory cgroups, changes of the owner of a file, and the
//! throttling of flushers (`wbt`). Processes that call `fdatasync` write their data themselves, and
//! their pages do not count.

use super::read_ahead::PAGE;
use crate::{Buffered, ClientSpec};
use std::collections::BTreeMap;
use weir_config::scenario::FLUSHER_DEPTH;
use weir_core::{GroupId, Instant, Span};

const SECOND: u64 = 1_000_000_000;

/// The factor 1 of a scaled rate (Linux: `RATELIMIT_CALC_SHIFT`).
const ONE: i64 = 1 << 10;

/// The speed of a flusher, and the rate of its writers, before the first measurement: 100 MiB/s in
/// pages per second (`INIT_BW`).
const INITIAL: u64 = (100 << 20) / PAGE;

/// The time between two measurements of a flusher's speed (`BANDWIDTH_INTERVAL`).
const INTERVAL: Span = Span::from_millis(200);

/// The time over which the speed of a flusher is averaged: three seconds, rounded up to a power of
/// two in ticks of 4 ms (`wb_update_write_bandwidth`).
const AVERAGE: Span = Span::from_millis(4096);

/// The age at which a measurement is discarded, because the group was idle.
const STALE: Span = Span::from_secs(1);

/// The time after which written pages count half for a group's part of the limit
/// (`VM_COMPLETIONS_PERIOD_LEN`).
const HALVING: Span = Span::from_secs(3);

/// The shortest and the longest sleep of a writer. A writer first dirties pages for the shortest
/// (`wb_min_pause`, `MAX_PAUSE`).
const SLEEP: [Span; 2] = [Span::from_millis(10), Span::from_millis(200)];

/// The smallest number of pages that a flusher writes of a file before it continues with the next
/// file (`MIN_WRITEBACK_PAGES`).
const CHUNK: u64 = 1024;

/// The age at which dirty pages are written in any case, and the times at which flushers check it
/// (`dirty_expire_interval`, `dirty_writeback_interval`).
const EXPIRE: Span = Span::from_secs(30);
const CHECK: Span = Span::from_secs(5);

/// All dirty pages of a host, with the flusher of each group.
#[derive(Debug)]
pub(crate) struct WriteBack {
    /// The maximum number of pages that are dirty or in write-back (`dirty_thresh`).
    limit: u64,
    flushers: BTreeMap<GroupId, Flusher>,
    /// The start of the present period of [`HALVING`].
    period: Instant,
}

/// The flusher of a group, in pages.
#[derive(Debug)]
struct Flusher {
    /// The clients whose pages it writes.
    clients: Vec<u32>,
    /// The index of the client whose file it writes, and the pages that it may still write of it.
    at: usize,
    chunk: u64,
    /// True from the time at which there are too many dirty pages until there are few.
    runs: bool,
    in_flight: u32,
    dirty: u64,
    writing: u64,
    /// The pages written recently, which determine the group's part of the limit.
    recent: u64,
    rates: FlusherRates,
}

/// The measured rates of a group in pages per second.
#[derive(Debug)]
struct FlusherRates {
    /// The start of the present measurement, and the pages dirtied and written since then.
    since: Instant,
    dirtied: u64,
    written: u64,
    /// The speed of the flusher.
    speed: u64,
    /// The rate at which each process of the group may dirty pages, before it is scaled.
    rate: u64,
    /// The last rate at which dirtying and writing would have been in balance.
    balanced: u64,
}

/// The sleeps of a process that dirties pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterThrottle {
    group: GroupId,
    /// The pages that the process has dirtied since `since`, for which it has not slept.
    owed: u64,
    since: Instant,
}

impl WriterThrottle {
    /// Creates the state of a process of a group that has dirtied no page.
    pub(crate) fn new(group: GroupId) -> Self {
        Self {
            group,
            owed: 0,
            since: Instant::ZERO,
        }
    }
}

/// Returns the time at which pages that were dirtied at `since` are written in any case.
pub(crate) fn expiry(since: Instant) -> Instant {
    let expires = (since + EXPIRE).as_nanos();
    Instant::from_nanos(expires.next_multiple_of(CHECK.as_nanos()))
}

impl WriteBack {
    pub(crate) fn new(clients: &[ClientSpec]) -> Self {
        let mut all = Self {
            limit: 0,
            flushers: BTreeMap::new(),
            period: Instant::ZERO,
        };
        for (client, spec) in (0..).zip(clients) {
            let Some(buffered) = &spec.buffered else {
                continue;
            };
            if Buffered::is_written_back(&spec.program) {
                all.limit = all.limit.max(buffered.dirty_bytes / PAGE);
                let flusher = all.flushers.entry(spec.group).or_default();
                flusher.clients.push(client);
            }
        }
        all
    }

    /// Counts pages that a process has dirtied, and lets the flusher of its group run if there are
    /// too many dirty pages.
    pub(crate) fn dirtied(&mut self, throttle: &mut WriterThrottle, pages: u64) {
        throttle.owed += pages;
        let background = self.limit / 2;
        let flusher = self.flushers.entry(throttle.group).or_default();
        flusher.dirty += pages;
        flusher.rates.dirtied += pages;
        let dirty: u64 = self.flushers.values().map(|f| f.dirty).sum();
        if dirty > background {
            self.flushers.entry(throttle.group).or_default().runs = true;
        }
    }

    /// Counts pages whose write begins with one command.
    pub(crate) fn began(&mut self, group: GroupId, pages: u64) {
        let flusher = self.flushers.entry(group).or_default();
        flusher.dirty = flusher.dirty.saturating_sub(pages);
        flusher.writing += pages;
        flusher.chunk = flusher.chunk.saturating_sub(pages);
        flusher.in_flight += 1;
    }

    /// Counts pages whose command has ended.
    pub(crate) fn ended(&mut self, now: Instant, group: GroupId, pages: u64) {
        while now.since(self.period) >= HALVING {
            self.period += HALVING;
            self.flushers.values_mut().for_each(|f| f.recent /= 2);
        }
        let flusher = self.flushers.entry(group).or_default();
        flusher.writing = flusher.writing.saturating_sub(pages);
        flusher.in_flight = flusher.in_flight.saturating_sub(1);
        flusher.recent += pages;
        flusher.rates.written += pages;
    }

    /// Removes the pages of a client that has left: dirty ones, and those of commands in flight.
    pub(crate) fn abandon(&mut self, group: GroupId, dirty: u64, commands: &[u64]) {
        let flusher = self.flushers.entry(group).or_default();
        flusher.dirty = flusher.dirty.saturating_sub(dirty);
        flusher.writing = flusher.writing.saturating_sub(commands.iter().sum());
        flusher.in_flight = (flusher.in_flight).saturating_sub(commands.len() as u32);
    }

    /// Returns true if no process may dirty a page.
    pub(crate) fn is_full(&self) -> bool {
        self.total() >= self.limit
    }

    /// Returns the time until which a process must sleep at `now`, if it must.
    pub(crate) fn sleep(&mut self, now: Instant, throttle: &mut WriterThrottle) -> Option<Instant> {
        let free = self.free();
        let (total, limit) = (self.total(), self.limit);
        let ratio = self.position(throttle.group);
        let flusher = self.flushers.entry(throttle.group).or_default();
        let throttled = (total > free).then_some((ratio, total < u64::midpoint(free, limit)));
        // While nothing is written, there is no speed to measure.
        if throttled.is_some() || flusher.in_flight > 0 {
            flusher.rates.measure(now, throttled);
        }
        if total <= free {
            (throttle.owed, throttle.since) = (0, now);
            return None;
        }
        let rates = &flusher.rates;
        // A sleep is at most an eighth of the time in which the flusher writes the group's pages.
        let drain = (flusher.dirty + flusher.writing) * SECOND / rates.speed.max(1) / 8;
        let longest = Span::from_nanos(drain).clamp(SLEEP[0], SLEEP[1]);
        let rate = scaled(rates.rate, ratio);
        if rate == 0 {
            return Some(now + longest);
        }
        let due = Span::from_nanos(throttle.owed * SECOND / rate);
        let awake = now.since(throttle.since);
        if due < awake + SLEEP[0].min(longest) {
            // A process that was idle for long has no credit.
            if awake > due + STALE {
                (throttle.owed, throttle.since) = (0, now);
            }
            return None;
        }
        let until = now + (due - awake).min(longest);
        (throttle.owed, throttle.since) = (0, until);
        Some(until)
    }

    /// Chooses the client whose pages a group's flusher writes next, and the maximum number of
    /// pages. `left` returns the pages of a client that can be written: all dirty ones, or only the
    /// expired ones.
    pub(crate) fn choose(
        &mut self,
        group: GroupId,
        left: impl Fn(u32, bool) -> u64,
    ) -> Option<(u32, u64)> {
        let is_over = self.is_over_background(group);
        let flusher = self.flushers.get_mut(&group)?;
        flusher.runs &= is_over;
        if flusher.in_flight >= FLUSHER_DEPTH {
            return None;
        }
        let (count, all) = (flusher.clients.len(), flusher.runs);
        for _ in 0..=count {
            let client = *flusher.clients.get(flusher.at)?;
            let pages = left(client, all);
            if pages > 0 && flusher.chunk > 0 {
                return Some((client, pages.min(flusher.chunk)));
            }
            // A file gets as many pages as the flusher writes in half a second.
            flusher.at = (flusher.at + 1) % count;
            flusher.chunk = CHUNK.max(flusher.rates.speed / 2);
        }
        flusher.runs = false;
        None
    }

    /// The pages that are dirty or in write-back.
    fn total(&self) -> u64 {
        self.flushers.values().map(|f| f.dirty + f.writing).sum()
    }

    /// The number of pages above which processes are throttled: the middle between the level at
    /// which flushers run and the limit.
    fn free(&self) -> u64 {
        u64::midpoint(self.limit / 2, self.limit)
    }

    /// The group's part of a number of pages, by the pages that were written recently.
    fn part(&self, group: GroupId, of: u64) -> u64 {
        let all: u64 = self.flushers.values().map(|f| f.recent).sum();
        let recent = self.flushers.get(&group).map_or(0, |f| f.recent);
        of * recent / all.max(1)
    }

    /// Returns true if the host has too many dirty pages, or the group more than its part.
    fn is_over_background(&self, group: GroupId) -> bool {
        let background = self.limit / 2;
        let dirty: u64 = self.flushers.values().map(|f| f.dirty).sum();
        let own = self.flushers.get(&group).map_or(0, |f| f.dirty);
        dirty > background || own > self.part(group, background)
    }

    /// The factor of the rate of a group's processes, in parts of [`ONE`] (`wb_position_ratio`).
    fn position(&self, group: GroupId) -> i64 {
        let (limit, free, total) = (self.limit, self.free(), self.total());
        let Some(flusher) = self.flushers.get(&group).filter(|_| total < limit) else {
            return 0;
        };
        let goal = u64::midpoint(free, limit);
        let off =
            ((goal.cast_signed() - total.cast_signed()) * ONE) / (limit - goal + 1).cast_signed();
        let host = (ONE + off * off / ONE * off / ONE).clamp(0, 2 * ONE);
        // A group that has just begun to write gets a part of the pages that are left.
        let part = self.part(group, limit).max((limit - total) / 8);
        let scale = |pages: u64| {
            ((u128::from(pages) * u128::from(part) / u128::from(limit)) as u64).cast_signed()
        };
        let span = scale(limit - part.min(limit) + 8 * flusher.rates.speed);
        let (goal, own) = (scale(goal), (flusher.dirty + flusher.writing).cast_signed());
        let ratio = if own < goal + span - span / 4 {
            host * (goal + span - own) / span.max(1)
        } else {
            host / 4
        };
        // A group with few pages is allowed more, so that its flusher does not run dry.
        let few = part.cast_signed() / 2;
        if own >= few {
            ratio
        } else if own > few / 8 {
            ratio * few / own
        } else {
            ratio * 8
        }
    }
}

impl Default for Flusher {
    fn default() -> Self {
        Self {
            clients: Vec::new(),
            at: 0,
            chunk: CHUNK.max(INITIAL / 2),
            runs: false,
            in_flight: 0,
            dirty: 0,
            writing: 0,
            recent: 0,
            rates: FlusherRates {
                since: Instant::ZERO,
                dirtied: 0,
                written: 0,
                speed: INITIAL,
                rate: INITIAL,
                balanced: INITIAL,
            },
        }
    }
}

impl FlusherRates {
    /// Ends a measurement if it is long enough. While processes are throttled, `throttled` has the
    /// factor of their rate, and is true if the host has fewer pages than it should have.
    fn measure(&mut self, now: Instant, throttled: Option<(i64, bool)>) {
        let elapsed = now.since(self.since);
        if elapsed < INTERVAL {
            return;
        }
        if elapsed <= STALE {
            let per_second = |pages: u64| pages * SECOND / elapsed.as_nanos();
            let (written, dirtied) = (per_second(self.written), per_second(self.dirtied));
            if let Some((ratio, has_few)) = throttled {
                self.adjust(dirtied, ratio, has_few);
            }
            let (new, all) = (elapsed.as_nanos(), AVERAGE.as_nanos());
            let sum = u128::from(written) * u128::from(new)
                + u128::from(self.speed) * u128::from(all - new);
            self.speed = (sum / u128::from(all)) as u64;
        }
        (self.since, self.dirtied, self.written) = (now, 0, 0);
    }

    /// Moves the rate of the processes towards the rate at which they would dirty as many pages as
    /// the flusher writes (`wb_update_dirty_ratelimit`).
    fn adjust(&mut self, dirtied: u64, ratio: i64, has_few: bool) {
        let task = scaled(self.rate, ratio) + 1;
        let balanced = task * self.speed / dirtied.max(1);
        let balanced = balanced.min(self.speed);
        // The rate only moves if the present and the last measurement agree on the direction.
        let all = [self.balanced, balanced, task];
        let step = if has_few {
            let least = all.into_iter().fold(u64::MAX, u64::min);
            least.saturating_sub(self.rate)
        } else {
            let most = all.into_iter().fold(0, u64::max);
            self.rate.saturating_sub(most)
        };
        // Small differences are approached slowly, because they are noise.
        let slow = self.rate / (2 * step + 1);
        let step = match slow {
            0..64 => (step >> slow).div_ceil(8),
            _ => 0,
        };
        self.rate = if self.rate < balanced {
            self.rate + step
        } else {
            self.rate.saturating_sub(step).max(1)
        };
        self.balanced = balanced;
    }
}

fn scaled(rate: u64, ratio: i64) -> u64 {
    let ratio = u128::from(ratio.max(0).cast_unsigned());
    (u128::from(rate) * ratio / u128::from(ONE.cast_unsigned())) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;
    use weir_core::Contract;
    use weir_core::random::Rng;
    use weir_model::drive::{DriveConfig, null::NullConfig};
    use weir_model::load::Program;

    /// The limit of the tests, in pages.
    const LIMIT: u64 = 16_384;

    /// The state of a host with `count` groups of one writer each.
    fn host(count: u32) -> (WriteBack, Vec<WriterThrottle>) {
        let drive = DriveConfig::Null(NullConfig::demo());
        let mut scenario = Scenario::new("host", drive, Span::from_secs(1));
        for _ in 0..count {
            let mut program = Program::sequential_reads(4096, 1);
            program.writes = 100;
            let client = scenario.add_client_with_group("one", Contract::DEFAULT, PAGE, program);
            client.buffered = Some(Buffered {
                dirty_bytes: LIMIT * PAGE,
                ..Buffered::default()
            });
        }
        let throttles = scenario
            .clients
            .iter()
            .map(|c| WriterThrottle::new(c.group));
        (WriteBack::new(&scenario.clients), throttles.collect())
    }

    #[test]
    fn sleeps_are_bounded_and_pages_are_counted_whatever_the_processes_do() {
        let mut rng = Rng::new(7);
        for _ in 0..200 {
            let count = rng.range(1, 4) as u32;
            let (mut host, mut throttles) = host(count);
            let mut now = Instant::ZERO;
            let (mut dirty, mut writing) = (vec![0; count as usize], Vec::new());
            for _ in 0..300 {
                now += Span::from_micros(rng.range(0, 300_000));
                let at = rng.range(0, u64::from(count) - 1) as usize;
                let throttle = &mut throttles[at];
                let group = throttle.group;
                match rng.range(0, 3) {
                    0 | 1 => {
                        let pages = rng.range(1, LIMIT / 8);
                        host.dirtied(throttle, pages);
                        dirty[at] += pages;
                        let sum: u64 = dirty.iter().chain(writing.iter().map(|(_, n)| n)).sum();
                        let sleep = host.sleep(now, throttle);
                        let longest = sleep.map_or(Span::ZERO, |until| until.since(now));
                        assert!(longest <= SLEEP[1], "{longest:?}");
                        assert_eq!(host.is_full(), sum >= LIMIT);
                        assert!(sum < LIMIT || sleep.is_some(), "nobody passes the limit");
                        assert!(sum > LIMIT / 4 * 3 || sleep.is_none(), "{sum} are few");
                    }
                    2 => {
                        let left = |client: u32, all| {
                            let of_client = dirty[client as usize];
                            if all { of_client } else { 0 }
                        };
                        if let Some((client, most)) = host.choose(group, left) {
                            let of_client = &mut dirty[client as usize];
                            assert!((1..=*of_client).contains(&most));
                            *of_client -= most;
                            host.began(group, most);
                            writing.push((group, most));
                        }
                    }
                    _ if !writing.is_empty() => {
                        let (group, pages) = writing.swap_remove(0);
                        host.ended(now, group, pages);
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn the_factor_of_a_rate_falls_with_the_pages_of_host_and_group() {
        let (mut host, mut throttles) = host(2);
        let [one, other] = [throttles[0].group, throttles[1].group];
        let mut last = i64::MAX;
        for _ in 0..LIMIT {
            host.dirtied(&mut throttles[0], 1);
            let ratio = host.position(one);
            assert!(ratio <= last, "{ratio} after {last}");
            last = ratio;
        }
        assert_eq!(
            (last, host.position(other)),
            (0, 0),
            "all wait at the limit"
        );
        // A group that wrote as much as the other, and has fewer pages, may dirty more of them.
        for (group, pages) in [(one, LIMIT / 4), (other, 0)] {
            host.began(group, pages);
            host.ended(Instant::ZERO, group, pages);
            host.flushers.entry(group).or_default().recent = 100;
        }
        assert!(host.position(other) > 2 * host.position(one));
    }

    #[test]
    fn a_group_that_writes_faster_has_the_larger_part() {
        let (mut host, throttles) = host(2);
        let [fast, slow] = [throttles[0].group, throttles[1].group];
        for _ in 0..30 {
            host.ended(Instant::ZERO, fast, 90);
            host.ended(Instant::ZERO, slow, 30);
        }
        assert_eq!((host.part(fast, 400), host.part(slow, 400)), (300, 100));
        // Old writes count less than new ones.
        host.ended(Instant::ZERO + Span::from_secs(24), slow, 900);
        assert!(host.part(slow, 100) > 95);
    }
}
