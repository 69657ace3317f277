//! Audits limits of `io.max` in slices: in no window does a limit let more pass than Linux's slices
//! allow, and a request that waits for a limit is woken.
//!
//! The amount that a slice allows is rounded up, and a window can begin at the end of one slice and
//! end at the beginning of another. So a window may contain two slices and a tick more than the
//! rate lets pass. It may also contain the largest request, for which budget may have been saved
//! up.
//!
//! A request that is too long for the drive counts as the commands into which it is split.
//!
//! For limited groups above and below others, only a weaker rule is visible. Requests that passed
//! one limit may gather at the limit above. The slice of a group may also begin at the time at
//! which that of a member began, and the member's request may have waited since. So a window may be
//! longer by the time that requests wait, including those that were given up. Requests that waited
//! when limits changed may have been checked against the previous limits, and are not counted.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::{LayerModel, LiveRequest};
use weir_core::control::slices;
use weir_core::{Config, DriveShape, GroupId, Instant, Max, Op, Reason, Request, Span, Wake};

/// The number of nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// A bucket that leaks at the rate of a limit. Its level is the largest amount by which a window
/// that ends now exceeded the rate.
#[derive(Clone, Copy, Debug, Default)]
struct SliceBucket {
    rate: u64,
    /// The level, in amounts times [`LimitClock::unit`].
    level: u128,
    at: Instant,
    /// The largest amount that passed at once since the bucket was empty.
    largest: u64,
}

impl SliceBucket {
    fn set(&mut self, rate: u64) {
        (self.rate, self.level, self.largest) = (rate, 0, 0);
    }

    fn leak(&mut self, now: Instant) {
        let passed = u128::from(now.since(self.at).as_nanos());
        self.level = self.level.saturating_sub(u128::from(self.rate) * passed);
        self.at = now;
        if self.level == 0 {
            self.largest = 0;
        }
    }

    /// Charges a request. Returns by how many nanoseconds of its rate the bucket is too full.
    fn charge(&mut self, clock: LimitClock, now: Instant, amount: u64, allowed: Span) -> u128 {
        self.leak(now);
        self.largest = self.largest.max(amount);
        // Linux counts a second as a whole number of ticks, which `unit` stands for.
        self.level += u128::from(amount) * clock.unit;
        let saved = u128::from(self.largest) * clock.unit;
        let slices = u128::from(self.rate) * u128::from(allowed.as_nanos());
        self.level.saturating_sub(saved + slices) / u128::from(self.rate)
    }
}

/// The units in which the limits count time and commands.
#[derive(Clone, Copy, Debug)]
struct LimitClock {
    tick: Span,
    slice: Span,
    /// The number of nanoseconds in the ticks that count as a second.
    unit: u128,
    /// The length in bytes of the longest command that moves data.
    max_transfer: u32,
}

impl LimitClock {
    fn new(config: &slices::Config, drive: &DriveShape) -> Self {
        let tick = config.tick.as_nanos();
        let slice = match config.throttle_sample_time {
            // Linux: `DFL_THROTL_SLICE_HD` (100 ms) and `DFL_THROTL_SLICE_SSD` (20 ms) in
            // `block/blk-throttle.c`.
            Span::ZERO if drive.rotational => SECOND / 10,
            Span::ZERO => SECOND / 50,
            stated => stated.as_nanos(),
        };
        Self {
            tick: config.tick,
            // Timers of Linux run in ticks, so that a slice is rounded up to them.
            slice: Span::from_nanos(slice.next_multiple_of(tick)),
            unit: u128::from(SECOND / tick * tick),
            max_transfer: drive.max_transfer,
        }
    }

    /// Returns the amount by which a window may exceed the rate, as time at the rate of the limit.
    fn allowed(&self) -> Span {
        self.slice + self.slice + self.tick
    }
}

/// Returns the number of commands of a drive that a request needs. Linux counts each of them.
pub(crate) fn commands(request: &Request, max_transfer: u32) -> u64 {
    let longest = match request.op {
        Op::Read | Op::Write => max_transfer,
        // Commands without data are cut at 64 MiB.
        _ => 64 << 20,
    };
    // A request without data is still one command.
    let rest = request.length.saturating_sub(longest);
    1 + u64::from(rest.div_ceil(longest))
}

/// The limits of a group and the longest wait for them.
#[derive(Clone, Debug, Default)]
struct SliceLimits {
    max: Max,
    /// The limits of bytes and of requests, for reads and writes.
    limits: [[SliceBucket; 2]; 2],
    /// The longest time for which a request has waited.
    waited: Span,
    /// The groups with limits, from this one up.
    path: Vec<u32>,
}

/// The auditor of limits in slices, see the module's documentation.
#[derive(Debug)]
pub struct SlicesAuditor {
    clock: Option<LimitClock>,
    nodes: Vec<SliceLimits>,
    /// The time of the last change of limits.
    changed: Instant,
}

/// Returns the limit of one direction, or zero if there is none.
fn limit(both: u64, one: u64) -> u64 {
    match (both, one) {
        (0, limit) | (limit, 0) => limit,
        (both, one) => both.min(one),
    }
}

/// Returns true if a request waits for its limits.
fn waits(live: &LiveRequest) -> bool {
    !live.released && !live.given_up && !live.over
}

impl SlicesAuditor {
    pub(crate) fn new(config: &Config) -> Self {
        let slices = config.controllers.slices.as_ref();
        // The limits are in slices only if the controller of limits is on.
        let slices = slices.filter(|_| config.controllers.max);
        Self {
            clock: slices.map(|config_of| LimitClock::new(config_of, &config.drive)),
            nodes: vec![SliceLimits::default(); config.sizes.groups as usize],
            changed: Instant::ZERO,
        }
    }

    /// Copies the limits of every group from the model. Changed limits begin with an empty bucket.
    fn set(&mut self, model: &LayerModel) {
        for (id, node) in (0..).map(GroupId).zip(&mut self.nodes) {
            let max = model.tree.get(id).map_or(Max::NONE, |g| g.contract.max);
            let rates = |max: &Max| {
                let bytes = [max.read_bandwidth, max.write_bandwidth];
                let requests = [max.read_iops, max.write_iops];
                [
                    bytes.map(|one| limit(max.bandwidth, one)),
                    requests.map(|one| limit(max.iops, one)),
                ]
            };
            if rates(&max) != rates(&node.max) {
                self.changed = model.now;
                let buckets = node.limits.iter_mut().flatten();
                for (bucket, rate) in buckets.zip(rates(&max).into_iter().flatten()) {
                    bucket.set(rate);
                }
            }
            node.max = max;
        }
        for i in 0..self.nodes.len() {
            let path = model.tree.path(GroupId(i as u32)).map(|g| g.0);
            let limited = path.filter(|&g| self.nodes[g as usize].max.is_limited());
            self.nodes[i].path = limited.collect();
        }
    }

    fn released(
        &mut self,
        clock: LimitClock,
        model: &LayerModel,
        live: &LiveRequest,
        found: &mut Violations,
    ) {
        // The request may have been checked against the limits before the change.
        if live.submitted <= self.changed {
            return;
        }
        let direction = usize::from(!live.request.op.is_read());
        let waited = model.now.since(live.submitted);
        let bytes = live.request.charge();
        let own = live.group.0;
        for i in 0..self.nodes[own as usize].path.len() {
            let group = self.nodes[own as usize].path[i];
            let has_members = model.tree.iter().any(|(_, g)| g.parent.0 == group);
            // Without limited groups above and below, the strict rule applies.
            let is_alone = !has_members && self.nodes[own as usize].path.len() == 1;
            let node = &mut self.nodes[group as usize];
            node.waited = node.waited.max(waited);
            let credit = if is_alone {
                Span::ZERO
            } else {
                let waiting = model.live_requests().filter(|(_, live)| waits(live));
                let waiting = waiting.map(|(_, live)| model.now.since(live.submitted));
                waiting.fold(node.waited, Span::max) + clock.allowed()
            };
            let requests = commands(&live.request, clock.max_transfer);
            for (limits, amount) in node.limits.iter_mut().zip([bytes, requests]) {
                let bucket = &mut limits[direction];
                if bucket.rate == 0 {
                    continue;
                }
                let allowed = clock.allowed() + credit;
                let above = bucket.charge(clock, model.now, amount, allowed);
                if above > 0 {
                    found.add(format_args!(
                        "group {group} is {above} ns above its limit with {:?} of {own:?}: {bucket:?}, {allowed:?}",
                        live.request
                    ));
                }
            }
        }
    }

    /// Records how long requests have waited. A waiting request may be given up, and leaves the
    /// slice that began for it to others.
    fn note_waits(&mut self, model: &LayerModel) {
        for (_, live) in model.live_requests().filter(|(_, live)| waits(live)) {
            let waited = model.now.since(live.submitted);
            for i in 0..self.nodes[live.group.0 as usize].path.len() {
                let above = self.nodes[live.group.0 as usize].path[i];
                let node = &mut self.nodes[above as usize];
                node.waited = node.waited.max(waited);
            }
        }
    }

    /// Checks the wake-up. The order of waiting requests is not known, so one of them must be
    /// checked again by the time at which the last of them would pass if it were the only one.
    fn polled(
        &self,
        clock: LimitClock,
        model: &LayerModel,
        wake: Option<Wake>,
        found: &mut Violations,
    ) {
        let waiting = model.live_requests().filter(|(_, live)| waits(live));
        let longest = waiting.map(|(_, live)| self.longest(clock, live)).max();
        let Some(longest) = longest else { return };
        let due = model.now + longest;
        if wake.is_none_or(|wake| wake.at > due && wake.reason != Reason::Answers) {
            found.add(format_args!(
                "somebody waits for a limit, at most until {due:?}: {wake:?}"
            ));
        }
    }

    /// Returns the longest time for which a request waits for one of its limits until that limit is
    /// checked again.
    fn longest(&self, clock: LimitClock, live: &LiveRequest) -> Span {
        let direction = usize::from(!live.request.op.is_read());
        let path = &self.nodes[live.group.0 as usize].path;
        let of_group = |group: &u32| {
            let rate = self.nodes[*group as usize].limits[0][direction].rate;
            let amount = u128::from(live.request.charge()) * clock.unit;
            let bytes = amount.checked_div(u128::from(rate)).unwrap_or(0);
            let rate = self.nodes[*group as usize].limits[1][direction].rate;
            let commands = u128::from(commands(&live.request, clock.max_transfer) - 1);
            let requests = (commands * clock.unit).checked_div(u128::from(rate));
            let time = bytes.max(requests.unwrap_or(0));
            Span::from_nanos(u64::try_from(time).unwrap_or(u64::MAX))
        };
        path.iter().map(of_group).fold(Span::ZERO, Span::max) + clock.allowed()
    }
}

impl Auditor for SlicesAuditor {
    const NAME: &'static str = "slices";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        let Some(clock) = self.clock else { return };
        match *fact {
            Fact::Changed(_, Ok(_)) => self.set(model),
            Fact::Released(Some(slot), _) => {
                self.released(clock, model, model.request(slot), found);
            }
            Fact::Polled(_, wake) => {
                self.note_waits(model);
                self.polled(clock, model, wake, found);
            }
            _ => {}
        }
    }
}
