//! Cooperation: streams that read one region together share a queue, and are split when they no
//! longer do.

use super::super::Config;
use super::{READER, disk};
use crate::elevator::closed_loop::{AccessPattern, ClosedLoopHost, SECOND};

const SIZE: u32 = 64 * 1024;

/// Creates readers that take turns at the parts of one file, until each reads at random.
fn together(readers: u64, random_from: u64) -> ClosedLoopHost {
    let mut host = disk(Config::default(), &[]);
    for n in 0..readers {
        host.add(
            READER
                .length(SIZE)
                .base(n * u64::from(SIZE))
                .place(AccessPattern::EveryUntil {
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

/// Two clients that read together and then at random, next to a third one that reads sequentially.
#[test]
fn a_seeky_shared_queue_is_split_again() {
    let mut host = together(2, 5 * SECOND);
    let third = host.add(READER);
    host.run(10 * SECOND);
    let before = host.bytes(third);
    host.run(30 * SECOND);
    // Two random queues preempt each other, and the preempting queue is put one second in front of
    // its tree. The third queue waits that long for each slice of 100 ms, which is about 10 %. If
    // the two still shared one queue, the third would get 50 % of the time.
    let percent = (host.bytes(third) - before) / 20 / 2_500_000;
    assert!((5..15).contains(&percent), "{percent} %");
}
