//! Injection: the gain of other clients while the drive idles, and the loss of the client that it
//! idles for.

use super::plain;
use super::turns::check;
use crate::Output;
use crate::elevator::closed_loop::{
    self, Client, ClosedLoopHost, RANDOM, SECOND, STREAMER, ms, nth,
};
use std::fmt::Write;
use std::string::String;

fn host(injection: bool, groups: usize) -> ClosedLoopHost {
    let config = plain().injection(injection);
    let groups = std::vec![(100, None); groups];
    closed_loop::host(config, &groups)
}

/// Returns the rates in kB/s of a client that thinks after each random read of 4 KiB, and of
/// another client in another group.
fn thinker_beside(injection: bool, think: u64, other: Client) -> (u64, u64) {
    let mut host = host(injection, 2);
    let thinker = host.add(RANDOM.of(nth(0)).think(think));
    let other = host.add(other.of(nth(1)));
    host.run(10 * SECOND);
    (host.rate(thinker), host.rate(other))
}

#[test]
fn small_requests_are_injected_where_the_drive_would_idle() {
    let reader = RANDOM.depth(4);
    let (thinker, other) = thinker_beside(false, ms(1), reader);
    let (kept, injected) = thinker_beside(true, ms(1), reader);
    assert!(injected * 10 > other * 13, "{injected} after {other} kB/s");
    assert!(kept * 10 > thinker * 8, "{kept} after {thinker} kB/s");
}

#[test]
fn a_large_request_is_injected_into_an_empty_drive_alone() {
    let (thinker, other) = thinker_beside(false, ms(3), STREAMER);
    let (kept, injected) = thinker_beside(true, ms(3), STREAMER);
    assert!(injected > other, "{injected} after {other} kB/s");
    assert!(kept * 10 > thinker * 7, "{kept} after {thinker} kB/s");
}

/// Logs the requests of a client that thinks for 1 ms after each, next to another client. A line
/// has the time of the request in microseconds, and the number of the other client's requests since
/// the line before.
fn pauses(other: Client, count: usize) -> String {
    let mut host = host(true, 2);
    let thinker = host.add(RANDOM.of(nth(0)).think(ms(1)));
    host.add(other.of(nth(1)));
    let mut log = String::new();
    let mut injected = 0;
    let mut lines = 0;
    while host.step(ms(50)) {
        for output in &host.out {
            match output {
                Output::Dispatch(d) if d.cookie != thinker as u64 => injected += 1,
                Output::Dispatch(_) if lines < count => {
                    writeln!(log, "{} {injected}", host.now / 1_000).unwrap();
                    (injected, lines) = (0, lines + 1);
                }
                _ => {}
            }
        }
    }
    log
}

#[test]
fn the_limit_is_found_pause_by_pause() {
    // No measurement is made in the first 10 ms. Each request that is not delayed raises the limit
    // by one, up to the largest number that was ever in the drive. This is the number of requests
    // that a reader with four outstanding can send in 1 ms.
    let reader = RANDOM.depth(4);
    check(
        &pauses(reader, 15),
        "
        0 0
        1046 0
        2092 0
        3139 0
        4185 0
        5231 0
        6278 0
        7324 0
        8371 0
        9417 0
        10463 0
        11510 22
        12556 44
        13609 63
        14672 65
        ",
    );
}

#[test]
fn a_limit_that_costs_too_much_is_lowered() {
    // Two requests of 128 KiB delay the next request by 80 us, which is more than 50 % of the 46 us
    // that it takes alone. The limit is therefore lowered.
    check(
        &pauses(STREAMER, 15),
        "
        0 0
        1046 0
        2092 0
        3139 0
        4185 0
        5231 0
        6278 0
        7324 0
        8371 0
        9417 0
        10463 0
        11510 2
        12635 0
        13681 0
        14727 0
        ",
    );
}
