//! What promises leave, and what if they leave hardly anything.

use super::*;
use crate::testing::min_iops;

#[test]
fn who_is_promised_more_than_its_share_gets_that_and_no_more() {
    let promised = Client {
        length: 4 * KIB,
        depth: 10,
        contract: Some(Contract {
            share: 20,
            ..min(107_000_000)
        }),
        ..READER
    };
    let other = Client {
        contract: Some(share(100)),
        depth: 8,
        ..READER
    };
    let kept = contract(&[promised, other, other, other], 4);
    assert!(kept.tally(0).worst(0, 40) >= 107_000_000);
    // A little is kept ahead.
    let most = 4 * 107_000_000 * 109 / 100;
    assert!(kept.bytes(0) <= most, "{} of {most}", kept.bytes(0));
    assert!(kept.all() >= 4 * LINK * 95 / 100, "{}", kept.all());
}

#[test]
fn a_promise_of_requests_that_is_asked_for_in_long_ones_breaks_no_other() {
    // A gigabyte a second.
    let long = Client {
        length: 1024 * KIB,
        depth: 8,
        contract: Some(min_iops(1_000)),
        ..READER
    };
    let target = Client {
        length: 4 * KIB,
        depth: 1,
        contract: Some(min(10_000_000)),
        ..READER
    };
    let pipe = Pipe {
        stated: Some(Capacity {
            iops: LINK / 4096,
            ..CAPACITY
        }),
        ..PIPE
    };
    let kept = contract_on(pipe, &[target, long, READER], 4);
    let worst = kept.tally(0).worst(5, 40);
    assert!(worst >= 10_000_000, "{worst}");
    // What is left goes to it before clients without a promise.
    let [long, other] = [kept.bytes(1), kept.bytes(2)];
    assert!(long > other, "{long} and {other}");
}

#[test]
fn with_nine_tenths_promised_those_who_could_have_more_take_nothing_from_those_behind() {
    let target = |mb: u64| Client {
        length: 4 * KIB,
        depth: 1,
        contract: Some(min(mb * 1_000_000)),
        ..READER
    };
    let stream = |mb: u64| Client {
        depth: 4,
        contract: Some(min(mb * 1_000_000)),
        ..READER
    };
    for (few, many) in [(6, 63), (12, 59), (18, 55)] {
        let clients = [
            target(few),
            target(few),
            target(few),
            stream(many),
            stream(many),
            stream(225 - 3 * few - 2 * many),
        ];
        let kept = contract(&clients, 3);
        for (i, client) in clients.iter().enumerate() {
            let worst = kept.tally(i).worst(1, 30);
            assert!(worst >= client.promised(), "client {i} of {few}: {worst}");
        }
    }
}
