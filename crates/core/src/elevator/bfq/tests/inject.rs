//! What others get while the drive idles, and what the stream it idles for notices of that.

use super::host::{Client, Host, RANDOM, SECOND, STREAMER, ms};
use super::plain;
use crate::elevator;
use crate::elevator::bfq::Config;

fn host(injection: bool, groups: usize) -> Host {
    let config = Config {
        injection,
        ..plain()
    };
    let groups = std::vec![(100, None); groups];
    Host::new(elevator::Config::Bfq(config), &groups)
}

/// One in a group of its own who thinks for a while after each random read of 4 KiB, beside another client in another: what each of
/// them gets, in kB/s.
fn thinker_beside(injection: bool, think: u64, other: Client) -> (u64, u64) {
    let mut host = host(injection, 2);
    let thinker = host.add(Client {
        think,
        ..RANDOM.of(0)
    });
    let other = host.add(other.of(1));
    host.run(10 * SECOND);
    (host.rate(thinker), host.rate(other))
}

#[test]
fn small_requests_are_injected_where_the_drive_would_idle() {
    let reader = Client { depth: 4, ..RANDOM };
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
