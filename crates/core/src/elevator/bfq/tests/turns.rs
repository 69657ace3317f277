//! Golden logs of turns. Each line has the client, the time in microseconds, the budget, the reason
//! of expiration, the served and the charged sectors.

use super::plain;
use crate::elevator::bfq::{Charge, Config};
use crate::elevator::closed_loop::{
    self, Client, ClosedLoopHost, KIB, RANDOM, SECOND, STREAMER, ms, nth,
};
use crate::testing::{change, share};
use crate::{Event, Flags, Op, PriorityClass, Sample, SampleMask};
use std::fmt::Write;
use std::string::String;

const GROUPS: [(u16, Option<usize>); 2] = [(100, None); 2];

fn host(config: Config, groups: &[(u16, Option<usize>)]) -> ClosedLoopHost {
    closed_loop::host(config, groups)
}

/// Runs these clients and returns their first turns, one per line.
fn turns(
    config: Config,
    groups: &[(u16, Option<usize>)],
    clients: &[Client],
    until: u64,
    turns: usize,
) -> String {
    let mut host = host(config, groups);
    for client in clients {
        host.add(*client);
    }
    host.run(until);
    log(&mut host, clients.len(), turns)
}

/// Returns the first turns of a host, one per line.
pub(super) fn log(host: &mut ClosedLoopHost, clients: usize, turns: usize) -> String {
    let mut log = String::new();
    let mut begun = (0, 0);
    let mut lines = 0;
    for (at, event) in host.events() {
        let at = at.as_nanos() / 1_000;
        match event {
            Event::Selected { budget, .. } => begun = (at, budget / 512),
            Event::Expired {
                stream,
                reason,
                served,
                charged,
            } if lines < turns => {
                let client = (0..clients).find(|&c| host.stream(c) == stream).unwrap();
                let (served, charged) = (served / 512, charged / 512);
                let (from, budget) = begun;
                writeln!(
                    log,
                    "{client} {from}-{at} {budget} {reason:?} {served} {charged}"
                )
                .unwrap();
                lines += 1;
            }
            _ => {}
        }
    }
    log
}

#[track_caller]
pub(super) fn check(log: &str, golden: &str) {
    let golden: String = golden
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .fold(String::new(), |all, line| all + line + "\n");
    assert_eq!(log, golden, "the log is:\n{log}");
}

fn small_budgets() -> Config {
    plain().max_budget(2_000)
}

#[test]
fn an_exhausted_budget_is_followed_by_one_four_times_as_large() {
    let clients = [STREAMER.of(nth(0)), STREAMER.of(nth(1))];
    check(
        &turns(plain(), &GROUPS, &clients, ms(300), 6),
        "
        0 0-21525 10922 BudgetExhausted 10752 10752
        1 21525-43545 10922 BudgetExhausted 10752 10752
        0 43545-77100 16384 BudgetExhausted 16384 16384
        1 77100-110654 16384 BudgetExhausted 16384 16384
        0 110654-144209 16384 BudgetExhausted 16384 16384
        1 144209-177763 16384 BudgetExhausted 16384 16384
        ",
    );
}

#[test]
fn a_slow_reader_is_charged_by_time() {
    let clients = [RANDOM.of(nth(0)).think(300_000), STREAMER.of(nth(1))];
    check(
        // A request every 300 us or so uses little of a budget in 125 ms. Each turn is charged the
        // whole largest budget of 16,384 sectors instead.
        &turns(plain(), &GROUPS, &clients, ms(600), 6),
        "
        0 0-125044 10922 BudgetTimeout 2888 16384
        1 125044-146570 10922 BudgetExhausted 10752 10752
        1 146570-180124 16384 BudgetExhausted 16384 16384
        0 180124-305317 16384 BudgetTimeout 2880 16384
        1 305317-338377 16384 BudgetExhausted 16384 16384
        0 338377-463570 16384 BudgetTimeout 2880 16384
        ",
    );
}

/// A queue is slow if it gets less than half of the largest budget. A reader that gets exactly half
/// of it is charged its service.
#[test]
fn a_reader_of_half_a_budget_is_not_slow() {
    let config = plain().max_budget(2 * 1_848);
    let clients = [
        RANDOM.of(nth(0)).think(300_000).until(ms(80)),
        STREAMER.of(nth(1)),
    ];
    check(
        &turns(config, &GROUPS, &clients, ms(110), 1),
        "0 0-87714 10922 TooIdle 1848 1848",
    );
}

#[test]
fn a_slow_reader_charged_by_service_keeps_its_share_of_bytes() {
    let config = small_budgets().charge(Charge::Service);
    let clients = [RANDOM.of(nth(0)), STREAMER.of(nth(1))];
    check(
        &turns(config, &GROUPS, &clients, ms(600), 6),
        "
        0 0-63314 10922 BudgetExhausted 10920 10920
        1 63314-84839 10922 BudgetExhausted 10752 10752
        1 84839-88509 2000 BudgetExhausted 1792 1792
        0 88509-100600 2000 BudgetExhausted 2000 2000
        1 100600-103776 2000 BudgetExhausted 1792 1792
        0 103776-115866 2000 BudgetExhausted 2000 2000
        ",
    );
}

#[test]
fn idling_for_a_client_with_think_time_ends_after_8_ms() {
    let clients = [
        RANDOM.of(nth(0)).think(ms(1)).until(ms(4)),
        STREAMER.of(nth(1)),
    ];
    check(
        &turns(small_budgets(), &GROUPS, &clients, ms(60), 6),
        // Four reads of 4 KiB in the first milliseconds are 32 sectors. Then the drive idles for 8
        // ms.
        "
        0 0-11185 10922 TooIdle 32 32
        1 11185-32711 10922 BudgetExhausted 10752 10752
        1 32711-36381 2000 BudgetExhausted 1792 1792
        1 36381-40051 2000 BudgetExhausted 1792 1792
        1 40051-43721 2000 BudgetExhausted 1792 1792
        1 43721-47391 2000 BudgetExhausted 1792 1792
        ",
    );
}

#[test]
fn a_client_that_returns_in_time_keeps_its_budget() {
    let clients = [RANDOM.of(nth(0)).think(ms(12)), STREAMER.of(nth(1))];
    check(
        &turns(small_budgets(), &GROUPS, &clients, ms(60), 8),
        // The reader returns 4 ms after it was given up. Its budget was reduced by 4 * 512 sectors
        // because it was too idle. The rest of the old budget is larger than that.
        "
        0 0-8046 10922 TooIdle 8 8
        1 8046-12046 10922 Preempted 2304 2304
        0 12046-20811 8874 TooIdle 8 8
        1 20811-24811 10922 Preempted 2304 2304
        0 24811-33576 6826 TooIdle 8 8
        1 33576-37576 10922 Preempted 2304 2304
        0 37576-46341 4778 TooIdle 8 8
        1 46341-50341 10922 Preempted 2304 2304
        ",
    );
}

#[test]
fn a_turn_is_over_after_its_time() {
    let clients = [RANDOM.of(nth(0)).think(ms(5)), STREAMER.of(nth(1))];
    check(
        &turns(plain(), &GROUPS, &clients, ms(1_000), 6),
        "
        0 0-126159 10922 BudgetTimeout 200 16384
        1 126159-147685 10922 BudgetExhausted 10752 10752
        1 147685-181239 16384 BudgetExhausted 16384 16384
        0 181239-307893 16384 BudgetTimeout 200 16384
        1 307893-340953 16384 BudgetExhausted 16384 16384
        0 340953-467607 16384 BudgetTimeout 200 16384
        ",
    );
}

#[test]
fn among_equals_a_newcomer_takes_the_drive_at_once() {
    let mut host = host(plain(), &[]);
    for _ in 0..3 {
        host.add(RANDOM);
    }
    host.run(ms(1));
    check(
        &log(&mut host, 3, 8),
        "
        0 0-0 10922 NoMoreRequests 8 8
        1 0-0 10922 NoMoreRequests 8 8
        2 0-46 10922 Preempted 8 8
        0 46-62 512 Preempted 8 8
        1 62-79 512 Preempted 8 8
        2 79-95 10914 Preempted 8 8
        0 95-111 504 Preempted 8 8
        1 111-128 504 Preempted 8 8
        ",
    );
}

#[test]
fn asynchronous_writes_count_three_times_among_equals() {
    let mut host = host(plain(), &[]);
    let writer = STREAMER.op(Op::Write).depth(8);
    host.add(writer);
    host.add(writer.flags(Flags::SYNC));
    host.run(ms(300));
    check(
        &log(&mut host, 2, 14),
        // 256 sectors of asynchronous writes are charged as 768.
        "
        0 0-0 10922 NoMoreRequests 2048 6144
        1 0-554 10922 Preempted 2048 2048
        0 554-554 4778 NoMoreRequests 256 768
        0 1078-1078 4010 NoMoreRequests 256 768
        0 1602-1602 3242 NoMoreRequests 256 768
        0 2127-2127 2474 NoMoreRequests 256 768
        0 2651-2651 1706 NoMoreRequests 256 768
        0 3175-3175 938 NoMoreRequests 256 768
        0 3700-3700 170 BudgetExhausted 0 0
        0 3700-3700 16384 NoMoreRequests 256 768
        0 4224-4224 15616 NoMoreRequests 256 768
        1 4748-8942 8874 Preempted 2048 2048
        0 8942-8942 14848 NoMoreRequests 256 768
        0 9467-9467 14080 NoMoreRequests 256 768
        ",
    );
}

#[test]
fn the_idle_class_gets_one_request_each_two_hundred_milliseconds() {
    let mut host = host(plain(), &[]);
    host.add(STREAMER);
    host.add(STREAMER.class(PriorityClass::Idle));
    host.run(2 * SECOND);
    let mine = log(&mut host, 2, 1_000);
    let idle: String = mine
        .lines()
        .filter(|line| line.starts_with('1'))
        .fold(String::new(), |all, line| all + line + "\n");
    check(
        &idle,
        "
        1 222852-222852 10922 BudgetExhausted 256 256
        1 424703-424703 16384 BudgetExhausted 256 256
        1 626554-626554 16384 BudgetExhausted 256 256
        1 828405-828405 16384 BudgetExhausted 256 256
        1 1030255-1030255 16384 BudgetExhausted 256 256
        1 1241543-1241543 51528 BudgetExhausted 256 256
        1 1452832-1452832 51528 BudgetExhausted 256 256
        1 1664120-1664120 51528 BudgetExhausted 256 256
        1 1875408-1875408 51528 BudgetExhausted 256 256
        ",
    );
}

#[test]
fn strict_guarantees_keep_one_request_in_the_drive() {
    let config = small_budgets().strict_guarantees(true);
    let mut host = host(config, &[]);
    for _ in 0..3 {
        host.add(STREAMER.depth(8).length(4 * KIB));
    }
    host.run(ms(200));
    assert_eq!(host.most_in_drive, 1);
    check(
        &log(&mut host, 3, 4),
        "
        0 0-63314 10922 BudgetExhausted 10920 10920
        1 63314-126628 10922 BudgetExhausted 10920 10920
        2 126628-189942 10922 BudgetExhausted 10920 10920
        ",
    );
}

#[test]
fn a_share_changed_in_mid_turn_counts_from_the_next_turn_on() {
    let mut host = host(small_budgets(), &GROUPS);
    let clients = [0, 1].map(|g| host.add(STREAMER.of(nth(g))));
    host.run(SECOND);
    let before = clients.map(|c| host.bytes(c));
    host.edit(change(nth(1), share(300)));
    host.run(3 * SECOND);
    let got = [0, 1].map(|i| host.bytes(clients[i]) - before[i]);
    let percent = got[1] * 100 / got[0];
    assert!((295..=305).contains(&percent), "{percent} %");
}

#[test]
fn samples_name_the_stream_that_is_served_or_idled_for() {
    let mut host = host(plain(), &GROUPS);
    let [one, other] = [0, 1].map(|group| host.add(STREAMER.of(nth(group)).depth(1)));
    let (mut served, mut idled, mut peak) = (0, 0, 0);
    for step in 1..200 {
        host.run(step * SECOND / 1_000);
        let mut serving = None;
        let clients = [host.stream(one), host.stream(other)];
        host.layer
            .sample(SampleMask::ALL, &mut |sample| match sample {
                Sample::Serving {
                    stream,
                    served,
                    left,
                } => {
                    assert!(clients.contains(&stream));
                    assert!(served > 0 || left > 0);
                    serving = Some(stream);
                }
                Sample::Idling { stream } => {
                    assert_eq!(serving, Some(stream));
                    idled += 1;
                }
                Sample::Weight { weight, raised, .. } => assert_eq!((weight, raised), (40, 1)),
                Sample::Peak { rate } => peak = rate,
                other => panic!("{other:?}"),
            });
        served += u32::from(serving.is_some());
    }
    assert!(served > 100, "{served}");
    assert!(idled > 0, "one request at a time is waited for");
    // The assumption for flash until a measurement is 2/3 of 33,000 / 65,536 sectors per
    // microsecond, which is 171 MB/s.
    assert_eq!(peak / 1_000_000, 171);
}
