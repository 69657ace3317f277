//! The page of metrics, with all drives, volumes and tenants.

use super::page::{
    Labels,
    MetricKind::{self, Counter, Gauge},
    MetricsPage, Seconds,
};
use super::process::process;
use super::{Detail, OP_NAMES, OPS, promises};
use crate::access::Refusals;
use crate::backend::RemoteState;
use crate::metrics::figures::{DriveFigures, VolumeFigures, shares};

/// The upper bounds of the buckets of a stage's histogram, as powers of two in nanoseconds: 1 µs to
/// 34 s.
const STAGE_BUCKETS: std::ops::RangeInclusive<u32> = 10..=35;

/// Renders all metrics as text of the type [`super::CONTENT_TYPE`].
pub(crate) fn render(
    drives: &[DriveFigures],
    detail: Detail,
    log_dropped: u64,
    refusals: &Refusals,
) -> String {
    let mut page = MetricsPage::default();
    process(&mut page, log_dropped, refusals);
    drive_families(&mut page, drives);
    promises::drives(&mut page, drives);
    promises::tenants(&mut page, drives, detail);
    let volumes: Vec<&VolumeFigures> = drives.iter().flat_map(|d| &d.volumes).collect();
    info(&mut page, drives);
    promises::volumes(&mut page, drives, detail);
    counters(&mut page, &volumes, detail);
    waits(&mut page, &volumes, detail);
    latencies(&mut page, &volumes);
    gauges(&mut page, &volumes);
    remotes(&mut page, &volumes);
    gateways(&mut page, &volumes);
    if detail == Detail::Full {
        stages(&mut page, &volumes);
        further_gauges(&mut page, &volumes);
        share_family(&mut page, drives);
    }
    page.text()
}

fn of_volume(volume: &VolumeFigures) -> Labels<'_, 1> {
    [("volume", &volume.name)]
}

/// Returns the label of a volume and one more label.
fn with<'a>(volume: &'a VolumeFigures, label: &'static str, value: &'a str) -> Labels<'a, 2> {
    [("volume", &volume.name), (label, value)]
}

fn drive_families(page: &mut MetricsPage, drives: &[DriveFigures]) {
    type Pick = fn(&DriveFigures) -> u64;
    let counts: [(&str, _, &str, Pick); 3] = [
        (
            "live",
            Gauge,
            "Requests that were accepted and are not completed.",
            |d| d.live.into(),
        ),
        ("in_flight", Gauge, "Commands in the drive.", |d| {
            d.in_flight.into()
        }),
        (
            "dispatched_total",
            Counter,
            "Commands sent to the drive.",
            |d| d.counters.dispatched,
        ),
    ];
    for (name, kind, help, pick) in counts {
        let samples = drives.iter().map(|d| ([("drive", &d.name[..])], pick(d)));
        page.family(kind, &format!("weir_drive_{name}"), help, samples);
    }
    let times: [(&str, &str, Pick); 2] = [
        (
            "seconds_total",
            "Time for which the drive has been served, in seconds.",
            |d| d.served_ns,
        ),
        (
            "busy_seconds_total",
            "Time for which at least one command was in the drive, in seconds.",
            |d| d.busy_ns,
        ),
    ];
    for (name, help, pick) in times {
        let samples = drives.iter();
        let samples = samples.map(|d| ([("drive", &d.name[..])], Seconds(pick(d).into())));
        page.family(Counter, &format!("weir_drive_{name}"), help, samples);
    }
}

/// Appends the drive and the tenant of each volume, so that queries can select by them.
fn info(page: &mut MetricsPage, drives: &[DriveFigures]) {
    let samples = drives.iter().flat_map(|drive| {
        drive.volumes.iter().map(|volume| {
            let labels = [
                ("volume", &volume.name[..]),
                ("drive", &drive.name),
                ("tenant", volume.tenant.as_deref().unwrap_or_default()),
            ];
            (labels, 1)
        })
    });
    let help = "Always 1. The labels have the volume's drive and its tenant, which is empty if it has none.";
    page.family(Gauge, "weir_volume_info", help, samples);
}

fn counters(page: &mut MetricsPage, volumes: &[&VolumeFigures], detail: Detail) {
    type Pick = fn(&VolumeFigures) -> &[u64; OPS];
    let families: [(&str, &str, Pick); 3] = [
        (
            "weir_requests_total",
            "Requests that completed without an error.",
            |v| &v.counts.requests,
        ),
        (
            "weir_bytes_total",
            "Bytes of requests that completed without an error.",
            |v| &v.counts.bytes,
        ),
        (
            "weir_errors_total",
            "Commands that the storage failed.",
            |v| &v.counts.errors,
        ),
    ];
    for (name, help, pick) in families {
        let samples = volumes.iter().flat_map(|volume| {
            let ops = OP_NAMES.iter().zip(pick(volume));
            let ops = ops.filter(|(_, count)| detail.includes(**count));
            ops.map(|(op, count)| (with(volume, "op", op), *count))
        });
        page.family(Counter, name, help, samples);
    }
}

/// Returns the stages that a request passes, with the total time of all requests in each.
fn staged(volume: &VolumeFigures) -> [(&'static str, u64); 3] {
    let waits = &volume.waits;
    [
        ("limit", waits.limit.as_nanos()),
        ("elevator", waits.elevator.as_nanos()),
        ("drive", waits.drive.as_nanos()),
    ]
}

fn waits(page: &mut MetricsPage, volumes: &[&VolumeFigures], detail: Detail) {
    let samples = volumes.iter().flat_map(|volume| {
        let untaken = ("shard", volume.untaken_ns);
        let stages = std::iter::once(untaken).chain(staged(volume));
        let stages = stages.filter(|(_, sum)| *sum > 0 || detail == Detail::Full);
        stages.map(|(stage, sum)| (with(volume, "stage", stage), Seconds(sum.into())))
    });
    let help = "Time that completed requests spent in each stage, in seconds: not yet taken by the shard, throttled by a limit, in the \
                elevator, in the drive.";
    page.family(Counter, "weir_wait_seconds_total", help, samples);
    let processor = volumes.iter().map(|volume| {
        let seconds = Seconds(volume.processor_ns.into());
        (of_volume(volume), seconds)
    });
    let help = "Estimated CPU time that the server spent on the volume's requests, in seconds.";
    page.family(Counter, "weir_processor_seconds_total", help, processor);
}

fn latencies(page: &mut MetricsPage, volumes: &[&VolumeFigures]) {
    let name = "weir_latency_seconds";
    page.histograms(
        name,
        "Time from the arrival of a request to its completion, in seconds.",
    );
    for volume in volumes {
        let latency = &volume.latency;
        let sum = Seconds(latency.sum_ns());
        page.histogram(name, &of_volume(volume), latency.cumulative(), sum);
    }
}

fn stages(page: &mut MetricsPage, volumes: &[&VolumeFigures]) {
    let name = "weir_stage_seconds";
    page.histograms(
        name,
        "Time of requests in each stage, in seconds: throttled by a limit, in the elevator, in the drive.",
    );
    for volume in volumes {
        let Some(split) = &volume.split else {
            continue;
        };
        let stages = [&split.limit, &split.elevator, &split.drive];
        for ((stage, _), histogram) in staged(volume).into_iter().zip(stages) {
            let bounds = STAGE_BUCKETS.map(|power| {
                let bound = format!("{:e}", (1u64 << power) as f64 / 1e9);
                // The counts are exact at the upper bounds of the histogram's own buckets, which
                // end at 2^n - 1.
                (bound, histogram.count_at_most((1 << power) - 1))
            });
            let buckets = bounds.chain([("+Inf".to_owned(), histogram.count())]);
            let sum = Seconds(histogram.sum());
            page.histogram(name, &with(volume, "stage", stage), buckets, sum);
        }
    }
}

fn gauges(page: &mut MetricsPage, volumes: &[&VolumeFigures]) {
    type Pick = fn(&VolumeFigures) -> u64;
    let families: [(&str, &str, Pick); 3] = [
        ("weir_connections", "Connections of clients.", |v| {
            v.connections.into()
        }),
        (
            "weir_live",
            "Requests that were accepted and are not completed.",
            |v| v.live.into(),
        ),
        (
            "weir_sync_failed",
            "1 after a failed flush, until the server restarts.",
            |v| v.sync_failed.into(),
        ),
    ];
    for (name, help, pick) in families {
        let samples = volumes.iter().map(|v| (of_volume(v), pick(v)));
        page.family(Gauge, name, help, samples);
    }
    let oldest = volumes
        .iter()
        .map(|v| (of_volume(v), Seconds(v.oldest_ns.into())));
    let help = "Age of the oldest request that is not completed, in seconds.";
    page.family(Gauge, "weir_oldest_request_seconds", help, oldest);
}

/// Appends the metrics of volumes that a remote server stores.
fn remotes(page: &mut MetricsPage, volumes: &[&VolumeFigures]) {
    type Pick = fn(&RemoteState) -> u64;
    let families: [(MetricKind, &str, &str, Pick); 4] = [
        (
            Gauge,
            "weir_remote_away",
            "1 while the remote server that stores the volume is unreachable.",
            |r| r.away.into(),
        ),
        (
            Counter,
            "weir_remote_losses_total",
            "Number of times that the remote server that stores the volume became unreachable.",
            |r| r.losses,
        ),
        (
            Gauge,
            "weir_remote_kept_bytes",
            "Memory for data that were written to the remote server and not flushed, in bytes.",
            |r| r.kept_bytes,
        ),
        (
            Counter,
            "weir_remote_replayed_bytes_total",
            "Bytes that were written again after the remote server reconnected.",
            |r| r.replayed_bytes,
        ),
    ];
    for (kind, name, help, pick) in families {
        let volumes = volumes.iter();
        let samples = volumes.filter_map(|v| Some((of_volume(v), pick(v.remote.as_ref()?))));
        page.family(kind, name, help, samples);
    }
}

/// Appends the metrics of volumes with a shared minimum.
fn gateways(page: &mut MetricsPage, volumes: &[&VolumeFigures]) {
    let shared = || volumes.iter().filter(|v| v.part.is_some());
    let parts = shared().filter_map(|v| Some((of_volume(v), v.part?)));
    let help = "Fraction of a min shared by several servers that this server promises.";
    page.family(Gauge, "weir_gateway_part", help, parts);
    let lapses = shared().map(|v| (of_volume(v), v.lapses));
    let help = "Number of times that this fraction was lost because the lease in etcd expired.";
    page.family(Counter, "weir_gateway_lease_lost_total", help, lapses);
}

fn further_gauges(page: &mut MetricsPage, volumes: &[&VolumeFigures]) {
    let limited = volumes.iter().map(|v| (of_volume(v), v.limited));
    let help = "Accepted requests that are throttled by a limit.";
    page.family(Gauge, "weir_limited", help, limited);
}

fn share_family(page: &mut MetricsPage, drives: &[DriveFigures]) {
    let volumes = drives
        .iter()
        .flat_map(|drive| drive.volumes.iter().zip(shares(&drive.volumes)));
    let samples = volumes.flat_map(|(volume, parts)| {
        let kinds = ["promised", "effective", "used"].into_iter().zip(parts);
        kinds.map(move |(kind, part)| (with(volume, "kind", kind), part))
    });
    let help = "Fraction of the drive: promised among all volumes, effective among volumes with requests now, used in the last full second.";
    page.family(Gauge, "weir_share_ratio", help, samples);
}

#[cfg(test)]
mod tests {
    use super::super::VolumeTally;
    use super::*;
    use weir_core::{Counters, Done, Op, Outcome, Span, StreamId, Waits};
    use weir_measure::SECOND_NS;
    use weir_measure::promise::{Promise, PromisedRate};

    /// A volume of a tenant that has been read, written and flushed for weeks, has a max, and has
    /// kept, short and excused seconds.
    fn volume(name: &str) -> VolumeFigures {
        let mut tally = VolumeTally::new();
        for op in [Op::Read, Op::Write, Op::Flush] {
            for ns in [50_000, 200_000, 5_000_000, 2_000_000_000_000] {
                let [limit, elevator, drive] = [ns / 7, ns / 3, ns].map(Span::from_nanos);
                let done = Done {
                    length: 4096,
                    waits: Waits {
                        limit,
                        elevator,
                        drive,
                    },
                    ..done(op)
                };
                tally.done(&done, Span::ZERO);
            }
            tally.requests[op as usize] += 8_765_432_100;
        }
        // Long numbers, as after weeks of service, make the page as large as it becomes in
        // practice.
        tally.latency.multiply(400_000_000);
        for stage in [
            &mut tally.waits.limit,
            &mut tally.waits.elevator,
            &mut tally.waits.drive,
        ] {
            *stage += Span::from_nanos(3_506_172_840_000_000);
        }
        tally.bytes = [123_456_789_012_345, 98_765_432_109_876, 0, 0, 0, 0];
        // One kept second, one short second, and then seconds without a request, which are excused.
        let promise = &mut tally.promise;
        *promise = Promise::new(0, PromisedRate::new(250_000_000, 0));
        let mut pass = |second: u64, bytes: u64| {
            promise.sent(false);
            promise.served(bytes);
            promise.pass(
                second * SECOND_NS - 1,
                weir_measure::WindowTotals::default(),
                0,
            );
            promise.end_request(false);
            let all = weir_measure::WindowTotals {
                bytes: bytes + 900_000_000,
                requests: 1,
            };
            promise.pass(second * SECOND_NS, all, 0);
        };
        pass(1, 250_000_000);
        pass(2, 1);
        promise.pass(
            200_000 * SECOND_NS,
            weir_measure::WindowTotals::default(),
            0,
        );
        assert_eq!(promise.seconds().promised, 200_000);
        assert_eq!(
            (promise.seconds().kept, promise.seconds().all_short()),
            (1, 1)
        );
        VolumeFigures {
            name: name.to_owned(),
            tenant: Some("customer-17".to_owned()),
            size: 1 << 40,
            share: 100,
            tenant_share: 100,
            connections: 4,
            limited: 12,
            oldest_ns: 12_345_678,
            ..VolumeFigures::of(&tally, Detail::Usual)
        }
    }

    fn done(op: Op) -> Done {
        Done {
            cookie: 0,
            submitted: weir_core::Instant::ZERO,
            stream: StreamId::from_bits(0),
            op,
            outcome: Outcome::Ok,
            length: 0,
            waits: Waits::default(),
        }
    }

    fn drive(volumes: usize) -> DriveFigures {
        let names = (0..volumes).map(|n| format!("customer-{n:04}"));
        DriveFigures {
            name: "nvme0".to_owned(),
            live: 0,
            in_flight: 0,
            counters: Counters::default(),
            served_ns: 0,
            busy_ns: 0,
            room: weir_config::DriveRoom::default(),
            volumes: names.map(|name| volume(&name)).collect(),
            tenants: Vec::new(),
        }
    }

    /// The size that one more volume adds to the page. `cargo test -p weir-serve --lib
    /// a_volume_takes -- --nocapture` prints it.
    #[test]
    fn a_volume_takes_at_most_two_kilobytes() {
        let bytes =
            |volumes| render(&[drive(volumes)], Detail::Usual, 0, &Refusals::default()).len();
        let each = (bytes(101) - bytes(1)) / 100;
        println!("{each} bytes a volume");
        assert!(each <= 2_000, "{each} bytes a volume");
        assert!(each > 1_000, "the volume has everything that occurs");
    }
}
