//! The requests of the legacy layer, seen from outside.

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

/// The longest that a request of four random readers with a hundred each takes on a disk, in milliseconds, with a number of requests to be
/// had.
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
fn what_has_no_request_is_not_sorted() {
    // Of a few they go one after the other, 400 seeks long; of many in order of position.
    let (few, many) = (longest(4), longest(4096));
    assert!(few < 4_000, "{few} ms");
    assert!(many > few, "{many} ms against {few}");
}
