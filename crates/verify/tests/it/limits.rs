//! Tests that a backlogged client gets its max exactly. Over any length of time it gets at least
//! `rate * t` less one request. It gets at most `rate * t`, the burst and one request, if its
//! driver meets every wake-up.

use weir_core::{
    Completion, Config, Contract, DriveShape, Edit, Flags, GroupId, Instant, Max, Op, Output,
    Priority, ROOT, Request, SpaceId, Span, StreamId, StreamSpec, elevator,
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
    let config =
        // A request is never longer than a command, so that each one has a single piece.
        Config::of(elevator::Config::None).drive(DriveShape::default().max_transfer(1 << 18));
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

/// Keeps `depth` requests waiting. Returns the time at which each request passed its limits.
fn releases(drawn: &LimitRun) -> Vec<Instant> {
    let (mut layer, stream) = layer(drawn);
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
            now = wake.expect("requests wait for a limit").at;
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
        let releases = releases(&drawn);
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
