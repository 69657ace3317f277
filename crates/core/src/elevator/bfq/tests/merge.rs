//! Merging: streams whose requests interleave share a queue, and are split again.

use super::plain;
use super::turns::{check, log};
use crate::Config as LayerConfig;
use crate::elevator::bfq::Charge;
use crate::elevator::closed_loop::{
    self, AccessPattern, ClosedLoopHost, KIB, RANDOM, SECOND, STREAMER, ms,
};

/// Creates a seek-bound drive and three clients, each of which reads every third chunk with one
/// request at a time.
fn three(merge: bool, random_from: u64) -> ClosedLoopHost {
    let config = plain().merge(merge);
    let mut config = LayerConfig::of(config);
    config.drive.rotational = true;
    let mut host = closed_loop::host_of(config, &[]);
    let chunk = 16 * KIB;
    for i in 0..3 {
        host.add(
            STREAMER
                .length(chunk)
                .depth(1)
                .base(i * u64::from(chunk))
                .place(AccessPattern::EveryUntil {
                    of: 3,
                    until: random_from,
                }),
        );
    }
    host
}

#[test]
fn interleaved_readers_share_their_turns() {
    // In each turn except the first, three requests are outstanding instead of one. A turn
    // therefore takes less time for the same service.
    let mut host = three(true, u64::MAX);
    host.run(ms(200));
    check(
        &log(&mut host, 3, 5),
        "
        0 0-95 10922 NoMoreRequests 32 32
        0 95-22342 10922 BudgetExhausted 10912 10912
        2 22342-55896 16384 BudgetExhausted 16384 16384
        1 55896-89451 16384 BudgetExhausted 16384 16384
        0 89451-123005 16384 BudgetExhausted 16384 16384
        ",
    );
    let mut host = three(false, u64::MAX);
    host.run(ms(200));
    check(
        &log(&mut host, 3, 5),
        "
        0 0-32577 10922 BudgetExhausted 10912 10912
        1 32577-65155 10922 BudgetExhausted 10912 10912
        2 65155-97733 10922 BudgetExhausted 10912 10912
        0 97733-146647 16384 BudgetExhausted 16384 16384
        1 146647-195562 16384 BudgetExhausted 16384 16384
        ",
    );
}

/// The first turns after three interleaved clients begin to read at random, after one second.
#[test]
fn a_seeky_shared_queue_is_split() {
    let mut host = three(true, SECOND);
    host.run(ms(980));
    host.events();
    host.run(ms(1_070));
    let log = log(&mut host, 3, 7);
    // The first turn began before the observation.
    let (_, rest) = log.split_once('\n').unwrap();
    // The shared queue is found to be seeky at the end of the shared turn. Each client then gets a
    // queue of its own with its next request.
    check(
        rest,
        "
        0 995420-1028975 16384 BudgetExhausted 16384 16384
        0 1028975-1029040 39421 Preempted 32 2522
        1 1029040-1030861 26280 NoMoreRequests 608 608
        2 1030861-1030956 26280 Preempted 32 32
        1 1030956-1030956 1231 NoMoreRequests 32 2522
        0 1030956-1031022 39421 Preempted 32 2522
        ",
    );
}

/// Returns the part, in percent, that a random reader gets from the third second on. Four readers
/// of twice its weight start together one second after it, on flash.
fn first_of_five(stable_merge: bool, strict_guarantees: bool) -> u64 {
    let config = plain()
        .merge(true)
        .stable_merge(stable_merge)
        .strict_guarantees(strict_guarantees)
        .charge(Charge::Service);
    let mut host = closed_loop::host(config, &[]);
    let reader = RANDOM.depth(8);
    let first = host.add(reader);
    host.run(SECOND);
    for _ in 0..4 {
        host.add(reader.level(0));
    }
    host.run(3 * SECOND);
    let (before, all) = (host.bytes(first), host.total() * 3);
    host.run(9 * SECOND);
    (host.bytes(first) - before) / 10 / (host.total() * 9 - all)
}

#[test]
fn clients_that_start_together_share_a_queue_if_merged_permanently() {
    // Under strict guarantees, the drive is not observed to queue requests, so the queues are
    // merged later. Apart, the first has a weight of 40 of 360, which is 11 %. Merged, the four
    // have one queue with a weight of 80, so the first has 33 %.
    let (apart, merged) = (first_of_five(false, true), first_of_five(true, true));
    assert!((10..=12).contains(&apart), "{apart} %");
    assert!((32..=34).contains(&merged), "{merged} %");
    // Otherwise the queues are merged at once. The drive does not idle for the first client,
    // because its weight is the lowest.
    let (apart, merged) = (first_of_five(false, false), first_of_five(true, false));
    assert!(merged >= 4 * apart, "{apart} and {merged} %");
}
