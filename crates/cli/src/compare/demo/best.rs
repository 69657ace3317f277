//! What the best possible schedule would give, from the drive's parameters and the contracts alone.

use weir_config::scenario::{Asked, Script};
use weir_core::Span;
use weir_measure::number::{figure, percent};
use weir_model::drive::null;
use weir_model::load::{Arrival, Program};
use weir_sim::Scenario;

/// What a figure is, and the figure with its unit.
type Best = (String, String);

/// The best figures of a null drive with a link, for what is asked for first.
pub(crate) fn figures(script: &Script, scenario: &Scenario, drive: &null::Config) -> Vec<Best> {
    let link = drive.link as f64;
    let asked = script.expects().first().map(|e| &e.asked);
    match asked {
        Some(Asked::Promise(Some(client))) => promised(scenario, drive, client),
        Some(Asked::Promise(None)) => vec![all("total, everyone the same", link)],
        Some(Asked::Shares(_)) => shares(scenario, link),
        Some(Asked::Max(_)) => vec![all("total: the limits, and what they leave", link)],
        Some(Asked::Figure(_)) | None => vec![all("total", link)],
    }
}

fn all(what: &str, rate: f64) -> Best {
    (what.to_owned(), format!("{} MB/s", figure(rate / 1e6)))
}

/// What each client's share of the link is.
fn shares(scenario: &Scenario, link: f64) -> Vec<Best> {
    let share = |at| f64::from(scenario.contract(at).share);
    let clients = 0..scenario.clients.len();
    let sum: f64 = clients.clone().map(share).sum();
    clients
        .map(|at| all(&scenario.clients[at].name, link * share(at) / sum))
        .collect()
}

/// What is possible while a client that has one small request at a time is given what it was promised.
fn promised(scenario: &Scenario, drive: &null::Config, client: &str) -> Vec<Best> {
    let link = drive.link as f64;
    let Some(at) = scenario.clients.iter().position(|c| c.name == client) else {
        return vec![all("total", link)];
    };
    let min = scenario.contract(at).min as f64;
    let program = &scenario.clients[at].program;
    let one_by_one = program.depth == 1 && program.arrival == Arrival::Closed { think: Span::ZERO };
    if !one_by_one || min <= 0.0 {
        return vec![all("total", link)];
    }
    let most = |p: &Program| f64::from(p.size.most());
    let others = scenario.clients.iter().filter(|c| c.name != client);
    let large = others.map(|c| most(&c.program)).fold(0.0, f64::max);
    let small = most(program);
    let promise = format!("everyone at least {} MB/s", figure(min / 1e6));
    let mut best = vec![all(
        &format!("the {client} alone on the drive"),
        alone(drive, small),
    )];
    best.push(match beside_whole(drive, min, small, large) {
        Some(part) => (
            format!("total, {promise}, every request served in one piece"),
            format!(
                "{} MB/s, {} of the drive",
                figure(part * link / 1e6),
                percent(part)
            ),
        ),
        None => (
            format!("{promise}, every request served in one piece"),
            "no schedule can".into(),
        ),
    });
    best.push(all(
        &format!("total, {promise}, requests cut into small pieces"),
        link,
    ));
    best
}

/// Bytes a second of one client with one request at a time and the drive to itself: each is served, then crosses the link.
pub(crate) fn alone(drive: &null::Config, size: f64) -> f64 {
    size / (service(drive) + size / drive.link as f64)
}

/// The part of the link that a schedule can use at best if it gives the target (one small request at a time) `min` bytes a
/// second, `bytes` at a time, and transfers of `most` bytes are not interrupted.
///
/// Commands are served side by side, so service costs the link nothing as long as something else crosses it meanwhile. The
/// target asks anew when it has its answer; until that request is served, the link is free for one large transfer, or it
/// stands still. A round of the target, from one answer to the next, is therefore one of two:
///
/// - with a large transfer: it takes that transfer (or the service, if that is longer) and the target's own;
/// - without: the service, in which the link stands still, and the target's own transfer.
///
/// More than one large transfer in a round only makes it longer. With rounds of the first kind alone the link never rests; if
/// they are too long for `min`, the rest must be of the second kind, and as few of them as will do are best. `None` if even
/// rounds without large transfers are too long.
fn beside_whole(drive: &null::Config, min: f64, bytes: f64, most: f64) -> Option<f64> {
    let (small, large) = (bytes / drive.link as f64, most / drive.link as f64);
    let with = large.max(service(drive)) + small;
    let without = service(drive) + small;
    let rest_with = (service(drive) - large).max(0.0);
    let round = bytes / min;
    if with <= round {
        // Several large transfers in a round keep the link busy.
        return Some(1.0);
    }
    if without > round {
        return None;
    }
    // x * with + (1 - x) * without = round
    let x = (round - without) / (with - without);
    let rest = x * rest_with + (1.0 - x) * service(drive);
    Some(1.0 - rest / round)
}

/// Seconds that a command is served.
fn service(drive: &null::Config) -> f64 {
    drive.service.as_nanos() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: f64 = 4096.0;
    const LARGE: f64 = 131_072.0;

    fn drive() -> null::Config {
        null::Config::demo()
    }

    #[test]
    fn alone_the_target_waits_for_service_and_link_only() {
        // 30 us and 16.384 us for 4096 bytes.
        assert!((alone(&drive(), SMALL) - 4096.0 / 46.384e-6).abs() < 1.0);
    }

    #[test]
    fn the_link_rests_as_little_as_the_promise_permits() {
        // A round of 409.6 us; with a transfer of 128 KiB it would take 540.672 us, without one 46.384 us.
        let part = beside_whole(&drive(), 10e6, SMALL, LARGE).unwrap();
        let with = (409.6 - 46.384) / (540.672 - 46.384);
        assert!((part - (1.0 - (1.0 - with) * 30.0 / 409.6)).abs() < 1e-9);
        // Promised so little that a large transfer fits into every round, nothing is lost.
        assert_eq!(beside_whole(&drive(), 7.5e6, SMALL, LARGE), Some(1.0));
        // Promised more than the drive could give it alone, nothing helps.
        assert_eq!(beside_whole(&drive(), 90e6, SMALL, LARGE), None);
        let least = beside_whole(&drive(), 88e6, SMALL, LARGE).unwrap();
        assert!(least < 0.4, "{least}");
    }
}
