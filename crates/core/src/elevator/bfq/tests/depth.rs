//! The scheduler tags that each queue gets if tags are scarce.

use super::plain;
use crate::elevator::closed_loop::{self, RANDOM, SECOND};
use crate::layer::{Config as LayerConfig, Layer, Output};
use crate::shape::{DriveShape, Sizes};
use crate::testing::{group, request, share, space};
use crate::{Flags, GroupId, Instant, Op, Priority, PriorityClass, Span, StreamSpec};
use std::vec::Vec;

/// The requests of a stream: group, class, level, number, operation, flags.
type StreamLoad = (u32, PriorityClass, u8, u32, Op, Flags);

/// Returns the number of requests of each stream that get one of 16 tags, if the streams submit one
/// after the other. The drive accepts every request with a tag at once. Groups 1 and 2 have shares
/// of 100 and 300.
fn tags(asks: &[StreamLoad]) -> Vec<u32> {
    let config = LayerConfig::of(plain().slice_idle(Span::ZERO))
        .sizes(Sizes::default().scheduler_tags(16))
        .drive(DriveShape::default().tags(256));
    let now = Instant::ZERO;
    let mut layer = Layer::new(config).unwrap();
    let space = space(0, 1 << 30);
    layer
        .change(now, &[space, group(1, share(100)), group(2, share(300))])
        .unwrap();
    let mut streams = Vec::new();
    for &(group, class, level, requests, op, flags) in asks {
        let spec = StreamSpec {
            group: GroupId(group),
            priority: Priority { class, level },
        };
        let stream = layer.open(now, spec).unwrap();
        for cookie in 0..requests {
            let request = request(stream, op, cookie.into(), 4096)
                .flags(flags)
                .offset(u64::from(cookie) << 20);
            layer.submit(now, &[request]).unwrap();
        }
        streams.push(stream);
    }
    let mut out = Vec::new();
    layer.poll(now, &mut out);
    let dispatched = |stream| {
        let of = |o: &&Output| matches!(o, Output::Dispatch(d) if d.stream == stream);
        out.iter().filter(of).count() as u32
    };
    streams.into_iter().map(dispatched).collect()
}

#[test]
fn tags_are_limited_by_kind_of_request_and_by_weight() {
    use PriorityClass::{BestEffort, Realtime};
    let read = |group, level, n| (group, BestEffort, level, n, Op::Read, Flags::NONE);
    let write = |flags, n| (1, BestEffort, 4, n, Op::Write, flags);
    for (asks, expected) in [
        // Reads may use all 16 tags, asynchronous writes 1/2 and synchronous writes 3/4 of them.
        (std::vec![read(1, 4, 64)], std::vec![16]),
        (std::vec![write(Flags::NONE, 64)], std::vec![8]),
        (std::vec![write(Flags::SYNC, 64)], std::vec![12]),
        // Asynchronous writes count among all writes, so 12 - 8 tags are left for synchronous ones.
        (
            std::vec![write(Flags::NONE, 64), write(Flags::SYNC, 64)],
            std::vec![8, 4],
        ),
        // The weights are 40 and 80 in one group: 16 * 80 / 120 is 11 after rounding.
        (std::vec![read(1, 4, 1), read(1, 0, 64)], std::vec![1, 11]),
        // The groups have shares of 100 and 300, and one queue each: 16 * 100 / 400 and 16 * 300 /
        // 400.
        (std::vec![read(2, 4, 1), read(1, 4, 64)], std::vec![1, 4]),
        (std::vec![read(1, 4, 1), read(2, 4, 64)], std::vec![1, 12]),
        // A higher class has eight times the weight: 16 * 40 / (8 * 40 + 40) is 2 after rounding,
        // and every queue gets at least one tag.
        (
            std::vec![(1, Realtime, 4, 1, Op::Read, Flags::NONE), read(1, 4, 64)],
            std::vec![1, 2],
        ),
        (
            std::vec![(1, Realtime, 0, 1, Op::Read, Flags::NONE), read(1, 7, 64)],
            std::vec![1, 1],
        ),
        (
            std::vec![read(1, 4, 1), (1, Realtime, 4, 64, Op::Read, Flags::NONE)],
            std::vec![1, 15],
        ),
    ] {
        assert_eq!(tags(&asks), expected, "{asks:?}");
    }
}

/// Returns the rate in kB/s of a random reader next to an asynchronous writer of many requests, on
/// a drive with few tags.
fn reader_beside_writer(tags: u32) -> u64 {
    let config = plain().slice_idle(Span::ZERO);
    let mut config = LayerConfig::of(config);
    config.sizes.scheduler_tags = tags;
    let mut host = closed_loop::host_of(config, &[]);
    host.add(RANDOM.op(Op::Write).depth(200));
    let reader = host.add(RANDOM.depth(4));
    host.run(SECOND);
    host.rate(reader)
}

/// The reader does not wait for tags, although the writer could use all of them. Without the limit,
/// the reader would get 55 MB/s.
#[test]
fn a_reader_finds_a_tag_beside_a_writer() {
    let rate = reader_beside_writer(16);
    assert!(rate >= 70_000, "{rate} kB/s");
}
