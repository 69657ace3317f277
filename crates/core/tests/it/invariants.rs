//! The layer's invariants notice bugs that are built in on purpose, and nothing else.
#![cfg(all(debug_assertions, feature = "mutants"))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use weir_core::{
    Capacity, Completion, Config, Contract, DriveShape, Edit, Flags, GroupId, Instant, Layer, Op,
    Output, Priority, ROOT, Request, SpaceId, StreamId, StreamSpec, Tag, elevator, merge, mutant,
};

const NOW: Instant = Instant::ZERO;
const G1: GroupId = GroupId(1);

/// An elevator for a drive with as many hardware queues; with neighbours merged, if they are.
fn layer(elevator: &str, queues: u16, merge: merge::Config) -> Layer {
    let kind = elevator::find(elevator).unwrap();
    let config = Config {
        drive: DriveShape {
            queues,
            tags: 1,
            ..DriveShape::default()
        },
        merge,
        ..Config::of((kind.default)())
    };
    let mut layer = Layer::new(config).unwrap();
    let space = Edit::SetSpace {
        id: SpaceId(0),
        size: Some(1 << 30),
    };
    layer.change(NOW, &[space]).unwrap();
    layer
}

fn open(layer: &mut Layer) -> StreamId {
    let spec = StreamSpec {
        group: ROOT,
        priority: Priority::default(),
    };
    layer.open(NOW, spec).unwrap()
}

/// A stream submits two reads, the second behind the first, and the drive gets one of them.
fn send_first(layer: &mut Layer) -> (StreamId, Tag) {
    let stream = open(layer);
    let read = |cookie| Request {
        stream,
        space: SpaceId(0),
        op: Op::Read,
        flags: Flags::NONE,
        offset: 4096 * cookie,
        length: 4096,
        cookie,
        within: 0,
    };
    layer.submit(NOW, &[read(0), read(1)]).unwrap();
    let mut out = Vec::new();
    layer.poll(NOW, &mut out);
    match out[..] {
        [Output::Dispatch(d)] => (stream, d.tag),
        _ => panic!("one piece is sent: {out:?}"),
    }
}

fn queue_tag_lost() -> Layer {
    let mut layer = layer("none", 2, merge::Config::OFF);
    let (_, tag) = send_first(&mut layer);
    layer.complete(NOW, &[Completion::ok(tag)]);
    layer
}

fn held_stream_dispatched() -> Layer {
    let mut layer = layer("none", 1, merge::Config::OFF);
    let (stream, _) = send_first(&mut layer);
    layer.hold(NOW, stream, true);
    layer
}

fn merged_member_lost() -> Layer {
    let mut layer = layer("none", 1, merge::Config::LINUX);
    let (_, tag) = send_first(&mut layer);
    layer.complete(NOW, &[Completion::ok(tag)]);
    layer
}

fn tag_freed_on_cancel() -> Layer {
    let mut layer = layer("contract", 1, merge::Config::OFF);
    let (stream, _) = send_first(&mut layer);
    layer.cancel(NOW, stream, 0);
    layer
}

fn min_iops_ignored() -> Layer {
    let mut layer = layer("contract", 1, merge::Config::OFF);
    let capacity = Capacity {
        read: 100_000_000,
        write: 100_000_000,
        iops: 10_000,
        ..Capacity::NONE
    };
    let group = Edit::AddGroup {
        id: G1,
        parent: ROOT,
        contract: Contract {
            min_iops: 100,
            ..Contract::DEFAULT
        },
    };
    let edits = [Edit::SetCapacity(Some(capacity)), group];
    layer.change(NOW, &edits).unwrap();
    layer
}

/// One test, because the bug in force is one for the whole process.
#[test]
fn bugs_break_them() {
    let scenes: [(u32, fn() -> Layer); 5] = [
        (mutant::QUEUE_TAG_LOST, queue_tag_lost),
        (mutant::HELD_STREAM_DISPATCHED, held_stream_dispatched),
        (mutant::MERGED_MEMBER_LOST, merged_member_lost),
        (mutant::TAG_FREED_ON_CANCEL, tag_freed_on_cancel),
        (mutant::MIN_IOPS_IGNORED, min_iops_ignored),
    ];
    for (bug, scene) in scenes {
        for (selected, holds) in [(0, true), (bug, false)] {
            mutant::select(selected);
            let mut layer = scene();
            let checked = catch_unwind(AssertUnwindSafe(|| layer.invariants()));
            assert_eq!(checked.is_ok(), holds, "bug {selected}");
        }
    }
}
