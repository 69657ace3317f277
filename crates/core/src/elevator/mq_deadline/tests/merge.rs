//! Merging: at which end, and how old a command is.

use super::super::Config;
use crate::elevator::common::host::{self, BLOCK};
use crate::{
    Completion, Flags, Instant, Layer, Op, Output, PriorityClass, Request, SpaceId, Span, StreamId,
    Tag, merge,
};
use std::vec::Vec;

/// A read of a block, which is its cookie.
fn ask(layer: &mut Layer, ms: u64, stream: StreamId, block: u64) {
    let request = Request {
        stream,
        space: SpaceId(0),
        op: Op::Read,
        flags: Flags::NONE,
        offset: block * u64::from(BLOCK),
        length: BLOCK,
        cookie: block,
    };
    layer.submit(at(ms), &[request]).unwrap();
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Span::from_millis(ms)
}

/// Commands in the order in which they go, by first block and blocks, one at a time from `ms` on.
fn drain(layer: &mut Layer, ms: u64, mut tag: Tag) -> Vec<(u64, u32)> {
    let mut sent = Vec::new();
    loop {
        layer.complete(at(ms), &[Completion::ok(tag)]);
        let mut out = Vec::new();
        layer.poll(at(ms), &mut out);
        let dispatch = out.iter().find_map(|output| match output {
            Output::Dispatch(d) => Some(d),
            _ => None,
        });
        let Some(d) = dispatch else { return sent };
        sent.push((d.offset / u64::from(BLOCK), d.length / BLOCK));
        tag = d.tag;
    }
}

/// A layer that merges, with one command in the drive, at block 1000.
fn merging(config: &Config) -> (Layer, StreamId, Tag) {
    let merge = merge::Config {
        ahead: false,
        ..merge::Config::LINUX
    };
    let mut layer = host::layer_that(config, 1, 64, merge);
    let stream = host::open(&mut layer, PriorityClass::BestEffort);
    ask(&mut layer, 0, stream, 1000);
    let mut out = Vec::new();
    layer.poll(at(0), &mut out);
    let Some(Output::Dispatch(d)) = out.first() else {
        panic!("{out:?}");
    };
    (layer, stream, d.tag)
}

#[test]
fn in_front_only_if_it_is_wanted_or_with_the_one_merged_last() {
    for (front_merges, wanted) in [
        (true, Vec::from([(50, 1), (9, 3)])),
        (false, Vec::from([(50, 1), (10, 2), (9, 1)])),
    ] {
        let config = Config {
            front_merges,
            ..Config::default()
        };
        let (mut layer, stream, tag) = merging(&config);
        // 50 is what was merged last, as long as nothing has been.
        for block in [50, 10, 11] {
            ask(&mut layer, 1, stream, block);
        }
        // 60 joins nothing; what 11 joined is what was merged last, so that another has to be before 9 comes.
        for block in [60, 61] {
            ask(&mut layer, 1, stream, block);
        }
        ask(&mut layer, 1, stream, 9);
        let mut sent = drain(&mut layer, 2, tag);
        sent.retain(|s| s.0 != 60);
        assert_eq!(sent, wanted, "{front_merges}");
    }
}

#[test]
fn a_command_is_as_old_as_the_oldest_of_its_parts() {
    let config = Config {
        fifo_batch: 1,
        read_expire: Span::from_millis(10),
        ..Config::default()
    };
    let (mut layer, stream, tag) = merging(&config);
    // 20 waits from the beginning; 19 joins it later, at its front, and 17 and 18 together become one command with both.
    ask(&mut layer, 0, stream, 20);
    ask(&mut layer, 5, stream, 1200);
    ask(&mut layer, 6, stream, 17);
    ask(&mut layer, 7, stream, 18);
    ask(&mut layer, 8, stream, 19);
    // At 12 ms only what 20 belongs to is overdue; by position 1200 would be next.
    let sent = drain(&mut layer, 12, tag);
    assert_eq!(sent, [(17, 4), (1200, 1)]);
}
