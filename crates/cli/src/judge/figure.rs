//! Reads the figures to which requirements refer from the records of a run, and formats them.

use super::busy;
use weir_config::scenario::{Figure, FigureOwner, FigureValue};
use weir_measure::number::{deviation, duration, figure, percent, short};
use weir_measure::{Record, TOTAL};

/// Returns a figure of a run, in bytes per second, requests per second, nanoseconds, or as a part
/// of 1. Returns `None` if the figure is unknown, or if no client has the name.
pub(crate) fn figure_value(
    what: Figure,
    whose: &FigureOwner,
    target: &str,
    records: &[Record],
) -> Option<f64> {
    let named = |name: &str| records.iter().find(|r| r.client == name);
    let of = |record: &Record| one(what, record);
    // Figures of virtual machines exist for all of them together only, so `whose` does not matter.
    if let Some(value) = of_rings(what, records) {
        return Some(value);
    }
    let all = || records.iter().filter(|r| r.client != TOTAL);
    match whose {
        // The drive is shared by all clients.
        _ if what == Figure::Busy => busy(records),
        FigureOwner::Total if what == Figure::Late => sum(all().map(|r| one(what, r))),
        FigureOwner::Total if what == Figure::Runtime => {
            all().filter_map(|r| one(what, r)).reduce(f64::max)
        }
        FigureOwner::Target => of(named(target)?),
        FigureOwner::Client(name) => of(named(name)?),
        FigureOwner::Total => of(named(TOTAL)?),
        FigureOwner::Others => others(what, target, records),
    }
}

/// Returns a figure of all virtual machines together, if `what` is such a figure.
fn of_rings(what: Figure, records: &[Record]) -> Option<f64> {
    let total = records.iter().find(|r| r.client == TOTAL)?;
    let rings = total.rings?;
    match what {
        Figure::Kicks => Some(rings.kicks),
        Figure::Calls => Some(rings.calls),
        Figure::CallsPerRequest => Some(rings.calls_per_request),
        Figure::Wakeups => Some(rings.wakeups),
        Figure::GuestBusy => Some(rings.guest_percent / 100.0),
        Figure::BackendBusy => Some(rings.backend_percent / 100.0),
        _ => None,
    }
}

/// Returns a figure of one record, which is that of a client or of the total.
fn one(what: Figure, record: &Record) -> Option<f64> {
    let latency = record.latency_us;
    let ns = |us: f64| us * 1e3;
    // A client that was not active during the measurement has no rate.
    let measured = record.seconds > 0.0;
    match what {
        Figure::Bandwidth => measured.then_some(record.bandwidth_mb_per_s * 1e6),
        Figure::Iops => measured.then(|| record.requests as f64 / record.seconds),
        Figure::WorstSecond => record.worst_second_mb_per_s.map(|mb_per_s| mb_per_s * 1e6),
        Figure::Mean => latency.map(|l| ns(l.mean)),
        Figure::Percentile(500) => latency.map(|l| ns(l.p50)),
        Figure::Percentile(900) => latency.map(|l| ns(l.p90)),
        Figure::Percentile(990) => latency.map(|l| ns(l.p99)),
        // Scenarios can only ask for the percentiles 50, 90, 99 and 99.9.
        Figure::Percentile(_) => latency.map(|l| ns(l.p999)),
        Figure::Longest => latency.map(|l| ns(l.max)),
        Figure::Backend => record.split_us.map(|split| ns(split.total())),
        Figure::Runtime => record.runtime_s.map(|s| s * 1e9),
        Figure::Late => record.late.map(|late| late as f64),
        Figure::Busy
        | Figure::Kicks
        | Figure::Calls
        | Figure::CallsPerRequest
        | Figure::Wakeups
        | Figure::GuestBusy
        | Figure::BackendBusy => None,
    }
}

/// Returns a figure of all clients except the target: the sum of rates and counts, the mean over
/// all requests of mean latencies, and the worst value of all other figures.
fn others(what: Figure, target: &str, records: &[Record]) -> Option<f64> {
    let all: Vec<&Record> = (records.iter())
        .filter(|r| r.client != TOTAL && r.client != target)
        .collect();
    if what == Figure::Late {
        return sum(all.iter().map(|r| one(what, r)));
    }
    // Clients without the figure are left out.
    let each = all
        .iter()
        .filter_map(|r| Some((r.requests as f64, one(what, r)?)));
    match what {
        Figure::Bandwidth | Figure::Iops => Some(each.map(|e| e.1).sum()),
        Figure::Mean | Figure::Backend => {
            let (n, sum) = each.fold((0.0, 0.0), |(n, sum), e| (n + e.0, sum + e.0 * e.1));
            (n > 0.0).then(|| sum / n)
        }
        Figure::WorstSecond => each.map(|e| e.1).reduce(f64::min),
        _ => each.map(|e| e.1).reduce(f64::max),
    }
}

/// Returns the sum of the known values, or `None` if no value is known.
fn sum(each: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    each.flatten().reduce(|a, b| a + b)
}

/// Returns a figure as text with its unit.
pub(crate) fn figure_text(what: Figure, value: f64) -> String {
    match what {
        Figure::Bandwidth | Figure::WorstSecond => format!("{} MB/s", figure(value / 1e6)),
        Figure::Iops => format!("{} requests/s", short(value)),
        Figure::Kicks | Figure::Calls | Figure::Wakeups => format!("{}/s", short(value)),
        Figure::Busy | Figure::GuestBusy | Figure::BackendBusy => percent(value),
        Figure::CallsPerRequest => figure(value),
        Figure::Late => format!("{value:.0}"),
        Figure::Mean
        | Figure::Percentile(_)
        | Figure::Longest
        | Figure::Runtime
        | Figure::Backend => duration(value / 1e3),
    }
}

/// Compares a figure of a run with a published figure, in words.
pub(crate) fn compare_with_published(
    what: Figure,
    ours: Option<f64>,
    published: FigureValue,
) -> String {
    let theirs = published.number();
    let Some(ours) = ours else {
        return "here it is not known".to_owned();
    };
    let off = if theirs > 0.0 {
        ours / theirs - 1.0
    } else {
        0.0
    };
    let word = if off < 0.0 { "below" } else { "above" };
    format!(
        "here {}, {} {word}",
        figure_text(what, ours),
        deviation(off.abs())
    )
}
