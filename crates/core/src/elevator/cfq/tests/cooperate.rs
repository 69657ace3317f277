//! Streams that read one thing together share a queue, and part when they do not any more.

use super::super::Config;
use super::{READER, disk};
use crate::elevator::closed_loop::{Host, Place, SECOND};

const SIZE: u32 = 64 * 1024;

/// Readers that take turns at the pieces of one file, until each goes where it likes.
fn together(readers: u64, random_from: u64) -> Host {
    let mut host = disk(Config::default(), &[]);
    for n in 0..readers {
        host.add(
            READER
                .length(SIZE)
                .base(n * u64::from(SIZE))
                .place(Place::EveryUntil {
                    of: readers,
                    until: random_from,
                }),
        );
    }
    host
}

/// Interleaved readers of one file on a disk of 250 MB/s.
#[test]
fn interleaved_readers_read_as_one() {
    for readers in 2..=9 {
        let mut host = together(readers, u64::MAX);
        host.run(20 * SECOND);
        let total = host.total();
        assert!(total > 150_000, "{readers} readers: {total} kB/s");
    }
}

/// Two that read together and then at random, beside a third that goes on.
#[test]
fn they_part_when_they_read_apart() {
    let mut host = together(2, 5 * SECOND);
    let third = host.add(READER);
    host.run(10 * SECOND);
    let before = host.bytes(third);
    host.run(30 * SECOND);
    // Two queues that are random take the drive from each other, and the queue that takes it is put a second before its time: the third waits
    // that long for each slice of 100 ms. One queue, were they still merged, would have half of the time.
    let percent = (host.bytes(third) - before) / 20 / 2_500_000;
    assert!((5..15).contains(&percent), "{percent} %");
}
