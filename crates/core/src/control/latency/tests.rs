use super::*;
use crate::{Contract, Edit, Op, SpaceId, StreamId};

const VICTIM: GroupId = GroupId(1);
const OTHER: GroupId = GroupId(2);
const THIRD: GroupId = GroupId(3);
const TARGET: Span = Span::from_millis(1);

/// Requests enter at once or when they may, and leave after a time of the test's choosing.
struct Host {
    latency: Latency,
    now: Instant,
    next: u32,
    inside: [Vec<u32>; 4],
}

fn groups(targets: [u64; 3]) -> Groups {
    let mut groups = Groups::new(4);
    for (id, target) in (1..).map(GroupId).zip(targets) {
        let contract = Contract {
            latency: Span::from_micros(target),
            ..Contract::DEFAULT
        };
        let edit = Edit::AddGroup {
            id,
            parent: ROOT,
            contract,
        };
        groups.apply(&edit, 10_000).unwrap();
    }
    groups
}

fn request(flags: Flags) -> Request {
    Request {
        stream: StreamId::from_bits(0),
        space: SpaceId(0),
        op: Op::Read,
        flags,
        offset: 0,
        length: 4096,
        cookie: 0,
    }
}

impl Host {
    fn new(targets: [u64; 3], rotational: bool) -> Self {
        let limits = Limits {
            requests: 1024,
            groups: 4,
            scheduler_tags: 64,
            ..Limits::default()
        };
        let mut latency = Latency::new(&limits, rotational);
        latency.set(Instant::ZERO, &groups(targets));
        Self {
            latency,
            now: Instant::ZERO,
            next: 0,
            inside: Default::default(),
        }
    }

    fn enter(&mut self, group: GroupId) -> bool {
        self.next = (self.next + 1) % 1024;
        let passes = self
            .latency
            .enter(self.now, self.next, group, &request(Flags::NONE));
        if passes {
            self.inside[group.0 as usize].push(self.next);
        }
        passes
    }

    /// Requests of a group come and go, one at a time, each so long; so much time passes.
    fn serve(&mut self, group: GroupId, took: Span, count: u32, every: Span) {
        for _ in 0..count {
            self.now += every;
            self.enter(group);
            if let Some(id) = self.inside[group.0 as usize].pop() {
                self.latency
                    .leave(self.now, id, &request(Flags::NONE), Some(took));
            }
        }
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
    let mut host = Host::new([1000, 0, 0], false);
    let mut seen = Vec::new();
    for _ in 0..6 {
        // Half a second in which every request takes twice the target.
        host.serve(VICTIM, TARGET.times(2), 50, Span::from_millis(10));
        host.enter(OTHER);
        seen.push((host.cookie(), host.depth(OTHER)));
    }
    // A quarter of 64 each time until it is more than 64 below, then one, and never more than 128.
    assert_eq!(
        seen,
        [(16, 32), (32, 16), (48, 8), (64, 4), (80, 2), (81, 1)]
    );
    assert_eq!(host.depth(VICTIM), u32::MAX);
}

#[test]
fn a_group_with_a_looser_target_is_slowed_and_one_with_a_tighter_is_not() {
    let mut host = Host::new([1000, 5000, 500], false);
    // All have their part of the requests.
    for _ in 0..12 {
        host.serve(OTHER, Span::from_micros(100), 10, Span::from_millis(1));
        host.serve(THIRD, Span::from_micros(100), 10, Span::from_millis(1));
        host.serve(VICTIM, TARGET.times(2), 10, Span::from_millis(10));
    }
    for group in [OTHER, THIRD] {
        host.enter(group);
    }
    assert!(host.depth(OTHER) < 64, "{}", host.depth(OTHER));
    assert_eq!(host.depth(THIRD), u32::MAX);
}

#[test]
fn nine_in_ten_decide_on_flash_and_the_mean_where_it_turns() {
    for (rotational, missed, slowed) in [
        (false, 5, false),
        (false, 20, true),
        (true, 20, false),
        (true, 60, true),
    ] {
        let mut host = Host::new([1000, 0, 0], rotational);
        for _ in 0..10 {
            for n in 0..100 {
                let took = if n % 100 < missed {
                    TARGET.times(2)
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
fn who_has_complained_raises_the_others_again_when_it_is_well() {
    let mut host = Host::new([1000, 0, 0], false);
    for _ in 0..3 {
        host.serve(VICTIM, TARGET.times(2), 60, Span::from_millis(10));
        host.enter(OTHER);
    }
    assert_eq!((host.cookie(), host.depth(OTHER)), (48, 8));
    let mut depths = Vec::new();
    while host.cookie() > 0 {
        host.serve(VICTIM, Span::from_micros(500), 60, Span::from_millis(10));
        host.enter(OTHER);
        depths.push(host.depth(OTHER));
    }
    // Its last misses count once more; then a sixteenth of 64 each time, all of them at last.
    assert_eq!(depths[..4], [4, 8, 12, 16]);
    assert_eq!(depths.last(), Some(&u32::MAX));
}

#[test]
fn what_waits_goes_on_in_order_as_places_come() {
    let mut host = Host::new([1000, 0, 0], false);
    for _ in 0..6 {
        host.serve(VICTIM, TARGET.times(2), 60, Span::from_millis(10));
        host.enter(OTHER);
    }
    assert_eq!(host.depth(OTHER), 1);
    let first = host.next;
    assert!(!host.enter(OTHER));
    assert!(!host.enter(OTHER));
    let mut order = Vec::new();
    while let Some(id) = host.inside[2].pop() {
        host.latency
            .leave(host.now, id, &request(Flags::NONE), Some(TARGET));
        while let Some(id) = host.latency.next_passed() {
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
fn nobody_complains_any_more_and_everybody_is_let_go() {
    let mut host = Host::new([1000, 0, 0], false);
    for _ in 0..3 {
        host.serve(VICTIM, TARGET.times(2), 60, Span::from_millis(10));
        host.enter(OTHER);
    }
    assert!(host.cookie() > 0);
    let mut steps = 0;
    while host.latency.wake() < Instant::MAX {
        host.now = host.latency.wake();
        host.latency.run(host.now);
        steps += 1;
    }
    // Five seconds until the complaint is forgotten, then a sixteenth of 64 each second.
    assert!((5 + 12..=5 + 14).contains(&steps), "{steps}");
    host.enter(OTHER);
    assert_eq!((host.cookie(), host.depth(OTHER)), (0, u32::MAX));
}

#[test]
fn metadata_is_never_held_and_paid_for_later() {
    let mut host = Host::new([1000, 2000, 0], false);
    for _ in 0..12 {
        host.serve(OTHER, Span::from_micros(10), 30, Span::from_micros(10));
        host.serve(VICTIM, TARGET.times(2), 60, Span::from_millis(10));
        host.enter(OTHER);
    }
    assert_eq!(host.depth(OTHER), 1);
    assert!(host.latency.nodes[2].delays > 0);
    let meta = request(Flags::META);
    assert!(host.latency.enter(host.now, 900, OTHER, &meta));
    host.latency
        .leave(host.now, 900, &meta, Some(Span::from_micros(500)));
    assert_eq!(host.latency.nodes[2].owed, Span::from_micros(1500));
    for id in host.inside[2].drain(..) {
        host.latency.leave(
            host.now,
            id,
            &request(Flags::NONE),
            Some(Span::from_micros(1)),
        );
    }
    while host.latency.next_passed().is_some() {}
    assert!(!host.enter(OTHER), "it pauses");
    assert_eq!(
        host.latency.pauses.next(),
        host.now + Span::from_micros(1500)
    );
}
