//! The capacity that promises leave, and its division if it is small.

use super::*;
use crate::testing::min_iops;

#[test]
fn a_client_promised_more_than_its_share_gets_only_its_promise() {
    let promised = READER
        .length(4 * KIB)
        .depth(10)
        .with(min(107_000_000).share(20));
    let other = READER.with(share(100)).depth(8);
    let kept = contract(&[promised, other, other, other], 4);
    kept.assert_rate(0, 0..40, 107_000_000);
    // The client gets at most its promise, the headroom of 7.8 %, and a small lead.
    let most = 4 * 107_000_000 * 109 / 100;
    assert!(kept.bytes(0) <= most, "{} of {most}", kept.bytes(0));
    assert!(kept.all() >= 4 * LINK * 95 / 100, "{}", kept.all());
}

#[test]
fn a_promise_of_requests_used_for_long_requests_breaks_no_other() {
    // 1,000 requests of 1 MiB are 1 GB/s, four times the speed of the drive.
    let long = READER.length(1024 * KIB).depth(8).with(min_iops(1_000));
    let target = SMALL.with(min(10_000_000));
    let pipe = PIPE.stated(Some(CAPACITY.iops(LINK / 4096)));
    let kept = contract_on(pipe, &[target, long, READER], 4);
    kept.assert_rate(0, 5..40, 10_000_000);
    // The client with long requests gets the remaining time before clients without a promise.
    let [long, other] = [kept.bytes(1), kept.bytes(2)];
    assert!(long > other, "{long} and {other}");
}

/// The realtime client limits the work in the drive, so the drive has just enough throughput for
/// all promises.
#[test]
fn a_promise_of_requests_used_for_long_requests_is_kept_next_to_a_realtime_client() {
    let max = Max::NONE.bandwidth(10_000_000).burst(Span::from_millis(10));
    let realtime = Contract::DEFAULT.class(Class::Realtime).max(max);
    // 300 requests of 128 KiB are 39 MB/s. With the other promises, that is 80 % of the drive.
    let long = READER.depth(2).with(min_iops(300));
    let stream = READER.length(64 * KIB).depth(16).with(min(150_000_000));
    let urgent = SMALL.think(50_000).with(realtime);
    let pipe = PIPE.stated(Some(CAPACITY.iops(LINK / 4096)));
    let kept = contract_on(pipe, &[long, stream, urgent], 4);
    kept.assert_rate(0, 5..40, 300 * u64::from(READER.length));
    kept.assert_rate(1, 5..40, 150_000_000);
    kept.assert_rate(2, 5..40, 9_000_000);
}

#[test]
fn every_promise_is_kept_with_90_percent_promised() {
    let target = |mb: u64| SMALL.with(min(mb * 1_000_000));
    let stream = |mb: u64| READER.depth(4).with(min(mb * 1_000_000));
    // The promises are 225 MB/s in all, which is 90 % of the link.
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
            kept.assert_rate(i, 1..30, client.promised());
        }
    }
}
