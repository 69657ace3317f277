//! Tests that a backlogged client gets its max exactly. Over any length of time it gets at least
//! `rate * t` less one request. It gets at most `rate * t`, the burst and one request, if its
//! driver meets every wake-up. The upper bound holds in every window even if another layer
//! continues with the debts of the first.

use weir_core::{
    Completion, Config, Contract, DriveShape, Edit, Flags, GroupId, Instant, Max, Op, Output,
    Priority, ROOT, Request, Sizes, SpaceId, Span, StreamId, StreamSpec, elevator,
};
use weir_verify::audit::random::{DecisionSource, RandomDecisions};
use weir_verify::audit::{Audited, Witness};

/// The parameters of one run.
#[derive(Clone, Copy, Debug)]
struct LimitRun {
    rate: u64,
    by_requests: bool,
    size: u32,
    burst: Span,
    depth: u64,
    releases: u64,
}

fn draw(random: &mut RandomDecisions) -> LimitRun {
    let by_requests = random.once_in(2);
    LimitRun {
        rate: if by_requests {
            random.magnitude(1 << 24)
        } else {
            // From a kilobyte per second to 17 GB/s.
            1_000 + random.magnitude(1 << 34)
        },
        by_requests,
        size: random.magnitude(1 << 18) as u32,
        burst: if random.once_in(2) {
            Span::ZERO
        } else {
            Span::from_nanos(random.magnitude(1 << 28))
        },
        depth: 1 + random.below(8),
        releases: 2_000,
    }
}

fn layer(drawn: &LimitRun) -> (Audited, StreamId) {
    // Small tables, because a run can have many layers.
    let sizes = Sizes::default().requests(64).streams(4).groups(2).spaces(1);
    let config = Config::of(elevator::Config::None)
        .sizes(sizes.per_stream(16).scheduler_tags(64).events(64))
        // A request is never longer than a command, so that each one has a single piece.
        .drive(DriveShape::default().max_transfer(1 << 18));
    let mut layer = Witness::audited_layer(config, false).unwrap();
    let max = if drawn.by_requests {
        Max::NONE.iops(drawn.rate).burst(drawn.burst)
    } else {
        Max::NONE.bandwidth(drawn.rate).burst(drawn.burst)
    };
    let contract = Contract::DEFAULT.max(max);
    let edits = [
        Edit::SetSpace {
            id: SpaceId(0),
            size: Some(1 << 40),
        },
        Edit::AddGroup {
            id: GroupId(1),
            parent: ROOT,
            contract,
        },
    ];
    layer.change(Instant::ZERO, &edits).unwrap();
    let spec = StreamSpec {
        group: GroupId(1),
        priority: Priority::default(),
    };
    let stream = layer.open(Instant::ZERO, spec).unwrap();
    (layer, stream)
}

/// Returns another layer that continues with the debts of `old` at `now`. The requests that wait in
/// `old` are lost.
fn successor(drawn: &LimitRun, old: &Audited, now: Instant) -> (Audited, StreamId) {
    let (mut new, stream) = layer(drawn);
    let id = GroupId(1);
    let debt = old.layer().debt(now, id);
    new.change(now, &[Edit::SetDebt { id, debt }]).unwrap();
    (new, stream)
}

/// Keeps `depth` requests waiting. Returns the time at which each request passed its limits. If
/// `replace` is given, another layer continues at times that it draws.
fn releases(drawn: &LimitRun, mut replace: Option<&mut RandomDecisions>) -> Vec<Instant> {
    let (mut layer, mut stream) = layer(drawn);
    let (mut out, mut done, mut now, mut waiting, mut cookie) =
        (Vec::new(), Vec::new(), Instant::ZERO, 0, 0);
    while (done.len() as u64) < drawn.releases {
        while waiting < drawn.depth {
            let request = Request {
                stream,
                space: SpaceId(0),
                op: Op::Read,
                flags: Flags::NONE,
                offset: 0,
                length: drawn.size,
                cookie,
                within: 0,
            };
            layer.submit(now, &[request]).unwrap();
            cookie += 1;
            waiting += 1;
        }
        out.clear();
        let wake = layer.poll(now, &mut out);
        let tags: Vec<Completion> = out
            .iter()
            .filter_map(|o| match o {
                Output::Dispatch(d) => Some(Completion::ok(d.tag)),
                _ => None,
            })
            .collect();
        waiting -= tags.len() as u64;
        done.extend(tags.iter().map(|_| now));
        // The drive completes pieces at once, so that only the limit delays requests.
        layer.complete(now, &tags);
        if tags.is_empty() {
            let wake = wake.expect("requests wait for a limit").at;
            if let Some(random) = replace.as_mut()
                && random.once_in(8)
            {
                now += Span::from_nanos(random.below(wake.since(now).as_nanos()));
                assert_eq!(layer.observer().audit.found().violations(), [], "{drawn:?}");
                (layer, stream) = successor(drawn, &layer, now);
                waiting = 0;
            } else {
                now = wake;
            }
        }
    }
    // The auditors agree with the check below.
    assert_eq!(layer.observer().audit.found().violations(), [], "{drawn:?}");
    done
}

#[test]
fn a_backlogged_client_gets_its_rate_and_no_more() {
    let mut random = RandomDecisions::new(8);
    for _ in 0..60 {
        let drawn = draw(&mut random);
        let amount = if drawn.by_requests {
            1
        } else {
            u128::from(drawn.size)
        };
        let rate = u128::from(drawn.rate);
        let burst = rate * u128::from(drawn.burst.as_nanos());
        let releases = releases(&drawn, None);
        for (i, &at) in releases.iter().enumerate() {
            let (passed, time) = (
                (i as u128 + 1) * amount * 1_000_000_000,
                u128::from(at.as_nanos()),
            );
            // Times are whole nanoseconds, so that a request that is due between two of them passes
            // at the second.
            assert!(
                passed <= rate * time + burst + amount * 1_000_000_000,
                "{i}: {drawn:?}"
            );
            let before = passed - amount * 1_000_000_000;
            assert!(
                before + rate >= rate * time || i == 0,
                "{i}: {drawn:?} {at:?}"
            );
        }
    }
}

/// The requests are often much larger than the bucket, so that they leave debts.
#[test]
fn a_client_gets_no_more_than_its_rate_from_layers_that_continue_each_other() {
    let mut random = RandomDecisions::new(9);
    for _ in 0..60 {
        let drawn = LimitRun {
            releases: 200,
            ..draw(&mut random)
        };
        let amount = if drawn.by_requests { 1 } else { drawn.size };
        let amount = i128::from(amount) * 1_000_000_000;
        let rate = i128::from(drawn.rate);
        // A request that is due between two nanoseconds passes at the second and begins a window
        // there, so that a window can be a nanosecond too short.
        let most = rate * i128::from(drawn.burst.as_nanos() + 1) + amount;
        let releases = releases(&drawn, Some(&mut random));
        // The amount before each request less the amount of the rate up to then. In the window
        // between two requests, both included, the difference of their values and one request pass
        // above the rate.
        let mut lowest = i128::MAX;
        for (before, at) in (0..).zip(releases) {
            let ahead = before * amount - rate * i128::from(at.as_nanos());
            lowest = lowest.min(ahead);
            assert!(ahead - lowest + amount <= most, "{before}: {drawn:?}");
        }
    }
}
