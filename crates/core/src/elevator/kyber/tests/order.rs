//! The order in which requests are dispatched: batches, tokens, and hardware queues.

use super::{Config, tokens};
use crate::elevator::scripted::{self, BLOCK, ScriptedHost};
use crate::testing::{read, request};
use crate::{Completion, Flags, Instant, Layer, Op, Output, PriorityClass, StreamId, merge};
use std::vec::Vec;

/// Returns the dispatched requests as runs of the same client: the first cookie / 1000, and the
/// number of requests.
fn runs(order: &[u64]) -> Vec<(u64, usize)> {
    let mut runs: Vec<(u64, usize)> = Vec::new();
    for client in order.iter().map(|cookie| cookie / 1_000) {
        match runs.last_mut() {
            Some((last, n)) if *last == client => *n += 1,
            _ => runs.push((client, 1)),
        }
    }
    runs
}

#[test]
fn domains_take_turns_by_batches() {
    let mut host = ScriptedHost::new(Config::default(), 1, 1_024, 100_000);
    let stream = host.open(PriorityClass::BestEffort);
    let kinds = [Op::Read, Op::Write, Op::Discard, Op::WriteZeroes];
    for (kind, op) in kinds.into_iter().enumerate() {
        for n in 0..20 {
            let cookie = 1_000 * kind as u64 + n;
            host.submit(stream, op, 8 * cookie, 1, cookie);
        }
    }
    let order = host.drain();
    assert_eq!(
        runs(&order)[..8],
        [
            (0, 16),
            (1, 8),
            (2, 1),
            (3, 1),
            (0, 4),
            (1, 8),
            (2, 1),
            (3, 1)
        ]
    );
    // Within each domain, requests leave in the order of arrival.
    for kind in 0..4 {
        let own: Vec<u64> = order
            .iter()
            .copied()
            .filter(|c| c / 1_000 == kind)
            .collect();
        assert!(own.is_sorted() && own.len() == 20, "{own:?}");
    }
}

/// A domain without a free token does not delay the others: it loses its turn until it has a token.
#[test]
fn a_domain_has_no_more_requests_in_flight_than_tokens() {
    let mut host = ScriptedHost::new(Config::default(), 512, 1_024, 100_000);
    let stream = host.open(PriorityClass::BestEffort);
    for n in 0..40 {
        host.submit(stream, Op::WriteZeroes, 8 * n, 1, n);
    }
    for n in 0..150 {
        host.submit(stream, Op::Write, 8 * (1_000 + n), 1, 1_000 + n);
    }
    host.poll();
    assert_eq!(tokens(&host.layer)[1..], [(128, 128), (64, 0), (16, 16)]);
    // The tokens of writes and of `WriteZeroes`: 128 + 16.
    assert_eq!(host.sent.len(), 144);
    host.step();
    assert_eq!(tokens(&host.layer)[3], (16, 16));
    assert_eq!(host.drain().len(), 190);
    assert_eq!(tokens(&host.layer).map(|t| t.1), [0; 4]);
}

/// Returns the number of pieces that are dispatched if 100 requests compete for 64 scheduler tags.
fn flags_and_tags(flags: Flags, op: Op) -> usize {
    let mut layer = scripted::layer(Config::default(), 256, 64);
    let stream = scripted::open(&mut layer, PriorityClass::BestEffort);
    let request = |n: u64| {
        request(stream, op, n, BLOCK)
            .flags(flags)
            .offset(8 * n * u64::from(BLOCK))
    };
    for n in 0..100 {
        layer.submit(Instant::ZERO, &[request(n)]).unwrap();
    }
    let mut out = Vec::new();
    layer.poll(Instant::ZERO, &mut out);
    out.len()
}

/// Asynchronous requests get three quarters of 64 tags.
#[test]
fn asynchronous_requests_leave_tags_to_others() {
    assert_eq!(flags_and_tags(Flags::NONE, Op::Write), 48);
    assert_eq!(flags_and_tags(Flags::SYNC, Op::Write), 64);
    assert_eq!(flags_and_tags(Flags::NONE, Op::Read), 64);
}

#[test]
fn asynchronous_depth_is_three_quarters_of_each_word_of_the_tag_map() {
    use super::super::async_depth;
    // Words of 2, 8, 64 and 64 bits. The last word may be shorter.
    assert_eq!([8, 32, 256, 1_024].map(async_depth), [4, 24, 192, 768]);
    assert_eq!(async_depth(300), 4 * 48 + 44);
    // Three quarters of a word of one bit are zero, which Linux treats as no limit.
    assert_eq!([1, 3, 4, 7].map(async_depth), [1, 3, 4, 7]);
}

fn sent(layer: &mut Layer, at: u64) -> Vec<(u64, u32)> {
    let mut out = Vec::new();
    layer.poll(Instant::from_nanos(at), &mut out);
    let dispatched = out.iter().filter_map(|output| match output {
        Output::Dispatch(d) => Some((d.cookie, d.length / BLOCK)),
        _ => None,
    });
    dispatched.collect()
}

/// Requests in a software queue can merge. Requests that were taken from it together with others no
/// longer can.
#[test]
fn requests_merge_until_they_are_taken_from_the_software_queue() {
    let merge = merge::Config::LINUX;
    let mut layer = scripted::layer_that(Config::default(), 1, 64, merge.ahead(false));
    let stream: Vec<StreamId> = (0..4)
        .map(|_| scripted::open(&mut layer, PriorityClass::BestEffort))
        .collect();
    let submit = |layer: &mut Layer, n: usize, block: u64, cookie: u64| {
        let request = read(stream[n], cookie, BLOCK).offset(block * u64::from(BLOCK));
        layer
            .submit(Instant::from_nanos(cookie), &[request])
            .unwrap();
    };
    submit(&mut layer, 0, 0, 1);
    submit(&mut layer, 1, 100, 2);
    assert_eq!(sent(&mut layer, 3), [(1, 1)]);
    // The second request was taken together with the first.
    submit(&mut layer, 2, 101, 4);
    submit(&mut layer, 3, 102, 5);
    layer.complete(Instant::from_nanos(6), &[Completion::ok(crate::Tag(0))]);
    assert_eq!(sent(&mut layer, 6), [(2, 1)]);
    layer.complete(Instant::from_nanos(7), &[Completion::ok(crate::Tag(0))]);
    assert_eq!(sent(&mut layer, 7), [(4, 2)]);
}
