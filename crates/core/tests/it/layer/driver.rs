//! Tests of outputs for the driver in addition to dispatches and completions: hardware queues,
//! gauges and events.

use super::{at, open};
use weir_core::testing::{self, group, iops, limit};
use weir_core::{
    Completion, Config, DriveShape, Event, Gauges, GroupId, Instant, Layer, Listener, Mask, Output,
    Publish, QueueId, ROOT, Reason, Request, Sizes, StreamId, Tag, elevator,
};

fn layer(sizes: Sizes, queues: u16, tags: u16) -> Layer {
    layer_under(elevator::Config::None, sizes, queues, tags)
}

fn layer_under(elevator: elevator::Config, sizes: Sizes, queues: u16, tags: u16) -> Layer {
    let drive = DriveShape::default().queues(queues).tags(tags);
    let config = Config::of(elevator).sizes(sizes).drive(drive);
    super::layer(config)
}

fn read(stream: StreamId, cookie: u64) -> Request {
    testing::read(stream, cookie, 4096).offset(cookie * 4096)
}

/// Polls the layer and returns queue, tag and cookie of the dispatches.
fn sent(layer: &mut Layer, us: u64) -> Vec<(u16, u32, u64)> {
    let mut out = Vec::new();
    layer.poll(at(us), &mut out);
    let pick = |o: &Output| match o {
        Output::Dispatch(d) => Some((d.queue.0, d.tag.0, d.cookie)),
        _ => None,
    };
    out.iter().filter_map(pick).collect()
}

#[test]
fn a_choice_for_the_whole_drive_takes_a_tag_of_the_next_queue_that_is_free() {
    let elevator = elevator::Config::Bfq(elevator::bfq::Config::default());
    let mut layer = layer_under(elevator, Sizes::default(), 3, 2);
    let a = open(&mut layer, ROOT);
    let requests: Vec<_> = (0..7).map(|cookie| read(a, cookie)).collect();
    // All requests are of one stream, whose queue is 0. The choice of BFQ is for the whole drive,
    // so the other queues are filled as well.
    layer.submit(at(0), &requests).unwrap();
    // Tags 0 and 1 belong to queue 0, 2 and 3 to queue 1, and so on.
    let filled = [
        (0, 0, 0),
        (0, 1, 1),
        (1, 2, 2),
        (1, 3, 3),
        (2, 4, 4),
        (2, 5, 5),
    ];
    assert_eq!(sent(&mut layer, 0), filled);
    layer.complete(at(1), &[Completion::ok(Tag(4))]);
    assert_eq!(sent(&mut layer, 1), [(QueueId(2).0, 4, 6)]);
}

#[test]
fn gauges_count_the_requests_of_a_stream() {
    let mut layer = layer(Sizes::default(), 1, 1);
    // 1 request/s: the first request passes at once, and the other two are throttled.
    let max = iops(1);
    let contract = limit(max);
    let group = group(1, contract);
    layer.change(at(0), &[group]).unwrap();
    let stream = open(&mut layer, GroupId(1));
    assert_eq!(layer.gauges(stream), Some(Gauges::default()));
    assert_eq!(layer.live(), 0);
    layer.submit(at(5), &[read(stream, 0)]).unwrap();
    layer
        .submit(at(7), &[read(stream, 1), read(stream, 2)])
        .unwrap();
    sent(&mut layer, 7);
    let gauges = Gauges {
        live: 3,
        limited: 2,
        oldest: Some(at(5)),
    };
    assert_eq!(layer.gauges(stream), Some(gauges));
    assert_eq!((layer.live(), layer.in_flight()), (3, 1));
    layer.complete(at(9), &[Completion::ok(Tag(0))]);
    sent(&mut layer, 9);
    let gauges = Gauges {
        live: 2,
        oldest: Some(at(7)),
        ..gauges
    };
    assert_eq!(layer.gauges(stream), Some(gauges));
    assert_eq!((layer.live(), layer.in_flight()), (2, 0));
    layer.close(at(9), stream);
    sent(&mut layer, 9);
    assert_eq!(layer.gauges(stream), None);
}

/// The cookies of the requests that were charged.
struct Charged(Vec<u64>);

impl Publish for Charged {
    fn publish(&mut self, _: Instant, event: Event) {
        if let Event::Released { cookie, .. } = event {
            self.0.push(cookie);
        }
    }
}

fn charged(layer: &mut Layer, listener: Listener) -> (Vec<u64>, u64) {
    let mut out = Charged(Vec::new());
    let lost = layer.drain(listener, &mut out);
    (out.0, lost)
}

#[test]
fn listeners_receive_every_request_and_lost_events_are_counted() {
    let sizes = Sizes::default().events(4);
    let mut layer = layer(sizes, 1, 32);
    let stream = open(&mut layer, ROOT);
    let mut ask = |mask, cookies: std::ops::Range<u64>| {
        let listener = layer.listen(mask);
        let requests: Vec<_> = cookies.map(|cookie| read(stream, cookie)).collect();
        layer.submit(at(0), &requests).unwrap();
        sent(&mut layer, 0);
        let heard = charged(&mut layer, listener);
        layer.dismiss(listener);
        // Nothing is kept for a listener that was dismissed.
        layer.submit(at(0), &[read(stream, 99)]).unwrap();
        sent(&mut layer, 0);
        assert_eq!(charged(&mut layer, listener), (vec![], 0));
        heard
    };
    assert_eq!(ask(Mask::NONE, 0..2), (vec![], 0));
    assert_eq!(ask(Mask::LIMITS, 2..4), (vec![2, 3], 0));
    // 7 events are published, and 4 of them fit into the queue, so the first 3 are lost.
    assert_eq!(ask(Mask::LIMITS, 4..11), (vec![7, 8, 9, 10], 3));
    assert_eq!(ask(Mask::TURNS, 11..12), (vec![], 0));
    assert_eq!(ask(Mask::NONE, 12..13), (vec![], 0));
}

/// Creates a layer with two queues of one tag, and a stream in each.
fn two_queues() -> (Layer, StreamId, StreamId) {
    let mut layer = layer(Sizes::default(), 2, 1);
    let (a, b) = (open(&mut layer, ROOT), open(&mut layer, ROOT));
    (layer, a, b)
}

#[test]
fn a_full_queue_without_an_elevator_delays_only_its_own_streams() {
    let (mut layer, a, b) = two_queues();
    layer
        .submit(at(0), &[read(a, 0), read(a, 1), read(a, 2), read(b, 3)])
        .unwrap();
    assert_eq!(sent(&mut layer, 0), [(0, 0, 0), (1, 1, 3)]);
    // The other queue is free, but takes no request of a stream of the full one.
    layer.complete(at(1), &[Completion::ok(Tag(1))]);
    assert_eq!(sent(&mut layer, 1), []);
    layer.complete(at(2), &[Completion::ok(Tag(0))]);
    assert_eq!(sent(&mut layer, 2), [(0, 0, 1)]);
}

#[test]
fn a_busy_queue_is_asked_again_and_the_other_goes_on_meanwhile() {
    let (mut layer, a, b) = two_queues();
    layer.submit(at(0), &[read(a, 0), read(b, 1)]).unwrap();
    assert_eq!(sent(&mut layer, 0).len(), 2);
    layer.complete(at(1), &[Completion::busy(Tag(0))]);
    layer.submit(at(1), &[read(b, 2), read(a, 3)]).unwrap();
    assert_eq!(sent(&mut layer, 1), []);
    layer.complete(at(2), &[Completion::ok(Tag(1))]);
    assert_eq!(
        sent(&mut layer, 2),
        [(1, 1, 2)],
        "nothing to the busy queue"
    );
    let wake = layer.poll(at(2), &mut Vec::new()).unwrap();
    // The returned piece is sent again 3 ms after its return, because no other piece of its queue
    // is in flight.
    assert_eq!((wake.at, wake.reason), (at(3_001), Reason::Retry));
    assert_eq!(sent(&mut layer, 3_001), [(0, 0, 0)]);
}

#[test]
fn each_queue_has_a_flush_of_a_space_and_scheduler_tags_of_its_own() {
    let sizes = Sizes::default().scheduler_tags(1);
    let mut layer = layer(sizes, 2, 4);
    let (a, b) = (open(&mut layer, ROOT), open(&mut layer, ROOT));
    let flush = |stream, cookie| {
        read(stream, cookie)
            .op(weir_core::Op::Flush)
            .offset(0)
            .length(0)
    };
    layer.submit(at(0), &[flush(a, 0), flush(a, 1)]).unwrap();
    layer.submit(at(0), &[flush(b, 2)]).unwrap();
    // Queue 0 has the tags 0 to 3 and queue 1 the tags 4 to 7. Both flushes of stream `a` share a
    // command.
    assert_eq!(sent(&mut layer, 0), [(0, 0, 0), (1, 4, 2)]);
    layer
        .submit(at(0), &[read(a, 3), read(a, 4), read(b, 5)])
        .unwrap();
    // Each queue has one scheduler tag, so request 4 waits.
    assert_eq!(sent(&mut layer, 0), [(0, 1, 3), (1, 5, 5)]);
    layer.complete(at(1), &[Completion::ok(Tag(1)), Completion::ok(Tag(0))]);
    // Both flushes of the first stream have completed, so no flush follows.
    assert_eq!(sent(&mut layer, 1), [(0, 0, 4)]);
}
