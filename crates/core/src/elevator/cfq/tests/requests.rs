//! The request lists of the single-queue layer, as they affect clients.

use super::super::Config;
use super::{disk, flash};
use crate::Op;
use crate::elevator::closed_loop::{RANDOM, SECOND};

#[test]
fn writes_take_no_requests_of_reads() {
    let config = Config::default().nr_requests(4);
    let mut host = flash(config, &[]);
    host.add(RANDOM.op(Op::Write).depth(100));
    let reader = host.add(RANDOM);
    host.run(SECOND);
    assert!(host.bytes(reader) / 4096 > 1_000);
}

/// Returns the longest time of a request in milliseconds, of four random readers with a hundred
/// requests each on a disk. `nr_requests` is the length of the request list.
fn longest(nr_requests: u32) -> u64 {
    let config = Config::default().nr_requests(nr_requests);
    let mut host = disk(config, &[]);
    for _ in 0..4 {
        host.add(RANDOM.depth(100));
    }
    host.run(20 * SECOND);
    host.longest_ms()
}

#[test]
fn requests_beyond_the_list_are_not_sorted() {
    // With few requests in the list, they are served in the order of arrival, so the longest takes
    // about 400 seeks of 8 ms. With many, they are sorted by position, which makes some wait for
    // longer.
    let (few, many) = (longest(4), longest(4096));
    assert!(few < 4_000, "{few} ms");
    assert!(many > few, "{many} ms against {few}");
}
