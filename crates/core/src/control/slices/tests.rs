use super::*;
use crate::sample::Sample;
use crate::shape::{self, DriveShape};
use crate::testing::{bandwidth, child, iops, limit, request};
use crate::{Edit, Op, StreamId};
use std::vec::Vec;

const A: u32 = 1;
const B: u32 = 2;
const C: u32 = 3;
const MS: u64 = 1_000_000;
/// A slice of flash, in nanoseconds.
const SLICE: u64 = 20 * MS;

/// The controller with requests that arrive when the test says, and a log of their passing.
struct SlicesHost {
    slices: SlicesController,
    cx: Cx,
    free: Vec<u32>,
    /// Requests that passed: time in nanoseconds, group, operation.
    gone: Vec<(u64, u32, Op)>,
}

impl SlicesHost {
    /// Creates groups with these limits, each below the root or below an earlier group.
    fn new(groups: &[(u32, GroupId, Max)]) -> Self {
        let sizes = shape::Sizes::default().requests(512).groups(8);
        let add = |&(id, parent, max): &_| child(id, parent, limit(max));
        let edits: Vec<Edit> = groups.iter().map(add).collect();
        let mut cx = Cx::bare(sizes, DriveShape::default(), &edits);
        let requests = &mut cx.table.requests;
        let free = core::iter::from_fn(|| requests.take().map(|(id, _)| id)).collect();
        let mut slices = SlicesController::new(&Config::default(), &cx.table);
        slices.set(&mut cx);
        Self {
            slices,
            cx,
            free,
            gone: Vec::new(),
        }
    }

    /// Submits a request, and returns its number if it waits.
    fn comes(&mut self, group: u32, op: Op, length: u32) -> Option<u32> {
        let id = self.free.pop().expect("a request is free");
        let request = request(StreamId::from_bits(0), op, 0, length);
        let now = self.cx.now;
        self.cx.table.requests[id].accept(&request, 0, GroupId(group), now);
        if self.slices.enter(&mut self.cx, id) == Verdict::Hold {
            return Some(id);
        }
        self.went(id);
        None
    }

    fn went(&mut self, id: u32) {
        let live = &self.cx.table.requests[id];
        let at = self.cx.now.as_nanos();
        self.gone.push((at, live.group.0, live.request.op));
        self.free.push(id);
    }

    /// Lets time pass until `end`, with all wake-ups of the controller.
    fn run_to(&mut self, end: u64) {
        let end = Instant::from_nanos(end);
        while self.slices.due() <= end {
            self.cx.now = self.cx.now.max(self.slices.due());
            self.slices.run(&mut self.cx);
            while let Some(id) = self.slices.next_passed(&mut self.cx) {
                self.went(id);
            }
        }
        self.cx.now = end;
    }

    /// Returns the number of requests of a group that passed in each of `slices` slices.
    fn of_each_slice(&self, group: u32, slices: u64) -> Vec<usize> {
        let in_slice = |slice| {
            let of_group = self.gone.iter().filter(|gone| gone.1 == group);
            of_group.filter(|gone| gone.0 / SLICE == slice).count()
        };
        (0..slices).map(in_slice).collect()
    }
}

#[test]
fn requests_go_in_bursts_of_a_slice() {
    let mut host = SlicesHost::new(&[(A, ROOT, iops(250))]);
    // 250 requests per second are 5 in 20 ms.
    for _ in 0..20 {
        host.comes(A, Op::Read, 4096);
    }
    assert_eq!(host.gone.len(), 5, "a slice's worth goes at once");
    let mut held = Vec::new();
    (host.slices).sample(&host.cx, &mut |sample| held.push(sample));
    let all = Sample::Held {
        by: ControllerKind::Max,
        group: GroupId(A),
        requests: 15,
    };
    assert_eq!(held, [all]);
    host.run_to(4 * SLICE);
    assert_eq!(host.of_each_slice(A, 4), [5, 5, 5, 5]);
    assert!(
        host.gone.iter().all(|gone| gone.0 % SLICE == 0),
        "{:?}",
        host.gone
    );
    assert_eq!(host.slices.due(), Instant::MAX);
}

#[test]
fn reads_and_writes_are_counted_apart() {
    let mut host = SlicesHost::new(&[(A, ROOT, iops(100))]);
    for op in [Op::Read, Op::Write] {
        for _ in 0..4 {
            host.comes(A, op, 4096);
        }
    }
    // 100 requests per second are 2 in each slice and direction.
    host.run_to(2 * SLICE - 1);
    let reads = host.gone.iter().filter(|gone| gone.2 == Op::Read).count();
    assert_eq!((reads, host.gone.len()), (4, 8));
}

#[test]
fn a_group_without_a_limit_at_any_level_is_not_throttled() {
    let mut host = SlicesHost::new(&[
        (A, ROOT, iops(50)),
        (B, GroupId(A), Max::NONE),
        (C, ROOT, Max::NONE),
    ]);
    let covered = [A, B, C].map(|group| host.slices.covers(GroupId(group)));
    assert_eq!(covered, [true, true, false]);
    for _ in 0..100 {
        assert_eq!(host.comes(C, Op::Read, 1 << 20), None);
    }
}

#[test]
fn groups_below_a_limit_take_turns() {
    let groups = [
        (A, ROOT, iops(500)),
        (B, GroupId(A), Max::NONE),
        (C, GroupId(A), Max::NONE),
    ];
    let mut host = SlicesHost::new(&groups);
    for group in [B, C] {
        for _ in 0..40 {
            host.comes(group, Op::Read, 4096);
        }
    }
    host.run_to(5 * SLICE);
    // The group whose requests arrived first gets the first slice.
    assert_eq!(host.of_each_slice(B, 5), [10, 5, 5, 5, 5]);
    assert_eq!(host.of_each_slice(C, 5), [0, 5, 5, 5, 5]);
}

#[test]
fn a_request_waits_at_its_own_limit_and_then_at_that_above() {
    let mut host = SlicesHost::new(&[(A, ROOT, iops(50)), (B, GroupId(A), iops(100))]);
    for _ in 0..6 {
        host.comes(B, Op::Read, 4096);
    }
    let waiting = |host: &SlicesHost| [A, B].map(|g| host.slices.levels.waiting(g)[0]);
    assert_eq!(
        waiting(&host),
        [1, 4],
        "two may go a slice, and one of them above"
    );
    host.run_to(SLICE);
    assert_eq!(waiting(&host), [2, 2]);
    host.run_to(5 * SLICE);
    assert_eq!(host.of_each_slice(B, 6), [1, 1, 1, 1, 1, 1]);
}

#[test]
fn throttled_requests_can_be_cancelled_at_every_level() {
    let mut host = SlicesHost::new(&[(A, ROOT, iops(50)), (B, GroupId(A), iops(100))]);
    let waiting: Vec<u32> = (0..6)
        .filter_map(|_| host.comes(B, Op::Write, 4096))
        .collect();
    assert_eq!(waiting.len(), 5);
    host.run_to(SLICE);
    for id in waiting {
        if host.slices.levels.holds(id) {
            host.slices.remove(&mut host.cx, id);
        }
    }
    assert!(host.slices.levels.is_idle());
    assert_eq!(host.slices.backlog(&host.cx.table, 0), Span::ZERO);
    host.run_to(10 * SLICE);
    assert_eq!(host.gone.len(), 2);
}

/// A long-waiting request accumulates budget. If it is cancelled, the next request starts without
/// that budget.
#[test]
fn a_cancelled_request_leaves_no_budget_to_the_next() {
    let mut host = SlicesHost::new(&[(A, ROOT, bandwidth(4096 * 10))]);
    let large = host.comes(A, Op::Read, 1 << 20).expect("it waits");
    host.run_to(500 * SLICE);
    host.slices.remove(&mut host.cx, large);
    // Ten seconds have passed, in which a hundred requests could have passed.
    for _ in 0..100 {
        host.comes(A, Op::Read, 4096);
    }
    host.run_to(510 * SLICE);
    assert!(host.gone.len() <= 3, "{}", host.gone.len());
}

#[test]
fn slices_begin_with_limits_that_change() {
    let mut host = SlicesHost::new(&[(A, ROOT, iops(50))]);
    for _ in 0..200 {
        host.comes(A, Op::Read, 4096);
    }
    host.run_to(SLICE);
    assert_eq!(host.gone.len(), 2);
    let contract = limit(iops(1_000));
    let id = GroupId(A);
    let change = Edit::SetContract { id, contract };
    host.cx.table.groups.apply(&change, 10_000).unwrap();
    host.slices.set(&mut host.cx);
    host.run_to(2 * SLICE);
    // 1,000 requests per second are 20 per slice. One slice begins with the change, and another
    // follows.
    assert_eq!(host.gone.len(), 2 + 40, "a slice from now and another");
    // Setting the same limits again begins no new slice.
    host.slices.set(&mut host.cx);
    host.run_to(2 * SLICE + MS);
    assert_eq!(host.gone.len(), 2 + 40);
}

#[test]
fn a_limit_of_both_directions_limits_each_and_the_lowest_counts() {
    let max = iops(7).bandwidth(9).read_bandwidth(5).write_bandwidth(20);
    let [reads, writes] = rates(&max);
    assert_eq!((reads.bytes, reads.requests), (5, 7));
    assert_eq!((writes.bytes, writes.requests), (9, 7));
    assert_eq!(rates(&Max::NONE), [SliceRate::UNLIMITED; 2]);
}

/// In one turn, 75 % of a group's requests are reads (Linux: `throtl_dispatch_tg`). The turn is
/// over before time advances.
#[test]
fn a_dispatch_turn_ends_and_the_next_begins_at_the_same_time() {
    let mut host = SlicesHost::new(&[(A, ROOT, iops(1_000))]);
    for op in [Op::Read, Op::Write] {
        for _ in 0..40 {
            host.comes(A, op, 4096);
        }
    }
    assert_eq!(host.gone.len(), 40);
    host.run_to(SLICE);
    // The first eight requests of the second slice are one turn: six reads and two writes.
    let ops: Vec<Op> = host.gone[40..48].iter().map(|gone| gone.2).collect();
    let reads = ops.iter().filter(|&&op| op == Op::Read).count();
    assert_eq!((reads, host.gone.len()), (6, 80), "{ops:?}");
}
