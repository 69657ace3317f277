//! Computes the figures of the best possible schedule, from the parameters of the drive and the
//! contracts.

use weir_config::scenario::{Requirement, Script};
use weir_core::Span;
use weir_measure::number::{figure, percent};
use weir_model::drive::null;
use weir_model::load::{Arrival, Program};
use weir_sim::Scenario;

/// The name of a figure, and its value with the unit.
type Best = (String, String);

/// Returns the best possible figures of a null drive with a link, for the first requirement of the
/// scenario.
pub(crate) fn figures(script: &Script, scenario: &Scenario, drive: &null::NullConfig) -> Vec<Best> {
    let link = drive.link as f64;
    let asked = script.expects().first().map(|e| &e.asked);
    match asked {
        Some(Requirement::Promise(Some(client))) => promised(scenario, drive, client),
        Some(Requirement::Promise(None)) => vec![all("total, everyone the same", link)],
        Some(Requirement::Shares(_)) => shares(scenario, link),
        Some(Requirement::Max(_)) => vec![all("total: the limits, and what they leave", link)],
        Some(Requirement::Figure(_)) | None => vec![all("total", link)],
    }
}

fn all(what: &str, rate: f64) -> Best {
    (what.to_owned(), format!("{} MB/s", figure(rate / 1e6)))
}

/// Returns each client's share of the link.
fn shares(scenario: &Scenario, link: f64) -> Vec<Best> {
    let share = |at| f64::from(scenario.contract(at).share);
    let clients = 0..scenario.clients.len();
    let sum: f64 = clients.clone().map(share).sum();
    clients
        .map(|at| all(&scenario.clients[at].name, link * share(at) / sum))
        .collect()
}

/// Returns the best possible figures while a client with one small request at a time gets what it
/// was promised.
fn promised(scenario: &Scenario, drive: &null::NullConfig, client: &str) -> Vec<Best> {
    let link = drive.link as f64;
    let Some(at) = scenario.clients.iter().position(|c| c.name == client) else {
        return vec![all("total", link)];
    };
    let min = scenario.contract(at).min as f64;
    let program = &scenario.clients[at].program;
    // [`beside_whole`] holds only for a client that sends its next request as soon as it has a
    // reply.
    let one_by_one = program.depth == 1 && program.arrival == Arrival::Closed { think: Span::ZERO };
    if !one_by_one || min <= 0.0 {
        return vec![all("total", link)];
    }
    let most = |p: &Program| f64::from(p.size.most());
    let others = scenario.clients.iter().filter(|c| c.name != client);
    // The target waits longest behind the largest transfer, so the others are assumed to use it.
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

/// Returns the bandwidth of one client with one request at a time and without contention, in bytes
/// per second. Each request is first served and then crosses the link.
pub(crate) fn alone(drive: &null::NullConfig, size: f64) -> f64 {
    size / (service(drive) + size / drive.link as f64)
}

/// Returns the largest fraction of the link that a schedule can use if it gives the target `min`
/// bytes per second, and if transfers are not interrupted. The target has one request of `bytes`
/// bytes at a time, and transfers of the others have `most` bytes.
///
/// Commands are served in parallel, so the service does not cost the link any time as long as
/// another transfer crosses it. The target sends its next request when it has received a reply.
/// Until that request is served, the link either carries one large transfer or is idle. So a round
/// of the target, from one reply to the next, is one of two kinds:
///
/// - A round with a large transfer takes the longer of that transfer and the service, and then the
///   target's own transfer.
/// - A round without a large transfer takes the service, during which the link is idle, and then
///   the target's own transfer.
///
/// More than one large transfer in a round only makes it longer. With rounds of the first kind
/// alone, the link is never idle. If they are too long for `min`, some rounds must be of the second
/// kind, and the best schedule has as few of these as possible.
///
/// Returns `None` if even rounds without large transfers are too long.
fn beside_whole(drive: &null::NullConfig, min: f64, bytes: f64, most: f64) -> Option<f64> {
    let (small, large) = (bytes / drive.link as f64, most / drive.link as f64);
    let with = large.max(service(drive)) + small;
    let without = service(drive) + small;
    // If the transfer is shorter than the service, the link is idle for the difference.
    let rest_with = (service(drive) - large).max(0.0);
    let round = bytes / min;
    if with <= round {
        // A round has time for several large transfers, which keep the link busy.
        return Some(1.0);
    }
    if without > round {
        return None;
    }
    // The mean round must be as long as the promise allows. If `x` is the fraction of rounds with a
    // large transfer: x * with + (1 - x) * without = round.
    let x = (round - without) / (with - without);
    let rest = x * rest_with + (1.0 - x) * service(drive);
    Some(1.0 - rest / round)
}

/// Returns the service time of a command in seconds.
fn service(drive: &null::NullConfig) -> f64 {
    drive.service.as_nanos() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: f64 = 4096.0;
    const LARGE: f64 = 131_072.0;

    fn drive() -> null::NullConfig {
        null::NullConfig::demo()
    }

    #[test]
    fn alone_the_target_waits_for_service_and_link_only() {
        // The service takes 30 us, and 4096 bytes cross the link of 250 MB/s in 16.384 us.
        assert!((alone(&drive(), SMALL) - 4096.0 / 46.384e-6).abs() < 1.0);
    }

    #[test]
    fn the_link_rests_as_little_as_the_promise_permits() {
        // At 10 MB/s, 4096 bytes allow a round of 409.6 us. It takes 540.672 us with a transfer of
        // 128 KiB (524.288 us), and 46.384 us without.
        let part = beside_whole(&drive(), 10e6, SMALL, LARGE).unwrap();
        let with = (409.6 - 46.384) / (540.672 - 46.384);
        assert!((part - (1.0 - (1.0 - with) * 30.0 / 409.6)).abs() < 1e-9);
        // At 7.5 MB/s, a round may take 546 us, into which a large transfer fits. So the link is
        // never idle.
        assert_eq!(beside_whole(&drive(), 7.5e6, SMALL, LARGE), Some(1.0));
        // Without contention, the drive gives 88.3 MB/s, so 90 MB/s are out of reach.
        assert_eq!(beside_whole(&drive(), 90e6, SMALL, LARGE), None);
        // Nearly all rounds have no large transfer, so the link is idle during the service.
        let least = beside_whole(&drive(), 88e6, SMALL, LARGE).unwrap();
        assert!(least < 0.4, "{least}");
    }
}
