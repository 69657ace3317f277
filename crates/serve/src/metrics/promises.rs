//! The metrics of promises: their results, and the promised and remaining capacity.

use weir_config::{DriveRoom, TenantRoom};
use weir_core::Capacity;
use weir_measure::promise::{Cause, Excuse, PromisedRate, Seconds, Units};

use super::page::{
    Labels,
    MetricKind::{Counter, Gauge},
    MetricsPage,
};
use super::{Causes, Detail};
use crate::metrics::figures::DriveFigures;

/// A promise with its owner and its result.
struct PromiseMetrics<'a> {
    owner: Labels<'a, 1>,
    rate: Option<PromisedRate>,
    seconds: &'a Seconds,
    causes: &'a Causes,
}

impl PromiseMetrics<'_> {
    /// Returns true if there is a promise, or was one in an earlier second.
    fn matters(&self) -> bool {
        self.rate.is_some() || self.seconds.promised > 0
    }
}

/// Appends the promises of volumes.
pub(super) fn volumes(page: &mut MetricsPage, drives: &[DriveFigures], detail: Detail) {
    let volumes = drives.iter().flat_map(|drive| &drive.volumes);
    let promises = volumes.map(|volume| PromiseMetrics {
        owner: [("volume", &volume.name)],
        rate: volume.rate,
        seconds: &volume.seconds,
        causes: &volume.causes,
    });
    fates(page, "weir", promises, detail);
}

/// Appends the promises of tenants. Their metrics have names of their own, because the seconds of a
/// tenant are not the sum of those of its volumes.
pub(super) fn tenants(page: &mut MetricsPage, drives: &[DriveFigures], detail: Detail) {
    type Pick = fn(&TenantRoom) -> Option<u64>;
    let tenants = drives.iter().flat_map(|drive| &drive.tenants);
    let promises = tenants.map(|tenant| PromiseMetrics {
        owner: [("tenant", &tenant.name)],
        rate: tenant.rate,
        seconds: &tenant.seconds,
        causes: &tenant.causes,
    });
    fates(page, "weir_tenant", promises, detail);
    let rooms = || {
        let tenants = drives.iter().flat_map(|drive| &drive.room.tenants);
        tenants.map(|(name, room)| ([("tenant", &name[..])], room))
    };
    let families: [(&str, &str, Pick); 4] = [
        (
            "promised_bytes_per_second",
            "Bytes per second that the tenant is promised, or its volumes together if the tenant has no promise.",
            |room| Some(room.promised.bytes),
        ),
        (
            "promised_requests_per_second",
            "Requests per second that the tenant is promised, or its volumes together if the tenant has no promise.",
            |room| Some(room.promised.iops),
        ),
        (
            "left_bytes_per_second",
            "Bytes per second of the tenant's promise that are not promised to any of its volumes.",
            |room| Some(room.left?.bytes),
        ),
        (
            "left_requests_per_second",
            "Requests per second of the tenant's promise that are not promised to any of its volumes.",
            |room| Some(room.left?.iops),
        ),
    ];
    for (name, help, pick) in families {
        let samples = rooms().filter_map(|(labels, room)| Some((labels, pick(room)?)));
        page.family(Gauge, &format!("weir_tenant_{name}"), help, samples);
    }
}

/// Appends the capacity of drives, and the parts of it that are promised and remain.
pub(super) fn drives(page: &mut MetricsPage, drives: &[DriveFigures]) {
    type Pick = fn(&DriveRoom) -> Option<u64>;
    /// Returns the capacity in requests, which is optional.
    fn requests(capacity: &Capacity) -> Option<u64> {
        Some(capacity.requests()).filter(|requests| *requests > 0)
    }
    let families: [(&str, &str, Pick); 6] = [
        (
            "capacity_bytes_per_second",
            "Stated capacity of the drive in bytes per second. Promises are compared with the slower direction.",
            |room| Some(room.capacity?.bytes()),
        ),
        (
            "capacity_requests_per_second",
            "Stated capacity of the drive in requests per second.",
            |room| requests(&room.capacity?),
        ),
        (
            "promised_bytes_per_second",
            "Bytes per second that are promised to all volumes and tenants of the drive.",
            |room| Some(room.promised.bytes),
        ),
        (
            "promised_requests_per_second",
            "Requests per second that are promised to all volumes and tenants of the drive.",
            |room| Some(room.promised.iops),
        ),
        (
            "left_bytes_per_second",
            "Bytes per second that can still be promised, if no further requests per second are promised.",
            |room| Some(room.left?.bytes),
        ),
        (
            "left_requests_per_second",
            "Requests per second that can still be promised, if no further bytes per second are promised.",
            |room| Some(room.left?.iops),
        ),
    ];
    for (name, help, pick) in families {
        let samples = drives.iter();
        let samples = samples.filter_map(|d| Some(([("drive", &d.name[..])], pick(&d.room)?)));
        page.family(Gauge, &format!("weir_drive_{name}"), help, samples);
    }
    let stated = drives.iter().filter(|drive| drive.room.capacity.is_some());
    let parts = stated.map(|drive| {
        let part = drive.room.promised.millionths as f64 / 1e6;
        ([("drive", &drive.name[..])], part)
    });
    let help = "Fraction of the drive's time that is promised. At most 0.9 can be promised.";
    page.family(Gauge, "weir_drive_promised_ratio", help, parts);
}

fn fates<'a>(
    page: &mut MetricsPage,
    prefix: &str,
    promises: impl Iterator<Item = PromiseMetrics<'a>>,
    detail: Detail,
) {
    type Pick = fn(&Seconds) -> u64;
    let all: Vec<PromiseMetrics<'a>> = promises.filter(PromiseMetrics::matters).collect();
    // The flag marks counters that are printed even if they are zero. An alert on a counter needs a
    // sample before the first increment.
    let families: [(&str, bool, &str, Pick); 5] = [
        (
            "promised_seconds_total",
            true,
            "Whole seconds in which a min applied. They are the sum of the kept, short and excused seconds.",
            |seconds| seconds.promised,
        ),
        (
            "short_seconds_total",
            true,
            "Promised seconds in which the client got less than it was owed.",
            Seconds::all_short,
        ),
        (
            "unasked_seconds_total",
            false,
            "Kept seconds in which the client got less than its min, because it had no request outstanding for most of the second.",
            |seconds| seconds.unasked,
        ),
        (
            "short_bytes_total",
            false,
            "Total shortfall of the short seconds in bytes, for a promise in bytes.",
            |seconds| seconds.lacking.bytes,
        ),
        (
            "short_requests_total",
            false,
            "Total shortfall of the short seconds in requests, for a promise in requests.",
            |seconds| seconds.lacking.requests,
        ),
    ];
    for (name, always, help, pick) in families {
        let samples = all.iter().map(|of| (of.owner, pick(of.seconds)));
        let samples = samples.filter(|(_, count)| always || detail.includes(*count));
        page.family(Counter, &format!("{prefix}_{name}"), help, samples);
    }
    if detail == Detail::Full {
        let kept = all.iter().map(|of| (of.owner, of.seconds.kept));
        let help = "Promised seconds in which the client got the amount that it was owed.";
        page.family(Counter, &format!("{prefix}_kept_seconds_total"), help, kept);
    }
    reasons(page, prefix, &all, detail);
    neighbours(page, prefix, &all);
    for (units, name, help) in [
        (
            Units::Bytes,
            "min_bytes_per_second",
            "Promised bytes per second.",
        ),
        (
            Units::Requests,
            "min_requests_per_second",
            "Promised requests per second.",
        ),
    ] {
        let samples = all.iter().filter_map(|of| {
            let rate = of.rate.filter(|rate| rate.units == units)?;
            Some((of.owner, rate.a_second))
        });
        page.family(Gauge, &format!("{prefix}_{name}"), help, samples);
    }
}

/// Appends short seconds by cause, and excused seconds by reason.
fn reasons(page: &mut MetricsPage, prefix: &str, all: &[PromiseMetrics<'_>], detail: Detail) {
    by_reason(
        page,
        &format!("{prefix}_short_reason_seconds_total"),
        "Short seconds, by cause.",
        (Cause::OF_SHORT.map(Cause::name), |seconds| &seconds.short),
        all,
        detail,
    );
    by_reason(
        page,
        &format!("{prefix}_excused_seconds_total"),
        "Promised seconds in which the client was owed nothing, by reason.",
        (Excuse::OF_SERVER.map(Excuse::name), |seconds| {
            &seconds.excused
        }),
        all,
        detail,
    );
}

/// Appends short seconds by the neighbour that caused them.
fn neighbours(page: &mut MetricsPage, prefix: &str, all: &[PromiseMetrics<'_>]) {
    let samples = all.iter().flat_map(|of| {
        let [owner] = of.owner;
        let counts = of.causes.neighbours.iter();
        counts.map(move |(name, count)| ([owner, ("neighbour", &name[..])], *count))
    });
    let help = "Short seconds that another client caused, by the client that used most of the drive or of the server.";
    let name = format!("{prefix}_short_neighbour_seconds_total");
    page.family(Counter, &name, help, samples);
}

/// The names of reasons, and a function that returns the seconds of each.
type Reasons<const N: usize> = ([&'static str; N], fn(&Seconds) -> &[u64]);

fn by_reason<const N: usize>(
    page: &mut MetricsPage,
    name: &str,
    help: &str,
    (reasons, pick): Reasons<N>,
    all: &[PromiseMetrics<'_>],
    detail: Detail,
) {
    let samples = all.iter().flat_map(|of| {
        let counts = reasons.iter().zip(pick(of.seconds));
        let counts = counts.filter(|(_, count)| detail.includes(**count));
        counts.map(|(reason, count)| {
            let [owner] = of.owner;
            ([owner, ("reason", *reason)], *count)
        })
    });
    page.family(Counter, name, help, samples);
}
