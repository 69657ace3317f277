//! Requests that wait at the limits of a tree of groups, where limits count in slices (Linux:
//! `struct throtl_service_queue`).
//!
//! A request passes the limit of its group first, then that of each group above, and waits at one
//! of them at a time. Requests that reach a group from different groups below it take turns there,
//! and so do the group's own. The controller determines the rates. [`Levels`] determines when the
//! first waiting request may continue, and how many continue in one turn.

use super::slice::{Amount, Slice, SliceClock, SliceRate};
use crate::cx::Cx;
use crate::group::Groups;
use crate::heap::Heap;
use crate::id::{GroupId, ROOT};
use crate::knobs::ControllerKind;
use crate::list::{Links, List, NIL};
use crate::sample::{Sample, Take};
use crate::table::Table;
use crate::time::{Instant, Span};
use alloc::vec;
use alloc::vec::Vec;

/// Reads and writes of a group that continue in one turn (Linux: `THROTL_GRP_QUANTUM`, of which 75
/// % are for reads).
const QUANTUM: [u32; 2] = [6, 2];

/// The rates of all groups, as a controller determines them.
pub(in crate::control) trait GroupRates {
    /// Returns the rate of a group in a direction at this tick.
    fn rate(&mut self, tick: u64, group: u32, direction: usize) -> SliceRate;
    /// Records that a request of this amount passed a group's limit.
    fn passed(&mut self, _group: u32, _direction: usize, _amount: Amount) {}
}

/// The slices of one group and the requests that wait at its limit.
#[derive(Clone, Debug)]
struct GroupLevel {
    /// The group above, or [`NIL`] directly below the root, which has no limit.
    parent: u32,
    /// The number of groups above.
    depth: u8,
    slices: [Slice; 2],
    /// The sources of the requests that wait here, by direction. They take turns.
    queued: [List; 2],
    waiting: [u32; 2],
}

/// All groups with their waiting requests. Numbers are slots of groups and of live requests.
#[derive(Debug)]
pub(in crate::control) struct Levels {
    tick: Span,
    clock: SliceClock,
    levels: Vec<GroupLevel>,
    /// Waiting requests by source. Each group has two sources for each direction: its own requests,
    /// and those that it passes up.
    sources: Vec<List>,
    requests: Links,
    turns: Links,
    /// The source in which a request waits, or [`NIL`].
    waits_in: Vec<u32>,
    passed: List,
    /// The times at which the first waiting request of each group may continue.
    timers: Heap,
}

/// Returns the source of a group's own requests, or of those that it passes up to the group above.
fn source_of(group: u32, direction: usize, goes_up: bool) -> u32 {
    group * 4 + direction as u32 * 2 + u32::from(goes_up)
}

impl Levels {
    /// Creates the levels with slices of the given length, rounded up to whole ticks. Zero means
    /// the length that Linux uses for such a drive.
    pub(in crate::control) fn new(table: &Table, tick: Span, slice: Span) -> Self {
        let (live, groups) = (table.requests.capacity(), table.groups.capacity());
        let slice = match slice {
            // Linux: `DFL_THROTL_SLICE_HD` and, with `CONFIG_BLK_DEV_THROTTLING_LOW`,
            // `DFL_THROTL_SLICE_SSD`.
            Span::ZERO if table.shape.rotational => Span::from_millis(100),
            Span::ZERO => Span::from_millis(20),
            stated => stated,
        };
        let level = GroupLevel {
            parent: NIL,
            depth: 0,
            slices: [Slice::default(); 2],
            queued: [List::EMPTY; 2],
            waiting: [0; 2],
        };
        Self {
            tick,
            clock: SliceClock {
                hz: 1_000_000_000 / tick.as_nanos(),
                slice: slice.as_nanos().div_ceil(tick.as_nanos()),
            },
            levels: vec![level; groups as usize],
            sources: vec![List::EMPTY; groups as usize * 4],
            requests: Links::new(live),
            turns: Links::new(groups * 4),
            waits_in: vec![NIL; live as usize],
            passed: List::EMPTY,
            timers: Heap::new(groups),
        }
    }

    /// Returns the ticks in a slice and in a second.
    pub(in crate::control) fn clock(&self) -> SliceClock {
        self.clock
    }

    /// Returns the present tick, which is never zero.
    pub(in crate::control) fn tick(&self, now: Instant) -> u64 {
        // Zero is free to mean that an event has not happened yet.
        now.as_nanos() / self.tick.as_nanos() + 1
    }

    /// Returns the instant at which a tick begins.
    pub(in crate::control) fn instant(&self, tick: u64) -> Instant {
        Instant::from_nanos((tick - 1).saturating_mul(self.tick.as_nanos()))
    }

    /// Returns the group above a group, or [`NIL`].
    pub(in crate::control) fn parent(&self, group: u32) -> u32 {
        self.levels[group as usize].parent
    }

    /// Returns the group and those above it, without the root.
    pub(in crate::control) fn path(&self, group: u32) -> impl Iterator<Item = u32> {
        let level = |at| Some(at).filter(|&at| at != NIL);
        core::iter::successors(level(group), move |&at| level(self.parent(at)))
    }

    /// Returns the number of reads and writes that wait at a group.
    pub(in crate::control) fn waiting(&self, group: u32) -> [u32; 2] {
        self.levels[group as usize].waiting
    }

    /// Returns true if no request waits.
    pub(in crate::control) fn is_idle(&self) -> bool {
        self.timers.first().is_none()
    }

    /// Returns the time at which the first waiting request may continue, or [`Instant::MAX`] if
    /// none waits.
    pub(in crate::control) fn next(&self) -> Instant {
        self.timers.next()
    }

    /// Updates the position of a group in the tree. A group that was removed loses its past.
    pub(in crate::control) fn place(&mut self, groups: &Groups, id: GroupId) {
        let level = &mut self.levels[id.0 as usize];
        let Some(group) = groups.get(id).filter(|_| id != ROOT) else {
            debug_assert!(
                level.waiting == [0, 0],
                "requests of a group that is not there"
            );
            // A new group with the same slot must not inherit the account.
            level.slices = [Slice::default(); 2];
            return;
        };
        level.parent = match group.parent {
            ROOT => NIL,
            parent => parent.0,
        };
        level.depth = group.depth;
    }

    /// Samples the number of requests that wait at each group's limit.
    pub(in crate::control) fn sample(&self, by: ControllerKind, take: &mut Take<'_>) {
        for (group, level) in (0..).map(GroupId).zip(&self.levels) {
            let requests = level.waiting[0] + level.waiting[1];
            if requests > 0 {
                take(Sample::Held {
                    by,
                    group,
                    requests,
                });
            }
        }
    }

    /// Returns true if the request waits at a limit.
    #[cfg(test)]
    pub(in crate::control) fn holds(&self, id: u32) -> bool {
        self.waits_in[id as usize] != NIL
    }

    /// Begins new slices of a group.
    pub(in crate::control) fn begin(&mut self, group: u32, now: Instant) {
        let tick = self.tick(now);
        for slice in &mut self.levels[group as usize].slices {
            slice.begin(self.clock, tick);
        }
    }

    /// Lets a request pass a group's limit if no other waits there and the limit permits it.
    pub(in crate::control) fn pass(
        &mut self,
        rates: &mut impl GroupRates,
        tick: u64,
        (group, direction): (u32, usize),
        amount: Amount,
    ) -> bool {
        // A request must not overtake those that wait, even if it is small enough for the rest of
        // the slice.
        let waits = self.levels[group as usize].waiting[direction] > 0;
        if waits || self.wait(rates, tick, group, direction, amount) > 0 {
            return false;
        }
        self.charge(rates, tick, group, direction, amount);
        true
    }

    /// Returns the number of ticks for which a request waits at a group, or zero if it may
    /// continue.
    fn wait(
        &mut self,
        rates: &mut impl GroupRates,
        tick: u64,
        group: u32,
        direction: usize,
        amount: Amount,
    ) -> u64 {
        let rate = rates.rate(tick, group, direction);
        let level = &mut self.levels[group as usize];
        let queued = level.waiting[direction] > 0;
        level.slices[direction].wait(self.clock, tick, rate, amount, queued)
    }

    /// Charges a request that passes a group's limit.
    fn charge(
        &mut self,
        rates: &mut impl GroupRates,
        tick: u64,
        group: u32,
        direction: usize,
        amount: Amount,
    ) {
        self.levels[group as usize].slices[direction].charge(amount);
        rates.passed(group, direction, amount);
        self.trim(rates, tick, group, direction);
    }

    fn trim(&mut self, rates: &mut impl GroupRates, tick: u64, group: u32, direction: usize) {
        let rate = rates.rate(tick, group, direction);
        self.levels[group as usize].slices[direction].trim(self.clock, tick, rate);
    }

    /// Lets a request wait at a group. `below` is the group that passes it up, or `None` for the
    /// group's own request.
    pub(in crate::control) fn hold(
        &mut self,
        rates: &mut impl GroupRates,
        cx: &Cx,
        (group, direction): (u32, usize),
        below: Option<u32>,
        id: u32,
    ) {
        debug_assert!(self.waits_in[id as usize] == NIL, "it waits already");
        // A source belongs to the group that it comes from, so that each child of a group has its
        // own turn there.
        let source = source_of(below.unwrap_or(group), direction, below.is_some());
        let list = &mut self.sources[source as usize];
        let level = &mut self.levels[group as usize];
        if list.is_empty() {
            self.turns.push_back(&mut level.queued[direction], source);
        }
        self.requests.push_back(list, id);
        self.waits_in[id as usize] = source;
        level.waiting[direction] += 1;
        // Only the first request determines the time of the group's timer.
        if level.waiting[direction] == 1 {
            self.set_timer(rates, cx, group);
        }
    }

    /// Returns the first request that waits at a group in a direction.
    fn first(&self, group: u32, direction: usize) -> Option<u32> {
        let source = self.levels[group as usize].queued[direction].first()?;
        self.sources[source as usize].first()
    }

    /// Removes the first request. Its source then has the last turn.
    fn pop(&mut self, group: u32, direction: usize) {
        let level = &mut self.levels[group as usize];
        let queued = &mut level.queued[direction];
        let Some(source) = self.turns.pop_front(queued) else {
            return;
        };
        let list = &mut self.sources[source as usize];
        debug_assert!(!list.is_empty(), "a source without requests has a turn");
        if let Some(id) = self.requests.pop_front(list) {
            self.waits_in[id as usize] = NIL;
            level.waiting[direction] -= 1;
        }
        if !list.is_empty() {
            self.turns.push_back(queued, source);
        }
    }

    /// Computes the time at which the first request of a group may continue.
    fn set_timer(&mut self, rates: &mut impl GroupRates, cx: &Cx, group: u32) {
        let tick = self.tick(cx.now);
        let mut least = None;
        for direction in 0..2 {
            if let Some(id) = self.first(group, direction) {
                let amount = Amount::of(&cx.table.requests[id].request, &cx.table.shape);
                let wait = self.wait(rates, tick, group, direction, amount);
                least = Some(least.map_or(wait, |least: u64| least.min(wait)));
            }
        }
        let Some(wait) = least else {
            self.timers.clear(group);
            return;
        };
        let at = if wait == 0 {
            cx.now
        } else {
            self.instant(tick.saturating_add(wait))
        };
        // Of the groups whose requests may continue at the same instant, the deepest are first,
        // because the requests that they pass up take turns above.
        let rank = u64::from(u8::MAX - self.levels[group as usize].depth);
        let ticket = rank << 56 | self.timers.ticket();
        self.timers.set(group, at, ticket);
    }

    /// Lets all requests continue that may by now.
    pub(in crate::control) fn run(&mut self, rates: &mut impl GroupRates, cx: &Cx) {
        while let Some((at, group)) = self.timers.first() {
            // A turn may leave requests that can pass at the same instant. Its new timer is at
            // once, behind those of other groups of the same depth.
            if at > cx.now {
                break;
            }
            self.dispatch(rates, cx, group);
        }
    }

    /// Lets the requests of a group continue that may, at most one quantum for each direction.
    fn dispatch(&mut self, rates: &mut impl GroupRates, cx: &Cx, group: u32) {
        let tick = self.tick(cx.now);
        let parent = self.levels[group as usize].parent;
        for (direction, most) in QUANTUM.into_iter().enumerate() {
            for _ in 0..most {
                let Some(id) = self.first(group, direction) else {
                    break;
                };
                let amount = Amount::of(&cx.table.requests[id].request, &cx.table.shape);
                if self.wait(rates, tick, group, direction, amount) > 0 {
                    break;
                }
                self.pop(group, direction);
                let begun = self.levels[group as usize].slices[direction].start;
                self.charge(rates, tick, group, direction, amount);
                if parent == NIL {
                    self.requests.push_back(&mut self.passed, id);
                    continue;
                }
                // If the slice of the group above is over, its new slice begins with that of the
                // child, so that the unused rate since then can be used (Linux:
                // `throtl_start_new_slice_with_credit`).
                let slice = &mut self.levels[parent as usize].slices[direction];
                if slice.is_over(tick) {
                    slice.begin_with_credit(self.clock, tick, begun);
                }
                self.hold(rates, cx, (parent, direction), Some(group), id);
            }
        }
        self.set_timer(rates, cx, group);
    }

    /// Computes the timers of all groups with waiting requests after limits have changed.
    pub(in crate::control) fn set_timers(&mut self, rates: &mut impl GroupRates, cx: &Cx) {
        for group in 0..self.levels.len() as u32 {
            if self.waiting(group) != [0, 0] {
                self.set_timer(rates, cx, group);
            }
        }
    }

    /// Returns the next request that has passed every limit.
    pub(in crate::control) fn next_passed(&mut self) -> Option<u32> {
        self.requests.pop_front(&mut self.passed)
    }

    /// Removes a waiting request that is given up.
    pub(in crate::control) fn remove(&mut self, rates: &mut impl GroupRates, cx: &Cx, id: u32) {
        let source = core::mem::replace(&mut self.waits_in[id as usize], NIL);
        if source == NIL {
            self.requests.remove(&mut self.passed, id);
            return;
        }
        // The inverse of `source_of`.
        let (from, direction) = (source / 4, (source as usize % 4) / 2);
        let group = if source.is_multiple_of(2) {
            from
        } else {
            self.levels[from as usize].parent
        };
        let was_first = self.first(group, direction) == Some(id);
        let list = &mut self.sources[source as usize];
        self.requests.remove(list, id);
        let level = &mut self.levels[group as usize];
        debug_assert!(level.waiting[direction] > 0, "more leave than wait");
        level.waiting[direction] -= 1;
        if list.is_empty() {
            self.turns.remove(&mut level.queued[direction], source);
        }
        if was_first {
            // The slice was extended for the wait of this request. The rate that accumulated for it
            // must not be left to the next one.
            let tick = self.tick(cx.now);
            self.trim(rates, tick, group, direction);
        }
        self.set_timer(rates, cx, group);
    }
}
