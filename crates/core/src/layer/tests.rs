//! Tests of the layer's chain of stages, with the simplest elevator.

use super::*;
use crate::testing::{self, at, capacity, flush, group, iops, latency, limit, min, read, space};
use crate::{
    Completion, Contract, ControllerKind, Cookie, Edit, Max, MaxDebt, Outcome, PromiseSums, ROOT,
    Reason, Refusal, Request, SpaceId, Span, Tag,
};
use std::string::ToString;
use std::vec::Vec;

const MIB: u64 = 1 << 20;

/// A layer with a buffer for its outputs, driven by hand.
struct Bench {
    layer: Layer,
    out: Vec<Output>,
}

impl Bench {
    fn new(tags: u16, sizes: Sizes) -> Self {
        Self::that_merges(tags, sizes, crate::merge::Config::OFF)
    }

    fn that_merges(tags: u16, sizes: Sizes, merge: crate::merge::Config) -> Self {
        let drive = DriveShape::default().tags(tags).max_transfer(8192);
        let config = Config::of(elevator::Config::None)
            .sizes(sizes)
            .drive(drive)
            .merge(merge);
        Self {
            layer: testing::layer(config, &[space(0, MIB)]).unwrap(),
            out: Vec::new(),
        }
    }

    fn open(&mut self, group: GroupId) -> StreamId {
        testing::open(&mut self.layer, group)
    }

    fn submit(&mut self, us: u64, requests: &[Request]) {
        self.layer.submit(at(us), requests).unwrap();
    }

    fn end(&mut self, us: u64, tag: Tag) {
        self.layer.complete(at(us), &[Completion::ok(tag)]);
    }

    fn poll(&mut self, us: u64) -> Vec<Output> {
        self.out.clear();
        self.layer.poll(at(us), &mut self.out);
        self.out.clone()
    }

    fn dispatched(&mut self, us: u64) -> Vec<(Cookie, u32, Tag)> {
        let pick = |o: Output| match o {
            Output::Dispatch(d) => Some((d.cookie, d.length, d.tag)),
            _ => None,
        };
        self.poll(us).into_iter().filter_map(pick).collect()
    }

    fn done(&mut self, us: u64) -> Vec<(Cookie, Outcome)> {
        let pick = |o: Output| match o {
            Output::Done(d) => Some((d.cookie, d.outcome)),
            _ => None,
        };
        self.poll(us).into_iter().filter_map(pick).collect()
    }
}

/// Returns the result of a batch in which this number of requests is accepted.
const fn refused(accepted: usize, reason: Reject) -> Result<(), Rejection> {
    Err(Rejection { accepted, reason })
}

#[test]
fn a_long_request_is_split_and_answered_once_with_the_first_error() {
    let mut b = Bench::new(2, Sizes::default());
    let s = b.open(ROOT);
    // 20,000 bytes are two pieces of at most 8192 bytes and one of 3616. The drive has two tags.
    b.submit(0, &[read(s, 7, 20_000)]);
    let first = b.dispatched(0);
    assert_eq!(first.iter().map(|d| d.1).collect::<Vec<_>>(), [8192, 8192]);
    // The second piece fails first, so its error is the one that counts.
    b.layer.complete(
        at(1),
        &[
            Completion::error(first[1].2, 5),
            Completion::error(first[0].2, 6),
        ],
    );
    // The rest of the request is still dispatched after a failure.
    let rest = b.dispatched(1);
    assert_eq!(rest.iter().map(|d| d.1).collect::<Vec<_>>(), [3616]);
    b.end(2, rest[0].2);
    assert_eq!(b.done(2), [(7, Outcome::Error(5))]);
    assert_eq!((b.layer.live(), b.layer.in_flight()), (0, 0));
}

#[test]
fn invalid_requests_are_refused_with_the_reason() {
    let mut b = Bench::new(1, Sizes::default());
    let s = b.open(ROOT);
    let cases = [
        // One byte beyond the end of the space, and an offset whose end would overflow.
        (read(s, 0, 101).offset(MIB - 100), Reject::OutOfRange),
        (read(s, 0, 101).offset(u64::MAX), Reject::OutOfRange),
        (read(s, 0, 0), Reject::BadLength),
        (flush(s, 0).length(1), Reject::BadLength),
        (read(s, 0, 1).space(SpaceId(1)), Reject::UnknownSpace),
        (read(StreamId::from_bits(9), 0, 1), Reject::UnknownStream),
    ];
    for (request, reason) in cases {
        // The request before the refused one is accepted, and the one after it is not examined.
        let batch = [read(s, 1, 512), request, read(s, 2, 512)];
        assert_eq!(b.layer.submit(at(0), &batch), refused(1, reason));
    }
}

#[test]
fn a_full_stream_pauses_and_resumes_at_half() {
    let mut b = Bench::new(1, Sizes::default().per_stream(4));
    let s = b.open(ROOT);
    // `per_stream` is 4, so the fourth request makes the stream pause.
    b.submit(0, &[1, 2, 3, 4].map(|c| read(s, c, 512)));
    assert!(b.poll(0).contains(&Output::Pause(s)));
    let told = b.layer.submit(at(0), &[read(s, 5, 512)]);
    assert_eq!(told, refused(0, Reject::StreamFull));
    let mut resumed = Vec::new();
    for us in 1..=4 {
        b.end(us, Tag(0));
        resumed.push(b.poll(us).contains(&Output::Resume(s)));
    }
    // Half of 4 is reached with the second completion. The resume is sent once.
    assert_eq!(resumed, [false, true, false, false]);
}

#[test]
fn a_stream_refused_during_an_unreported_pause_is_resumed() {
    let mut b = Bench::new(1, Sizes::default().per_stream(2));
    let s = b.open(ROOT);
    b.submit(0, &[read(s, 1, 512)]);
    b.poll(0);
    b.end(1, Tag(0));
    // The pause begins with request 2 and ends with the completion that the same poll reports, so
    // the driver is never told about it.
    let batch = [read(s, 2, 512), read(s, 3, 512)];
    let expected = refused(1, Reject::StreamFull);
    assert_eq!(b.layer.submit(at(1), &batch), expected);
    assert!(b.poll(1).contains(&Output::Resume(s)));
}

#[test]
fn a_full_layer_keeps_reserved_places_and_resumes_refused_streams() {
    // 6 places, of which one is reserved for each of 3 streams: a stream can have 3 shared ones and
    // its own.
    let sizes = Sizes::default().requests(6).streams(3).reserved(1);
    let mut b = Bench::new(1, sizes);
    let (s1, s2) = (b.open(ROOT), b.open(ROOT));
    b.submit(0, &[1, 2, 3, 4].map(|c| read(s1, c, 512)));
    let told = b.layer.submit(at(0), &[read(s1, 5, 512)]);
    assert_eq!(told, refused(0, Reject::Full));
    // The place reserved for the second stream is still free.
    b.submit(0, &[read(s2, 1, 512)]);
    b.poll(0);
    b.end(1, Tag(0));
    assert!(b.poll(1).contains(&Output::Resume(s1)));
    b.submit(1, &[read(s1, 5, 512)]);
}

#[test]
fn a_flush_never_joins_one_that_has_begun_and_shares_the_next() {
    let mut b = Bench::new(8, Sizes::default());
    let (s1, s2) = (b.open(ROOT), b.open(ROOT));
    b.submit(0, &[flush(s1, 1)]);
    let first = b.dispatched(0);
    // The first flush is in the drive when the other two arrive, so they wait and share a command.
    b.submit(1, &[flush(s1, 2), flush(s2, 3)]);
    assert_eq!(b.dispatched(1), []);
    b.end(2, first[0].2);
    let out = b.poll(2);
    assert!(matches!(out[..], [Output::Done(d), Output::Dispatch(_)] if d.cookie == 1));
    b.layer.complete(at(3), &[Completion::error(Tag(0), 5)]);
    // Both members of the shared command get its error.
    assert_eq!(b.done(3), [(2, Outcome::Error(5)), (3, Outcome::Error(5))]);
}

#[test]
fn a_stream_on_hold_sends_nothing_and_others_go_on() {
    // With two scheduler tags, requests 1 and 2 are in the elevator and the others in front of it.
    let mut b = Bench::new(8, Sizes::default().scheduler_tags(2));
    let (s1, s2) = (b.open(ROOT), b.open(ROOT));
    b.submit(
        0,
        &[
            read(s1, 1, 512),
            read(s1, 2, 512),
            read(s1, 3, 512),
            read(s2, 4, 512),
        ],
    );
    b.layer.hold(at(0), s1, true);
    // The tags of the withdrawn requests are free, so the other stream's request can take one.
    assert_eq!(b.dispatched(0).iter().map(|d| d.0).collect::<Vec<_>>(), [4]);
    b.submit(1, &[flush(s1, 5)]);
    assert_eq!(b.dispatched(1), []);
    // The flush needs no scheduler tag.
    b.layer.hold(at(2), s1, false);
    let sent = b.dispatched(2);
    assert_eq!(
        sent.iter().map(|d| d.0).collect::<Vec<_>>(),
        [5, 1],
        "one scheduler tag is with the other stream"
    );
}

#[test]
fn cancel_ends_waiting_requests_and_leaves_requests_in_flight() {
    let mut b = Bench::new(1, Sizes::default());
    let s = b.open(ROOT);
    // With one tag of the drive, request 1 is in the drive and request 2 waits.
    b.submit(0, &[read(s, 1, 512), read(s, 2, 512)]);
    b.poll(0);
    assert!(
        b.layer.cancel(at(1), s, 1) && b.layer.cancel(at(1), s, 2) && !b.layer.cancel(at(1), s, 3)
    );
    assert_eq!(b.done(1), [(2, Outcome::Cancelled)]);
    assert_eq!(b.layer.in_flight(), 1);
    b.end(2, Tag(0));
    assert_eq!(b.done(2), [(1, Outcome::Ok)]);
}

#[test]
fn a_closed_stream_drains_and_its_id_becomes_invalid() {
    let mut b = Bench::new(1, Sizes::default());
    let s = b.open(ROOT);
    b.submit(0, &[read(s, 1, 20_000), read(s, 2, 512)]);
    b.poll(0);
    // Of the 20,000 bytes, one piece of 8192 is in the drive when the stream is closed.
    b.layer.close(at(1), s);
    assert_eq!(b.done(1), [(2, Outcome::Cancelled)]);
    assert!(b.layer.submit(at(1), &[read(s, 3, 512)]).is_err());
    b.end(2, Tag(0));
    assert_eq!(b.done(2), [(1, Outcome::Cancelled)]);
    let again = b.open(ROOT);
    // The slot is the same, but the generation differs.
    assert_ne!(again, s);
    assert_eq!(again.slot(), s.slot());
}

#[test]
fn a_busy_drive_gets_the_same_piece_again() {
    let mut b = Bench::new(2, Sizes::default());
    let s = b.open(ROOT);
    b.submit(0, &[read(s, 1, 512)]);
    b.poll(0);
    b.layer.complete(at(1), &[Completion::busy(Tag(0))]);
    b.out.clear();
    // No other piece is in flight, so the queue is tried again after 3 ms.
    let wake = b.layer.poll(at(1), &mut b.out).unwrap();
    assert_eq!((wake.at, wake.reason), (at(3_001), Reason::Retry));
    assert_eq!(b.dispatched(3_001), [(1, 512, Tag(0))]);
    b.layer.complete(
        at(3_002),
        &[
            Completion::ok(Tag(0)),
            Completion::ok(Tag(0)),
            Completion::ok(Tag(9)),
        ],
    );
    // The second completion of tag 0 and that of tag 9 are strays.
    assert_eq!(b.done(3_002), [(1, Outcome::Ok)]);
    assert_eq!(b.layer.counters().stray, 2);
}

#[test]
fn a_max_is_kept_and_its_wait_is_accounted() {
    let mut b = Bench::new(8, Sizes::default());
    let max = iops(1_000);
    let contract = limit(max);
    b.layer.change(at(0), &[group(1, contract)]).unwrap();
    let s = b.open(GroupId(1));
    // 1000 requests/s without a burst let one pass per millisecond.
    b.submit(0, &[read(s, 1, 512), read(s, 2, 512), read(s, 3, 512)]);
    assert_eq!(b.dispatched(0).len(), 1);
    assert_eq!(b.dispatched(999).len(), 0);
    assert_eq!(b.dispatched(1_000).len(), 1);
    let sent = b.dispatched(2_500);
    b.end(2_600, sent[0].2);
    let Output::Done(done) = b.poll(2_600)[0] else {
        panic!("an answer")
    };
    // The third request passes at 2 ms but is found only by the poll at 2.5 ms. Its time until then
    // counts as throttled.
    assert_eq!(
        (done.waits.limit, done.waits.drive),
        (Span::from_micros(2_500), Span::from_micros(100))
    );
}

#[test]
fn a_backlog_of_more_than_five_seconds_pauses_the_stream() {
    let mut b = Bench::new(8, Sizes::default());
    let contract = limit(iops(10));
    b.layer.change(at(0), &[group(1, contract)]).unwrap();
    // At 10 requests/s, the first of 51 passes at once and the other 50 need 5 s.
    let s = b.open(GroupId(1));
    let requests: Vec<_> = (0..51).map(|c| read(s, c, 512)).collect();
    b.submit(0, &requests);
    assert!(
        !b.poll(0).contains(&Output::Pause(s)),
        "50 held back clear in just five seconds"
    );
    b.submit(0, &[read(s, 99, 512)]);
    assert!(b.poll(0).contains(&Output::Pause(s)));
}

#[test]
fn a_refused_change_leaves_everything_as_it_was() {
    let mut b = Bench::new(1, Sizes::default());
    let contract = min(60);
    // 60 of 100 bytes/s are promised, so a second promise of 60 exceeds the limit of 90.
    let capacity = Some(capacity(100));
    let add = |id| group(id, contract);
    b.layer
        .change(at(0), &[Edit::SetCapacity(capacity), add(1)])
        .unwrap();
    let refused = b.layer.change(at(0), &[space(1, 5), add(2)]);
    assert!(refused.is_err());
    // Neither the group nor the space of the refused change exists.
    assert!(b.layer.open(at(0), testing::spec(GroupId(2))).is_err());
    let s = b.open(GroupId(1));
    let request = read(s, 1, 1).space(SpaceId(1));
    assert_eq!(
        b.layer.submit(at(0), &[request]).unwrap_err().reason,
        Reject::UnknownSpace
    );
}

#[test]
fn time_never_goes_back() {
    let mut b = Bench::new(1, Sizes::default());
    let s = b.open(ROOT);
    b.submit(10, &[read(s, 1, 512)]);
    // The poll at 5 us is treated as one at 10 us.
    b.poll(5);
    b.end(20, Tag(0));
    let Output::Done(done) = b.poll(20)[0] else {
        panic!("an answer")
    };
    // The drive had the request from 10 us to 20 us.
    assert_eq!(done.waits.drive, Span::from_micros(10));
    assert_eq!(b.layer.counters().clamped, 1);
}

/// Regression test: a request that was split, put on hold and then throttled by `io.latency` on its
/// way back never freed its scheduler tag.
#[test]
fn a_request_with_a_piece_in_the_drive_keeps_its_tag_when_it_meets_io_latency() {
    let sizes = Sizes::default().scheduler_tags(3);
    let mut b = Bench::new(2, sizes);
    let groups = [1, 2].map(|id| group(id, Contract::DEFAULT));
    b.layer.change(at(0), &groups).unwrap();
    let [long, other, target] = [1, 1, 2].map(|id| b.open(GroupId(id)));
    b.submit(0, &[read(long, 1, 24_576)]);
    let pieces = b.dispatched(0);
    // Two of the three pieces are in the drive when the stream is put on hold.
    assert_eq!(pieces.len(), 2);
    b.layer.hold(at(1), long, true);
    b.end(2, pieces[0].2);
    let strict = latency(GroupId(2), Span::from_micros(1));
    b.layer.change(at(3), &[strict]).unwrap();
    // The target's reads are slow, until `io.latency` allows the other group only one request in
    // flight, which it has.
    for n in 0..20 {
        let now = 10 + n * 200_000;
        b.submit(now, &[read(target, 100 + n, 512)]);
        let read = b.dispatched(now);
        b.end(now + 190_000, read[0].2);
        b.done(now + 190_000);
    }
    let now = 5_000_000;
    b.submit(now, &[read(other, 2, 512)]);
    let sent = b.dispatched(now);
    // The long request continues through the chain. Its second piece is still in the drive.
    b.layer.hold(at(now), long, false);
    assert!(b.dispatched(now).is_empty() || sent.len() == 1);
    let mut tags: Vec<Tag> = sent.iter().map(|d| d.2).chain([pieces[1].2]).collect();
    let mut over = 0;
    // All requests end if every completion is delivered, 10 ms apart.
    for step in 1..100 {
        for tag in core::mem::take(&mut tags) {
            b.end(now + step * 10_000, tag);
        }
        for output in b.poll(now + step * 10_000) {
            match output {
                Output::Dispatch(d) => tags.push(d.tag),
                Output::Done(_) => over += 1,
                _ => {}
            }
        }
    }
    assert_eq!(over, 2, "the long one and the other one");
    // All three tags are free again.
    assert_eq!(b.layer.tags.left(), 3);
}

#[test]
fn a_setting_without_its_controller_is_refused() {
    let config = Config::of(elevator::Config::None).controllers(control::Config::NONE);
    let mut layer = Layer::new(config).unwrap();
    let id = GroupId(1);
    let add = |max| group(1, limit(max));
    let iops = iops(5);
    let refused = layer.change(at(0), &[add(iops)]);
    assert_eq!(refused, Err(Refusal::NoController(id, ControllerKind::Max)));
    let target = latency(id, Span::from_micros(1));
    let refused = layer.change(at(0), &[add(Max::NONE), target]);
    assert_eq!(
        refused,
        Err(Refusal::NoController(id, ControllerKind::Latency))
    );
    assert_eq!(
        refused.unwrap_err().to_string(),
        "group 1: controller io.latency is missing"
    );
    let accepted = layer.change(at(0), &[add(Max::NONE)]);
    assert_eq!(accepted, Ok(PromiseSums::default()));
}

/// The debts of a limited group count as a used part of the burst and beyond it, and only those of
/// limits that the group has are kept.
#[test]
fn a_debt_is_continued_by_another_layer() {
    let id = GroupId(1);
    let max = Max::of_bandwidth(1_000)
        .read_iops(10)
        .burst(Span::from_millis(500));
    let [mut before, mut after] = [0; 2].map(|_| Bench::new(4, Sizes::default()));
    for b in [&mut before, &mut after] {
        b.layer.change(at(0), &[group(1, limit(max))]).unwrap();
    }
    let s = before.open(id);
    before.submit(0, &[read(s, 1, 4_096)]);
    let owed = MaxDebt {
        bandwidth: Span::from_micros(4_096_000),
        read_iops: Span::from_millis(100),
        ..MaxDebt::NONE
    };
    assert_eq!(before.layer.debt(at(0), id), owed);
    let debt = before.layer.debt(at(96_000), id);
    assert_eq!(debt.bandwidth, Span::from_secs(4));
    assert_eq!(debt.read_iops, Span::from_millis(4));
    // A debt to a limit that the group does not have is not kept.
    let iops = Span::from_secs(9);
    let set = |debt| [Edit::SetDebt { id, debt }];
    let edits = set(MaxDebt { iops, ..debt });
    after.layer.change(at(0), &edits).unwrap();
    assert_eq!(after.layer.debt(at(0), id), debt);
    let s = after.open(id);
    after.submit(0, &[read(s, 1, 1)]);
    assert_eq!(after.dispatched(3_499_999), []);
    // A debt also concerns requests that were held before it was set.
    let bandwidth = Span::from_secs(1);
    let edits = set(MaxDebt { bandwidth, ..debt });
    after.layer.change(at(3_499_999), &edits).unwrap();
    assert_eq!(after.dispatched(3_999_998), []);
    assert_eq!(after.dispatched(3_999_999), [(1, 1, Tag(0))]);
}

#[test]
fn debts_need_a_group_and_an_exact_limit() {
    let mut b = Bench::new(1, Sizes::default());
    let debt = MaxDebt {
        bandwidth: Span::from_secs(1),
        ..MaxDebt::NONE
    };
    let set = |id| [Edit::SetDebt { id, debt }];
    assert_eq!(b.layer.change(at(0), &set(ROOT)), Err(Refusal::Root));
    let missing = Refusal::NoSuchGroup(GroupId(1));
    assert_eq!(b.layer.change(at(0), &set(GroupId(1))), Err(missing));
    // Without a max, and with one in slices, a debt is ignored.
    let slices = control::Config::default().slices(Some(control::slices::Config::default()));
    let config = b.layer.config().clone().controllers(slices);
    let in_slices = testing::layer(config, &[group(1, limit(Max::of_bandwidth(1)))]).unwrap();
    let unlimited = [group(1, Contract::DEFAULT)];
    b.layer.change(at(0), &unlimited).unwrap();
    for mut layer in [b.layer, in_slices] {
        layer.change(at(0), &set(GroupId(1))).unwrap();
        assert_eq!(layer.debt(at(0), GroupId(1)), MaxDebt::NONE);
    }
}

/// Returns all samples of the wanted kinds.
fn samples(layer: &Layer, wanted: SampleMask) -> Vec<Sample> {
    let mut all = Vec::new();
    layer.sample(wanted, &mut |sample| all.push(sample));
    all
}

#[test]
fn throttled_requests_and_depths_are_sampled() {
    let mut b = Bench::new(4, Sizes::default());
    let [limited, target] = [1, 2].map(GroupId);
    let edits = [group(1, limit(iops(1))), group(2, Contract::DEFAULT)];
    b.layer.change(at(0), &edits).unwrap();
    let [of_limited, of_target] = [limited, target].map(|group| b.open(group));
    // At 1 request/s, the first of the three passes and two are throttled.
    let reads = [0, 1, 2].map(|n| read(of_limited, n, 512));
    b.submit(0, &reads);
    let held = Sample::Held {
        by: ControllerKind::Max,
        group: limited,
        requests: 2,
    };
    assert_eq!(samples(&b.layer, SampleMask::GROUPS), [held]);
    assert_eq!(samples(&b.layer, SampleMask::SERVICE), []);
    let strict = latency(target, Span::from_micros(1));
    // The group gets a target, so that `io.latency` counts requests from now on.
    b.layer.change(at(1), &[strict]).unwrap();
    b.submit(1, &[read(of_target, 3, 512)]);
    let depth = |group, in_flight| Sample::Depth {
        group,
        depth: None,
        in_flight,
    };
    let cookie = Sample::Cookie {
        group: ROOT,
        lowered: 0,
    };
    let expected = [held, cookie, depth(limited, 0), depth(target, 1)];
    assert_eq!(samples(&b.layer, SampleMask::ALL), expected);
}

/// With `ahead`, a stream that waited for a completion takes part in the choice of the next
/// request, as in Linux.
#[test]
fn with_ahead_completions_are_reported_before_dispatch() {
    for (merge, first) in [
        (crate::merge::Config::LINUX, true),
        (crate::merge::Config::OFF, false),
    ] {
        let mut b = Bench::that_merges(1, Sizes::default(), merge);
        let s = b.open(ROOT);
        b.submit(0, &[read(s, 1, 512)]);
        let (_, _, tag) = b.dispatched(0)[0];
        // The drive has one tag, so request 2 waits until request 1 completes.
        b.submit(1, &[read(s, 2, 4096)]);
        b.poll(1);
        b.end(2, tag);
        b.out.clear();
        // With `ahead`, the first poll only reports the completion. Without it, the poll also
        // dispatches request 2.
        let wake = b.layer.poll(at(2), &mut b.out);
        assert_eq!(b.out.len(), if first { 1 } else { 2 });
        assert!(matches!(b.out[0], Output::Done(d) if d.cookie == 1));
        let at_once = crate::Wake {
            at: at(2),
            reason: Reason::Answers,
        };
        assert_eq!(wake, first.then_some(at_once));
        if first {
            b.out.clear();
            assert_eq!(b.layer.poll(at(2), &mut b.out), None, "asked once only");
            assert!(matches!(b.out[..], [Output::Dispatch(d)] if d.cookie == 2));
        }
    }
}

/// Creates a layer with one scheduler tag and `ahead`, and two streams. The first has the tag, and
/// one request of the second waits for it.
fn one_tag(nomerges: u8) -> (Bench, [StreamId; 2], Tag) {
    let sizes = Sizes::default().scheduler_tags(1);
    let merge = crate::merge::Config::LINUX.nomerges(nomerges);
    let mut b = Bench::that_merges(1, sizes, merge);
    let [one, other] = [b.open(ROOT), b.open(ROOT)];
    b.submit(0, &[read(one, 0, 512)]);
    let (_, _, tag) = b.dispatched(0)[0];
    b.submit(0, &[read(other, 1000, 4096)]);
    assert_eq!(b.dispatched(0), []);
    (b, [one, other], tag)
}

#[test]
fn a_stream_may_retake_its_tag_500_times_before_waiting_streams() {
    for nomerges in [0, 2] {
        let (mut b, [one, _], mut tag) = one_tag(nomerges);
        let mut sent = Vec::new();
        for n in 1..600 {
            b.end(n, tag);
            assert_eq!(b.done(n).len(), 1);
            b.submit(n, &[read(one, n, 512)]);
            let (cookie, _, next) = b.dispatched(n)[0];
            sent.push(cookie);
            tag = next;
        }
        let turn = sent.iter().position(|&c| c == 1000).unwrap();
        assert_eq!(sent[..turn], (1..=turn as u64).collect::<Vec<_>>()[..]);
        // `PASSES_MAX` is 500: the first stream may take its tag again 500 times.
        assert_eq!(turn, 500, "so often it was passed");
        assert_eq!(sent[turn + 1], 501, "a stream that it kept waiting is next");
    }
}

#[test]
fn a_stream_without_requests_leaves_its_tag_to_waiting_streams() {
    for nomerges in [0, 2] {
        let (mut b, _, tag) = one_tag(nomerges);
        b.end(1, tag);
        assert_eq!(b.done(1).len(), 1);
        assert_eq!(b.dispatched(1)[0].0, 1000);
    }
}

#[test]
fn streams_wait_for_tags_with_one_request_each() {
    // With `ahead`, the streams take turns. Otherwise, requests get tags in the order of their
    // arrival.
    for (merge, expected) in [
        (crate::merge::Config::LINUX, [1, 11, 2, 12, 3]),
        (crate::merge::Config::OFF, [1, 2, 3, 11, 12]),
    ] {
        let sizes = Sizes::default().scheduler_tags(1);
        let mut b = Bench::that_merges(1, sizes, merge);
        let [one, other] = [b.open(ROOT), b.open(ROOT)];
        let of = |stream, first: u64| [0, 1, 2].map(|n| read(stream, first + n, 4096));
        b.submit(0, &[read(one, 0, 512)]);
        b.submit(0, &of(one, 1));
        b.submit(0, &of(other, 11));
        let mut tag = b.dispatched(0)[0].2;
        let order = expected.map(|_| {
            b.end(1, tag);
            // With `ahead`, the first poll only reports, and the second one dispatches.
            let mut sent = b.dispatched(1);
            sent.extend(b.dispatched(1));
            tag = sent[0].2;
            sent[0].0
        });
        assert_eq!(order, expected);
    }
}
