use super::*;
use crate::shape::{DriveShape, Sizes};
use crate::testing::{child, latency, read};
use crate::{Contract, Request, StreamId};

const VICTIM: GroupId = GroupId(1);
const OTHER: GroupId = GroupId(2);
const THIRD: GroupId = GroupId(3);
const TARGET: Span = Span::from_millis(1);
const REQUESTS: u32 = 1024;

/// The controller with requests that enter at once or when they may, and end after a time that the
/// test determines.
struct LatencyHost {
    latency: LatencyController,
    cx: Cx,
    next: u32,
    inside: [Vec<u32>; 4],
}

fn request(flags: Flags) -> Request {
    read(StreamId::from_bits(0), 0, 4096).flags(flags)
}

impl LatencyHost {
    fn new(targets: [u64; 3], rotational: bool) -> Self {
        Self::with_parents(targets, [ROOT; 3], rotational)
    }

    fn with_parents(targets: [u64; 3], parents: [GroupId; 3], rotational: bool) -> Self {
        let sizes = Sizes::default()
            .requests(REQUESTS)
            .groups(4)
            .scheduler_tags(64);
        let shape = DriveShape::default().rotational(rotational);
        let edits = (1..)
            .zip(targets)
            .zip(parents)
            .flat_map(|((id, target), parent)| {
                let add = child(id, parent, Contract::DEFAULT);
                [add, latency(GroupId(id), Span::from_micros(target))]
            });
        let mut cx = Cx::bare(sizes, shape, &edits.collect::<Vec<_>>());
        while cx.table.requests.take().is_some() {}
        let mut host = Self {
            latency: LatencyController::new(&cx.table),
            cx,
            next: 0,
            inside: Default::default(),
        };
        host.tell(LatencyController::set);
        host
    }

    fn tell<T>(&mut self, what: impl FnOnce(&mut LatencyController, &mut Cx) -> T) -> T {
        what(&mut self.latency, &mut self.cx)
    }

    fn enter_with(&mut self, id: u32, group: GroupId, flags: Flags) -> bool {
        self.cx.table.requests[id].accept(&request(flags), 0, group, self.cx.now);
        self.tell(|latency, cx| latency.enter(cx, id)) == Verdict::Pass
    }

    fn enter(&mut self, group: GroupId) -> bool {
        self.next = (self.next + 1) % REQUESTS;
        let passes = self.enter_with(self.next, group, Flags::NONE);
        if passes {
            self.inside[group.0 as usize].push(self.next);
        }
        passes
    }

    fn end(&mut self, id: u32, took: Span) {
        self.tell(|latency, cx| latency.ended(cx, id, Some(took)));
    }

    fn next_passed(&mut self) -> Option<u32> {
        self.tell(LatencyController::next_passed)
    }

    /// Serves `count` requests of a group one at a time, `every` after the previous one, each with
    /// a latency of `took`.
    fn serve(&mut self, group: GroupId, took: Span, count: u32, every: Span) {
        for _ in 0..count {
            self.cx.now += every;
            self.enter(group);
            if let Some(id) = self.inside[group.0 as usize].pop() {
                self.end(id, took);
            }
        }
    }

    fn give_up(&mut self, id: u32) {
        self.tell(|latency, cx| latency.remove(cx, id));
    }

    fn in_flight(&self) -> [u32; 3] {
        [VICTIM, OTHER, THIRD].map(|g| self.latency.nodes[g.0 as usize].in_flight)
    }

    fn depth(&self, group: GroupId) -> u32 {
        self.latency.nodes[group.0 as usize].depth
    }

    fn cookie(&self) -> u32 {
        UNTHROTTLED - self.latency.nodes[0].cookie
    }
}

#[test]
fn a_missed_target_halves_the_others_step_by_step_and_never_the_victim() {
    let mut host = LatencyHost::new([1000, 0, 0], false);
    let mut seen = Vec::new();
    for _ in 0..6 {
        // Half a second in which every request takes twice the target.
        host.serve(VICTIM, TARGET.saturating_mul(2), 50, Span::from_millis(10));
        host.enter(OTHER);
        seen.push((host.cookie(), host.depth(OTHER)));
    }
    // The cookie falls by 1/4 of 64 until it is more than 64 below, then by one, and never by more
    // than 128 in total.
    assert_eq!(
        seen,
        [(16, 32), (32, 16), (48, 8), (64, 4), (80, 2), (81, 1)]
    );
    assert_eq!(host.depth(VICTIM), u32::MAX);
}

#[test]
fn a_group_with_a_looser_target_is_slowed_and_one_with_a_tighter_is_not() {
    let mut host = LatencyHost::new([1000, 5000, 500], false);
    // All groups send more than 5 % of the requests, so none is exempt because it is small.
    for _ in 0..12 {
        host.serve(OTHER, Span::from_micros(100), 10, Span::from_millis(1));
        host.serve(THIRD, Span::from_micros(100), 10, Span::from_millis(1));
        host.serve(VICTIM, TARGET.saturating_mul(2), 10, Span::from_millis(10));
    }
    for group in [OTHER, THIRD] {
        host.enter(group);
    }
    assert!(host.depth(OTHER) < 64, "{}", host.depth(OTHER));
    assert_eq!(host.depth(THIRD), u32::MAX);
}

#[test]
fn the_90th_percentile_decides_on_flash_and_the_mean_on_a_disk() {
    // The share of missed requests in percent. On flash, 10 % are the limit. On a disk, 60 % at 2
    // ms make a mean of 1.2 ms, and 20 % one of 0.4 ms.
    for (rotational, missed, slowed) in [
        (false, 5, false),
        (false, 20, true),
        (true, 20, false),
        (true, 60, true),
    ] {
        let mut host = LatencyHost::new([1000, 0, 0], rotational);
        for _ in 0..10 {
            for n in 0..100 {
                let took = if n % 100 < missed {
                    TARGET.saturating_mul(2)
                } else {
                    Span::from_micros(1)
                };
                host.serve(VICTIM, took, 1, Span::from_millis(1));
            }
        }
        assert_eq!(host.cookie() > 0, slowed, "{rotational} {missed}");
    }
}

#[test]
fn the_scale_owner_raises_the_others_again_when_it_meets_its_target() {
    let mut host = LatencyHost::new([1000, 0, 0], false);
    for _ in 0..3 {
        host.serve(VICTIM, TARGET.saturating_mul(2), 60, Span::from_millis(10));
        host.enter(OTHER);
    }
    assert_eq!((host.cookie(), host.depth(OTHER)), (48, 8));
    let mut depths = Vec::new();
    while host.cookie() > 0 {
        host.serve(VICTIM, Span::from_micros(500), 60, Span::from_millis(10));
        host.enter(OTHER);
        depths.push(host.depth(OTHER));
    }
    // The last misses count once more. Then the depth rises by 1/16 of 64 each time, and is
    // unlimited at the end.
    assert_eq!(depths[..4], [4, 8, 12, 16]);
    assert_eq!(depths.last(), Some(&u32::MAX));
}

#[test]
fn throttled_requests_pass_in_order_as_depth_becomes_free() {
    let mut host = LatencyHost::new([1000, 0, 0], false);
    for _ in 0..6 {
        host.serve(VICTIM, TARGET.saturating_mul(2), 60, Span::from_millis(10));
        host.enter(OTHER);
    }
    assert_eq!(host.depth(OTHER), 1);
    let first = host.next;
    assert!(!host.enter(OTHER));
    assert!(!host.enter(OTHER));
    let mut order = Vec::new();
    while let Some(id) = host.inside[2].pop() {
        host.end(id, TARGET);
        while let Some(id) = host.next_passed() {
            order.push(id);
            host.inside[2].push(id);
        }
    }
    assert!(
        order.is_sorted() && order.last() == Some(&(first + 2)),
        "{order:?}"
    );
    assert_eq!(host.latency.inside, 0);
    assert_eq!(host.latency.nodes[2].in_flight, 0);
}

#[test]
fn groups_are_unthrottled_once_no_target_is_missed() {
    let mut host = LatencyHost::new([1000, 0, 0], false);
    for _ in 0..3 {
        host.serve(VICTIM, TARGET.saturating_mul(2), 60, Span::from_millis(10));
        host.enter(OTHER);
    }
    assert!(host.cookie() > 0);
    let mut steps = 0;
    while host.latency.due() < Instant::MAX {
        host.cx.now = host.latency.due();
        host.tell(LatencyController::run);
        steps += 1;
    }
    // The scale owner is forgotten after five seconds. Then the cookie rises by 1/16 of 64 each
    // second: 48 / 4 are 12 steps.
    assert!((5 + 12..=5 + 14).contains(&steps), "{steps}");
    host.enter(OTHER);
    assert_eq!((host.cookie(), host.depth(OTHER)), (0, u32::MAX));
}

#[test]
fn metadata_is_never_throttled_and_paid_for_later() {
    let mut host = LatencyHost::new([1000, 2000, 0], false);
    for _ in 0..12 {
        host.serve(OTHER, Span::from_micros(10), 30, Span::from_micros(10));
        host.serve(VICTIM, TARGET.saturating_mul(2), 60, Span::from_millis(10));
        host.enter(OTHER);
    }
    assert_eq!(host.depth(OTHER), 1);
    assert!(host.latency.nodes[2].delays > 0);
    assert!(host.enter_with(900, OTHER, Flags::META));
    host.end(900, Span::from_micros(500));
    // The request took 500 us of a target of 2 ms, so 1,500 us are owed.
    assert_eq!(host.latency.nodes[2].owed, Span::from_micros(1500));
    while let Some(id) = host.inside[2].pop() {
        host.end(id, Span::from_micros(1));
    }
    while host.next_passed().is_some() {}
    assert!(!host.enter(OTHER), "it pauses");
    assert_eq!(
        host.latency.pauses.next(),
        host.cx.now + Span::from_micros(1500)
    );
}

#[test]
fn a_cancelled_request_leaves_every_level_that_it_passed() {
    let mut host = LatencyHost::with_parents([1000, 0, 0], [ROOT, ROOT, OTHER], false);
    for _ in 0..6 {
        host.serve(VICTIM, TARGET.saturating_mul(2), 60, Span::from_millis(10));
        host.enter(OTHER);
    }
    while let Some(id) = host.inside[OTHER.0 as usize].pop() {
        host.end(id, TARGET);
        while let Some(id) = host.next_passed() {
            host.inside[OTHER.0 as usize].push(id);
        }
    }
    assert_eq!((host.depth(OTHER), host.depth(THIRD)), (1, u32::MAX));
    let none = host.in_flight();
    assert_eq!(none[1..], [0, 0]);
    assert!(host.enter(THIRD));
    let first = host.next;
    // These requests have passed their own group and wait at its parent.
    assert!(!host.enter(THIRD) && !host.enter(THIRD) && !host.enter(OTHER));
    assert_eq!(host.in_flight()[1..], [1, 3]);
    host.give_up(first + 1);
    assert_eq!(host.in_flight()[1..], [1, 2]);
    host.give_up(first + 3);
    assert_eq!(host.in_flight()[1..], [1, 2], "it was past nobody");
    assert_eq!(host.latency.inside, 2 + none[0]);
    // A request that has passed and was not collected yet has its place at all levels.
    host.end(first, TARGET);
    assert_eq!(host.in_flight()[1..], [1, 1]);
    host.give_up(first + 2);
    assert_eq!(host.next_passed(), None);
    assert_eq!(host.in_flight(), none);
    assert_eq!(host.latency.inside, none[0]);
}

#[test]
fn a_cookie_goes_down_by_quarters_then_by_ones_and_up_by_sixteenths() {
    let down = |below: u32| UNTHROTTLED - below - lowered(UNTHROTTLED - below, 64);
    assert_eq!([0, 64, 65, 127, 128].map(down), [16, 16, 1, 1, 0]);
    let up = |below: u32| raised(UNTHROTTLED - below, 64) + below - UNTHROTTLED;
    assert_eq!([100, 65, 64, 2].map(up), [1, 1, 4, 2]);
}

#[test]
fn a_step_up_reduces_the_delay_before_it_raises_the_depth() {
    let mut host = LatencyHost::new([1_000, 0, 0], false);
    let other = OTHER.0;
    let node = &mut host.latency.nodes[other as usize];
    (node.depth, node.delays, node.seen) = (1, 2, UNTHROTTLED - 9);
    for (cookie, expected) in [(8, (1, 1)), (7, (1, 0)), (6, (5, 0)), (0, (u32::MAX, 0))] {
        host.latency.nodes[0].cookie = UNTHROTTLED - cookie;
        host.latency.compare(other);
        let node = &host.latency.nodes[other as usize];
        assert_eq!((node.depth, node.delays), expected, "{cookie}");
    }
}

/// Returns the cookie after one more sample of a victim that owns the scaling and had `samples`
/// good ones before.
fn cookie_after(samples: u64) -> u32 {
    let mut host = LatencyHost::new([1_000, 0, 0], false);
    let now = Instant::ZERO + ADJUST;
    let root = &mut host.latency.nodes[0];
    (root.cookie, root.scale_owner, root.tightest) = (UNTHROTTLED - 8, VICTIM.0, TARGET);
    let victim = &mut host.latency.nodes[VICTIM.0 as usize];
    (victim.since_change.total, victim.samples) = (samples, samples);
    victim.window.total = 1;
    host.latency.judge(now, VICTIM.0);
    host.cookie()
}

#[test]
fn five_samples_show_that_a_target_is_met() {
    assert_eq!((cookie_after(3), cookie_after(4)), (8, 4));
}

#[test]
fn a_group_with_an_equal_target_does_not_become_scale_owner() {
    let owner = |target| {
        let mut host = LatencyHost::new([1_000, target, 0], false);
        let root = &mut host.latency.nodes[0];
        (root.cookie, root.scale_owner, root.tightest) = (UNTHROTTLED - 8, VICTIM.0, TARGET);
        let other = &mut host.latency.nodes[OTHER.0 as usize];
        (other.window.total, other.window.missed) = (10, 10);
        host.latency.judge(Instant::ZERO + ADJUST, OTHER.0);
        host.latency.nodes[0].scale_owner
    };
    assert_eq!([1_000, 999].map(owner), [VICTIM.0, OTHER.0]);
}

#[test]
fn a_cookie_is_not_raised_at_the_instant_at_which_it_was_changed() {
    let mut host = LatencyHost::new([1_000, 0, 0], false);
    let root = &mut host.latency.nodes[0];
    (root.cookie, root.changed) = (UNTHROTTLED - 100, Instant::from_nanos(7));
    for (now, below) in [(6, 100), (7, 100), (8, 99)] {
        host.latency.scale_up(Instant::from_nanos(now), 0);
        assert_eq!(host.cookie(), below, "{now}");
    }
}

#[test]
fn a_throttled_request_passes_exactly_at_the_end_of_a_pause() {
    let mut host = LatencyHost::new([1_000, 0, 0], false);
    let other = OTHER.0 as usize;
    let end = Instant::from_nanos(1_000);
    host.latency.nodes[other].paused_until = end;
    assert!(!host.enter(OTHER));
    host.latency.wake_waiters(Instant::from_nanos(999), OTHER.0);
    assert_eq!(host.next_passed(), None);
    host.latency.wake_waiters(end, OTHER.0);
    assert_eq!(host.next_passed(), Some(1));
}
