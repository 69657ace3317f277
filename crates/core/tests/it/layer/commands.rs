//! Tests of merged requests: they are one command, and each is completed on its own.

use super::{at, open};
use weir_core::testing::{read, space};
use weir_core::{
    Completion, Config, Done, DriveShape, Flags, Layer, Op, Outcome, Output, Part, ROOT, Request,
    SpaceId, StreamId, Tag, elevator, merge,
};

fn layer(elevator: elevator::Config) -> (Layer, [StreamId; 2]) {
    let config = Config::of(elevator)
        .drive(DriveShape::default().tags(1).max_transfer(16_384))
        .merge(merge::Config::LINUX.ahead(false));
    let mut layer = super::layer(config);
    let second = space(1, 1 << 30);
    layer.change(at(0), &[second]).unwrap();
    let streams = [(); 2].map(|()| open(&mut layer, ROOT));
    (layer, streams)
}

fn bfq() -> elevator::Config {
    elevator::Config::Bfq(elevator::bfq::Config::default())
}

/// Returns a read of the page with this number, which is also its cookie.
fn page(stream: StreamId, page: u64) -> Request {
    read(stream, page, 4096).offset(page * 4096)
}

/// Polls the layer. Returns commands as first page and number of pages, completions, and tags.
fn poll(layer: &mut Layer, us: u64) -> (Vec<(u64, u32)>, Vec<Done>, Vec<Tag>) {
    let mut out = Vec::new();
    layer.poll(at(us), &mut out);
    let (mut sent, mut done, mut tags) = (Vec::new(), Vec::new(), Vec::new());
    for output in out {
        match output {
            Output::Dispatch(d) => {
                sent.push((d.offset / 4096, d.length / 4096));
                tags.push(d.tag);
            }
            Output::Done(d) => done.push(d),
            _ => {}
        }
    }
    (sent, done, tags)
}

#[test]
fn a_batch_is_one_command_and_each_request_is_answered() {
    let (mut layer, [a, _]) = layer(elevator::Config::None);
    let batch = [page(a, 5), page(a, 6), page(a, 4), page(a, 9)];
    layer.submit(at(0), &batch).unwrap();
    // Page 4 joins at the front of 5 and 6. Page 9 is not adjacent, and the drive has one tag.
    let (sent, _, tags) = poll(&mut layer, 10);
    assert_eq!(sent, [(4, 3)]);
    let parts: Vec<Part> = layer.parts(tags[0]).collect();
    let part = |page: u64| Part {
        stream: a,
        cookie: page,
        offset: page * 4096,
        length: 4096,
    };
    assert_eq!(parts, [4, 5, 6].map(part));
    layer.complete(at(50), &[Completion::error(tags[0], 5)]);
    let (sent, done, _) = poll(&mut layer, 50);
    assert_eq!(sent, [(9, 1)]);
    let mut cookies: Vec<u64> = done.iter().map(|d| d.cookie).collect();
    cookies.sort_unstable();
    assert_eq!(cookies, [4, 5, 6]);
    for d in done {
        assert_eq!((d.length, d.outcome), (4096, Outcome::Error(5)));
        let us = |span: weir_core::Span| span.as_nanos() / 1_000;
        let waits = (us(d.waits.limit), us(d.waits.elevator), us(d.waits.drive));
        // Submitted at 0 us, dispatched at 10 us and completed at 50 us.
        assert_eq!(waits, (0, 10, 40));
    }
    assert_eq!(layer.counters().merged, 2);
}

#[test]
fn commands_in_the_elevator_grow_at_both_ends_until_they_meet_or_fill() {
    let (mut layer, [a, _]) = layer(bfq());
    // The first request occupies the only tag, so the others are merged in the elevator.
    layer.submit(at(0), &[page(a, 100)]).unwrap();
    assert_eq!(poll(&mut layer, 0).0, [(100, 1)]);
    for p in [10, 12, 13, 11, 14, 9] {
        layer.submit(at(1), &[page(a, p)]).unwrap();
    }
    let mut sent = Vec::new();
    let mut tag = Tag(0);
    for us in 2..6 {
        layer.complete(at(us), &[Completion::ok(tag)]);
        let (more, _, tags) = poll(&mut layer, us);
        sent.extend(more);
        tag = tags.first().copied().unwrap_or(tag);
    }
    sent.sort_unstable();
    // The longest command has 16 KiB, or four pages. 9 and 14 no longer fit.
    assert_eq!(sent, [(9, 1), (10, 4), (14, 1)]);
    assert_eq!(layer.live(), 0);
}

#[test]
fn another_space_flag_or_operation_is_another_command() {
    let (mut layer, [a, _]) = layer(elevator::Config::None);
    let first = page(a, 5);
    let others = [
        page(a, 6).space(SpaceId(1)),
        page(a, 6).op(Op::Write),
        page(a, 6).flags(Flags::META),
        page(a, 6).flags(Flags::FUA),
    ];
    // Each pair is adjacent, but differs in one property.
    for other in others {
        layer.submit(at(0), &[first, other]).unwrap();
    }
    assert_eq!(layer.counters().merged, 0);
}

#[test]
fn a_cancelled_request_leaves_its_command_and_the_others_continue() {
    for leader in [false, true] {
        let (mut layer, [a, b]) = layer(bfq());
        // A request of the other stream occupies the only tag.
        layer.submit(at(0), &[page(b, 500)]).unwrap();
        let (_, _, tags) = poll(&mut layer, 0);
        let batch = [page(a, 5), page(a, 6), page(a, 7)];
        layer.submit(at(1), &batch).unwrap();
        // In one run, the leader of the command is cancelled, and in the other one of its members.
        assert!(layer.cancel(at(2), a, if leader { 5 } else { 6 }));
        let (_, done, _) = poll(&mut layer, 2);
        assert_eq!(done.len(), 1);
        assert_eq!(done[0].outcome, Outcome::Cancelled);
        let (mut sent, mut tag) = (Vec::new(), tags[0]);
        let mut now = 3;
        while layer.live() > 0 {
            layer.complete(at(now), &[Completion::ok(tag)]);
            // Later than any idling of BFQ (`slice_idle` is 8 ms).
            now += 20_000;
            let (more, _, tags) = poll(&mut layer, now);
            sent.extend(more);
            tag = tags.first().copied().unwrap_or(tag);
        }
        sent.sort_unstable();
        let left = if leader {
            [(6, 1), (7, 1)]
        } else {
            [(5, 1), (7, 1)]
        };
        assert_eq!(sent, left);
    }
}

#[test]
fn a_stream_on_hold_dispatches_no_part_of_its_command() {
    let (mut layer, [a, b]) = layer(bfq());
    layer.submit(at(0), &[page(b, 500)]).unwrap();
    let (_, _, tags) = poll(&mut layer, 0);
    layer.submit(at(1), &[page(a, 5), page(a, 6)]).unwrap();
    layer.hold(at(2), a, true);
    layer.complete(at(3), &[Completion::ok(tags[0])]);
    // Both pages are ready, but their stream is on hold.
    assert_eq!(poll(&mut layer, 50_000).0, []);
    layer.hold(at(50_001), a, false);
    let (mut sent, _, tags) = poll(&mut layer, 50_001);
    layer.complete(at(50_002), &[Completion::ok(tags[0])]);
    sent.extend(poll(&mut layer, 50_002).0);
    sent.sort_unstable();
    assert_eq!(sent, [(5, 1), (6, 1)]);
}

#[test]
fn a_request_in_flight_completes_with_its_command() {
    let (mut layer, [a, _]) = layer(elevator::Config::None);
    layer.submit(at(0), &[page(a, 5), page(a, 6)]).unwrap();
    let (_, _, tags) = poll(&mut layer, 0);
    // The command is in the drive, so neither the cancellation nor the close can stop it.
    layer.cancel(at(1), a, 6);
    layer.close(at(2), a);
    assert!(poll(&mut layer, 2).1.is_empty());
    layer.complete(at(3), &[Completion::ok(tags[0])]);
    let done = poll(&mut layer, 3).1;
    assert!(done.len() == 2 && done.iter().all(|d| d.outcome == Outcome::Ok));
}
