//! Regression tests for bugs that the auditors have found, each as the shortest run that shows the
//! bug.

use super::{at, open};
use weir_core::testing::{capacity, change, group, iops, limit, min, min_iops, read};
use weir_core::{
    Capacity, Class, Completion, Config, Contract, DriveShape, Edit, GroupId, Layer, Max, Op,
    Outcome, Output, ROOT, Reject, Sizes, Span, StreamId, Tag, Waits, elevator,
};

fn layer(sizes: Sizes, tags: u16) -> Layer {
    let drive = DriveShape::default().tags(tags).max_transfer(4096);
    let config = Config::of(elevator::Config::None).sizes(sizes).drive(drive);
    super::layer(config)
}

fn limited(layer: &mut Layer, us: u64, max: Max) {
    let edit = match us {
        0 => group(1, limit(max)),
        _ => change(GroupId(1), limit(max)),
    };
    layer.change(at(us), &[edit]).unwrap();
}

fn poll(layer: &mut Layer, us: u64) -> Vec<Output> {
    let mut out = Vec::new();
    layer.poll(at(us), &mut out);
    out
}

fn sent(out: &[Output]) -> Vec<u64> {
    let pick = |o: &Output| match o {
        Output::Dispatch(d) => Some(d.cookie),
        _ => None,
    };
    out.iter().filter_map(pick).collect()
}

#[test]
fn a_stray_tag_beyond_the_drives_is_ignored_also_while_the_drive_is_busy() {
    let mut layer = layer(Sizes::default(), 2);
    let s = open(&mut layer, ROOT);
    layer.submit(at(0), &[read(s, 1, 512)]).unwrap();
    poll(&mut layer, 0);
    // Tag 7 is beyond the two tags of the drive.
    layer.complete(at(1), &[Completion::busy(Tag(0)), Completion::ok(Tag(7))]);
    assert_eq!(layer.counters().stray, 1);
}

#[test]
fn a_flush_with_an_offset_is_refused() {
    let mut layer = layer(Sizes::default(), 1);
    let s = open(&mut layer, ROOT);
    let flush = read(s, 1, 0).op(Op::Flush).offset(512);
    let refused = layer.submit(at(0), &[flush]).unwrap_err();
    assert_eq!(refused.reason, Reject::BadLength);
}

#[test]
fn the_waits_of_a_request_held_between_two_pieces_add_up() {
    let mut layer = layer(Sizes::default(), 1);
    // 8192 bytes are two pieces of 4096, and the drive has one tag.
    let s = open(&mut layer, ROOT);
    layer.submit(at(0), &[read(s, 1, 8192)]).unwrap();
    poll(&mut layer, 1);
    layer.hold(at(2), s, true);
    layer.complete(at(3), &[Completion::ok(Tag(0))]);
    layer.hold(at(10), s, false);
    poll(&mut layer, 10);
    layer.complete(at(12), &[Completion::ok(Tag(0))]);
    let out = poll(&mut layer, 12);
    let [Output::Done(done)] = out[..] else {
        panic!("an answer: {out:?}")
    };
    // From its first piece at 1 us to its last completion at 12 us, the time is the drive's,
    // including the hold.
    let expected = Waits {
        limit: Span::ZERO,
        elevator: Span::from_micros(1),
        drive: Span::from_micros(11),
    };
    assert_eq!((done.outcome, done.waits), (Outcome::Ok, expected));
}

#[test]
fn a_stream_on_hold_keeps_no_scheduler_tag_from_the_others() {
    let sizes = Sizes::default().scheduler_tags(1);
    let mut layer = layer(sizes, 1);
    let (held, other) = (open(&mut layer, ROOT), open(&mut layer, ROOT));
    layer
        .submit(at(0), &[read(held, 1, 8192), read(other, 2, 512)])
        .unwrap();
    // The long request has the only scheduler tag and one piece in the drive.
    assert_eq!(sent(&poll(&mut layer, 0)), [1]);
    layer.hold(at(1), held, true);
    assert_eq!(sent(&poll(&mut layer, 1)), []);
    layer.complete(at(2), &[Completion::ok(Tag(0))]);
    assert_eq!(sent(&poll(&mut layer, 2)), [2]);
}

#[test]
fn every_refused_stream_is_notified_even_if_earlier_ones_do_not_submit() {
    // One place, which is not reserved for any stream.
    let sizes = Sizes::default().requests(1).streams(4).reserved(0);
    let mut layer = layer(sizes, 1);
    let streams = [0; 4].map(|_| open(&mut layer, ROOT));
    layer.submit(at(0), &[read(streams[0], 1, 512)]).unwrap();
    for stream in &streams[1..] {
        layer.submit(at(0), &[read(*stream, 1, 512)]).unwrap_err();
    }
    poll(&mut layer, 0);
    layer.complete(at(1), &[Completion::ok(Tag(0))]);
    let out = poll(&mut layer, 1);
    // All places are free, so all waiting streams are notified. None of them has to come.
    for stream in &streams[1..] {
        assert!(out.contains(&Output::Resume(*stream)), "{out:?}");
    }
}

#[test]
fn a_stream_that_fills_its_own_reserve_is_told_when_there_is_room_in_it() {
    // Two places, each of which is reserved for one stream.
    let sizes = Sizes::default().requests(2).streams(2).reserved(1);
    let mut layer = layer(sizes, 2);
    let (a, b) = (open(&mut layer, ROOT), open(&mut layer, ROOT));
    for stream in [a, b] {
        layer.submit(at(0), &[read(stream, 1, 512)]).unwrap();
        layer.submit(at(0), &[read(stream, 2, 512)]).unwrap_err();
    }
    poll(&mut layer, 0);
    layer.complete(at(1), &[Completion::ok(Tag(1))]);
    let out = poll(&mut layer, 1);
    assert!(
        matches!(out[..], [Output::Done(_), Output::Resume(s)] if s == b),
        "{out:?}"
    );
}

#[test]
fn a_stream_owed_room_that_fills_up_before_it_is_told_so_is_told_to_pause() {
    // Six places and at most two for each stream: three streams fill the layer.
    let sizes = Sizes::default()
        .requests(6)
        .streams(7)
        .per_stream(2)
        .reserved(0);
    let mut layer = layer(sizes, 2);
    let streams = [0; 7].map(|_| open(&mut layer, ROOT));
    let two = |stream| [read(stream, 1, 512), read(stream, 2, 512)];
    for stream in &streams[..3] {
        layer.submit(at(0), &two(*stream)).unwrap();
    }
    for stream in &streams[3..6] {
        layer.submit(at(0), &two(*stream)).unwrap_err();
    }
    poll(&mut layer, 0);
    layer.complete(at(1), &[Completion::ok(Tag(0)), Completion::ok(Tag(1))]);
    let out = poll(&mut layer, 1);
    // Two places are free, so two of the three waiting streams are notified.
    assert!(
        out.contains(&Output::Resume(streams[4])) && !out.contains(&Output::Resume(streams[5]))
    );
    // The closed stream might have been notified, so the next one is. It fills its places before it
    // is told, and must then be told to pause.
    layer.close(at(1), streams[6]);
    layer.submit(at(1), &two(streams[5])).unwrap();
    assert!(poll(&mut layer, 1).contains(&Output::Pause(streams[5])));
}

#[test]
fn lifting_a_limit_earns_no_credit_under_another() {
    let mut layer = layer(Sizes::default(), 8);
    let both = Max::NONE.iops(1).bandwidth(1_000_000);
    limited(&mut layer, 0, both);
    let s = open(&mut layer, GroupId(1));
    layer
        .submit(
            at(0),
            &[read(s, 1, 1000), read(s, 2, 1000), read(s, 3, 1000)],
        )
        .unwrap();
    // 1 request/s lets the first pass. The limit of 1 MB/s would let 1000 bytes pass per
    // millisecond.
    assert_eq!(sent(&poll(&mut layer, 0)), [1]);
    limited(&mut layer, 500_000, both.iops(0));
    // Without the first limit, request 2 passes at once and request 3 one millisecond later: no
    // credit was earned under the remaining limit.
    assert_eq!(sent(&poll(&mut layer, 500_000)), [2]);
    assert_eq!(sent(&poll(&mut layer, 500_999)), []);
    assert_eq!(sent(&poll(&mut layer, 501_000)), [3]);
}

#[test]
fn a_backlog_of_over_5_s_under_a_read_limit_pauses_the_stream() {
    let mut layer = layer(Sizes::default(), 8);
    let max = Max::NONE.read_bandwidth(1_000);
    limited(&mut layer, 0, max);
    let s = open(&mut layer, GroupId(1));
    // At 1000 bytes/s, the first of seven requests passes and the others need one second each. Five
    // seconds of backlog are allowed.
    let requests: Vec<_> = (0..7).map(|c| read(s, c, 1000)).collect();
    layer.submit(at(0), &requests[..6]).unwrap();
    assert!(!poll(&mut layer, 0).contains(&Output::Pause(s)));
    layer.submit(at(0), &requests[6..]).unwrap();
    assert!(poll(&mut layer, 0).contains(&Output::Pause(s)));
}

/// Lets a promised client wait for the drive for three seconds until a realtime client connects.
/// Returns the number of requests of the promised client that are dispatched before the realtime
/// client's last one.
fn passed_a_realtime_client(edits: &[Edit]) -> usize {
    let config =
        Config::of(elevator::contract::Config::default()).drive(DriveShape::default().tags(1));
    let mut layer = super::layer(config);
    let capacity = Edit::SetCapacity(Some(
        Capacity::NONE.read(1 << 30).write(1 << 30).iops(10_000_000),
    ));
    layer.change(at(0), &[capacity]).unwrap();
    layer.change(at(0), edits).unwrap();
    let [promised, realtime] = [1, 2].map(|group| open(&mut layer, GroupId(group)));
    let requests: Vec<_> = (0..60).map(|n| read(promised, n, 4096)).collect();
    layer.submit(at(0), &requests).unwrap();
    assert_eq!(sent(&poll(&mut layer, 0)), [0]);
    let requests: Vec<_> = (100..140).map(|n| read(realtime, n, 4096)).collect();
    layer.submit(at(3_000_000), &requests).unwrap();
    let mut passed = 0;
    // One completion per microsecond.
    for us in 3_000_001.. {
        layer.complete(at(us), &[Completion::ok(Tag(0))]);
        let sent = sent(&poll(&mut layer, us));
        passed += sent.iter().filter(|&&n| n < 100).count();
        if sent == [139] {
            break;
        }
    }
    passed
}

#[test]
fn a_promise_is_compensated_for_100_ms_beside_a_realtime_client() {
    let group = |id, contract| group(id, contract);
    let promised = min_iops(5);
    let realtime = Contract::DEFAULT
        .class(Class::Realtime)
        .max(iops(1_000_000));
    // 100 ms of the promise are compensated, which is less than one request.
    let passed = passed_a_realtime_client(&[group(1, promised), group(2, realtime)]);
    assert!((1..=2).contains(&passed), "{passed}");
}

/// Creates a layer under `contract` and a group with a min. One request of it, or its first 4096
/// bytes, is in the drive. Returns its stream and tag.
#[cfg(debug_assertions)]
fn promised(op: Op, length: u32) -> (Layer, StreamId, Tag) {
    let config = Config::of(elevator::contract::Config::default())
        .drive(DriveShape::default().max_transfer(4096));
    let mut layer = super::layer(config);
    let capacity = capacity(100_000_000);
    let contract = min(1_000_000);
    let group = group(1, contract);
    let edits = [Edit::SetCapacity(Some(capacity)), group];
    layer.change(at(0), &edits).unwrap();
    let stream = open(&mut layer, GroupId(1));
    let request = read(stream, 0, length).op(op);
    layer.submit(at(0), &[request]).unwrap();
    let out = poll(&mut layer, 0);
    match out[0] {
        Output::Dispatch(d) => (layer, stream, d.tag),
        _ => panic!("nothing is sent: {out:?}"),
    }
}

#[test]
#[cfg(debug_assertions)]
fn a_discard_leaves_nothing_in_the_drive_for_its_promise() {
    let (mut layer, _, tag) = promised(Op::Discard, 100);
    layer.complete(at(10), &[Completion::ok(tag)]);
    layer.invariants();
}

#[test]
#[cfg(debug_assertions)]
fn a_change_does_not_wait_for_a_cancelled_request_in_the_drive() {
    let (mut layer, stream, tag) = promised(Op::Read, 3 * 4096);
    layer.cancel(at(1), stream, 0);
    layer.change(at(2), &[]).unwrap();
    layer.invariants();
    layer.complete(at(10), &[Completion::ok(tag)]);
    layer.invariants();
}
