//! Turns: their ends, the depth of a queue in the drive, the first request, and samples.

use super::super::Config;
use super::{READER, disk, flash};
use crate::elevator::closed_loop::{RANDOM, SECOND, STREAMER, ms, nth};
use crate::event::{Event, Expiry};
use crate::sample::{Sample, SampleMask};
use crate::{GroupId, Op, Span};

/// A reader next to a client that always has queued requests.
#[test]
fn a_turn_ends_with_its_slice() {
    let mut host = disk(Config::default(), &[]);
    host.add(STREAMER.depth(8));
    let reader = host.add(READER);
    host.run(10 * SECOND);
    let wait = host.gap_ms(reader);
    assert!(wait < 200, "{wait} ms");
}

/// Two readers with many requests on a drive of 32 tags.
#[test]
fn a_queue_with_competitors_has_a_quantum_in_flight() {
    let config = Config::default()
        .flash_idles(true)
        .slice_idle(Span::from_millis(1));
    let mut host = flash(config, &[]);
    for _ in 0..2 {
        host.add(STREAMER.depth(64));
    }
    host.run(2 * SECOND);
    let sent = host.layer.counters().dispatched;
    assert!(sent > 100, "{sent}");
    // Requests of a queue whose turn is over may still be in the drive when the next turn begins,
    // so twice the quantum of 8 is possible.
    let most = host.most_in_drive;
    assert!(most <= 16, "{most}");
    let mut host = flash(Config::default(), &[]);
    host.add(STREAMER.depth(64));
    host.run(SECOND);
    assert_eq!(host.most_in_drive, 32, "alone it may fill it");
}

/// A random writer that shares an asynchronous queue with a sequential one.
#[test]
fn an_overdue_request_begins_a_turn() {
    let mut host = disk(Config::default(), &[]);
    let op = Op::Write;
    host.add(STREAMER.op(op).depth(64));
    host.add(RANDOM.op(op));
    host.run(20 * SECOND);
    let wait = host.longest_ms();
    assert!(wait < 1_000, "{wait} ms");
}

#[test]
fn a_sequential_reader_that_comes_back_soon_keeps_the_drive_for_its_slice() {
    let mut host = disk(Config::default(), &[]);
    for _ in 0..2 {
        host.add(READER.think(ms(1)));
    }
    host.run(5 * SECOND);
    // A turn is a slice of 100 ms and the seek before it. It ends early if the rest of its slice is
    // shorter than the think time.
    let turns = host.events();
    let ended = turns.iter().filter_map(|(_, event)| match event {
        Event::Expired { reason, .. } => Some(*reason),
        _ => None,
    });
    let ended: std::vec::Vec<Expiry> = ended.collect();
    assert!((44..=50).contains(&ended.len()), "{ended:?}");
    assert!(!ended.contains(&Expiry::TooIdle), "{ended:?}");
}

#[test]
fn a_reader_that_thinks_for_long_is_not_idled_for() {
    let mut host = disk(Config::default(), &[]);
    let thinker = host.add(READER.think(ms(50)));
    let other = host.add(READER);
    host.run(20 * SECOND);
    // The other client gets nearly all of the disk, which is 250 MB/s minus two seeks in 60 ms.
    assert!(host.rate(other) > 120_000, "{}", host.rate(other));
    assert!(host.rate(thinker) > 1_000);
}

#[test]
fn samples_name_the_served_stream_and_the_usage_of_groups() {
    let mut host = disk(Config::default(), &[(100, None), (300, None)]);
    let clients = [0, 1].map(|group| host.add(READER.of(nth(group))));
    let (mut served, mut leads, mut groups) = ([0; 2], 0, 0);
    for n in 1..=500 {
        host.run(n * ms(10));
        host.layer
            .sample(SampleMask::ALL, &mut |sample| match sample {
                Sample::Slice {
                    stream, used, left, ..
                } => {
                    let client = clients.iter().position(|&c| host.stream(c) == stream);
                    served[client.unwrap()] += 1;
                    assert!(used + left <= Span::from_millis(400), "{used:?} {left:?}");
                }
                Sample::Used {
                    group,
                    part,
                    lead,
                    queues,
                } => {
                    let share = if group == GroupId(1) { 1 } else { 3 };
                    // The part of a group is computed when its turn ends, so it is not known at the
                    // beginning.
                    let part = if n < 100 { 65536 / 4 * share } else { part };
                    assert_eq!((part, queues), (65536 / 4 * share, 1));
                    leads += u32::from(lead > Span::ZERO);
                    groups += 1;
                }
                _ => {}
            });
    }
    assert!(served[1] > 2 * served[0] && served[0] > 50, "{served:?}");
    assert!(leads > 100 && groups > 900, "{leads} of {groups}");
}
