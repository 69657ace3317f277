//! What the best possible schedule would give, from the drive's parameters alone.

use super::Scenario;
use weir_drive::null;
use weir_report::BestFigure;
use weir_report::number::{figure, percent};

/// Bytes of the target's requests and of the others', and what the target is promised.
const SMALL: f64 = 4096.0;
const LARGE: f64 = 131_072.0;

/// The best figures of a null drive with a link.
pub(crate) fn figures(scenario: Scenario, drive: &null::Config, min: u64) -> Vec<BestFigure> {
    let link = drive.link as f64;
    let all = |what: &str, rate: f64| BestFigure {
        what: what.to_owned(),
        value: format!("{} MB/s", figure(rate / 1e6)),
    };
    match scenario {
        Scenario::Contract => {
            let promise = format!("everyone at least {} MB/s", figure(min as f64 / 1e6));
            let mut best = vec![all("the target alone on the drive", alone(drive, SMALL))];
            let whole = beside_whole(drive, min as f64);
            best.push(match whole {
                Some(part) => BestFigure {
                    what: format!("total, {promise}, every request served in one piece"),
                    value: format!(
                        "{} MB/s, {} of the drive",
                        figure(part * link / 1e6),
                        percent(part)
                    ),
                },
                None => BestFigure {
                    what: format!("{promise}, every request served in one piece"),
                    value: "no schedule can".into(),
                },
            });
            best.push(all(
                &format!("total, {promise}, requests cut into small pieces"),
                link,
            ));
            best
        }
        Scenario::EqualReaders => vec![all("total, everyone the same", link)],
        Scenario::Shares => (0..4)
            .map(|n| {
                all(
                    &format!("share-{}", 1 << n),
                    link * f64::from(1 << n) / 15.0,
                )
            })
            .collect(),
        Scenario::Max => vec![all("total: the limits, and what they leave", link)],
    }
}

/// Bytes a second of one client with one request at a time and the drive to itself: each is served, then crosses the link.
pub(crate) fn alone(drive: &null::Config, size: f64) -> f64 {
    size / (service(drive) + size / drive.link as f64)
}

/// The part of the link that a schedule can use at best if it gives the target (one small request at a time) `min` bytes a
/// second, and large transfers are not interrupted.
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
fn beside_whole(drive: &null::Config, min: f64) -> Option<f64> {
    let (small, large) = (SMALL / drive.link as f64, LARGE / drive.link as f64);
    let with = large.max(service(drive)) + small;
    let without = service(drive) + small;
    let rest_with = (service(drive) - large).max(0.0);
    let round = SMALL / min;
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
        let part = beside_whole(&drive(), 10e6).unwrap();
        let with = (409.6 - 46.384) / (540.672 - 46.384);
        assert!((part - (1.0 - (1.0 - with) * 30.0 / 409.6)).abs() < 1e-9);
        // Promised so little that a large transfer fits into every round, nothing is lost.
        assert_eq!(beside_whole(&drive(), 7.5e6), Some(1.0));
        // Promised more than the drive could give it alone, nothing helps.
        assert_eq!(beside_whole(&drive(), 90e6), None);
        let least = beside_whole(&drive(), 88e6).unwrap();
        assert!(least < 0.4, "{least}");
    }
}
